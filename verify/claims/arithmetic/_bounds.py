r"""Forward error bounds of the operations, entry by entry (docs/theory/arithmetic.md).

A bound is a function of the unit roundoff u = eps / 2 and of the data. gamma(m) = m u / (1 - m u)
bounds the relative error of a product of m factors 1 + delta with |delta| <= u, in any order of
the operations. A result below the smallest normal number may lose all its digits; that adds at
most `smallest` an operation. Bounds are computed in float64 and rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any

FUNCTION = 8  # exp, log and tan are taken to be right within 8 unit roundoffs (4 ulp)
_UP = 1 + 1e-9  # more than the rounding of the bounds themselves
_SMALLEST = {2.0**-52: 2.0**-1022, 2.0**-23: 2.0**-126, 2.0**-10: 2.0**-24, 2.0**-7: 2.0**-126}


@dataclass(frozen=True)
class Unit:
    """The unit roundoff of an element type, and what underflow can take away."""

    u: float
    smallest: float = 0.0

    @classmethod
    def of(cls, eps: float) -> Unit:
        return cls(eps / 2, _SMALLEST[eps])

    def gamma(self, m: int) -> float:
        x = m * self.u
        return x / (1 - x) if x < 1 else math.inf

    def rounding(self, m: int, size: Array) -> Array:
        """What m operations on numbers of absolute sum `size` can be off by."""
        return self.gamma(m) * size + m * self.smallest


WIDE = Unit.of(2.0**-52)
"""Means of float32 numbers are made in float64."""


def up(bound: Array) -> Array:
    return np.asarray(bound, dtype=np.float64) * _UP


def distances(q: Array, k: Array) -> Array:
    """Squared distances (m, n) of q (m, p) and k (n, p), in float64."""
    return ((q[:, None, :] - k[None, :, :]) ** 2).sum(-1)


def distance_error(q: Array, k: Array, unit: Unit, moved: Array | float = 0.0) -> Array:
    """Of squared distances from differences: gamma(p + 2) r. `moved` (n, p) is how far the keys
    are from where they should be."""
    move = np.broadcast_to(np.asarray(moved), k.shape)[None]
    shift = (2 * abs(q[:, None, :] - k[None, :, :]) * move + move**2).sum(-1)
    return unit.rounding(q.shape[-1] + 2, distances(q, k) + shift) + shift


def decided(r: Array, error: Array, same: Array) -> Array:
    """For each row of distances r (m, n), whether rounding leaves the nearest ones nearest. `same`
    (m, n) marks keys that are equal to a nearest one: they tie in every arithmetic."""
    best = r.argmin(-1)[:, None]
    gap = r - np.take_along_axis(r, best, -1)
    reach = error + np.take_along_axis(error, best, -1)
    return np.all(same | (gap > up(reach)), axis=-1)


def mean_error(values: Array, unit: Unit) -> Array:
    """Of the mean of values (m, v): summed and divided in float64, rounded to the element type."""
    total = abs(values).mean(0)
    wide = WIDE.rounding(len(values), total) if len(values) > 1 else 0 * total
    narrow = 0.0 if unit.u == WIDE.u or len(values) == 1 else unit.rounding(1, total + wide)
    return up(wide + narrow)


def averaged(
    a: Array, moved: Array, values: Array, unit: Unit, value_error: Array | float = 0.0
) -> Array:
    """Of the average of values (n, v) by weights a (m, n), which are normalized exponentials whose
    exponents are off by `moved` (m, n)."""
    n = a.shape[-1]
    growth = np.exp(np.minimum(moved, 300.0))
    omega = np.expm1(np.minimum(moved, 300.0)) + FUNCTION * unit.u * growth
    drift = (a * omega).sum(-1)[:, None]
    off = np.broadcast_to(np.asarray(value_error), values.shape)
    spread = abs(values[None] - (a @ values)[:, None, :])
    swayed = (a * omega)[..., None] * spread
    grown = a * (1 + omega)
    total = swayed.sum(1) + unit.rounding(2 * n + 2, grown @ (abs(values) + off)) + grown @ off
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(drift < 1, total / (1 - drift), np.inf)
    return up(bound + 2 * n * unit.smallest * (abs(values).max() + 1))
