"""A case: one concrete input, and how numbers of any kind become JSON and text."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

_RATIONAL = re.compile(r"-?\d+(/[1-9]\d*)?\Z", re.ASCII)


class Case(Mapping[str, Any]):
    """One concrete input: named numbers, texts and nested lists. Serializable and replayable.

    Exact numbers are `Fraction`; tables are nested lists. In JSON a rational is the text "p/q"
    (or "p"), a float is a number.
    """

    def __init__(self, **fields: Any) -> None:
        self._fields = {name: _plain(value) for name, value in fields.items()}

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return ", ".join(f"{name} = {show(value)}" for name, value in self._fields.items())

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        """By what is written down: 1/2 and 0.5 are different cases, and so are two names."""
        return isinstance(other, Case) and self._text == other._text

    @property
    def _text(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    @property
    def id(self) -> str:
        """Ten hexadecimal digits that name the case."""
        return hashlib.sha256(self._text.encode()).hexdigest()[:10]

    @property
    def size(self) -> tuple[int, int, str]:
        """For choosing the smaller of two counterexamples: how many numbers, how long, and which
        comes first."""
        return (self._text.count(",") + 1, len(self._text), self._text)

    def to_json(self) -> dict[str, Any]:
        return {name: to_json(value) for name, value in self._fields.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        return cls(**{name: from_json(value) for name, value in data.items()})


def to_json(value: Any) -> Any:
    """Plain JSON: rationals as "p/q", non-finite floats as text (JSON has none)."""
    if isinstance(value, Case):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    value = _plain(value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, list):
        return [to_json(v) for v in value]
    return value


def from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [from_json(v) for v in value]
    if isinstance(value, Mapping):
        return {k: from_json(v) for k, v in value.items()}
    if isinstance(value, str):
        # only what `to_json` writes: "2/4 seeds" and "007" stay texts
        if _RATIONAL.match(value) and str(Fraction(value)) == value:
            return Fraction(value)
        if value in ("inf", "-inf", "nan"):
            return float(value)
    return value


def show(value: Any) -> str:
    """A value for people: exact numbers as they are, floats to six digits."""
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(show(v) for v in value) + ")"
    value = _plain(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _plain(value: Any) -> Any:
    """Python numbers and nested lists from whatever a library returned."""
    kind = type(value).__name__
    if type(value) in (bool, int, float, str, Fraction) or value is None:
        return value
    for plain in (int, float, str):  # members of enumerations, and numpy's own floats and texts
        if isinstance(value, plain):
            return plain(value)
    if kind == "fmpq":
        return Fraction(int(value.p), int(value.q))
    if kind == "fmpz":
        return int(value)
    if kind == "mpf":
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    raise TypeError(f"a case holds numbers, texts and lists, not {kind}")
