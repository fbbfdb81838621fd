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
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

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

    @cached_property
    def separation(self) -> Any:
        """Smallest squared distance between two codes; infinite for k = 1."""
        return min(self._squared_distances(), default=math.inf)

    @cached_property
    def diameter(self) -> Any:
        """Largest squared distance between two codes; 0 for k = 1."""
        return max(self._squared_distances(), default=0)

    @property
    def norm(self) -> Any:
        """Largest squared length of a code."""
        return max((row @ row for row in self.table), default=0) if self.width else 0

    @cached_property
    def distinct(self) -> bool:
        """Whether no two rows are equal."""
        return _all_different(self.table)

    def array(self, system: NumberSystem) -> Any:
        """The table in a number system, shape (k, p)."""
        if not self.rational:
            system.require_float(
                f"the {self.name} code", "use another code, or floating-point points"
            )
        if not system.exact and self.table.dtype.kind != "i":
            self._require_representable(system)
        return system.array(self.table)

    def _require_representable(self, system: NumberSystem) -> None:
        """Raise `InputError` if rounding to floats makes an entry infinite or two codes equal."""
        with np.errstate(over="ignore", under="ignore"):
            try:
                rounded = self.table.astype(np.float64)
            except OverflowError:
                rounded = np.full(self.table.shape, np.inf)
            rounded = rounded.astype(np.float32 if system.max < 1e39 else np.float64)
        fault = "overflows" if not np.isfinite(rounded).all() else ""
        if self.distinct and not fault and not _all_different(rounded):
            fault = "rounds two codes to the same"
        if fault:
            raise InputError(
                f"the {self.name} code for k = {self.k} {fault} in {system}; use another code "
                "or exact rationals"
            )

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
    if not is_array_api_obj(choice):
        try:
            choice = np.array(choice, dtype=object)
        except ValueError:
            raise InputError(
                "a code array has shape (k, p): one row of numbers a cluster"
            ) from None
    shape = tuple(choice.shape)
    if len(shape) != 2:
        raise InputError(f"a code array has shape (k, p), got shape {shape}")
    if 0 in shape:
        return Code("custom", np.zeros(shape, dtype=np.int64))
    try:
        return Code("custom", np.array(as_fractions(choice), dtype=object))
    except InputError as error:
        raise InputError(f"in a code array, {error}") from None


def _all_different(table: Any) -> bool:
    return len(set(map(tuple, table.tolist()))) == len(table)


def _bits(numbers: Any, width: int) -> Any:
    rows = [[(j >> b) & 1 for b in range(width)] for j in numbers]
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)
