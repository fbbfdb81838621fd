"""The symbols of the bounds, and three functions of k that sympy does not have.

All numbers in a bound are expressions in d, k, n (integers), gamma, tau and B. Logarithms of k are
kept as functions that evaluate in integers, so they are exact at every k: a floating logarithm is
off by one at 2^49 + 1.
"""

from __future__ import annotations

from typing import Any

import mpmath
import sympy

d, k, n = sympy.symbols("d k n", integer=True, positive=True)
gamma = sympy.Symbol("gamma", nonnegative=True)
tau, B = sympy.symbols("tau B", positive=True)

PARAMETERS = (d, k, n, gamma, tau, B)
"""The order in which evaluated bounds take their arguments."""


def ceil_log2(value: Any) -> int:
    """ceil(log2 k) of an integer k >= 1."""
    return (int(value) - 1).bit_length()


def floor_log2(value: Any) -> int:
    """floor(log2 k) of an integer k >= 1."""
    return int(value).bit_length() - 1


def entropy_slope(value: Any) -> Any:
    """G_NE(k): the smallest Lipschitz constant of the entropy surrogate in the maximum norm.

    G_NE(1) = 1; otherwise it is the root above 1 of 2 G = log((k-1)(G+1)/(G-1)), found with
    mpmath in its working precision. The left side minus the right side is increasing in G, so
    bisection between 1 and 1.2 + log(k-1)/2 finds the root (docs/theory/lipschitz.md, "The loss").
    """
    if value == 1:
        return mpmath.mpf(1)
    with mpmath.extradps(10):
        odds = mpmath.log(mpmath.mpf(value) - 1)
        low, high = mpmath.mpf(1), 2 + odds / 2
        for _ in range(int(mpmath.mp.prec) + 10):
            G = (low + high) / 2
            if odds + mpmath.log((G + 1) / (G - 1)) > 2 * G:
                low = G
            else:
                high = G
        return (low + high) / 2


class CeilLog2(sympy.Function):
    """ceil(log2 k), in integers."""

    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, argument: Any) -> Any:
        if argument.is_Integer and argument.is_positive:
            return sympy.Integer(ceil_log2(argument))
        return None

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return _power(rf"\left\lceil \log_2 {printer._print(self.args[0])} \right\rceil", exp)


class FloorLog2(sympy.Function):
    """floor(log2 k), in integers."""

    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, argument: Any) -> Any:
        if argument.is_Integer and argument.is_positive:
            return sympy.Integer(floor_log2(argument))
        return None

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return _power(rf"\left\lfloor \log_2 {printer._print(self.args[0])} \right\rfloor", exp)


class EntropySlope(sympy.Function):
    """G_NE(k), see `entropy_slope`."""

    is_positive = True

    def _eval_evalf(self, prec: int) -> Any:
        argument = self.args[0]
        if not argument.is_Integer:
            return None
        with mpmath.workprec(prec + 10):
            return sympy.Float(entropy_slope(int(argument)), precision=prec)

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return _power(rf"G_{{NE}}\left({printer._print(self.args[0])}\right)", exp)


def _power(text: str, exponent: Any) -> str:
    return text if exponent is None else rf"{text}^{{{exponent}}}"
