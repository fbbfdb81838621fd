"""reproduce: the paper's experiments, from the training to the verdict."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from constructions import InputError
from verify import claims
from verify.claim import Evidence, Method, Table, to_json, verdict_of
from verify.claims.learning import _cauchy
from verify.claims.learning._deciding import judge
from verify.commands._sweeping import (
    carry_out,
    folder_option,
    jobs_option,
    scheduler_option,
    show_estimate,
)
from verify.console import CommandError, Exit
from verify.experiments import grids, sweep
from verify.experiments.evaluate import OF_ROW
from verify.experiments.results import Results, reference
from verify.files import write_atomically


@click.command("reproduce")
@click.argument("rows", nargs=-1, metavar="[ROW]...")
@click.option(
    "--scale",
    type=click.Choice(list(grids.SCALES)),
    default="laptop",
    show_default=True,
    help="paper: n = 512, 10000 steps, 10 seeds; laptop: 128, 5000, 5; smoke: whether it works.",
)
@folder_option("default: runs/reproduce-SCALE")
@jobs_option
@scheduler_option
@click.option("--estimate", is_flag=True, help="Only say how long it will take on this machine.")
@click.option(
    "--machines",
    type=click.IntRange(1, 100_000),
    default=1,
    help="With --estimate: also say how long on so many machines like this one, with --scheduler.",
)
@click.option("--list", "listed", is_flag=True, help="Only list the rows and their cells.")
@click.option(
    "--reference",
    "of_reference",
    is_flag=True,
    help="Train nothing; decide and draw from the results that come with the project.",
)
def reproduce(
    rows: tuple[str, ...],
    scale: str,
    out: Path | None,
    jobs: int | None,
    scheduler: str | None,
    estimate: bool,
    machines: int,
    listed: bool,
    of_reference: bool,
) -> int | None:
    """Repeat the paper's experiments: train, test, decide, draw.

    ROW is the name of a learning claim (`leanlloyd reproduce --list` shows all; the default is
    every one). Its cells are trained and tested, then each of its statements is decided by an
    interval for the median over the seeds, and its figures are drawn.

    \b
    Examples:
      leanlloyd reproduce multi-step --scale smoke
      leanlloyd reproduce --scale laptop --estimate
      leanlloyd reproduce --scale paper --estimate --machines 20
      leanlloyd reproduce learn-tau-1 learn-k --scale laptop
      leanlloyd reproduce multi-step --reference

    It can be killed at any moment; the same command continues it. Rows share their cells.
    """
    for row in rows:
        if row not in grids.GRIDS:
            raise CommandError(f"no row {row!r}; expected {', '.join(grids.GRIDS)}")
    wanted = rows or tuple(grids.GRIDS)
    if listed:
        for row in wanted:
            click.echo(f"{row}: {len(grids.cells(row, scale))} cells")
        return None
    folder = out or Path("runs") / f"reproduce-{scale}"
    tests: dict[Any, dict[str, None]] = {}
    for row in wanted:
        for cell in grids.cells(row, scale):
            tests.setdefault(cell, {}).update(dict.fromkeys(OF_ROW.get(row, ())))
    if estimate:
        show_estimate(list(tests), folder, machines)
        return None
    code = Exit.OK
    if not of_reference:
        todo = sweep.jobs_for(list(tests), {cell: tuple(names) for cell, names in tests.items()})
        code = Exit(carry_out(todo, folder, jobs, scheduler))
    try:
        found = Results(reference() if of_reference else folder)
    except InputError as error:
        raise CommandError(str(error)) from None
    for row in wanted:
        _decide(row, scale, found, folder / "figures")
    return code


def _decide(row: str, scale: str, results: Results, folder: Path) -> None:
    """Print the statements of a row with their answers, and draw its figures."""
    from verify.report import figures

    module = _module(row)
    evidence = Evidence(scale, Method.EXPERIMENT)
    judge(evidence, {scale: module.statements(scale)}, results)
    claim = claims.get(row)
    verdict = verdict_of(claim, [evidence]) if not claim.hypotheses else ""
    click.echo(f"\n{row}: {verdict or claim.title}" + (f" ({evidence.note})" * bool(evidence.note)))
    for table in evidence.tables[:1]:
        _print(table)
    drawn = module.figures(scale, results) if hasattr(module, "figures") and evidence.cases else []
    for table in drawn:
        data = to_json(asdict(table))
        if figures.drawable(data):
            path = folder / f"{row}-{table.name}.svg"
            write_atomically(path, figures.svg_file(data))
            click.echo(f"drawn: {path}")


def _module(row: str) -> ModuleType:
    """The module with the statements of a row."""
    return _cauchy if row == _cauchy.ROW else claims.registry()[row][2]


def _print(table: Table) -> None:
    for says, _, middle, low, high, stated, seeds, answer in table.rows:
        if middle is None:
            click.echo(f"  {answer:9} {says} {stated}")
            continue
        ends = ", ".join("?" if v is None else f"{v:.3g}" for v in (low, high))
        click.echo(f"  {answer:9} {says} {stated}: {middle:.3g} [{ends}], {seeds} seeds")


COMMANDS = (reproduce,)
