"""JSON that a person hands in: cases, witnesses, ledgers, records of runs.

`parse` reads the text and `require_shapes` says which field of a case holds what it may not.
Neither raises anything but `HandedError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

_RATIONAL = re.compile(r"-?[0-9]+(/0*[1-9][0-9]*)?\Z")
_DIGITS = 4000  # Python reads no longer integers
_ALLOWED = 'numbers, and texts such as "-3" or "2/7"'
_LIKE_A_NUMBER = re.compile(
    r"\s*[-+]?(\.?[0-9][-+0-9.eE_/\s]*|nan|inf(inity)?)\s*\Z", re.IGNORECASE
)


class HandedError(ValueError):
    """What was handed in is not what it should be; the message says where, and what is allowed."""


def read(path: Path) -> Any:
    """The JSON in a file, see `parse`.

    Raises
    ------
    HandedError
        it is no JSON.
    OSError
        the file cannot be read.
    """
    return parse(path.read_bytes())


def parse(data: str | bytes) -> Any:
    """The value of a JSON text: UTF-8, with or without a mark, or UTF-16.

    Raises
    ------
    HandedError
        it is no JSON, a field is given twice, or it holds NaN or Infinity, which JSON has not.
    """
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
        return json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=_once, parse_constant=_no_number
        )
    except HandedError:
        raise
    except RecursionError:
        raise HandedError("nested too deeply to be JSON of this project") from None
    except ValueError as error:  # JSON and Unicode errors, and integers of thousands of digits
        raise HandedError(f"no JSON: {str(error).split(';')[0]}") from None


def require_shapes(fields: Any, known: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The fields of a case, checked, rationals in lowest terms.

    Parameters
    ----------
    fields : what was parsed
    known : fields of cases of the same claim, which show what each of them may hold

    Raises
    ------
    HandedError
        with the name of the field, the place in it and what is allowed there.
    """
    if not isinstance(fields, dict):
        raise HandedError(f"holds {_kind(fields)}; expected an object with the fields of a case")
    shapes: dict[str, set[str]] = {}
    for case in known:
        for name, value in case.items():
            shapes.setdefault(name, set()).add(_shape(value))
    for name, value in fields.items():
        _require_numbers(name, value, top=True)
        allowed = shapes.get(name)
        if allowed and _shape(value) not in allowed:
            raise HandedError(
                f"field {name!r} holds {_shape(value)}; allowed: {' or '.join(sorted(allowed))}"
            )
    return {name: _lowest(value) for name, value in fields.items()}


def _lowest(value: Any) -> Any:
    """Rational texts in lowest terms, as cases write them: "2/4" is "1/2"."""
    if isinstance(value, list):
        return [_lowest(v) for v in value]
    return str(Fraction(value)) if isinstance(value, str) and _RATIONAL.match(value) else value


def _require_numbers(place: str, value: Any, *, top: bool) -> None:
    if isinstance(value, list):
        lengths = [len(v) if isinstance(v, list) else None for v in value]
        for i, length in enumerate(lengths):
            if length != lengths[0]:
                raise HandedError(
                    f"field {place!r}: entry {i} (from 0) has {_length(length)}, entry 0 has "
                    f"{_length(lengths[0])}; all entries need the same shape"
                )
        for i, entry in enumerate(value):
            _require_numbers(f"{place}[{i}]", entry, top=False)
    elif isinstance(value, dict) or value is None or (isinstance(value, bool) and not top):
        raise HandedError(f"field {place!r} holds {_kind(value)}; allowed: {_ALLOWED}")
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise HandedError(f"field {place!r} is beyond the range of float64; allowed: {_ALLOWED}")
    elif isinstance(value, str) and len(value) > _DIGITS:
        raise HandedError(f"field {place!r} holds {len(value)} characters; allowed: {_DIGITS}")
    elif isinstance(value, str) and not _RATIONAL.match(value):
        number = _LIKE_A_NUMBER.match(value) and not (top and value in ("inf", "-inf", "nan"))
        if number or not top:
            shown = value if len(value) <= 40 else value[:37] + "..."
            raise HandedError(f'field {place!r} holds "{shown}"; allowed: {_ALLOWED}')


def _length(length: int | None) -> str:
    return "a single value" if length is None else f"length {length}"


def _shape(value: Any) -> str:
    if isinstance(value, list):
        inner = _shape(value[0]) if value else "a number"
        return "a list of lists" if inner.startswith("a list") else "a list"
    if isinstance(value, str) and (_RATIONAL.match(value) or value in ("inf", "-inf", "nan")):
        return "a number"
    return _kind(value)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds: dict[type[Any], str] = {str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise HandedError(f"field {name!r} is given twice")
        found[name] = value
    return found


def _no_number(name: str) -> None:
    raise HandedError(f"{name} is no JSON number; allowed: finite numbers")
