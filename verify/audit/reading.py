"""Tables of numbers from files, frames and scikit-learn, checked before anything is computed.

What a file holds is told by its first bytes, not by its name. numpy's files are read without
pickles, Parquet and Feather by pyarrow, all other files are taken for text.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from verify.audit.columns import Column, How, choose, complete_rows
from verify.audit.delimited import read_text, value_of
from verify.console import CommandError

DATASETS = ("iris", "wine", "digits", "breast_cancer")
EXTENSIONS = (".csv", ".tsv", ".txt", ".parquet", ".feather", ".npy", ".npz")
STANDARD_INPUT = Path("-")
_MARKS = (  # of Unicode; the longer ones first, of which a shorter one is the beginning
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


@dataclass(frozen=True)
class Table:
    """A table of finite numbers.

    Attributes
    ----------
    values : (n, d) numpy array of float64, of integers, or of Python numbers (object), rationals
        among them
    source : where it came from, for the reader
    columns : names of the d coordinates
    about : what was read and what was left out, as `--json` holds it
    how : what the user said about reading it
    """

    values: Any
    source: str
    columns: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)
    how: How = field(default_factory=How)


def read_dataset(name: str, how: How | None = None) -> Table:
    """A data set that scikit-learn brings along; no network."""
    if name not in DATASETS:
        raise CommandError(f"unknown data set {name!r}; allowed: {', '.join(DATASETS)}")
    from sklearn import datasets

    how = how or How()
    found = getattr(datasets, f"load_{name}")()
    values = _checked(found.data, name)
    columns = [
        Column(str(title), c + 1, _numbers(values[:, c].tolist(), how, f"{name}, {title}"))
        for c, title in enumerate(found.feature_names)
    ]
    # scikit-learn says which columns there are, so none of them can be an index
    every = how.columns or f"1-{len(columns)}"
    source = f"scikit-learn data set {name}"
    return _table(columns, source, _with(how, every), _row, {"format": "scikit-learn"})


def read_table(
    path: Path, array: str | None = None, how: How | None = None, points: Table | None = None
) -> Table:
    """The table in a file; `array` chooses one of a .npz file, `-` is standard input.

    With `points`, the file holds centers for them: it is read in the same way, and has the same
    coordinates.

    Raises
    ------
    CommandError
        anything but a two-dimensional table of finite real numbers, with the place.
    """
    how = how or How()
    expected = points.columns or None if points is not None else None
    source = "standard input" if path == STANDARD_INPUT else str(path)
    data = _unpacked(_bytes(path), source)
    kind = _kind(data)
    if array is not None and kind != "npz":
        raise CommandError(f"--array {array} is for .npz files; {source} is not one")
    if kind in ("npy", "npz"):
        name, values = _read_numpy(data, source, array)
        return _of_array(values, name, how, expected, kind)
    if kind in ("parquet", "feather"):
        return read_frame(_arrow(data, kind, source), how, source, expected, kind)
    text, encoding = _decoded(data, source, how.encoding)
    found = read_text(text, source, how)
    about = {"format": "text", "encoding": encoding, **found.about}

    def place(row: int) -> str:
        return f"line {found.lines[row]}"

    return _table(found.columns, source, how, place, about, expected)


def read_frame(
    frame: Any,
    how: How | None = None,
    source: str = "",
    expected: Sequence[str] | None = None,
    kind: str = "",
) -> Table:
    """The table in an array (numpy, torch) or a data frame (pandas, polars, pyarrow).

    Raises
    ------
    CommandError
        as `read_table`.
    """
    how = how or How()
    source = source or f"{type(frame).__module__.split('.')[0]} {type(frame).__name__}"
    kind = kind or "frame"
    if hasattr(frame, "column_names"):  # pyarrow
        names, series = frame.column_names, [frame.column(i) for i in range(frame.num_columns)]
    elif hasattr(frame, "iloc") and hasattr(frame, "columns"):  # pandas
        names, series = list(frame.columns), [frame.iloc[:, i] for i in range(frame.shape[1])]
    elif hasattr(frame, "to_series") and hasattr(frame, "columns"):  # polars
        names, series = frame.columns, [frame.to_series(i) for i in range(frame.width)]
    else:
        return _of_array(_as_array(frame, source), source, how, expected, "array")
    if not names or not len(series[0]):
        raise CommandError(f"{source}: has shape ({len(frame)}, {len(names)}), so it is empty")
    columns = [
        _of_series(s, str(name), i + 1, how, source)
        for i, (name, s) in enumerate(zip(names, series, strict=True))
    ]
    return _table(columns, source, how, _row, {"format": kind}, expected)


def _with(how: How, columns: str) -> How:
    return How(**{**asdict(how), "columns": columns})


def _row(index: int) -> str:
    return f"row {index} (from 0)"


def _table(
    columns: Sequence[Column],
    source: str,
    how: How,
    place: Callable[[int], str],
    about: dict[str, Any],
    expected: Sequence[str] | None = None,
) -> Table:
    """The chosen columns and complete rows of what was read."""
    kept, left = choose(columns, how, source, expected)
    rows, lost = complete_rows(kept, how, source, place)
    names = tuple(c.title for c in kept)
    told = {
        **about,
        "rows": len(rows),
        "columns": list(names),
        "left_out": [asdict(c) for c in left],
        "rows_left_out": lost,
        "values": how.values,
    }
    return Table(_packed(rows), source, names, told, how)


def _packed(rows: list[list[Any]]) -> Any:
    values = np.empty((len(rows), len(rows[0])), dtype=object)
    values[:] = rows
    small = all(
        isinstance(v, float) or (isinstance(v, int) and abs(v) <= 2**53)
        for row in rows
        for v in row
    )
    return values.astype(np.float64) if small else values


def _numbers(values: list[Any], how: How, where: str) -> list[Any]:
    """Python numbers as they count: floats as stored, or as the shortest decimal that is one."""
    if how.values == "written":
        return [value_of(repr(v), "written", where) if type(v) is float else v for v in values]
    return values


# Files ------------------------------------------------------------------------------------------


def _bytes(path: Path) -> bytes:
    if path == STANDARD_INPUT:
        data = sys.stdin.buffer.read()
        if not data:
            raise CommandError("standard input is empty")
        return data
    if path.is_dir():
        raise CommandError(f"{path} is a folder; give a file: {', '.join(EXTENSIONS)}")
    if not path.exists():
        raise CommandError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            data = file.read()
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not data:
        raise CommandError(f"{path} is empty")
    return data


def _unpacked(data: bytes, source: str) -> bytes:
    try:
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
        if data.startswith(b"BZh"):
            return bz2.decompress(data)
        if data.startswith(b"\xfd7zXZ\x00"):
            return lzma.decompress(data)
        if data.startswith(b"\x28\xb5\x2f\xfd"):
            import pyarrow as pa

            with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                return bytes(stream.read())
    except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
        raise CommandError(f"{source}: damaged, cannot be unpacked: {error}") from None
    return data


def _kind(data: bytes) -> str:
    for start, kind in (
        (b"\x93NUMPY", "npy"),
        (b"PK", "npz"),
        (b"PAR1", "parquet"),
        (b"ARROW1", "feather"),
        (b"FEA1", "feather"),
    ):
        if data.startswith(start):
            return kind
    return "text"


def _arrow(data: bytes, kind: str, source: str) -> Any:
    import pyarrow as pa
    from pyarrow import feather, parquet

    try:
        reader = parquet if kind == "parquet" else feather
        return reader.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CommandError(f"{source}: damaged, or no {kind} file: {error}") from None


def _decoded(data: bytes, source: str, encoding: str | None) -> tuple[str, str]:
    name = encoding or next((n for mark, n in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(name)
    except LookupError:
        raise CommandError(
            f"--encoding {encoding}: unknown; for example utf-8, utf-16, latin-1, cp1252"
        ) from None
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        line = data.count(b"\n", 0, at) + 1
        raise CommandError(
            f"{source}, line {line}: not {name.removesuffix('-sig').upper()} text, nor any of "
            f"{', '.join(EXTENSIONS)}; say --encoding, for example latin-1"
        ) from None
    if "\x00" in text:
        raise CommandError(
            f"{source}: holds bytes that are no text; allowed: {', '.join(EXTENSIONS)}; for UTF-16 "
            "without a mark say --encoding utf-16-le"
        )
    return text.removeprefix("\ufeff"), name


def _read_numpy(data: bytes, source: str, array: str | None) -> tuple[str, Any]:
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            return source, loaded
        names = loaded.files
        if "[Content_Types].xml" in names:
            raise CommandError(f"{source}: a spreadsheet; save the sheet as CSV")
        chosen = _choose(source, names, array)
        return f"{source}[{chosen}]", loaded[chosen]
    except (ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if "pickle" in str(error).lower():
            raise CommandError(
                f"{source}: holds Python objects, or is no numpy file; objects are not loaded "
                "because a pickle can run code. Save an array of numbers with numpy.save"
            ) from None
        raise CommandError(f"{source}: damaged, or no numpy file: {error}") from None
    except MemoryError:
        raise CommandError(f"{source}: the array does not fit into memory") from None


def _choose(source: str, names: list[str], array: str | None) -> str:
    listed = ", ".join(names)
    if not names:
        raise CommandError(f"{source} holds no array")
    if array is None:
        if len(names) > 1:
            raise CommandError(f"{source} holds several arrays; choose one with --array: {listed}")
        return names[0]
    if array not in names:
        raise CommandError(f"{source} holds no array {array!r}; it holds: {listed}")
    return array


# Arrays and frames ------------------------------------------------------------------------------


def _as_array(data: Any, source: str) -> Any:
    if type(data).__module__.startswith("torch"):
        data = data.detach().cpu()
        return data.float().numpy() if str(data.dtype) == "torch.bfloat16" else data.numpy()
    try:
        return np.asarray(data.to_numpy() if hasattr(data, "to_numpy") else data)
    except (ValueError, TypeError) as error:
        raise CommandError(f"{source}: no table of numbers: {error}") from None


def _of_array(
    values: Any, source: str, how: How, expected: Sequence[str] | None, kind: str
) -> Table:
    """An array has no names, and nobody adds an index to it."""
    values = _checked(values, source, missing=how.missing == "drop")
    columns = [
        Column(None, c + 1, _column_of(values[:, c], how, source)) for c in range(values.shape[1])
    ]
    every = how.columns or f"1-{len(columns)}"
    return _table(columns, source, _with(how, every), _row, {"format": kind}, expected)


def _column_of(values: Any, how: How, where: str) -> list[Any]:
    numbers = values.tolist()
    if values.dtype.kind == "f":
        numbers = [None if v != v else v for v in numbers]
    return _numbers(numbers, how, where)


def _of_series(series: Any, name: str, position: int, how: How, source: str) -> Column:
    values = list(series.to_pylist() if hasattr(series, "to_pylist") else series.to_list())
    found: list[Any] = []
    for row, v in enumerate(values):
        v = v.item() if isinstance(v, np.generic) else v
        where = f"{source}, {_row(row)}, column {name}"
        if v is None or type(v).__name__ in ("NAType", "NaTType") or v != v:
            found.append(None)
        elif isinstance(v, bool):
            return Column(name, position, [], "booleans")
        elif isinstance(v, (int, Fraction)):
            found.append(v if isinstance(v, int) or how.values == "written" else float(v))
        elif isinstance(v, Decimal) and v.is_finite():
            found.append(value_of(str(v), how.values, where))
        elif isinstance(v, float):
            if v in (np.inf, -np.inf):
                raise CommandError(
                    f"{where}: {v} is not a finite number; --drop {name} leaves it out"
                )
            found.append(v)
        elif any(isinstance(u, (int, float)) for u in found):
            raise CommandError(f"{where}: {v!r} is not a number; --drop {name} leaves it out")
        else:
            kind = "text" if isinstance(v, str) else f"values of type {type(v).__name__}"
            return Column(name, position, [], f"{kind}, such as {str(v)[:40]!r}")
    if all(v is None for v in found):
        return Column(name, position, [], "nothing")
    return Column(name, position, _numbers(found, how, f"{source}, column {name}"))


def _checked(values: Any, name: str, missing: bool = False) -> Any:
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
    wrong = np.isinf(values) if missing else ~np.isfinite(values)
    if wrong.any():
        row, column = (int(i[0]) for i in np.nonzero(wrong))
        count = int(np.isnan(values).sum())
        many = f" ({count} values are missing)" if count else ""
        raise CommandError(
            f"{name}: row {row}, column {column} (from 0) is {values[row, column]}{many}; only "
            "finite numbers are allowed: fill the value in, or leave rows out with --missing drop"
        )
    return values
