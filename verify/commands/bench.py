"""bench: how fast it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

from verify.bench import NAMES, ON_GPU
from verify.bench.recorded import to_record
from verify.claim import Table
from verify.commands._shared import require_device
from verify.console import CommandError, Exit, print_json, progress
from verify.files import STANDARD_OUTPUT, write_atomically


@click.command("bench")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True,
              help="Times each contestant runs; medians are printed.")  # fmt: skip
@click.option("--list", "as_list", is_flag=True, help="Name the benches and stop.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option("--out", type=click.Path(path_type=Path),
              help="Write the tables, with machine and day, to this file, too.")  # fmt: skip
@click.option("--device", default="cpu", show_default=True,
              help=f"cpu, or cuda for {', '.join(ON_GPU)}.")  # fmt: skip
def bench_command(
    names: tuple[str, ...], rounds: int, as_list: bool, as_json: bool, out: Path | None, device: str
) -> int:
    """How fast it is: ratios, contestants in turn, measured in one run.

    Times are process CPU time; train counts steps a second on the clock on the wall.

    \b
    Examples:
      leanlloyd bench rationals surrogate
      leanlloyd bench --list
      leanlloyd bench lloyd --rounds 9 --json
      leanlloyd bench attention --out reports/data/table-1.json
    """
    if as_list:
        for name in NAMES:
            click.echo((import_module(f"verify.bench.{name}").__doc__ or "").splitlines()[0])
        return int(Exit.OK)
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise CommandError(f"unknown bench {unknown[0]!r}; allowed: {', '.join(NAMES)}")
    require_device(device)
    allowed = ON_GPU if device == "cuda" else NAMES
    wanted = list(dict.fromkeys(names)) or list(allowed)
    elsewhere = sorted(set(wanted) - set(allowed))
    if elsewhere:
        raise CommandError(f"bench {elsewhere[0]} has no --device cuda; {', '.join(ON_GPU)} have")
    missing: list[str] = []
    found = progress(
        _measured(wanted, rounds, device, missing), len(wanted), lambda i: i[0], "benches"
    )
    tables = [table for _, of_bench in found for table in of_bench]
    record = to_record(tables, rounds, device)
    if out == STANDARD_OUTPUT:
        out, as_json = None, True
    if out is not None:
        try:
            write_atomically(out, json.dumps(record, indent=1, allow_nan=False) + "\n")
        except OSError as error:
            raise CommandError(
                f"cannot write {out}: {error.strerror}", Exit.INFRASTRUCTURE
            ) from None
    if as_json:
        print_json(record)
    else:
        click.echo(f"{'; '.join(record['machine'].values())}; medians of {rounds} rounds")
        for table in tables:
            _print(table)
    if missing:
        raise CommandError("; ".join(missing), Exit.INFRASTRUCTURE)
    return int(Exit.OK)


COMMANDS = (bench_command,)


def _measured(
    names: list[str], rounds: int, device: str, missing: list[str]
) -> Iterator[tuple[str, list[Table]]]:
    """The tables of each bench; what could not be run is said in `missing`."""
    options = {} if device == "cpu" else {"device": device}
    for name in names:
        try:
            found = import_module(f"verify.bench.{name}").measure(rounds=rounds, **options)
        except ModuleNotFoundError as error:
            missing.append(
                f"bench {name} not run: {error.name} is not installed; pip install {error.name}"
            )
            found = []
        yield name, [found] if isinstance(found, Table) else found


def _print(table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(title=table.title, title_justify="left", box=box.SIMPLE)
    for column in table.columns:
        grid.add_column(column, justify="right", overflow="fold")
    for row in table.rows:
        grid.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row))
    # a pipe has no width; rich would take 80 columns and fold every number
    Console(width=None if sys.stdout.isatty() else 200).print(grid)
