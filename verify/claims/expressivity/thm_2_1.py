"""Theorem 2.1: the binary-code transformer executes Lloyd's algorithm."""

from __future__ import annotations

from verify.claim import Claim, Kind, Source
from verify.claims.expressivity._shared import NO_EMPTY, NO_TIES, SCRIPT, against, lloyd
from verify.proofs.record import MachineChecked
from verify.search import Exhaustive, Property
from verify.strategies import growing_grids, instances

CLAIM = Claim(
    id="thm-2.1",
    title="The binary-code transformer is Lloyd's algorithm",
    says="With infinite inverse temperature and no empty cluster, t layers of the transformer "
    "with token width d + ceil(log2 k) move the centers exactly as t Lloyd steps do.",
    statement=r"C^{(t)} = \mathrm{Lloyd}^{t}(X, C), \qquad d_{\mathrm{emb}} = d + \lceil \log_2 k"
    r" \rceil,\ \gamma = \infty,\ t \geq 1",
    sources=(Source("summary", "App. B, p. 18"), Source("review", "design 2")),
    kind=Kind.EQUALITY,
    bound=r"\max_{j} \left\| c_j^{(t)} - \mathrm{Lloyd}_j^{t} \right\|_\infty = 0",
    hypotheses=(NO_EMPTY, NO_TIES),
    measure=against(lloyd, "Lloyd"),
    checks=(
        Exhaustive(
            "as-stated",
            scope="every integer instance from the smallest up, d = 1, coordinates 0 to 3",
            assuming=(NO_EMPTY.name,),
            cases=lambda run: growing_grids(1, 4, 2, 3),
            until_violation=True,
        ),
        Exhaustive(
            "small-grids",
            scope="d = 1, n <= 4, k <= 3, coordinates 0 to 4, 2 steps",
            cases=lambda run: growing_grids(1, 4, 3, 4, steps=2),
        ),
        Property(
            "random",
            scope="d <= 5, k <= 9, n <= 24, t <= 5, both ways to iterate, points repeat",
            strategy=instances(),
            count=400,
        ),
        MachineChecked(
            "coq",
            {
                "binary_is_lloyd": "a766c3cbf4b0cd36",
                "hypotheses_can_be_met": "2350def8871a5ef3",
            },
            scope="every n, k, d and t, all points and centers, over every ordered field",
            decides_all=True,
        ),
        MachineChecked(
            "coq-tie",
            {"tie_counterexample": "bb2663fa6a0acf3a"},
            scope="X = (0, 1, 2), C = (0, 2), one step, over every ordered field",
            variant="without the hypothesis on ties the centers are not always Lloyd's",
        ),
    ),
    falsify="an instance without ties and empty clusters where any coordinate of any center "
    "differs from Lloyd's, in exact arithmetic",
    theory="expressivity.md#exactness",
    script=SCRIPT,
)
