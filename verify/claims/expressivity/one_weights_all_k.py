"""One set of constructed weights serves every k, every n and every smaller d."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from constructions import LloydTransformer, rational_array
from constructions.attention import Projections
from verify.claim import Case, Claim, Kind, Measured, Run, Source
from verify.claims.expressivity._shared import (
    NO_EMPTY,
    NO_TIES,
    Sample,
    largest_difference,
    lloyd,
)
from verify.search import Exhaustive, Property
from verify.strategies import instances

TIES = replace(NO_TIES, extra=False)  # the statement is our own, so nothing in it is "extra"

D, BITS = 5, 4
"""The weights under test: made once, for d = 5 and k = 2^4 (or for the scalar code, any k)."""


def rows_of_code(code: str, k: int) -> Any:
    """The first k rows of one infinite table: 4-bit numbers, or the numbers themselves."""
    if code == "scalar":
        return np.arange(k).reshape(k, 1)
    return np.array([[j >> b & 1 for b in range(BITS)] for j in range(k)])


@cache
def weights(code: str) -> dict[str, Projections]:
    """The twelve matrices, made for k = 16 and d = 5 and never again."""
    return LloydTransformer(D, 2**BITS, rows_of_code(code, 2**BITS)).matrices


@cache
def model(code: str, k: int) -> LloydTransformer:
    """A model for k clusters that runs with the shared weights."""
    made = LloydTransformer(D, k, rows_of_code(code, k))
    made.matrices = weights(code)
    return made


def measure(case: Case) -> Measured:
    """The shared weights on points padded with zero coordinates, against Lloyd in d' <= 5."""
    X, C = (padded(case[name]) for name in ("X", "C"))
    zeros = [[0] * (D - len(row)) for row in case["C"]]
    want = [[*row, *zero] for row, zero in zip(lloyd(case), zeros, strict=True)]
    run = model(case["code"], len(case["C"]))
    got = [
        Case(c=run(X, C, steps=case["steps"], reembed=again, literal=True))["c"]
        for again in (False, True)
    ]
    worst = max(got, key=lambda g: largest_difference(g, want))
    return Measured(
        largest_difference(worst, want),
        0,
        answers={"Lloyd, padded": want, "transformer": worst},
    )


def padded(rows: Any) -> Any:
    return rational_array([[*row, *[0] * (D - len(row))] for row in rows])


def every_size(run: Run) -> Iterator[Case]:
    """One instance for every k <= 16 and d' = 1, 2, 5; the scalar code also for larger k."""
    sizes = [("binary", k, d) for k in range(1, 2**BITS + 1) for d in (1, 2, D)]
    sizes += [("scalar", k, d) for k in (1, 2, 3, 16, 17, 30) for d in (1, D)]
    for code, k, d in sizes:
        generator = np.random.default_rng(run.stream("one-weights-all-k", code, str(k), str(d)))
        X = generator.integers(-999, 1000, (k + 4, d)).tolist()
        case = Case(X=X, C=X[:k], code=code, steps=2)
        while not (NO_EMPTY.holds(case) and TIES.holds(case)):
            X = generator.integers(-999, 1000, (k + 4, d)).tolist()
            case = Case(X=X, C=X[:k], code=code, steps=2)
        yield case


def unchanged(case: Case) -> Measured:
    """Left: the matrices that a model for this k would make are the shared ones."""
    fresh = LloydTransformer(D, case["k"], rows_of_code(case["code"], case["k"])).matrices
    shared = weights(case["code"])
    equal = all(
        np.array_equal(a, b)
        for name in shared
        for a, b in zip(fresh[name], shared[name], strict=True)
    )
    return Measured(equal and fresh.keys() == shared.keys(), True)


CLAIM = Claim(
    id="one-weights-all-k",
    title="One set of weights for every k, n and smaller d",
    says="The constructed weights depend on nothing but d and the width p of the codes. One set "
    "made for d = 5 and 4 bits executes Lloyd's algorithm for every k up to 16, any number of "
    "points, and any smaller dimension once points are padded with zeros; with the scalar code it "
    "serves every k. So being bound to one d and one k is a limit of learned weights, not of the "
    "construction.",
    statement=r"\exists\, \Theta(d, p)\ \forall\, k \le 2^{p},\ n \ge k,\ d' \le d:\quad "
    r"C^{(t)}_{\Theta}([X; 0], [C; 0]) = [\mathrm{Lloyd}^{t}(X, C); 0]",
    sources=(
        Source("summary", "Section 5, p. 12, and App. A, p. 17: specific to d and k"),
        Source("review", "limits"),
        Source("beyond", "what the construction itself allows"),
    ),
    kind=Kind.EQUALITY,
    bound=r"\max_{j} \left\| c_j^{(t)} - \mathrm{Lloyd}_j^{t} \right\|_\infty = 0",
    hypotheses=(NO_EMPTY, TIES),
    measure=measure,
    checks=(
        Exhaustive(
            "same-matrices",
            scope="binary: every k <= 16; scalar: every k <= 64",
            kind=Kind.IFF,
            cases=lambda run: (
                Case(code=code, k=k)
                for code, top in (("binary", 16), ("scalar", 64))
                for k in range(1, top + 1)
            ),
            assuming=(),
            variant="a model for another k would make the same twelve matrices",
            measure=unchanged,
            arithmetic="integers",
        ),
        Sample(
            "every-k-and-d",
            scope="binary: every k <= 16, d' = 1, 2, 5; scalar: k up to 30, d' = 1, 5; 2 steps, "
            "both ways to iterate",
            cases=every_size,
        ),
        Property(
            "random",
            scope="k <= 16, d' <= 5, n <= 24, t <= 3, points repeat, both ways to iterate",
            strategy=instances(codes=("binary", "scalar"), max_k=16, max_steps=3),
            count=100,
        ),
    ),
    falsify="a k <= 16 and an instance without ties and empty clusters where the one set of "
    "weights does not give Lloyd's centers",
    theory="expressivity.md#one-set-of-weights",
    conflict="The summary's limitations call the architecture specific to d and k, and its "
    "conclusion contrasts that with hand-crafted algorithms, which are more general.",
)
