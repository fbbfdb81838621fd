"""sweep: a grid of training runs."""

from __future__ import annotations

from pathlib import Path

import click

from constructions import InputError
from verify.commands._sweeping import (
    carry_out,
    folder_option,
    jobs_option,
    scheduler_option,
    show_estimate,
)
from verify.console import CommandError
from verify.experiments import plans, sweep
from verify.experiments.cells import Cell


@click.command("sweep")
@click.argument("plan")
@folder_option("default: runs/PLAN")
@jobs_option
@scheduler_option
@click.option("--estimate", is_flag=True, help="Only say how long it will take on this machine.")
@click.option("--list", "listed", is_flag=True, help="Only list the cells.")
def command(
    plan: str,
    out: Path | None,
    jobs: int | None,
    scheduler: str | None,
    estimate: bool,
    listed: bool,
) -> int | None:
    """Train a grid of configurations, several seeds each.

    PLAN is paper, laptop or smoke (the configurations of all learning claims, in three sizes), or a
    TOML file:

    \b
      steps = 2000                    # training steps of every cell
      seeds = 5                       # models a cell
      [settings]                      # of every cell
      n = 128
      [[grid]]                        # every combination; any number of grids
      code = ["one_hot", "binary"]
      temperature = [0.1, 1.0]

    \b
    Examples:
      leanlloyd sweep smoke
      leanlloyd sweep laptop --estimate
      leanlloyd sweep mine.toml -j 2 --out runs/mine
      leanlloyd sweep paper --scheduler tcp://127.0.0.1:8786

    It can be killed at any moment; the same command continues it. A cell that fails does not stop
    the others: it is listed at the end, and the exit code is 1. The folder receives curves.parquet,
    one row a validation and model; docs/training.md describes it.
    """
    cells = read_cells(plan)
    folder = out or Path("runs") / Path(plan).stem
    if listed:
        for cell in cells:
            click.echo(cell.name)
        return None
    if estimate:
        show_estimate(cells, folder)
        return None
    return carry_out(sweep.jobs_for(cells), folder, jobs, scheduler)


def read_cells(plan: str) -> list[Cell]:
    try:
        return plans.read(plan)
    except InputError as error:
        raise CommandError(str(error)) from None


COMMANDS = (command,)
