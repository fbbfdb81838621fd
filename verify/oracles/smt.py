"""Statements about real numbers put to z3, with three answers.

z3 gets the negation of the statement: unsat means proved, sat is a counterexample, and unknown is
*not proved*. The limit is a count of solver steps, so that the answer does not depend on the
machine's speed; a wall-clock limit only guards against a hang. For the same reason it is one
procedure that is run (nlsat): z3's portfolio for this logic gives each of its procedures some
seconds, and on a busy machine proved became unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import z3

from verify.claim import Case
from verify.search import Step

_STEPS = 30_000_000
_MILLISECONDS = 600_000  # 30 s were too few on a busy machine: proved became unknown


def decide(scope: str, assumptions: Sequence[Any], goal: Any, show: Sequence[Any] = ()) -> Step:
    """Whether the assumptions imply the goal, for all real values of the variables.

    Parameters
    ----------
    scope : what is decided, in words
    assumptions, goal : z3 formulas
    show : variables whose values make up the counterexample
    """
    solver = z3.Tactic("qfnra-nlsat").solver()
    solver.set("rlimit", _STEPS)
    solver.set("timeout", _MILLISECONDS)
    solver.add(*assumptions, z3.Not(goal))
    answer = solver.check()
    if answer == z3.unsat:
        return Step(scope, "proved")
    if answer == z3.sat:
        model = solver.model()
        values = {str(v): _rational(model.eval(v, model_completion=True)) for v in show}
        return Step(scope, "refuted", Case(**values))
    return Step(scope, "unknown")


def simplex(k: int, name: str = "p") -> tuple[list[Any], list[Any]]:
    """k real variables, and the constraints that they are weights."""
    p = z3.RealVector(name, k)
    return p, [*(w >= 0 for w in p), z3.Sum(p) == 1]


def sparsemax_of(excess: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Weights p of the sparsemax at temperature 1, defined by its threshold t."""
    p, constraints = simplex(len(excess))
    t = z3.Real("t")
    constraints += [w == z3.If(t > e, t - e, 0) for w, e in zip(p, excess, strict=True)]
    return p, constraints


def ascending(values: Sequence[Any]) -> list[Any]:
    """Constraints that the values are in ascending order."""
    return [a <= b for a, b in itertools.pairwise(values)]


def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return z3.Sum([x * y for x, y in zip(a, b, strict=True)])


def _rational(value: Any) -> Fraction:
    if z3.is_algebraic_value(value):
        value = value.approx(20)
    return Fraction(value.numerator_as_long(), value.denominator_as_long())
