"""What `sweep` and `reproduce` share: jobs with progress, failures and an exit code."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from constructions import InputError
from verify.console import CommandError, Exit, progress
from verify.experiments import cluster, sweep, workers
from verify.experiments.cells import Cell
from verify.experiments.estimates import elapsed, estimate
from verify.experiments.sweep import Job, Outcome, SweepError

_Command = Callable[..., Any]


def folder_option(default: str) -> Callable[[_Command], _Command]:
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        help=f"Folder of the cells; what is finished there is not computed again.  [{default}]",
    )


jobs_option = click.option(
    "-j", "--jobs", type=int, help="Processes, a cell each.  [default: all cores]"
)
scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Of a Dask cluster to use instead, such as tcp://127.0.0.1:8786. Its workers must see "
    "the folder.",
)


def carry_out(
    jobs: Sequence[Job], folder: Path, processes: int | None, scheduler: str | None
) -> int:
    """Do what is left of the jobs, write the tables, report failures; returns the exit code."""
    if processes is not None and processes < 1:
        raise CommandError(f"--jobs {processes} is out of range; allowed: integers >= 1")
    folder = folder.absolute()
    failed: list[Outcome] = []
    try:
        todo = sweep.unfinished(jobs, folder)
        folder.mkdir(parents=True, exist_ok=True)
        click.echo(
            f"{len(jobs)} cells, {len(jobs) - len(todo)} of them finished before; {folder}",
            err=True,
        )
        outcomes = (
            cluster.on_cluster(todo, folder, scheduler, _say)
            if scheduler
            else workers.local(todo, folder, processes or os.cpu_count() or 1, _say)
        )
        try:
            with contextlib.closing(outcomes):
                shown = progress(outcomes, len(todo), _line, "cells")
                failed.extend(outcome for outcome in shown if outcome.failure)
        finally:
            failed.extend(sweep.collect(folder))
    except InputError as error:
        raise CommandError(str(error)) from None
    except SweepError as error:
        raise CommandError(str(error), Exit.INFRASTRUCTURE) from None
    except OSError as error:
        what = f"{error.strerror}: {error.filename or folder}" if error.strerror else str(error)
        raise CommandError(f"cannot write the sweep: {what}", Exit.INFRASTRUCTURE) from None
    for outcome in failed:
        click.echo(f"failed: {_line(outcome)}")
    click.echo(f"{len(jobs) - len(failed)} of {len(jobs)} cells finished; tables in {folder}")
    return Exit.FAILED if failed else Exit.OK


def show_estimate(cells: Sequence[Cell], folder: Path, machines: int = 1) -> None:
    """Print how many cells there are and how long they will take here."""
    jobs = sweep.jobs_for(cells)
    left = {job.cell.name for job in sweep.unfinished(jobs, folder)}

    def timed(done: int, total: int) -> None:
        click.echo(f"[{done}/{total} shapes timed]", err=True)

    found = estimate(cells, on_shape=timed)
    todo = [hours for name, hours in found.hours.items() if name in left]
    rest = sum(todo)
    cores = os.cpu_count() or 1
    models = sum(len(cell.seeds) for cell in cells)
    click.echo(f"{len(cells)} cells, {models} models, {len(cells) - len(left)} cells finished")
    click.echo(f"{found.total:.1f} processor hours in all, {rest:.1f} of them left")
    click.echo(f"about {elapsed(todo, cores):.1f} hours with {cores} processes on this machine")
    if machines > 1:
        hours = elapsed(todo, machines * cores)
        click.echo(f"about {hours:.1f} hours on {machines} machines like this one (--scheduler)")


def _line(outcome: Outcome) -> str:
    if outcome.failure:
        return f"{outcome.name}: {outcome.failure}"
    middle, low, high = outcome.relative
    lost = f"{outcome.diverged} diverged" if outcome.diverged else ""
    if math.isnan(middle):
        return f"{outcome.name}: {lost}"
    found = f"{middle:.3f} of one Lloyd step (quartiles {low:.3f}, {high:.3f})"
    return f"{outcome.name}: " + ", ".join(filter(None, [found, lost]))


def _say(text: str) -> None:
    click.echo(text, err=True)
