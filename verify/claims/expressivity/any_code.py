"""Any distinct codes will do, so d + 1 dimensions are enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from constructions import LloydTransformer, rational_array
from verify.claim import Case, Claim, Kind, Measured, Source
from verify.claims.expressivity._shared import (
    NO_EMPTY,
    NO_TIES,
    RATIONAL_CODES,
    SCRIPT,
    against,
    largest_difference,
    lloyd,
)
from verify.oracles import clustering as oracle
from verify.proofs.record import MachineChecked
from verify.search import Exhaustive, Property
from verify.strategies import growing_grids, instances

OUR_NO_TIES = replace(NO_TIES, extra=False)
"""Here "no ties" is part of the statement: it is our own."""


@st.composite
def with_own_code(draw: st.DrawFn) -> Case:
    """An instance with k random distinct codes of width 1 to 3."""
    case = draw(instances(max_d=3, max_k=7, max_n=14, max_steps=3))
    width = draw(st.integers(1, 3))
    entry = st.builds(Fraction, st.integers(-6, 6), st.integers(1, 3))
    k = len(case["C"])
    table = draw(st.lists(st.tuples(*[entry] * width), min_size=k, max_size=k, unique=True))
    return Case(X=case["X"], C=case["C"], steps=case["steps"], table=table)


def measure_own(case: Case) -> Measured:
    X, C = rational_array(case["X"]), rational_array(case["C"])
    model = LloydTransformer(X.shape[1], C.shape[0], rational_array(case["table"]))
    want = lloyd(case)
    got = [
        Case(c=model(X, C, steps=case["steps"], reembed=again, literal=True))["c"]
        for again in (False, True)
    ]
    worst = max(got, key=lambda g: largest_difference(g, want))
    return Measured(
        largest_difference(worst, want), Fraction(0), answers={"Lloyd": want, "transformer": worst}
    )


def measure_circle(case: Case) -> Measured:
    """The circle code is not rational; the points are small integers, so sums are exact in
    float64 and the one division rounds correctly: equal means equal bit for bit."""
    X, C = (np.array(case[name], dtype=np.float64) for name in ("X", "C"))
    got = LloydTransformer(X.shape[1], C.shape[0], "circle")(X, C).tolist()
    want = oracle.lloyd(case["X"], case["C"])
    rounded = [[float(u) for u in row] for row in want]
    return Measured(
        largest_difference(got, rounded), 0, answers={"Lloyd": want, "transformer": got}
    )


def circle_grid(run: Any) -> Iterator[Case]:
    return growing_grids(1, 4, 4, 4, codes=("circle",))


CLAIM = Claim(
    id="any-code",
    title="Any k distinct codes work, so d + 1 dimensions are enough",
    says="The construction is exact for any k distinct code vectors, also for the single number "
    "j = 0, 1, ..., k - 1. So a token width of d + 1 is enough for every k; the logarithm in the "
    "paper's d + ceil(log2 k) is not needed for exact execution.",
    statement=r"C^{(t)} = \mathrm{Lloyd}^{t}(X, C) \text{ for all distinct } b_1, \dots, b_k \in "
    r"\mathbb{R}^p,\ p \ge 1, \qquad d_{\mathrm{emb}} = d + p",
    sources=(Source("beyond", "asked by Theorem 2.1 and by the limitations, App. A, p. 17"),),
    kind=Kind.EQUALITY,
    bound=r"\max_{j} \left\| c_j^{(t)} - \mathrm{Lloyd}_j^{t} \right\|_\infty = 0,\quad p = 1",
    hypotheses=(NO_EMPTY, OUR_NO_TIES),
    measure=against(lloyd, "Lloyd"),
    checks=(
        Exhaustive(
            "small-grids",
            scope="six rational codes, d = 1, n <= 4, k <= 3, coordinates 0 to 3, one step",
            cases=lambda run: growing_grids(1, 4, 3, 3, codes=RATIONAL_CODES),
        ),
        Property(
            "named",
            scope="binary, one-hot, scalar, powers of two, Gray, half; d <= 5, k <= 9, n <= 24, "
            "t <= 5, both ways to iterate",
            strategy=instances(codes=RATIONAL_CODES),
            count=400,
        ),
        Property(
            "arbitrary",
            scope="random distinct rational codes of width 1 to 3, d <= 3, k <= 7, n <= 14, t <= 3",
            strategy=with_own_code(),
            measure=measure_own,
            count=200,
        ),
        Exhaustive(
            "circle",
            scope="circle code, d = 1, n <= 4, k <= 4, coordinates 0 to 4, one step, bit for bit",
            cases=circle_grid,
            measure=measure_circle,
            arithmetic="numpy float64",
        ),
        MachineChecked(
            "coq",
            {
                "stacked_is_lloyd": "7080101af9d4e375",
                "reembedded_is_lloyd": "dde45d562129cf54",
                "scalar_is_lloyd": "4c0a552c10574ec9",
            },
            scope="every n, k, d, p and t, over every ordered field",
            decides_all=True,
        ),
    ),
    falsify="distinct codes and an instance without ties and empty clusters where a center differs "
    "from Lloyd's",
    theory="expressivity.md#any-distinct-codes",
    script=SCRIPT,
)
