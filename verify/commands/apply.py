"""apply: a trained model on the points of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from constructions import InputError
from verify.audit.reading import read_table
from verify.audit.starting import INITS
from verify.commands._reading import how_from, reading_options, say_left_out
from verify.console import CommandError, print_json
from verify.files import write_atomically


@click.command("apply")
@click.argument("model", required=False)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="Name the models that ship with leanlloyd.")
@click.option("--which", type=int, metavar="SEED", help="The model of this seed.  [default: first]")
@click.option("--steps", type=click.IntRange(0), default=5, show_default=True, help="Steps.")
@click.option(
    "--init",
    default="random",
    show_default=True,
    help=f"Initial centers: {', '.join(INITS)}, or a file with one center a row.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Of the initial centers, and of scikit-learn.",
)
@click.option("--array", help="Which array of a .npz file.")
@reading_options
@click.option("--figure", type=click.Path(path_type=Path), help="Write a figure: .svg or .png.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the result: .csv, .json or .npz."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def apply_command(
    model: str | None,
    file: Path | None,
    listing: bool,
    which: int | None,
    steps: int,
    init: str,
    seed: int,
    array: str | None,
    figure: Path | None,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Cluster the points in FILE with a trained model.

    MODEL is a folder of `leanlloyd train`, or the name of a shipped model. Points and centers are
    scaled as in the training, the centers come back in your units, and their k-means loss is shown
    beside that of Lloyd's algorithm from the same start and of scikit-learn. docs/apply.md explains
    what is printed.

    \b
    Examples:
      leanlloyd apply --list
      leanlloyd apply d2-k3-one_hot points.csv
      leanlloyd apply d2-k3-binary points.tsv --columns x,y --missing drop
      leanlloyd apply runs/mine points.csv --steps 20 --init k-means++ --seed 3
      leanlloyd apply d4-k6-binary points.npy --out result.npz --figure result.svg
    """
    from verify.applying import ENDINGS, FIGURES, applied, draw, file_of, text_of
    from verify.clusterer import find_model, shipped

    if listing:
        for name in shipped():
            s = find_model(name).cell.settings
            click.echo(f"{name}: d = {s.d}, k = {s.k}, code {s.code}, trained on n = {s.n}")
        return
    if model is None or file is None:
        raise CommandError(
            "give a model and a file of points: leanlloyd apply MODEL FILE; --list names the "
            "models that ship"
        )
    for name, target, endings in (("--out", out, ENDINGS), ("--figure", figure, FIGURES)):
        if target is not None and target.suffix.lower() not in endings:
            raise CommandError(f"{name} {target}: allowed endings: {', '.join(endings)}")
    table = read_table(file, array, how_from(options))
    say_left_out(table)
    try:
        trained = find_model(model)
        first = trained.cell.seeds[0] if which is None else which
        found = applied(trained, first, table, steps, init, seed)
    except InputError as error:
        raise CommandError(str(error)) from None
    X = table.values.astype(float)
    try:
        if out is not None:
            write_atomically(out, file_of(found, X, out.suffix.lower()))
        if figure is not None:
            write_atomically(figure, draw(found, X, figure))
    except OSError as error:
        raise CommandError(f"cannot write {error.filename}: {error.strerror or error}") from None
    if as_json:
        print_json(found)
    else:
        click.echo(text_of(found))


COMMANDS = (apply_command,)
