"""Tables in text files: how numbers are separated is found out, or asked.

Fields are split by the standard library's csv module rather than by a reader that makes floats:
the decimals are wanted as they are written, and every error with its line.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from verify.audit.columns import Column, How
from verify.console import CommandError

BLANKS, NONE = " ", ""
_DELIMITERS = ("\t", ";", "|", ",", BLANKS, NONE)
_SAMPLE = 300  # lines that are looked at to find out how the file is written
NAMES = {"\t": "tabs", BLANKS: "blanks", NONE: "nothing", ",": "commas", ";": "semicolons"}
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_INFINITE = re.compile(r"[+-]?(inf|infinity)\Z", re.IGNORECASE)
_MISSING = {"", "na", "n/a", "nan", "null", "none", "nil", "?", "-", "--", "missing", "#n/a"}


class Found(NamedTuple):
    """One way to read the lines; the fields of its sample."""

    delimiter: str
    decimal: str
    rows: list[list[str]]
    width: int
    consistent: bool
    header: bool
    numeric: int
    mixed: int


class Text(NamedTuple):
    """A text file as columns, the line of each row, and how it was read."""

    columns: list[Column]
    lines: list[int]
    about: dict[str, Any]


def read_text(text: str, source: str, how: How) -> Text:
    """Columns of a text file.

    Raises
    ------
    CommandError
        it cannot be read, or can be read in more than one way.
    """
    numbered, names = _content(text)
    if not numbered:
        raise CommandError(f"{source} holds no line of numbers")
    found = _find(numbered[:_SAMPLE], source, how)
    lines, rows = _split(numbered, found.delimiter, source)
    rows = _trimmed(rows, found.delimiter)
    width = len(rows[-1]) if len(rows) < 3 else found.width
    for line, row in zip(lines, rows, strict=True):
        if len(row) != width:
            raise CommandError(
                f"{source}, line {line}: the number of fields is {len(row)}, but {width} in the "
                f"other lines, read as separated by {_shown_delimiter(found.delimiter)}; every "
                "line needs the same number, or say --delimiter"
            )
    titles: list[str] | None = None
    if found.header if how.header is None else how.header:
        titles, rows, lines = rows[0], rows[1:], lines[1:]
    elif names is not None:
        split = _split([(1, names)], found.delimiter, source)[1][0]
        titles = split if len(split) == width else None
    if not rows:
        raise CommandError(f"{source} holds no line of numbers")
    columns = [
        _column(
            None if titles is None else titles[c], c + 1, [r[c] for r in rows], lines, found, how,
            source,
        )
        for c in range(width)
    ]  # fmt: skip
    about = {
        "delimiter": None if found.delimiter == NONE else found.delimiter,
        "decimal": found.decimal,
        "header": titles is not None,
    }
    if all(c.other for c in columns):
        raise CommandError(f"{source} holds no line of numbers; columns: {columns[0].other}")
    return Text(columns, lines, about)


def _content(text: str) -> tuple[list[tuple[int, str]], str | None]:
    """The lines that are neither empty nor comments, and the comment right before them."""
    content: list[tuple[int, str]] = []
    names = None
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        line = line.rstrip("\n")
        if not line.strip(" ;,\t|") and not line.strip():
            continue
        if line.lstrip().startswith("#"):
            if not content:
                names = line.lstrip().lstrip("#").strip()
            continue
        data, mark, _ = line.partition(" #")
        content.append((number, data if mark and re.fullmatch(r"[-+.,;|eE\d\s]+", data) else line))
    return content, names


def _split(
    numbered: list[tuple[int, str]], delimiter: str, source: str
) -> tuple[list[int], list[list[str]]]:
    texts: Iterable[str] = (line + "\n" for _, line in numbered)
    if delimiter == NONE:
        return [n for n, _ in numbered], [[_unquoted(line)] for _, line in numbered]
    if delimiter == BLANKS:
        texts = (re.sub(r"[ \t]+", " ", line.strip()) + "\n" for _, line in numbered)
    reader = csv.reader(texts, delimiter=delimiter, skipinitialspace=delimiter != "\t", strict=True)
    lines, rows = [], []
    try:
        for row in reader:
            lines.append(numbered[reader.line_num - 1][0])
            rows.append([field.strip() for field in row])
    except csv.Error as error:
        line = numbered[min(reader.line_num, len(numbered)) - 1][0]
        raise CommandError(f"{source}, line {line}: not a CSV file: {error}") from None
    return lines, rows


def _unquoted(line: str) -> str:
    line = line.strip()
    return line[1:-1].strip() if len(line) > 1 and line[0] == line[-1] == '"' else line


def _trimmed(rows: list[list[str]], delimiter: str) -> list[list[str]]:
    """Without a separator at the end of every line; with a nameless first column in the header
    where it has one name less, as R writes it."""
    below = rows[1:] or rows
    longest = len(below[0])
    named = rows[0][-1] == "" or len(rows[0]) == longest - 1
    if named and all(len(r) > 1 and r[-1] == "" for r in below):
        rows = [r[:-1] if len(r) == longest and r[-1] == "" else r for r in rows]
    below = rows[1:]
    named = len(rows[0]) > 1 or delimiter in (BLANKS, "\t")
    if below and named and all(len(r) == len(rows[0]) + 1 for r in below):
        rows = [["", *rows[0]], *below]
    return rows


def plain(field: str, decimal: str, thousands: str | None) -> str | None:
    """A number as Python writes it, None if the field is none."""
    if thousands is not None and thousands in field:
        mark = re.escape(thousands)
        if not re.match(rf"[+-]?\d{{1,3}}({mark}\d{{3}})+(\D\d*)?([eE][+-]?\d+)?\Z", field):
            return None
        field = field.replace(thousands, "")
    if decimal == ",":
        if "." in field or not re.fullmatch(r"[^,]*(?:\d,\d|,\d)?[^,]*", field):
            return None
        field = field.replace(",", ".")
    return field if _DECIMAL.match(field) else None


def _is_missing(field: str) -> bool:
    return field.lower() in _MISSING


def _kinds(fields: list[str], decimal: str, how: How) -> tuple[int, int]:
    """How many numbers there are, and how many fields that are neither that nor missing."""
    numbers = sum(plain(f, decimal, how.thousands) is not None for f in fields)
    others = sum(
        not (_is_missing(f) or plain(f, decimal, how.thousands) is not None) for f in fields
    )
    return numbers, others


def _find(numbered: list[tuple[int, str]], source: str, how: How) -> Found:
    """How the lines are to be read, or a question."""
    tried: list[Found] = []
    failure: CommandError | None = None
    for delimiter in _DELIMITERS if how.delimiter is None else (how.delimiter,):
        try:
            rows = _trimmed(_split(numbered, delimiter, source)[1], delimiter)
        except CommandError as error:
            failure = error
            continue
        width = Counter(map(len, rows)).most_common(1)[0][0]
        if (width > 1) != (delimiter != NONE) and how.delimiter is None:
            continue
        if delimiter == how.decimal and how.delimiter is None:
            continue
        decimals = (".", ",") if how.decimal is None else (how.decimal,)
        if delimiter == NONE and how.decimal is None and not _may_be_one_number(rows[0][0]):
            decimals = (".",)
        tried += [
            _tried(delimiter, decimal, rows, width, how)
            for decimal in decimals
            if decimal == "." or how.decimal is not None or _has_decimal_commas(rows, how)
        ]
    usable = [f for f in tried if f.numeric or f.mixed]
    if not usable:
        if failure is not None:
            raise failure
        raise CommandError(
            f"{source} holds no line of numbers: the first is {_shown(numbered[0][1])}"
        )

    def key(f: Found) -> tuple[bool, bool, int, int]:
        return (f.consistent, f.numeric == f.width, f.numeric, -f.mixed)

    best = max(usable, key=key)
    if failure is not None and not best.numeric:
        raise failure
    _ask(best, numbered, source, how)
    return best


def _has_decimal_commas(rows: list[list[str]], how: How) -> bool:
    return any("," in f and plain(f, ",", how.thousands) is not None for f in _flat(rows))


def _may_be_one_number(first: str) -> bool:
    """Whether a first line speaks for decimal commas below it: names, or fields, with commas
    between them do not."""
    return "," not in first or plain(first, ",", None) is not None


def _tried(delimiter: str, decimal: str, rows: list[list[str]], width: int, how: How) -> Found:
    same = [r for r in rows if len(r) == width]
    header = _is_header(same, decimal, how) if how.header is None else how.header
    data = same[1:] if header else same
    kinds = [_kinds([r[c] for r in data], decimal, how) for c in range(width)]
    numeric = sum(numbers > 0 and not others for numbers, others in kinds)
    mixed = sum(numbers > 0 and others > 0 for numbers, others in kinds)
    consistent = len(same) == len(rows) and (delimiter != NONE or numeric > 0)
    return Found(delimiter, decimal, rows, width, consistent, header, numeric, mixed)


def _is_header(rows: list[list[str]], decimal: str, how: How) -> bool:
    """Whether the first line holds names: words above numbers, or 0, 1, 2, ... above others."""
    if len(rows) < 2:
        return False
    words = numbers = 0
    for c, top in enumerate(rows[0]):
        below, others = _kinds([r[c] for r in rows[1:]], decimal, how)
        if others or not below:
            continue
        if plain(top, decimal, how.thousands) is not None:
            numbers += 1
        elif not _is_missing(top) or (c == 0 and top == ""):
            words += 1
    if words:
        return words > numbers or (rows[0][0] == "" and _counting(rows[0][1:]))
    return _counting(rows[0]) and any("." in f or "," in f for f in _flat(rows[1:]))


def _steps(fields: list[str]) -> bool:
    """Integers that go up by one."""
    if not all(_INTEGER.match(f) for f in fields):
        return False
    return [int(f) for f in fields] == [int(fields[0]) + i for i in range(len(fields))]


def _counting(fields: list[str]) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ..."""
    return bool(fields) and fields[0] in ("0", "1") and _steps(fields)


def _flat(rows: list[list[str]]) -> Iterable[str]:
    return (field for row in rows for field in row)


def _ask(found: Found, numbered: list[tuple[int, str]], source: str, how: How) -> None:
    """Refuse what can be read in two ways, and say how to choose."""
    pairs = (re.fullmatch(r"\s*[+-]?\d+,\d+\s*", line) for _, line in numbered)
    if (how.delimiter, how.decimal) == (None, None) and all(pairs):
        raise CommandError(
            f"{source}: {_shown(numbered[0][1])} is two numbers, or one with a decimal comma; say "
            "--delimiter , or --decimal ,"
        )
    data = found.rows[1:] if found.header else found.rows
    if how.thousands is None:
        commas = [f for f in _flat(data) if "," in f]
        if found.decimal == "," and how.decimal is None and commas and all(
            re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", f) for f in commas
        ):  # fmt: skip
            raise CommandError(
                f"{source}: {_shown(commas[0])} has a decimal comma, or a comma between "
                "thousands; say --decimal , or --thousands ,"
            )
        for field in _flat(found.rows):
            mark = re.fullmatch(r"[+-]?\d{1,3}([.,' \u00a0\u202f])\d{3}(\1\d{3})*([.,]\d+)?", field)
            if mark and plain(field, found.decimal, None) is None:
                raise CommandError(
                    f"{source}: {_shown(field)} seems to have thousands separated by {mark[1]!r}; "
                    f"say --thousands {mark[1]!r}"
                )
    if how.delimiter is None:
        for field in _flat(data):
            if plain(field, found.decimal, how.thousands) is not None:
                continue
            if re.fullmatch(r"[-+.\d]+[,;|\s]+[-+.,;|\s\d]+", field) and not re.search(
                r"\d[-.]\d+[-.]\d", field
            ):
                raise CommandError(
                    f"{source}: how the numbers of {_shown(field)} are separated is not clear; say "
                    "--delimiter and --decimal"
                )
    first = found.rows[0]
    below = [r for r in data[1:] if not _steps(r)]
    asked = how.header is None and not found.header and not found.mixed and len(first) > 1
    if asked and below and _counting(first):
        raise CommandError(
            f"{source}: the first line counts, {', '.join(first[:4])}: names of columns, or a "
            "point? Say --header or --no-header"
        )


def _column(
    name: str | None,
    position: int,
    fields: list[str],
    lines: list[int],
    found: Found,
    how: How,
    source: str,
) -> Column:
    numbers, others = _kinds(fields, found.decimal, how)
    infinite = next((i for i, f in enumerate(fields) if _INFINITE.match(f)), None)
    if others and not numbers and infinite is None:
        example = next(f for f in fields if not _is_missing(f))
        return Column(name, position, [], f"text, such as {_shown(example)}")
    if not numbers and not others:
        return Column(name, position, [], "nothing")
    values: list[Any] = []
    for line, field in zip(lines, fields, strict=True):
        where = f"{source}, line {line}, column {name or position}"
        number = plain(field, found.decimal, how.thousands)
        if number is None and _is_missing(field):
            values.append(None)
        elif _INFINITE.match(field):
            raise CommandError(
                f"{where}: {field} is not a finite number; remove the line, or leave the column "
                "out with --drop"
            )
        elif number is None:
            raise CommandError(
                f"{where}: {_shown(field)} is not a number; remove the line, or leave the column "
                "out with --drop"
            )
        else:
            values.append(value_of(number, how.values, where))
    return Column(name, position, values)


def value_of(number: str, values: str, where: str) -> Any:
    """An integer, a float64, or with "written" the decimal as it stands."""
    try:
        if _INTEGER.match(number):
            return int(number)
        value = float(number)
        if math.isinf(value):
            raise CommandError(
                f"{where}: {number} is beyond the range of float64; rescale the data"
            )
        if value == 0 and re.search(r"[1-9]", re.split("[eE]", number)[0]):
            raise CommandError(
                f"{where}: {number} is not zero but float64 would make it so; rescale the data"
            )
        return Fraction(number) if values == "written" else value
    except ValueError:
        raise CommandError(f"{where}: a number of more than 4300 digits") from None


def _shown(field: str) -> str:
    return repr(field if len(field) <= 40 else field[:37] + "...")


def _shown_delimiter(delimiter: str) -> str:
    return NAMES.get(delimiter, repr(delimiter))
