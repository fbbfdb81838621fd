"""Numbers from the expressions: to 50 digits, without overflow, or fast for arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy

from verify.bounds.geometry import CODES
from verify.bounds.symbols import PARAMETERS, ceil_log2, entropy_slope, floor_log2

DIGITS = 50

REGULARIZERS = ("ne", "l2")


@dataclass(frozen=True)
class Setting:
    """For which problem a bound is wanted.

    Attributes
    ----------
    code : name of a code, see `geometry.CODES`
    d, k, n : coordinates, clusters, points
    gamma : inverse temperature of the attention, >= 0
    tau : temperature of the surrogate, > 0
    B : bound on the spectral norm of each of the twelve matrices, > 0
    regularizer : "ne" or "l2"
    """

    code: str = "binary"
    d: int = 4
    k: int = 6
    n: int = 512
    gamma: float = 1.0
    tau: float = 1.0
    B: float = 1.0
    regularizer: str = "l2"

    def __post_init__(self) -> None:
        """Raises `ValueError` with one sentence for a value out of its range."""
        if self.code not in CODES:
            raise ValueError(f"code {self.code} is not known; allowed: {', '.join(CODES)}")
        if self.regularizer not in REGULARIZERS:
            raise ValueError(
                f"regularizer {self.regularizer} has no bound here; allowed: "
                f"{', '.join(REGULARIZERS)}"
            )
        for name, value, least in (("d", self.d, 1), ("k", self.k, 2), ("n", self.n, 1)):
            if value < least:
                raise ValueError(f"{name} = {value} is out of range; allowed: integers >= {least}")
        if not (self.gamma >= 0 and math.isfinite(self.gamma)):
            raise ValueError(f"gamma = {self.gamma} is out of range; allowed: 0 <= gamma < inf")
        for name, number in (("tau", self.tau), ("norm bound", self.B)):
            if not (number > 0 and math.isfinite(number)):
                raise ValueError(
                    f"{name} = {number} is out of range; allowed: positive finite numbers"
                )

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self.d, self.k, self.n, self.gamma, self.tau, self.B)

    @property
    def d_emb(self) -> int:
        """Width of a token."""
        from verify.bounds.symbols import k

        return self.d + int(CODES[self.code].width.subs(k, self.k))


def precise(expression: Any, setting: Setting) -> Any:
    """An expression at a setting as an mpmath number of `DIGITS` digits. It never overflows."""
    with mpmath.workdps(DIGITS):
        numbers = [mpmath.mpf(a) if isinstance(a, float) else a for a in setting.arguments]
        return mpmath.mpf(_precise_function(expression)(*numbers))


def fast(expression: Any) -> Callable[..., Any]:
    """An expression as a float64 function of (d, k, n, gamma, tau, B), arrays allowed."""
    whole = {
        "CeilLog2": np.vectorize(ceil_log2, otypes=[float]),
        "FloorLog2": np.vectorize(floor_log2, otypes=[float]),
        "EntropySlope": np.vectorize(lambda k: float(entropy_slope(int(k))), otypes=[float]),
    }
    return _quiet(sympy.lambdify(PARAMETERS, expression, [whole, "numpy"], cse=True))


@dataclass(frozen=True)
class Number:
    """A number >= 0 that may be beyond every float64.

    `value` is None where no float64 is near it; `log10` is None for 0, and a text where even the
    logarithm is beyond every float64.
    """

    value: float | None
    log10: float | str | None

    @classmethod
    def of(cls, value: Any) -> Number:
        """From an mpmath number >= 0."""
        with mpmath.workdps(DIGITS):
            if value == 0:
                return cls(0.0, None)
            log10 = mpmath.log10(value)
            digits = float(log10)
            exponent = digits if math.isfinite(digits) else str(mpmath.nstr(log10, 17))
            fits = abs(log10) < 307
            return cls(float(value) if fits else None, exponent)

    def __str__(self) -> str:
        if self.value is not None:
            return f"{self.value:.10g}"
        return f"10^{self.log10:.10g}" if isinstance(self.log10, float) else f"10^({self.log10})"

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "log10": self.log10}


@cache
def _precise_function(expression: Any) -> Any:
    functions = {
        "CeilLog2": ceil_log2,
        "FloorLog2": floor_log2,
        "EntropySlope": entropy_slope,
    }
    return sympy.lambdify(PARAMETERS, expression, [functions, "mpmath"], cse=True)


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*(np.asarray(a, dtype=float) for a in arguments))

    return call
