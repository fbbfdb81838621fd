"""The tables that a sweep writes, and how claims read them.

    curves.parquet        cell, every setting, seed, step, loss, relative, learning_rate, seconds,
                          redraws, machine; one row a validation and model
    evaluations.parquet   cell, seed, test, method, step, value; see `verify.experiments.evaluate`
    surfaces.parquet      cell, seed, slice, i, j, value; see `verify.experiments.surfaces`

`seconds` is processor time up to that step for all seeds of the cell. A model that diverged has
NaN from then on. The reference results stand in `reports/data`, or in the installed package.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from constructions.errors import InputError
from constructions.training import Settings
from verify.experiments.cells import Cell
from verify.files import write_atomically

CURVES, EVALUATIONS, SURFACES = "curves.parquet", "evaluations.parquet", "surfaces.parquet"
LATE = 0.9  # a model's final loss is the median over the looks of the last tenth of the steps

_TYPES = {int: pa.int32(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
_SETTINGS = {f.name: _TYPES[type(getattr(Settings(), f.name))] for f in fields(Settings)}
CURVE_SCHEMA = pa.schema(
    {
        "cell": pa.string(),
        **_SETTINGS,
        "seed": pa.int32(),
        "step": pa.int32(),
        "loss": pa.float64(),
        "relative": pa.float64(),
        "learning_rate_now": pa.float64(),
        "seconds": pa.float32(),
        "redraws": pa.int32(),
        "machine": pa.string(),
    }
)
EVALUATION_SCHEMA = pa.schema(
    {
        "cell": pa.string(),
        "seed": pa.int32(),
        "test": pa.string(),
        "method": pa.string(),
        "step": pa.int32(),
        "value": pa.float64(),
    }
)

SURFACE_SCHEMA = pa.schema(
    {
        "cell": pa.string(),
        "seed": pa.int32(),
        "slice": pa.string(),
        "i": pa.int16(),
        "j": pa.int16(),
        "value": pa.float32(),  # rounding is monotone, so it makes no new minima
    }
)


SCHEMAS = {CURVES: CURVE_SCHEMA, EVALUATIONS: EVALUATION_SCHEMA, SURFACES: SURFACE_SCHEMA}


class Interval(NamedTuple):
    """A median with an interval for it between two order statistics."""

    value: float
    low: float
    high: float
    seeds: int


def interval(values: Sequence[float], level: float = 0.9) -> Interval:
    """The median, and an interval that holds the true median with at least this probability.

    It lies between two order statistics, which needs no assumption on the distribution: 5 values
    give their range (0.9375), 10 values the second and the ninth (0.979). Fewer than 5 values give
    an interval without ends. NaN counts as infinite: a model that diverged is as bad as can be.
    """
    ordered = sorted(math.inf if math.isnan(v) else v for v in values)
    n = len(ordered)
    if not n:
        return Interval(math.nan, -math.inf, math.inf, 0)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    outside, below = 0.0, 0
    while below < n // 2:
        tail = math.comb(n, below) / 2**n
        if 2 * (outside + tail) > 1 - level:
            break
        outside, below = outside + tail, below + 1
    if not below:
        return Interval(middle, -math.inf, math.inf, n)
    return Interval(middle, ordered[below - 1], ordered[n - below], n)


def curve_table(cell: Cell, folder: Path) -> Any:
    """The curve of a finished cell as a table of `CURVE_SCHEMA`."""
    record = json.loads((folder / "record.json").read_text())
    rows = list(csv.DictReader(io.StringIO((folder / "curve.csv").read_text())))
    settings = {name: getattr(cell.settings, name) for name in _SETTINGS}
    settings["regularizer"] = str(settings["regularizer"])
    columns: dict[str, list[Any]] = {name: [v] * len(rows) for name, v in settings.items()}
    columns["cell"] = [cell.name] * len(rows)
    for name, kind in (("seed", int), ("step", int), ("loss", float), ("relative", float)):
        columns[name] = [kind(row[name]) for row in rows]
    columns["learning_rate_now"] = [float(row["learning_rate"]) for row in rows]
    steps = sorted(set(columns["step"]))
    seconds = dict(zip(steps, record["seconds"], strict=True))
    columns["seconds"] = [seconds[step] for step in columns["step"]]
    columns["redraws"] = [record["redraws"]] * len(rows)
    columns["machine"] = [record["machine"]] * len(rows)
    return pa.table([columns[f.name] for f in CURVE_SCHEMA], schema=CURVE_SCHEMA)


def evaluation_table(rows: Iterable[dict[str, Any]]) -> Any:
    """Rows of `EVALUATION_SCHEMA` as a table."""
    return pa.Table.from_pylist(list(rows), schema=EVALUATION_SCHEMA)


def surface_table(rows: Iterable[dict[str, Any]]) -> Any:
    """Rows of `SURFACE_SCHEMA` as a table."""
    return pa.Table.from_pylist(list(rows), schema=SURFACE_SCHEMA)


def write(table: Any, path: Path) -> None:
    """Write a table; a reader never meets half of one."""
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    write_atomically(path, out.getvalue())


def read(path: Path, schema: Any) -> Any:
    """A table of this schema; columns that an older version did not have get their default.

    Raises
    ------
    InputError
        the file is not such a table.
    """
    try:
        table = pq.read_table(path, memory_map=False)
        defaults = Settings()
        for name in schema.names:
            if name not in table.column_names and name in _SETTINGS:
                column = pa.array([getattr(defaults, name)] * len(table), schema.field(name).type)
                table = table.append_column(name, column)
        return table.select(schema.names).cast(schema)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise InputError(f"{path} is not a table of results: {error}") from None


def of_others(path: Path, schema: Any, cells: Sequence[str]) -> list[Any]:
    """The rows of a table that belong to none of these cells, as a list of one table; empty if
    there is no such file. Raises what `read` raises."""
    if not path.exists():
        return []
    table = read(path, schema)
    return [table.filter(pc.invert(pc.is_in(table["cell"], pa.array(cells, pa.string()))))]


def reference() -> Path:
    """The folder of the reference results: the checkout's, else the copy in the package."""
    here = Path(__file__).resolve().parent
    checkout = here.parent.parent / "reports" / "data"
    return checkout if checkout.exists() else here / "data"


class Results:
    """What is known about the cells of a folder of results.

    Parameters
    ----------
    folder : where `curves.parquet` and `evaluations.parquet` stand; either may be missing

    Raises
    ------
    InputError
        a table cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._curves: dict[str, list[dict[str, Any]]] = {}
        self._evaluations: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        self._surfaces: dict[str, dict[int, dict[str, Any]]] | None = None  # read when asked for
        path = folder / CURVES
        if path.exists():
            wanted = ["cell", "seed", "step", "loss", "relative", "seconds", "machine"]
            for row in read(path, CURVE_SCHEMA).select(wanted).to_pylist():
                self._curves.setdefault(row["cell"], []).append(row)
        path = folder / EVALUATIONS
        if path.exists():
            for row in read(path, EVALUATION_SCHEMA).to_pylist():
                key = row["cell"], row["test"], row["method"]
                self._evaluations.setdefault(key, []).append(row)

    def has(self, cell: Cell) -> bool:
        """Whether the cell was trained."""
        return cell.name in self._curves

    def curve(self, cell: Cell, column: str = "relative") -> dict[int, list[float]]:
        """Step -> one value a seed."""
        found: dict[int, list[float]] = {}
        for row in self._curves.get(cell.name, ()):
            found.setdefault(row["step"], []).append(row[column])
        return found

    def final(self, cell: Cell, column: str = "relative") -> list[float]:
        """One value a seed: the median over the validations of the last tenth of the steps."""
        late = [v for s, v in self.curve(cell, column).items() if s > LATE * cell.steps]
        return [interval(values).value for values in zip(*late, strict=True)]

    def evaluation(self, cell: Cell, test: str, method: str) -> dict[int, list[float]]:
        """Step -> one value a seed, of one test and method."""
        found: dict[int, list[float]] = {}
        for row in self._evaluations.get((cell.name, test, method), ()):
            found.setdefault(row["step"], []).append(row["value"])
        return found

    def surfaces(self, cell: Cell) -> dict[int, dict[str, Any]]:
        """Seed -> slice -> losses, (rows, columns) of a plane and (points,) of a line.

        Raises
        ------
        KeyError
            no surfaces of this cell were computed.
        """
        if self._surfaces is None:
            path = self.folder / SURFACES
            self._surfaces = _arrays(read(path, SURFACE_SCHEMA)) if path.exists() else {}
        return self._surfaces[cell.name]


def _arrays(table: Any) -> dict[str, dict[int, dict[str, Any]]]:
    """The slices of a table of `SURFACE_SCHEMA`, by cell, seed and name."""
    found: dict[str, dict[int, dict[str, dict[tuple[int, int], float]]]] = {}
    for row in table.to_pylist():
        values = found.setdefault(row["cell"], {}).setdefault(row["seed"], {})
        values.setdefault(row["slice"], {})[row["i"], row["j"]] = row["value"]

    def array(values: dict[tuple[int, int], float]) -> Any:
        i, j = max(values)
        filled = np.array([[values[a, b] for b in range(j + 1)] for a in range(i + 1)])
        return filled[:, 0] if j == 0 else filled

    return {
        cell: {seed: {name: array(v) for name, v in named.items()} for seed, named in of.items()}
        for cell, of in found.items()
    }


@cache
def reference_results() -> Results:
    """The reference results, read once."""
    return Results(reference())
