"""bench: how fast it is."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click

from verify.bench import NAMES
from verify.claim import Table, to_json
from verify.console import CommandError, Exit, print_json, progress


@click.command("bench")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True,
              help="Times each contestant runs; medians are printed.")  # fmt: skip
@click.option("--list", "as_list", is_flag=True, help="Name the benches and stop.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def bench_command(names: tuple[str, ...], rounds: int, as_list: bool, as_json: bool) -> int:
    """How fast it is: ratios of process CPU times, contestants in turn, measured in one run.

    \b
    Examples:
      leanlloyd bench rationals surrogate
      leanlloyd bench --list
      leanlloyd bench lloyd --rounds 9 --json
    """
    if as_list:
        for name in NAMES:
            click.echo((import_module(f"verify.bench.{name}").__doc__ or "").splitlines()[0])
        return int(Exit.OK)
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise CommandError(f"unknown bench {unknown[0]!r}; allowed: {', '.join(NAMES)}")
    wanted = list(dict.fromkeys(names)) or list(NAMES)
    missing: list[str] = []
    found = progress(_measured(wanted, rounds, missing), len(wanted), lambda i: i[0], "benches")
    tables = [table for _, of_bench in found for table in of_bench]
    if as_json:
        print_json({"machine": _machine(), "rounds": rounds, "tables": [_plain(t) for t in tables]})
    else:
        click.echo(f"{_machine()}; medians of {rounds} rounds")
        for table in tables:
            _print(table)
    if missing:
        raise CommandError("; ".join(missing), Exit.INFRASTRUCTURE)
    return int(Exit.OK)


COMMANDS = (bench_command,)


def _measured(
    names: list[str], rounds: int, missing: list[str]
) -> Iterator[tuple[str, list[Table]]]:
    """The tables of each bench; what could not be run is said in `missing`."""
    for name in names:
        try:
            found = import_module(f"verify.bench.{name}").measure(rounds=rounds)
        except ModuleNotFoundError as error:
            missing.append(
                f"bench {name} not run: {error.name} is not installed; pip install {error.name}"
            )
            found = []
        yield name, [found] if isinstance(found, Table) else found


def _machine() -> str:
    return f"{platform.machine()} {platform.system()}, Python {platform.python_version()}"


def _plain(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "columns": list(table.columns),
        "rows": to_json(table.rows),
    }


def _print(table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(title=table.title, title_justify="left", box=box.SIMPLE)
    for column in table.columns:
        grid.add_column(column, justify="right", overflow="fold")
    for row in table.rows:
        grid.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row))
    Console().print(grid)
