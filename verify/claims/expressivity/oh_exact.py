"""The one-hot transformer of Clarkson et al. executes Lloyd's algorithm."""

from __future__ import annotations

from typing import Any

from verify.claim import Case, Claim, Kind, Source
from verify.claims.expressivity._shared import NO_EMPTY, NO_TIES, SCRIPT, against, lloyd
from verify.oracles import clustering as oracle
from verify.search import Exhaustive, Property
from verify.strategies import growing_grids, instances

ONE_HOT = ("one_hot",)


def shares(case: Case) -> Any:
    """Linear attention in closed form: a tied point counts in equal parts for its centers."""
    return oracle.linear_one_hot(case["X"], case["C"], case["steps"])


def has_shares(case: Case) -> bool:
    return shares(case) is not None


CLAIM = Claim(
    id="oh-exact",
    title="The one-hot transformer is Lloyd's algorithm",
    says="With one-hot codes, token width d + k, and infinite inverse temperature, t layers move "
    "the centers exactly as t Lloyd steps do, whether centers read points by normalized linear "
    "attention (as first published) or by distance attention (as in this paper).",
    statement=r"C^{(t)} = \mathrm{Lloyd}^{t}(X, C), \qquad d_{\mathrm{emb}} = d + k,\ "
    r"\gamma = \infty",
    sources=(Source("summary", "Section 2, p. 3"), Source("review", "background")),
    kind=Kind.EQUALITY,
    bound=r"\max_{j} \left\| c_j^{(t)} - \mathrm{Lloyd}_j^{t} \right\|_\infty = 0",
    hypotheses=(NO_EMPTY, NO_TIES),
    measure=against(lloyd, "Lloyd", center_update="linear"),
    checks=(
        Exhaustive(
            "as-stated",
            scope="linear attention, every integer instance from the smallest up, d = 1, "
            "coordinates 0 to 3",
            assuming=(NO_EMPTY.name,),
            cases=lambda run: growing_grids(1, 4, 2, 3, codes=ONE_HOT),
            until_violation=True,
        ),
        Property(
            "linear",
            scope="linear attention, d <= 5, k <= 9, n <= 24, t <= 5, both ways to iterate",
            strategy=instances(codes=ONE_HOT),
            count=200,
        ),
        Property(
            "distance",
            scope="distance attention, d <= 5, k <= 9, n <= 24, t <= 5, both ways to iterate",
            strategy=instances(codes=ONE_HOT),
            count=200,
            measure=against(lloyd, "Lloyd"),
        ),
        Exhaustive(
            "fractional-shares",
            scope="d = 1, n <= 4, k <= 3, coordinates 0 to 3, ties included, instances where every "
            "center is nearest to some point",
            assuming=(),
            variant="with linear attention a tied point is shared in equal parts",
            cases=lambda run: filter(has_shares, growing_grids(1, 4, 3, 3, codes=ONE_HOT)),
            measure=against(shares, "equal shares", center_update="linear"),
        ),
    ),
    falsify="an instance without ties and empty clusters where a center differs from Lloyd's",
    theory="expressivity.md#exactness",
    script=SCRIPT,
)
