"""Weights of the regularized minimum and their derivatives, from plain lists of fractions.

The sparsemax (alpha = 2) is exact. All others are computed to 40 digits and handed out as the
fraction that was found. A second answer: nothing here knows how the constructions do it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath

from verify.oracles import surrogates

Row = list[Fraction]

_DIGITS = 40
_ROUGH = 1e-12  # where bisection in floats stops
_HALVINGS = 80
_LEAST = mpmath.mpf(2) ** -2000  # positive, and a fraction that can be computed with


def weights(r: Row, tau: Fraction, alpha: Fraction) -> Row:
    """argmin of <p, r> + tau Omega(p) over the simplex, (k,)."""
    return list(_weights(tuple(r), tau, alpha))


@lru_cache(maxsize=4096)
def _weights(r: tuple[Fraction, ...], tau: Fraction, alpha: Fraction) -> Row:
    if alpha == 2:
        return surrogates.sparsemax(list(r), tau)
    low = min(r)
    with mpmath.workdps(_DIGITS):
        u = [_real((v - low) / tau) for v in r]
        found = [mpmath.exp(-v) for v in u] if alpha == 1 else _bisected(u, _real(alpha - 1))
        total = mpmath.fsum(found)
        return [_fraction(max(p / total, _LEAST)) if p else Fraction(0) for p in found]


def slopes(p: Row, alpha: Fraction, support: list[bool]) -> Row:
    """P^(2 - alpha) on the support, 0 elsewhere."""
    if alpha == 1:
        return list(p)
    if alpha == 2:
        return [Fraction(inside) for inside in support]
    with mpmath.workdps(_DIGITS):
        return [
            _fraction(_real(v) ** _real(2 - alpha)) if v > 0 and inside else Fraction(0)
            for v, inside in zip(p, support, strict=True)
        ]


def pulled_back(p: Row, tau: Fraction, alpha: Fraction, g: Row, support: list[bool]) -> Row:
    """sum_i g_i dP_i/dr_j (k,): with s = `slopes`, it is -s_j (g_j - mean_s g) / tau."""
    s = slopes(p, alpha, support)
    middle = sum((a * b for a, b in zip(s, g, strict=True)), Fraction(0)) / sum(s)
    return [-a * (b - middle) / tau for a, b in zip(s, g, strict=True)]


def _bisected(u: list[Any], b: Any) -> list[Any]:
    """[t - b u_j]_+^(1/b) for the t in (0, 1] that makes them sum to 1."""
    low, high = 0.0, 1.0
    rough, power = [float(b * v) for v in u], float(1 / b)
    while high - low > _ROUGH:
        t = (low + high) / 2
        total = sum(max(t - v, 0.0) ** power for v in rough)
        low, high = (t, high) if total < 1 else (low, t)
    low, high = mpmath.mpf(low) - 10 * _ROUGH, mpmath.mpf(high) + 10 * _ROUGH
    for _ in range(_HALVINGS):
        t = (low + high) / 2
        total = mpmath.fsum((t - b * v) ** (1 / b) for v in u if t > b * v)
        low, high = (t, high) if total < 1 else (low, t)
    return [max(high - b * v, mpmath.mpf(0)) ** (1 / b) for v in u]


def _real(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def _fraction(value: Any) -> Fraction:
    return Fraction(*mpmath.libmp.to_rational(value._mpf_))
