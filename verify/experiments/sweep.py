"""A sweep: many cells, trained and tested in a folder.

    cells/NAME/           a training run (`verify.experiments.runs`), and NAME's tests as
                          test-TEST.parquet, each written when it is complete
    curves.parquet        all finished cells of the folder (`verify.experiments.results`)
    evaluations.parquet   all finished tests of them; surfaces.parquet, their loss surfaces

What is finished is never computed again, so a sweep can be killed at any moment and continues where
it was; the cells of several plans may share a folder. A cell is worked on by one process at a time,
which holds a lock in its folder; the system releases it if the process dies. The processes are
those of `verify.experiments.workers` or `verify.experiments.cluster`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from constructions.errors import InputError
from verify.experiments import results
from verify.experiments.cells import Cell
from verify.experiments.evaluate import SURFACE, evaluate
from verify.experiments.runs import MODELS, TrainingRun, quartiles
from verify.experiments.surfaces import surfaces
from verify.memory import quick_memory


class SweepError(RuntimeError):
    """The sweep could not be carried out, through no fault of a cell."""


@dataclass(frozen=True)
class Outcome:
    """What became of a cell.

    Attributes
    ----------
    name : of the cell
    seconds : of processor time
    relative : median and quartiles over the models of the last loss, in those of one Lloyd step
    diverged : number of models that did
    failure : why it is not finished; empty if it is
    held_by : who else works on it, so that nothing was done; usually empty
    """

    name: str
    seconds: float = 0.0
    relative: tuple[float, float, float] = (float("nan"),) * 3
    diverged: int = 0
    failure: str = ""
    held_by: str = ""


@dataclass(frozen=True)
class Job:
    """A cell, and the tests that are wanted for its models."""

    cell: Cell
    tests: tuple[str, ...] = ()

    def place(self, folder: Path) -> Path:
        return folder / "cells" / self.cell.name

    def missing(self, folder: Path) -> list[str]:
        """Tests that are not finished yet."""
        place = self.place(folder)
        return [test for test in self.tests if not _test_file(place, test).exists()]

    def finished(self, folder: Path) -> bool:
        return (self.place(folder) / MODELS).exists() and not self.missing(folder)


def carry_out(job: Job, folder: Path) -> Outcome:
    """Train and test one cell, or what of it is left to do. Anything wrong with it is a failure of
    this cell alone.

    Raises
    ------
    SweepError
        the folder is not there, or cannot be written.
    """
    start, name, place = time.process_time(), job.cell.name, job.place(folder)
    if not folder.is_dir():
        raise SweepError(f"a worker does not see {folder}; put it on a file system that all share")
    prepare()
    try:
        with _locked(place) as holder:
            if holder:
                return Outcome(name, held_by=holder)
            if not (place / MODELS).exists():
                for _ in TrainingRun(job.cell, place).proceed():
                    pass
            for test in job.missing(folder):
                results.write(_table(job.cell, place, test), _test_file(place, test))
            run = TrainingRun(job.cell, place)
        relative = quartiles(run.looks[-1].relative)
        return Outcome(name, time.process_time() - start, relative, len(run.diverged))
    except OSError as error:
        where = error.filename or place
        raise SweepError(f"cannot write the sweep: {error.strerror or error}: {where}") from None
    except Exception as error:  # the other cells go on
        return Outcome(name, time.process_time() - start, failure=in_words(error))


def prepare() -> None:
    """What every process that trains cells does first."""
    quick_memory()
    torch.set_num_threads(1)


def in_words(error: BaseException) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _table(cell: Cell, place: Path, test: str) -> Any:
    """The result of a test of a trained cell."""
    if test == SURFACE:
        return results.surface_table(surfaces(cell, place))
    return results.evaluation_table(evaluate(cell, place, test))


def _test_file(place: Path, test: str) -> Path:
    return place / f"test-{re.sub('[^a-z0-9]+', '-', test)}.parquet"


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[str]:
    """Hold the lock of a folder, or tell who does: empty for this process."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            yield lock.read() or "another process"
            return
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {platform.node()}")
        lock.flush()
        for leftover in place.glob(".*.*"):  # of a process that was killed while it wrote
            leftover.unlink()
        yield ""


def held(job: Job, folder: Path) -> bool:
    """Whether some process works on a cell right now."""
    with (job.place(folder) / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def collect(folder: Path) -> list[Outcome]:
    """Write the tables of all finished cells in a folder; returns those that cannot be read.

    Rows of other cells that stand in the tables already are kept: tables copied into the folder
    grow.

    Raises
    ------
    InputError
        a table in the folder is not one.
    """
    found: dict[str, list[Any]] = {name: [] for name in results.SCHEMAS}
    here, unreadable = [], []
    with (folder / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two sweeps, the later tables hold more
        for place in sorted((folder / "cells").glob("*/")):
            if not (place / MODELS).exists():
                continue
            here.append(place.name)
            try:
                found[results.CURVES].append(results.curve_table(Cell.load(place), place))
                for file in sorted(place.glob("test-*.parquet")):
                    surface = file == _test_file(place, SURFACE)
                    name = results.SURFACES if surface else results.EVALUATIONS
                    found[name].append(results.read(file, results.SCHEMAS[name]))
            except (FileNotFoundError, InputError, ValueError, KeyError, TypeError) as error:
                unreadable.append(Outcome(place.name, failure=f"its files: {in_words(error)}"))
        for name, tables in found.items():
            if tables:
                kept = results.of_others(folder / name, results.SCHEMAS[name], here)
                results.write(pa.concat_tables([*kept, *tables]), folder / name)
    return unreadable


def jobs_for(cells: Sequence[Cell], tests: Mapping[Cell, Sequence[str]] | None = None) -> list[Job]:
    """The jobs of cells, with the tests that are wanted for each."""
    return [Job(cell, tuple((tests or {}).get(cell, ()))) for cell in cells]


def unfinished(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """The jobs that still have something to do in a folder.

    Raises
    ------
    InputError
        the folder is something else than one of a sweep.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder")
    return [job for job in jobs if not job.finished(folder)]
