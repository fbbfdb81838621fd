"""audit: what the theory says about the data of the user."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import click

from constructions import InputError
from verify.audit.columns import How
from verify.audit.finite import CODES
from verify.audit.reading import DATASETS, EXTENSIONS, Table, read_dataset, read_table
from verify.audit.starting import INITS, SCALES
from verify.commands._reading import how_from, reading_options
from verify.console import CommandError, Exit, print_json
from verify.files import STANDARD_OUTPUT, write_atomically

_RATIONAL_CODES = tuple(name for name in CODES if name != "circle")
_FIGURES = (".svg", ".png")


@click.command("audit")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help=f"Instead of FILE, from scikit-learn: {', '.join(DATASETS)}.")
@click.option("-k", "--k", "k", type=int, help="Number of clusters (needed).")
@click.option("--array", help="Which array of a .npz file.")
@reading_options
@click.option("--steps", type=int, default=5, show_default=True, help="Lloyd steps to run beside.")
@click.option(
    "--init",
    default="first-k",
    show_default=True,
    help=f"Initial centers: {', '.join(INITS)}, or a file with one center a row.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="For random and k-means++.")
@click.option(
    "--scale",
    default="none",
    show_default=True,
    help=f"{', '.join(SCALES)}. Only a common scale keeps the k-means problem.",
)
@click.option(
    "--code",
    "codes",
    multiple=True,
    help=f"Code of the transformer that is run, repeatable: {', '.join(_RATIONAL_CODES)}.  "
    "[default: binary]",
)
@click.option(
    "--epsilon", type=float, default=1e-3, show_default=True, help="Error at finite gamma."
)
@click.option("--gamma", type=float, help="Bound and run at this inverse temperature.")
@click.option(
    "--tau", "temperatures", type=float, multiple=True, help="Repeatable.  [default: 1, 0.25, 0.1]"
)
@click.option("--figure", type=click.Path(path_type=Path), help="Write a figure: .svg or .png.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the JSON here; - prints it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def audit_command(
    file: Path | None,
    dataset: str | None,
    k: int | None,
    array: str | None,
    steps: int,
    init: str,
    seed: int,
    scale: str,
    codes: tuple[str, ...],
    epsilon: float,
    gamma: float | None,
    temperatures: tuple[float, ...],
    figure: Path | None,
    out: Path | None,
    as_json: bool,
    **options_of_reading: Any,
) -> None:
    """What the theory says about your data: FILE has one point a row; - is standard input.

    FILE is text (CSV, TSV, blanks; compressed or not), Parquet, Feather, .npy or .npz. How a text
    file is written is found out, and asked where it is not clear. Text and index columns are left
    out, and the report says so.

    Runs the exact transformer beside Lloyd's algorithm, in rationals; says how large an inverse
    temperature gamma and how small a temperature tau the data need, and what float32 and float64
    cannot decide. docs/audit.md explains every line.

    \b
    Examples:
      leanlloyd audit points.csv -k 3
      leanlloyd audit wine.csv -k 3 --delimiter ";" --decimal , --columns 2-5
      zcat points.tsv.gz | leanlloyd audit - -k 3 --missing drop --values written
      leanlloyd audit old.txt -k 3 --encoding latin-1 --drop id,label --no-header --thousands .
      leanlloyd audit --dataset iris -k 3 --figure iris.svg
      leanlloyd audit data.npz --array X -k 10 --init k-means++ --scale common --json
    """
    from verify.audit.report import Options, audit
    from verify.audit.text import render

    if k is None:
        raise CommandError("say how many clusters: -k K")
    options = Options(
        k=k,
        steps=_at_least("--steps", steps, 1),
        codes=_codes(codes),
        epsilon=_positive("--epsilon", epsilon),
        gamma=None if gamma is None else _positive("--gamma", gamma),
        temperatures=tuple(_positive("--tau", t) for t in temperatures) or Options.temperatures,
        init=init,
        scale=scale,
        seed=_seed(seed),
    )
    if figure is not None and figure.suffix.lower() not in _FIGURES:
        raise CommandError(f"--figure {figure}: allowed endings: {', '.join(_FIGURES)}")
    if out == STANDARD_OUTPUT:
        out, as_json = None, True
    for name, target in (("--figure", figure), ("--out", out)):
        _require_writable(name, target)
    table = _table(file, dataset, array, how_from(options_of_reading))
    try:
        found = audit(table, options)
    except InputError as error:
        raise CommandError(f"{table.source}: {error}") from None
    _write(found, figure, out)
    if as_json:
        print_json(found)
    else:
        click.echo(render(found, shutil.get_terminal_size().columns))


COMMANDS = (audit_command,)


def _table(file: Path | None, dataset: str | None, array: str | None, how: How) -> Table:
    if file is not None and dataset is not None:
        raise CommandError(f"FILE and --dataset exclude each other: {file}, {dataset}")
    if dataset is not None:
        if array is not None:
            raise CommandError("--array is for .npz files, not for --dataset")
        return read_dataset(dataset, how)
    if file is None:
        raise CommandError(
            f"nothing to audit: give a file ({', '.join(EXTENSIONS)}) or --dataset "
            f"({', '.join(DATASETS)})"
        )
    return read_table(file, array, how)


def _codes(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name == "circle":
            raise CommandError(
                "--code circle: its cosines are not rational, so there is no exact run; allowed: "
                f"{', '.join(_RATIONAL_CODES)} (the certificate of the circle code is always shown)"
            )
        if name not in _RATIONAL_CODES:
            raise CommandError(f"--code {name}: unknown; allowed: {', '.join(_RATIONAL_CODES)}")
    return tuple(dict.fromkeys(names)) or ("binary",)


def _positive(name: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise CommandError(f"{name} {value:g} is out of range; allowed: positive finite numbers")
    return value


def _at_least(name: str, value: int, minimum: int) -> int:
    if value < minimum:
        raise CommandError(f"{name} {value} is out of range; allowed: integers >= {minimum}")
    return value


def _seed(value: int) -> int:
    if not 0 <= value < 2**32:
        raise CommandError(f"--seed {value} is out of range; allowed: integers from 0 to 2^32 - 1")
    return value


def _require_writable(name: str, target: Path | None) -> None:
    """Find out before the work, not after it."""
    if target is None or target == STANDARD_OUTPUT:
        return
    folder = target.parent
    if target.is_dir():
        raise CommandError(f"{name} {target} is a folder; give a file")
    if not folder.is_dir():
        raise CommandError(f"{name} {target}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{name} {target}: the folder {folder} is not writable")


def _write(found: dict[str, Any], figure: Path | None, out: Path | None) -> None:
    try:
        if figure is not None:
            from verify.audit.figure import draw

            write_atomically(figure, draw(found, figure))
        if out is not None:
            text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
            write_atomically(out, text + "\n")
    except OSError as error:
        raise CommandError(
            f"cannot write {error.filename}: {error.strerror or error}", Exit.INFRASTRUCTURE
        ) from None
