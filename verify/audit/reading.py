"""Tables of numbers from files and from scikit-learn, checked before anything is computed."""

from __future__ import annotations

import csv
import math
import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verify.console import CommandError

DATASETS = ("iris", "wine", "digits", "breast_cancer")
EXTENSIONS = (".npy", ".npz", ".csv")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """A table of finite numbers.

    Attributes
    ----------
    values : (n, d) numpy array of float64, of integers, or of Python integers and floats (object)
    source : where it came from, for the reader
    """

    values: Any
    source: str


def read_dataset(name: str) -> Table:
    """A data set that scikit-learn brings along; no network."""
    if name not in DATASETS:
        raise CommandError(f"unknown data set {name!r}; allowed: {', '.join(DATASETS)}")
    from sklearn import datasets

    table = getattr(datasets, f"load_{name}")().data
    return Table(_checked(table, name), f"scikit-learn data set {name}")


def read_table(path: Path, array: str | None = None) -> Table:
    """The table in a .npy, .npz or .csv file; `array` chooses one of a .npz file.

    Raises
    ------
    CommandError
        anything but a two-dimensional table of finite real numbers, with the place.
    """
    kind = path.suffix.lower()
    if array is not None and kind != ".npz":
        raise CommandError(f"--array {array} is for .npz files; {path} is not one")
    if path.is_dir():
        raise CommandError(f"{path} is a folder; give a file: {', '.join(EXTENSIONS)}")
    if not path.exists():
        raise CommandError(f"{path}: no such file")
    if kind not in EXTENSIONS:
        raise CommandError(
            f"{path}: unknown kind of file {kind or '(no extension)'!r}; "
            f"allowed: {', '.join(EXTENSIONS)}"
        )
    try:
        if path.stat().st_size == 0:
            raise CommandError(f"{path} is empty")
        if kind == ".csv":
            return Table(_read_csv(path), str(path))
        name, values = _read_numpy(path, array)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror or error}") from None
    return Table(_checked(values, name), name)


def _read_numpy(path: Path, array: str | None) -> tuple[str, Any]:
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                if array is not None:
                    raise CommandError(f"{path} holds one array without a name; leave --array out")
                return str(path), loaded
            chosen = _choose(path, loaded.files, array)
            return f"{path}[{chosen}]", loaded[chosen]
    except (ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if "pickle" in str(error).lower():
            raise CommandError(
                f"{path}: holds Python objects, or is no numpy file; objects are not loaded "
                "because a pickle can run code. Save an array of numbers with numpy.save"
            ) from None
        raise CommandError(f"{path}: damaged, or no numpy file: {error}") from None
    except MemoryError:
        raise CommandError(f"{path}: the array does not fit into memory") from None


def _choose(path: Path, names: list[str], array: str | None) -> str:
    listed = ", ".join(names)
    if not names:
        raise CommandError(f"{path} holds no array")
    if array is None:
        if len(names) > 1:
            raise CommandError(f"{path} holds several arrays; choose one with --array: {listed}")
        return names[0]
    if array not in names:
        raise CommandError(f"{path} holds no array {array!r}; it holds: {listed}")
    return array


def _checked(values: Any, name: str) -> Any:
    """A numpy array as (n, d) numbers of float64 or integers, or an error."""
    if values.dtype.names is not None:
        raise CommandError(f"{name}: a structured array; allowed: a plain table of numbers")
    kind = values.dtype.kind
    if kind not in "iuf" or values.dtype.itemsize > 8:
        word = {"b": "booleans", "c": "complex numbers", "U": "text", "S": "text"}
        found = word.get(kind, f"numbers of type {values.dtype.name}" if kind == "f" else "")
        raise CommandError(
            f"{name}: holds {found or f'entries of type {values.dtype.name}'}; "
            "allowed: integers, float16, float32, float64"
        )
    if values.ndim != 2:
        raise CommandError(
            f"{name}: has shape {values.shape}; allowed: two dimensions (points, coordinates)"
            + ("; a single coordinate is a column: reshape(-1, 1)" if values.ndim == 1 else "")
        )
    if 0 in values.shape:
        raise CommandError(f"{name}: has shape {values.shape}, so it is empty")
    if kind != "f":
        return values
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row, column = (int(i[0]) for i in np.nonzero(~np.isfinite(values)))
        raise CommandError(
            f"{name}: row {row}, column {column} (from 0) is {values[row, column]}; "
            "only finite numbers are allowed: remove the row or fill the value in"
        )
    return values


def _read_csv(path: Path) -> Any:
    """Integers are kept as they are; other numbers are rounded to float64, once."""
    rows: list[list[Any]] = []
    width = 0  # not known yet
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                fields = [field.strip() for field in row]
                if fields in ([], [""]):
                    continue
                where = f"{path}, line {reader.line_num}"
                if not width:
                    width = len(fields)
                    if not any(map(_looks_numeric, fields)):
                        _require_commas(fields, where)
                        continue
                if len(fields) != width:
                    raise CommandError(
                        f"{where}: the number of fields is {len(fields)}, but {width} in the first "
                        "line; every line needs the same number"
                    )
                rows.append([_number(f, f"{where}, column {c}") for c, f in enumerate(fields, 1)])
    except UnicodeDecodeError:
        raise CommandError(f"{path}: not UTF-8 text; save it as UTF-8") from None
    except csv.Error as error:
        raise CommandError(f"{path}, line {reader.line_num}: not a CSV file: {error}") from None
    if not rows:
        raise CommandError(f"{path} holds no line of numbers")
    values = np.empty((len(rows), len(rows[0])), dtype=object)
    values[:] = rows
    small = all(isinstance(v, float) or abs(v) <= 2**53 for row in rows for v in row)
    return values.astype(np.float64) if small else values


def _looks_numeric(field: str) -> bool:
    return bool(_DECIMAL.match(field) or _NOT_FINITE.match(field))


def _require_commas(fields: list[str], where: str) -> None:
    if len(fields) == 1 and re.search(r"[0-9]\s*[;\t ]\s*[-+.0-9]", fields[0]):
        raise CommandError(
            f"{where}: no comma between the numbers of {_shown(fields[0])}; separate them by commas"
        )


def _shown(field: str) -> str:
    return repr(field if len(field) <= 40 else field[:37] + "...")


def _number(field: str, where: str) -> Any:
    if not field:
        raise CommandError(f"{where}: empty field; remove the line or fill the value in")
    if _NOT_FINITE.match(field):
        raise CommandError(
            f"{where}: {field} is not a finite number; remove the line or fill the value in"
        )
    if not _DECIMAL.match(field):
        _require_commas([field], where)
        raise CommandError(
            f"{where}: {_shown(field)} is not a number; remove the line or the column"
        )
    try:
        value: Any = int(field) if _INTEGER.match(field) else float(field)
    except ValueError:
        raise CommandError(f"{where}: an integer of more than 4300 digits") from None
    if isinstance(value, float) and math.isinf(value):
        raise CommandError(f"{where}: {field} is beyond the range of float64; rescale the data")
    if value == 0 and re.search(r"[1-9]", re.split("[eE]", field)[0]):
        raise CommandError(
            f"{where}: {field} is not zero but float64 would make it so; rescale the data"
        )
    return value
