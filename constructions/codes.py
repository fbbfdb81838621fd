"""Cluster codes: the k vectors that tell clusters apart inside a token.

The paper writes the code of cluster j beside the coordinates of center j. Any k distinct vectors
do for exact simulation (docs/theory/expressivity.md, "Any distinct codes"); they differ in width,
in what happens at ties, and in the inverse temperature that they need when it is finite.

One row a code: a table has shape (k, p).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from constructions.arrays import InputError, NumberSystem, as_fractions, checked_count


@dataclass(frozen=True, eq=False)
class Code:
    """k vectors of width p.

    Attributes
    ----------
    name : str
    table : (k, p) numpy array of integers or fractions; of floats when `rational` is False
    rational : bool, False for the circle code, whose coordinates are cosines
    """

    name: str
    table: Any
    rational: bool = True

    @property
    def k(self) -> int:
        return int(self.table.shape[0])

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    @property
    def separation(self) -> Any:
        """Smallest squared distance between two codes; infinite for k = 1."""
        return min(self._squared_distances(), default=math.inf)

    @property
    def diameter(self) -> Any:
        """Largest squared distance between two codes; 0 for k = 1."""
        return max(self._squared_distances(), default=0)

    @property
    def norm(self) -> Any:
        """Largest squared length of a code."""
        return max((row @ row for row in self.table), default=0) if self.width else 0

    @property
    def distinct(self) -> bool:
        return self.k == 1 or bool(self.separation > 0)

    def array(self, system: NumberSystem) -> Any:
        """The table in a number system, shape (k, p)."""
        if not self.rational:
            system.require_float(
                f"the {self.name} code", "use another code, or floating-point points"
            )
        try:
            return system.array(self.table)
        except OverflowError:
            raise InputError(
                f"the {self.name} code for k = {self.k} overflows in {system}; use another code "
                "or exact rationals"
            ) from None

    def _squared_distances(self) -> list[Any]:
        if not self.width:
            return [0] * (self.k * (self.k - 1) // 2)
        table = self.table
        pairs: list[Any] = []
        for j in range(1, self.k):
            difference = table[:j] - table[j]
            pairs.extend((difference * difference).sum(axis=1).tolist())
        return pairs


def one_hot(k: int) -> Code:
    """Unit vectors: width k (Clarkson et al. 2026)."""
    return Code("one_hot", np.eye(k, dtype=np.int64))


def binary(k: int) -> Code:
    """j in binary, least significant bit first: width ceil(log2 k) (the paper, Section 2)."""
    return Code("binary", _bits(range(k), width_of(k)))


def gray(k: int) -> Code:
    """j in reflected Gray code: neighbors differ in one bit; width ceil(log2 k)."""
    return Code("gray", _bits((j ^ (j >> 1) for j in range(k)), width_of(k)))


def half(k: int) -> Code:
    """The binary code moved to -1/2 and 1/2: the same distances, a quarter of the length."""
    table = binary(k).table.astype(object) - Fraction(1, 2)
    return Code("half", table.reshape(k, width_of(k)))


def scalar(k: int) -> Code:
    """The number j itself: width 1, for every k."""
    return Code("scalar", np.arange(k, dtype=np.int64).reshape(k, 1))


def powers(k: int) -> Code:
    """2^j: width 1, and no average of several codes is a code (safe at ties)."""
    return Code("powers", np.array([[2**j] for j in range(k)], dtype=object))


def circle(k: int) -> Code:
    """k points on the unit circle: width 2, not rational."""
    angles = 2 * math.pi * np.arange(k) / k
    return Code("circle", np.stack([np.cos(angles), np.sin(angles)], axis=1), rational=False)


def none(k: int) -> Code:
    """No code at all: width 0. Clusters cannot be told apart unless k = 1."""
    return Code("none", np.zeros((k, 0), dtype=np.int64))


NAMED: dict[str, Callable[[int], Code]] = {
    f.__name__: f for f in (binary, one_hot, scalar, powers, circle, gray, half, none)
}


def width_of(k: int) -> int:
    """ceil(log2 k) in integers: floating logarithms are off by one at some powers of two."""
    return (k - 1).bit_length()


def code(choice: Any, k: int) -> Code:
    """A code by name, or from an array of shape (k, p) with one code a row.

    Raises
    ------
    InputError
        unknown name, wrong number of rows, or entries that are not finite numbers.
    """
    k = checked_count("k", k, 1)
    if isinstance(choice, Code):
        made = choice
    elif isinstance(choice, str):
        if choice not in NAMED:
            raise InputError(
                f"unknown code {choice!r}; allowed: {', '.join(NAMED)}, or an array (k, p)"
            )
        made = NAMED[choice](k)
    else:
        made = _from_array(choice)
    if made.k != k:
        raise InputError(f"the code has {made.k} rows for k = {k}; one row a cluster is needed")
    return made


def _from_array(choice: Any) -> Code:
    try:
        shape = np.shape(choice)
        if len(shape) != 2:
            raise InputError(f"a code array has shape (k, p), got shape {shape}")
        if 0 in shape:
            return Code("custom", np.zeros(shape, dtype=np.int64))
        return Code("custom", np.array(as_fractions(choice), dtype=object))
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"a code must be an array of finite numbers, shape (k, p): {error}"
        ) from None


def _bits(numbers: Any, width: int) -> Any:
    rows = [[(j >> b) & 1 for b in range(width)] for j in numbers]
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
