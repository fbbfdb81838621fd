"""What each code does with a point that is equally near to several centers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from verify.claim import Case, Claim, Kind, Measured, Run, Source
from verify.claims.expressivity._shared import (
    RATIONAL_CODES,
    SCRIPT,
    against,
    closed_form,
    transformer_centers,
)
from verify.oracles import clustering as oracle
from verify.proofs.record import MachineChecked
from verify.search import Exhaustive, Property
from verify.strategies import SMALL, grid_instances, growing_grids, instances

CONVEX_POSITION = ("binary", "one_hot", "gray", "half")
"""Codes of which none is an average of others."""


def without_tied(case: Case) -> Any:
    """Centers when tied points are left out: the mean of the untied members of each cluster."""
    tied = set(oracle.tied_points(case["X"], case["C"]))
    untied = [x for i, x in enumerate(case["X"]) if i not in tied]
    return oracle.lloyd(untied, case["C"])


def every_cluster_has_an_untied_member(case: Case) -> bool:
    tied = set(oracle.tied_points(case["X"], case["C"]))
    untied = [x for i, x in enumerate(case["X"]) if i not in tied]
    return bool(tied) and bool(untied) and not oracle.empty_clusters(untied, case["C"])


def tied_instances(codes: tuple[str, ...]) -> Any:
    def cases(run: Run) -> Iterator[Case]:
        families = (
            growing_grids(1, 4, 3, 4, codes=codes),
            grid_instances(2, 4, 3, 1, codes=codes),
        )
        for family in families:
            yield from filter(every_cluster_has_an_untied_member, family)

    return cases


def no_foreign_point(case: Case) -> Measured:
    """Whether a center takes a point that is tied between *other* centers only."""
    table = oracle.closed_form(case["X"], case["C"], _scalar_table(case), 1)
    got = transformer_centers(case, False)
    dropped = without_tied(case)
    moved = max(
        abs(u - v) for p, q in zip(got, dropped, strict=True) for u, v in zip(p, q, strict=True)
    )
    return Measured(
        moved,
        Fraction(0),
        answers={"tied points left out": dropped, "transformer": got, "closed form": table},
        note="a tie between two centers averages to the code of a third one",
    )


def _scalar_table(case: Case) -> list[list[Fraction]]:
    return [[Fraction(j)] for j in range(len(case["C"]))]


def scalar_grid(run: Run) -> Iterator[Case]:
    yield from filter(
        every_cluster_has_an_untied_member,
        growing_grids(1, 4, 3, 4, codes=("scalar",)),
    )


CLAIM = Claim(
    id="ties",
    title="Ties: the point carries the mean code of its nearest centers",
    says="On every input whatsoever, a point ends up with the mean of the codes of its nearest "
    "centers, and a center with the mean of the points whose code is nearest to its own. So with "
    "binary, one-hot, Gray or powers-of-two codes a tied point drops out of every cluster that has "
    "an untied member; with the scalar code it can land in a cluster it is not near to.",
    statement=r"y_i = \operatorname{avg}\{ b_j : j \in \arg\min_j \|x_i - c_j\| \}, \qquad "
    r"c_j \leftarrow \operatorname{avg}\{ x_i : i \in \arg\min_i \|b_j - y_i\| \}",
    sources=(Source("beyond", "Theorem 2.1 does not say what happens at ties"),),
    kind=Kind.EQUALITY,
    bound=r"\max_{j} \left\| c_j - \text{closed form}_j \right\|_\infty = 0",
    measure=against(closed_form, "closed form"),
    checks=(
        Exhaustive(
            "closed-form",
            scope="d = 1, n <= 3, k <= 3, coordinates 0 to 2, centers repeat, 3 layers, six codes",
            cases=lambda run: growing_grids(
                1, 3, 3, 2, codes=RATIONAL_CODES, steps=3, distinct_centers=False
            ),
        ),
        Property(
            "random",
            scope="d <= 3, k <= 9, n <= 12, t <= 4, coordinates -3 to 3, centers anywhere, "
            "six codes",
            strategy=instances(
                SMALL, RATIONAL_CODES, max_d=3, max_n=12, max_steps=4, free_centers=True
            ),
            count=250,
        ),
        Exhaustive(
            "dropped",
            scope="instances with a tie where every cluster has an untied member; codes in convex "
            "position; d = 1, n <= 4, k <= 3 and d = 2, n = 4, k = 3",
            variant="codes in convex position leave a tied point out",
            cases=tied_instances(CONVEX_POSITION),
            measure=against(without_tied, "tied points left out"),
        ),
        Exhaustive(
            "powers-dropped",
            scope="the same instances",
            variant="the code 2^j leaves a tied point out as well",
            cases=tied_instances(("powers",)),
            measure=against(without_tied, "tied points left out"),
        ),
        Exhaustive(
            "scalar-misassigns",
            scope="scalar code 0 ... k-1, from the smallest instance up, d = 1, n <= 4, k <= 3",
            variant="the scalar code leaves a tied point out (it does not)",
            cases=scalar_grid,
            measure=no_foreign_point,
            until_violation=True,
        ),
        MachineChecked(
            "coq",
            {
                "stacked_closed_form": "b78488a9b66ee70d",
                "reembedded_closed_form": "07b152df113f6719",
            },
            scope="the closed form on every input, distinct codes, every n, k, d, p and t",
        ),
    ),
    falsify="any input where the literal layer and the closed form differ",
    theory="expressivity.md#ties",
    script=SCRIPT,
)
