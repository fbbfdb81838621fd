"""The transformer layer at a finite inverse temperature, in ball arithmetic.

Every number is a ball that is certain to contain the true value, so an answer is as good as a
proof for the case at hand. The layer is smooth there, and no comparison of balls is ever needed.
At large inverse temperatures the balls stay meaningful where float64 decides exact ties by its
own rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq

Table = list[list[Any]]


def transformer(
    X: Any, C: Any, codes: Any, inverse_temperature: Any, steps: int, reembed: bool, bits: int
) -> Table:
    """Centers (k, d) as balls after `steps` layers.

    Parameters
    ----------
    X, C, codes : (n, d), (k, d), (k, p) nested lists of rationals (or floats, taken as they are)
    inverse_temperature : the paper's gamma, a positive rational or float
    reembed : start every layer from fresh tokens
    bits : working precision
    """
    with ctx.workprec(bits):
        points, centers, marks = _table(X), _table(C), _table(codes)
        blank = [[arb(0)] * len(marks[0]) for _ in points]
        sharpness = _ball(inverse_temperature) / arb(len(points[0]) + len(marks[0])).sqrt()
        carried = blank
        for layer in range(steps):
            if reembed:
                carried = blank
            old = carried
            carried = _attend(points, centers, marks, sharpness)
            if layer and not reembed:  # from zero codes the self-attention contributes zero
                own = _attend(points, points, old, sharpness)
                carried = _combine(_combine(old, carried, 1), own, -1)
            cross = _attend(marks, carried, points, sharpness)
            own = _attend(marks, marks, centers, sharpness)
            centers = _combine(_combine(centers, cross, 1), own, -1)
        return centers


def farthest(centers: Table, expected: Any) -> tuple[float, float]:
    """Lower and upper bound of the largest Euclidean distance of a center from where it is
    expected, both rounded outwards to floats."""
    with ctx.workprec(64 + max(x.bits() for row in centers for x in row)):
        low, high = arb(0), arb(0)
        for row, want in zip(centers, expected, strict=True):
            gaps = [c - _ball(w) for c, w in zip(row, want, strict=True)]
            low = low.max(_norm([g.abs_lower() for g in gaps]).lower())
            high = high.max(_norm([g.abs_upper() for g in gaps]).upper())
        return max(0.0, float(low) * (1 - 1e-15)), float(high) * (1 + 1e-15)


def _norm(entries: list[Any]) -> Any:
    return sum((e * e for e in entries), arb(0)).nonnegative_part().sqrt()


def _attend(queries: Table, keys: Table, values: Table, sharpness: Any) -> Table:
    out = []
    for query in queries:
        weights = [(-sharpness * _squared_distance(query, key)).exp() for key in keys]
        total = sum(weights, arb(0))
        out.append(
            [
                sum((w * v for w, v in zip(weights, column, strict=True)), arb(0)) / total
                for column in zip(*values, strict=True)
            ]
        )
    return out


def _squared_distance(a: list[Any], b: list[Any]) -> Any:
    gaps = [u - v for u, v in zip(a, b, strict=True)]
    return sum((g * g for g in gaps), arb(0))  # g ** 2 is not a number where g may be zero


def _combine(a: Table, b: Table, sign: int) -> Table:
    return [[u + sign * v for u, v in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]


def _table(rows: Any) -> Table:
    return [[_ball(value) for value in row] for row in rows]


def _ball(value: Any) -> Any:
    if isinstance(value, arb):
        return value
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))
