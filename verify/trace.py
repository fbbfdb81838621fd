"""Where two arithmetics part: the first operation, tensor and row, and how close the decision was.

An operation is computed in both, on the same numbers, and every intermediate result that the
constructions note on the way (`constructions.recording`) is compared in the narrower of the two
types. Rationals are rounded to it, so that a result counts as equal when it is the rational one
converted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from constructions.errors import EmptyClusterError, InputError
from constructions.rationals import as_fractions
from constructions.recording import recording
from verify.arithmetic import Arithmetic
from verify.claim import Case
from verify.oracles.clustering import squared_distance

LARGEST = 1 << 22
"""Squared distances in a tensor, at most: all intermediate results are kept."""

_DECISIONS = ("nearest", "assignments", "support", "components")
_OF_QUERIES = ("squared distances", "nearest", "weights", "means", "output", "assignments")

Compute = Callable[[Arithmetic, Case], Mapping[str, Any]]


class Tensor(NamedTuple):
    """An intermediate result: part of the computation, name, which time it comes, numbers."""

    section: str
    name: str
    time: int
    numbers: Any

    @property
    def key(self) -> tuple[str, str, int]:
        return self.section, self.name, self.time


@dataclass(frozen=True)
class Parting:
    """A tensor in which two arithmetics differ.

    Attributes
    ----------
    section, name, time : which tensor: part of the computation, name, first or second ... time
    index : of the first entry that differs
    values : the entry in the one and the other arithmetic
    differing, entries : how many differ, of how many
    ulps : the largest difference in units in the last place of the narrower type; None for
        decisions, between exact arithmetics, and where a number is not finite
    margin : exact difference between the two smallest squared distances of the entry's row, in the
        first arithmetic, with equal keys counted once, since they tie in all; None where the row is
        not that of a query
    """

    section: str
    name: str
    time: int
    index: tuple[int, ...]
    values: tuple[Any, Any]
    differing: int
    entries: int
    ulps: float | None
    margin: Fraction | None

    @property
    def row(self) -> tuple[int, ...]:
        """The place of the row: the index without the column, if there is one."""
        return self.index if len(self.index) < 2 else self.index[:-1]


@dataclass
class Trace:
    """What came out of a comparison.

    Attributes
    ----------
    compared : tensors that both arithmetics have
    first : the first tensor that differs, or None
    decision : the first one of those that hold decisions (which key, which cluster), or None
    shape_of : the first tensor of another shape, or ""
    stopped : what an arithmetic said when it could not go on, by its name
    rounded : numbers of the input that the narrower type cannot hold and that were rounded
    """

    compared: int = 0
    first: Parting | None = None
    decision: Parting | None = None
    shape_of: str = ""
    stopped: dict[str, str] = field(default_factory=dict)
    rounded: int = 0

    @property
    def same(self) -> bool:
        """Whether nothing differs, and both came to an end or neither did."""
        return self.first is None and not self.shape_of and len(self.stopped) != 1


def trace(compute: Compute, case: Case, one: Arithmetic, two: Arithmetic) -> Trace:
    """Compare an operation in two arithmetics, both available, on one case.

    Raises
    ------
    InputError
        the case is too large to keep all intermediate results.
    """
    narrow = max((one, two), key=lambda a: a.eps)
    found = Trace()
    if not narrow.exact:
        case, found.rounded = _rounded(case, narrow)
    _require_small(case)
    tensors = []
    for used in (one, two):
        seen, said = _tensors(compute, case, used)
        tensors.append(seen)
        if said:
            after = f" (after {seen[-1].section}, {seen[-1].name})" if seen else ""
            found.stopped[used.name] = said + after
    others = {tensor.key: tensor.numbers for tensor in tensors[1]}
    for place, (section, name, time, numbers) in enumerate(tensors[0]):
        other = others.get((section, name, time))
        if other is None:
            continue
        if section != "result" and numbers.size == other.size:
            other = other.reshape(numbers.shape)  # on the way, rows may be grouped in another way
        if numbers.shape != other.shape:
            found.shape_of = f"{section}: {name}, {numbers.shape} and {other.shape}"
            break
        found.compared += 1
        differ, ulps = _compare(numbers, other, narrow)
        if not differ.any():
            continue
        index = tuple(int(i) for i in np.argwhere(differ)[0])
        parting = Parting(
            section, name, time, index,
            (_plain(numbers[index]), _plain(other[index])),
            int(differ.sum()), differ.size, ulps,
            _margin(tensors[0][: place + 1], index),
        )  # fmt: skip
        found.first = found.first or parting
        if name in _DECISIONS:
            found.decision = parting
            break
    return found


def _tensors(compute: Compute, case: Case, used: Arithmetic) -> tuple[list[Tensor], str]:
    """All intermediate results, and the outputs last; and why the computation stopped, if so."""
    said, outputs = "", {}
    with recording() as recorder:
        try:
            outputs = dict(compute(used, case))
        except (InputError, EmptyClusterError) as error:
            said = str(error)
    times: Counter[tuple[str, str]] = Counter()
    found = []
    noted = [(n.section or "operation", n.name, n.array) for n in recorder.found]
    for section, name, array in (*noted, *(("result", n, a) for n, a in outputs.items())):
        times[section, name] += 1
        found.append(Tensor(section, name, times[section, name], used.get(array)))
    return found, said


def _compare(a: Any, b: Any, narrow: Arithmetic) -> tuple[Any, float | None]:
    """Which entries differ, and by how many units in the last place at most."""
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        return np.asarray(a != b), None
    if narrow.exact:
        differ = [u != v for u, v in _pairs(*map(_fractions, (a, b)))]
        return np.array(differ, dtype=bool).reshape(a.shape), None
    a, b = (_as(narrow, x).astype(np.float64) for x in (a, b))
    # what is not a number in both is the same
    differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not differ.any():
        return differ, 0.0
    with np.errstate(all="ignore"):
        ulp = narrow.eps * 2.0 ** np.floor(np.log2(np.maximum(abs(a), abs(b))))
        ulps = float((abs(a - b) / ulp)[differ].max())
    return differ, ulps if math.isfinite(ulps) else None


def _as(narrow: Arithmetic, numbers: Any) -> Any:
    """Numbers of any arithmetic in the element type of the narrower one."""
    if numbers.dtype == object or numbers.dtype.kind in "biu":
        return narrow.rounded(numbers)
    if narrow.element == "bfloat16":
        return narrow.rounded(numbers)
    return numbers.astype(narrow.element)


def _margin(tensors: list[Tensor], index: tuple[int, ...]) -> Fraction | None:
    """Between the two smallest squared distances of the row that the last of the tensors has at an
    index, from the queries and keys that were noted before it."""
    last = tensors[-1]
    if last.name not in _OF_QUERIES or (last.section, last.name) == ("Lloyd step", "means"):
        return None  # the means of attention are a row a query, those of Lloyd a row a cluster
    row = index if last.name == "assignments" else index[:-1]
    noted = {t.name: t.numbers for t in tensors if t.section == last.section}
    if "queries" not in noted or "keys" not in noted or not row:
        return None
    queries, keys = noted["queries"], noted["keys"]
    query = queries[row[len(row) - (queries.ndim - 1) :]]
    keys = keys[row[len(row) - 1 - (keys.ndim - 2) : -1]]
    query = as_fractions(query)
    different = {tuple(key) for key in as_fractions(keys)}
    distances = sorted(squared_distance(query, list(key)) for key in different)
    return distances[1] - distances[0] if len(distances) > 1 else None


def _rounded(case: Case, narrow: Arithmetic) -> tuple[Case, int]:
    """The case with the numbers of its tables rounded to a float type, and how many changed."""
    changed = 0
    fields = {}
    for name, value in case.items():
        if isinstance(value, list):
            table = np.array(value, dtype=object)
            held = narrow.rounded(table).astype(np.float64)
            changed += sum(Fraction(a) != Fraction(b) for a, b in _pairs(held, table))
            value = held.tolist()
        fields[name] = value
    return Case(**fields), changed


def _fractions(numbers: Any) -> Any:
    """fmpq and Fraction are never equal to each other, whatever their values."""
    return np.array(as_fractions(numbers), dtype=object)


def _pairs(a: Any, b: Any) -> Iterator[tuple[Any, Any]]:
    return zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)


def _require_small(case: Case) -> None:
    sizes = [len(case[name]) for name in ("X", "q", "k") if name in case]
    if sizes and max(sizes) ** 2 > LARGEST:
        raise InputError(
            f"{max(sizes)} points are too many for a trace, which keeps all intermediate results; "
            f"allowed: up to {math.isqrt(LARGEST)}"
        )


def _plain(value: Any) -> Any:
    """A number for JSON and for people."""
    if hasattr(value, "p"):
        return Fraction(int(value.p), int(value.q))
    return value.item() if hasattr(value, "item") else value
