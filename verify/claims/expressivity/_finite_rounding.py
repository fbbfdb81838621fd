"""The float64 layer at a finite inverse temperature against the same layer in ball arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from constructions import LloydTransformer
from constructions.codes import Code
from verify.claim import Case, Measured
from verify.claims.expressivity._certificates import instance
from verify.claims.expressivity._finite import code_of
from verify.oracles import balls

_UNIT = 2.0**-53
_EXP = 8  # exp of numpy is taken to be right within 8 unit roundoffs (4 ulp)


def as_the_formula(case: Case) -> Measured:
    """Largest distance of a center that float64 computes from the one in ball arithmetic, against
    what rounding can account for."""
    at, code, gamma = instance(case), code_of(case), case["inverse_temperature"]
    X, C = at.floats
    got = LloydTransformer(X.shape[1], len(C), case["code"], gamma)(X, C)
    found = balls.transformer(*at.tables, code.table.tolist(), gamma, 1, False, 160)
    _, off = balls.farthest(found, [[Fraction(u) for u in row] for row in got.tolist()])
    return Measured(off, rounding_of_a_layer(X, C, code, gamma))


def rounding_of_a_layer(X: Any, C: Any, code: Code, gamma: float) -> float:
    """A bound on the rounding errors of one layer from zero codes, to first order in the unit
    roundoff u, with a hundredth to spare for the rest.

    One attention over n keys with squared distances up to R, values up to V and tokens of width w:
    a squared distance is off by (w + 2) u R, the excess over the smallest by (2 w + 5) u R, and
    the exponent by e = g R (2 w + 8) u, where g = gamma / sqrt(w) was rounded twice. A normalized
    weight is off relatively by 2 (e + 8 u) + n u, the sum of weighted values by n u more.
    """
    (n, d), k = X.shape, len(C)
    width = d + code.width
    sharpness = gamma / math.sqrt(width)

    def attention(keys: int, largest: float, values: float) -> float:
        exponent = sharpness * largest * (2 * width + 8)
        return values * _UNIT * (2 * exponent + 2 * _EXP + 2 * keys)

    marks, points, centers = (
        float(max((abs(u) for u in np.ravel(table)), default=0)) for table in (code.table, X, C)
    )
    apart = d * (points + centers) ** 2
    carried = attention(k, apart, marks)
    # the codes that points carry are off, so are their distances, twice: to this and to the nearest
    moved = 2 * sharpness * code.width * (4 * marks + carried) * carried
    between = code.width * (2 * marks + carried) ** 2
    cross = attention(n, between, points) + 2 * moved * points
    own = attention(k, between, centers)
    total = cross + own + 4 * _UNIT * (points + centers)
    return 1.01 * math.sqrt(d) * total
