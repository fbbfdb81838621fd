"""What an operation is, for the equality claims, and how one result is held against the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from verify.arithmetic import Arithmetic
from verify.claim import Case
from verify.claims.arithmetic._bounds import Unit

Outputs = Mapping[str, Any]
Generator = np.random.Generator


def everywhere(arithmetic: Arithmetic) -> str:
    """Why the rational core does not take an arithmetic."""
    return "no half precision" if arithmetic.half else ""


def in_floats(arithmetic: Arithmetic) -> str:
    return "not rational" if arithmetic.exact else everywhere(arithmetic)


def in_torch(arithmetic: Arithmetic) -> str:
    return "" if arithmetic.library == "torch" else "torch only"


def in_full_torch(arithmetic: Arithmetic) -> str:
    return in_torch(arithmetic) or everywhere(arithmetic)


@dataclass(frozen=True)
class Operation:
    """One operation, the inputs it is tried on, and what is right.

    Attributes
    ----------
    name : as in the tables
    compute : the outputs by name in an arithmetic, as its own arrays
    truth : the outputs by name as nested lists: rationals (or whole numbers, for decisions), or
        balls where the operation is not rational
    bound : how far each entry of the outputs may be from the truth, given the truth and the unit
        roundoff; 0 for a decision that rounding cannot turn, infinite where it can
    exact : draws a case for which every step is exact, in types with as many binary digits as its
        `digits` say, if it has any
    general : draws any other case
    refuses : why the operation is not for an arithmetic, or ""
    """

    name: str
    compute: Callable[[Arithmetic, Case], Outputs]
    truth: Callable[[Case], Outputs]
    bound: Callable[[Case, Outputs, Unit], Outputs]
    exact: Callable[[Generator], Case]
    general: Callable[[Generator], Case]
    refuses: Callable[[Arithmetic], str] = everywhere


def floats(table: Any) -> Any:
    """A nested list of numbers of any kind, balls included, as float64."""
    entries = np.array(table, dtype=object)
    flat = [float(v.mid()) if hasattr(v, "mid") else float(v) for v in entries.ravel()]
    return np.array(flat, dtype=np.float64).reshape(entries.shape)


def fractions(table: Any) -> Any:
    """A nested list of numbers as one of fractions."""
    return [fractions(v) for v in table] if isinstance(table, list) else Fraction(table)


def errors(found: Any, truth: Any) -> Any:
    """|found - truth|, entry by entry, rounded to float64; `found` is what `Arithmetic.get` gave,
    `truth` an array of rationals or balls of the same shape."""
    return np.array(
        [_distance(a, b) for a, b in zip(found.ravel().tolist(), truth.ravel(), strict=True)]
    ).reshape(truth.shape)


def _distance(a: Any, b: Any) -> float:
    if isinstance(a, float) and a - a != 0:
        return np.inf  # NaN or infinity
    if hasattr(a, "p"):
        a = Fraction(int(a.p), int(a.q))
    a = Fraction(a)
    if hasattr(b, "mid"):
        from flint import arb, ctx, fmpq

        with ctx.workprec(160):
            return float(abs(arb(fmpq(a.numerator, a.denominator)) - b).upper())
    return float(abs(a - Fraction(b)))


def grid(rng: Generator, shape: tuple[int, ...], top: int, unit: float, shift: float = 0.0) -> Any:
    """Multiples of `unit` up to `top` of them from `shift`, as floats."""
    return rng.integers(-top, top + 1, shape) * unit + shift


def short(rng: Generator, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> Any:
    """Random numbers that float32 holds."""
    return rng.uniform(low, high, shape).astype(np.float32).astype(np.float64)
