"""What the expressivity claims have in common: instances, hypotheses, and the comparison."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from constructions import LloydTransformer, codes, rational_array
from verify.claim import Case, Hypothesis, Measured, Method, Script
from verify.oracles import clustering as oracle
from verify.search import Exhaustive

RATIONAL_CODES = ("binary", "one_hot", "scalar", "powers", "gray", "half")


def transformer_centers(case: Case, reembed: bool, **options: Any) -> Any:
    """The literal transformer on a case, in exact rationals, as nested lists of fractions."""
    X, C = rational_array(case["X"]), rational_array(case["C"])
    model = _model(X.shape[1], C.shape[0], case["code"], tuple(sorted(options.items())))
    return Case(c=model(X, C, steps=case["steps"], reembed=reembed, literal=True))["c"]


@lru_cache(maxsize=256)
def _model(d: int, k: int, code: str, options: tuple[tuple[str, Any], ...]) -> LloydTransformer:
    return LloydTransformer(d, k, code, **dict(options))


def code_table(name: str, k: int) -> list[list[Fraction]]:
    return [[Fraction(u) for u in row] for row in codes.code(name, k).table.tolist()]


SCRIPT = Script(
    "clustering",
    lambda case: {
        "X": case["X"],
        "C": case["C"],
        "codes": code_table(case["code"], len(case["C"])),
        "steps": case["steps"],
    },
)


def largest_difference(a: Any, b: Any) -> Fraction:
    """Largest absolute difference between two tables of centers."""
    return max(abs(u - v) for p, q in zip(a, b, strict=True) for u, v in zip(p, q, strict=True))


def against(
    expected: Callable[[Case], Any], label: str, **options: Any
) -> Callable[[Case], Measured]:
    """A measure: how far the transformer, iterated both ways, is from the expected centers."""

    def measure(case: Case) -> Measured:
        want = expected(case)
        worst: tuple[Fraction, Any] = (Fraction(-1), None)
        for reembed in (False, True) if case["steps"] > 1 else (False,):
            got = transformer_centers(case, reembed, **options)
            worst = max(worst, (largest_difference(got, want), got), key=lambda w: w[0])
        return Measured(
            worst[0],
            Fraction(0),
            answers={label: want, "transformer": worst[1]},
            note=_why(case),
        )

    return measure


def lloyd(case: Case) -> Any:
    return oracle.lloyd(case["X"], case["C"], case["steps"])


def closed_form(case: Case) -> Any:
    return oracle.closed_form(
        case["X"], case["C"], code_table(case["code"], len(case["C"])), case["steps"]
    )


def trajectory(case: Case) -> Any:
    """The centers at the start of each step of Lloyd's algorithm."""
    C = case["C"]
    for _ in range(case["steps"]):
        yield C
        C = oracle.lloyd(case["X"], C)


NO_EMPTY = Hypothesis(
    "no empty cluster",
    "no cluster is empty at any of the t Lloyd steps",
    lambda case: not any(oracle.empty_clusters(case["X"], C) for C in trajectory(case)),
)
NO_TIES = Hypothesis(
    "no ties",
    "no point is equidistant to two nearest centers at any of the t Lloyd steps",
    lambda case: not any(oracle.tied_points(case["X"], C) for C in trajectory(case)),
    extra=True,
)


def _why(case: Case) -> str:
    tied = oracle.tied_points(case["X"], case["C"])
    empty = oracle.empty_clusters(case["X"], case["C"])
    parts = []
    if tied:
        i = tied[0]
        js = oracle.nearest(case["X"][i], case["C"])
        parts.append(f"point {i} is equally near to centers {', '.join(map(str, js))}")
    if empty:
        parts.append(f"cluster {empty[0]} is empty")
    return "; ".join(parts)


class Sample(Exhaustive):
    """A list of cases that stands for more than it holds, so that nothing is decided for all."""

    method = Method.PROPERTY
