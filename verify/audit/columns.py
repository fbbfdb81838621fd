"""Which columns of a table are coordinates: what the user says, else all numbers but an index."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from verify.console import CommandError

MISSING = ("refuse", "drop")
VALUES = ("stored", "written")
_INDEX_NAMES = ("id", "index", "unnamed: 0", "rowid", "row")


@dataclass(frozen=True)
class How:
    """How the user wants a table to be read; None is "find out".

    Attributes
    ----------
    delimiter, decimal, thousands : of a text file, one character each
    header : whether its first line holds names
    encoding : of a text file, a name that Python knows
    columns, drop : names, numbers from 1 and ranges such as 2-5, separated by commas
    missing : "refuse" or "drop" rows with missing values
    values : "stored" (float64) or "written" (the decimals as exact rationals)
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    header: bool | None = None
    encoding: str | None = None
    columns: str | None = None
    drop: str | None = None
    missing: str = "refuse"
    values: str = "stored"


@dataclass(frozen=True)
class Column:
    """One column as read.

    Attributes
    ----------
    name : from the header, "" where that is empty, None without one
    position : from 1
    values : Python numbers, None where one is missing; [] for what is no number
    other : what it holds instead of numbers, "" for numbers
    """

    name: str | None
    position: int
    values: list[Any]
    other: str = ""

    @property
    def title(self) -> str:
        return self.name or f"column {self.position}"

    @property
    def counts(self) -> bool:
        """Whether the values are 0, 1, 2, ... or 1, 2, 3, ..., three or more of them."""
        first = self.values[0] if len(self.values) > 2 else None
        return first in (0, 1) and all(v == first + i for i, v in enumerate(self.values))


@dataclass(frozen=True)
class LeftOut:
    """A column that is no coordinate, and why."""

    column: str
    position: int
    reason: str


def choose(
    columns: Sequence[Column], how: How, source: str, expected: Sequence[str] | None = None
) -> tuple[list[Column], list[LeftOut]]:
    """The columns that are coordinates, and those that are not with the reason.

    `expected` are the coordinates of the points when the table holds centers for them.
    """
    if expected is not None:
        by_name = {c.title: c for c in columns}
        if all(name in by_name and not by_name[name].other for name in expected):
            kept = [by_name[name] for name in expected]
            others = [c for c in columns if c not in kept]
            return kept, [_left(c, "is no coordinate of the points") for c in others]
        if len(columns) == len(expected) and not any(c.other for c in columns):
            return list(columns), []  # as many as there are coordinates: none is an index
    wanted = None if how.columns is None else _named(how.columns, columns, "--columns", source)
    dropped = [] if how.drop is None else _named(how.drop, columns, "--drop", source)
    if wanted is not None:
        for c in wanted:
            if c.other:
                raise CommandError(
                    f"{source}: --columns {c.title}: holds {c.other}; only numbers can be "
                    "coordinates"
                )
        kept = [c for c in wanted if c not in dropped]
        left = [_left(c, "is not among --columns") for c in columns if c not in wanted]
        left += [_left(c, "--drop") for c in wanted if c in dropped]
    else:
        kept, left = [], []
        numbers = [c for c in columns if not c.other and c not in dropped]
        for c in columns:
            reason = "--drop" if c in dropped else _reason(c, len(numbers))
            if reason:
                left.append(_left(c, reason))
            else:
                kept.append(c)
    if not kept:
        found = "; ".join(f"{x.column}: {x.reason}" for x in left)
        raise CommandError(f"{source}: no column is left ({found}); choose with --columns")
    return kept, left


def _reason(c: Column, numbers: int) -> str:
    """Why a column is no coordinate unless the user says so; "" if it is one."""
    if c.other:
        return f"holds {c.other}"
    if numbers < 2:
        return ""
    if c.position == 1 and c.name == "":
        return "an index: the first column, without a name"
    if (c.name or "").strip().lower() in _INDEX_NAMES and c.counts:
        return f"an index: it counts from {c.values[0]}"
    if c.position == 1 and c.counts:
        return f"an index: the first column counts from {c.values[0]}"
    return ""


def _left(c: Column, reason: str) -> LeftOut:
    return LeftOut(c.title, c.position, reason)


def _named(text: str, columns: Sequence[Column], option: str, source: str) -> list[Column]:
    """The columns that a list of names, numbers and ranges stands for, in its order."""
    names = ", ".join(f"{c.title!r}" if c.name else str(c.position) for c in columns)
    found: list[Column] = []
    for part in next(csv.reader([text], skipinitialspace=True), []):
        part = part.strip()
        called = [c for c in columns if c.name == part and part]
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if len(called) > 1:
            raise CommandError(
                f"{source}: {option} {part}: {len(called)} columns have this name; give numbers "
                f"from 1 to {len(columns)}"
            )
        if not called and span:
            first, last = int(span[1]), int(span[2] or span[1])
            if 1 <= first <= last <= len(columns):
                called = list(columns[first - 1 : last])
        if not called:
            raise CommandError(
                f"{source}: {option} {part}: no such column; allowed: names ({names}), numbers "
                f"from 1 to {len(columns)}, and ranges such as 1-{len(columns)}"
            )
        twice = [c.title for c in called if c in found]
        if twice:
            raise CommandError(f"{source}: {option} names {twice[0]} twice")
        found += called
    if not found:
        raise CommandError(f"{source}: {option} names no column; allowed: {names}")
    return found


def complete_rows(
    kept: Sequence[Column], how: How, source: str, place: Callable[[int], str]
) -> tuple[list[list[Any]], int]:
    """Rows of numbers, and how many rows were left out because a value is missing."""
    rows = [list(row) for row in zip(*(c.values for c in kept), strict=True)]
    empty = [(i, j) for i, row in enumerate(rows) for j, v in enumerate(row) if v is None]
    if not empty:
        return rows, 0
    if how.missing != "drop":
        i, j = empty[0]
        many = "1 value is" if len(empty) == 1 else f"{len(empty)} values are"
        first = "in" if len(empty) == 1 else "the first in"
        column = kept[j].name or kept[j].position
        raise CommandError(
            f"{source}: {many} missing, {first} {place(i)}, column {column}"
            "; fill in, leave the column out with --drop, or the rows with --missing drop"
        )
    lost = {i for i, _ in empty}
    if len(lost) == len(rows):
        raise CommandError(f"{source}: a value is missing in every row, so no row is left")
    return [row for i, row in enumerate(rows) if i not in lost], len(lost)
