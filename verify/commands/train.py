"""train: many seeds of one configuration at once."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import torch
from click.core import ParameterSource

from constructions import InputError
from constructions.codes import NAMED
from constructions.tasks import FAMILIES, SCALINGS
from constructions.trainable import ATTENTIONS
from constructions.training import Look, Settings
from verify.commands._shared import require_device
from verify.console import CommandError, Exit, progress
from verify.experiments.cells import Cell
from verify.experiments.runs import TrainingRun, quartiles
from verify.memory import quick_memory

_DEFAULT = Settings()


def _setting(name: str, text: str, **options: Any) -> Any:
    """An option for a field of `Settings`, with the field's default."""
    default = getattr(_DEFAULT, name)
    options.setdefault("type", type(default))
    flag = f"--{name.replace('_', '-')}"
    flags = (f"-{name}", flag) if len(name) == 1 else (flag,)
    return click.option(*flags, name, default=default, show_default=True, help=text, **options)


_SETTINGS = (
    _setting("d", "Coordinates."),
    _setting("k", "Clusters."),
    _setting("n", "Points of a task, at least k."),
    _setting("code", f"Cluster code: {', '.join(NAMED)}."),
    click.option(
        "--gamma",
        "inverse_temperature",
        type=float,
        default=_DEFAULT.inverse_temperature,
        show_default=True,
        help="Inverse temperature of the attention.",
    ),
    click.option(
        "--bias/--no-bias", default=_DEFAULT.bias, show_default=True, help="In the projections."
    ),
    _setting("attention", f"How scores become weights: {', '.join(ATTENTIONS)}."),
    _setting("qkv_multiplier", "Width of queries and keys, in widths of a token."),
    _setting("dropout", "Of attention weights in training; much slower."),
    _setting("family", f"Of the mixtures: {', '.join(FAMILIES)}."),
    _setting("scale", "Scale parameter of every component."),
    click.option("--equal-weights/--unequal-weights", default=True, help="Of the components."),
    click.option("--isotropic/--anisotropic", default=True, help="Components."),
    _setting("scaling", f"Into the unit cube: {', '.join(SCALINGS)}."),
    _setting("regularizer", "ne, l2, or an entmax exponent >= 1.", type=str),
    click.option(
        "--tau",
        "temperature",
        type=float,
        default=_DEFAULT.temperature,
        show_default=True,
        help="Temperature of the surrogate.",
    ),
    click.option("--log-loss", is_flag=True, help="Train on the logarithm of each task's loss."),
    _setting("batch", "Tasks in a step."),
    _setting("learning_rate", "Of Adam, at the start."),
    _setting("patience", "Validations without improvement before the rate is halved."),
    _setting("validate_every", "Steps between validations."),
    _setting("validation_batches", "Batches of held-out tasks in a validation."),
)


@click.command("train")
@click.option("--seeds", default=10, show_default=True, help="Number of models: seeds 0, 1, ...")
@click.option("--seed", "first_seed", default=0, show_default=True, help="The first seed.")
@click.option("--steps", default=10_000, show_default=True, help="Training steps.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/…]"
)
@click.option("--resume", is_flag=True, help="Continue the run in the folder, to the same numbers.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--workers", type=int, help="Threads, a group of models each.  [default: all cores]")
@click.pass_context
def train(
    context: click.Context,
    /,
    seeds: int,
    first_seed: int,
    steps: int,
    out: Path | None,
    resume: bool,
    device: str,
    workers: int | None,
    **options: Any,
) -> None:
    """Train transformers to cluster, all seeds together.

    \b
    Example:
      leanlloyd train --d 4 --k 6 --code one_hot --regularizer l2 --tau 0.1 --seeds 10

    Shown are median and quartiles over the seeds of the k-means loss on held-out tasks, relative
    to that after one Lloyd step: below 1 is better than Lloyd. The run can be killed at any moment;
    the same command with --resume continues it. Its folder holds settings.json, curve.csv, and in
    the end models.safetensors.
    """
    if not 1 <= seeds <= 10_000:
        raise CommandError(f"--seeds {seeds} is out of range; allowed: 1 to 10000")
    if steps < 1:
        raise CommandError(f"--steps {steps} is out of range; allowed: integers >= 1")
    if workers is not None and workers < 1:
        raise CommandError(f"--workers {workers} is out of range; allowed: integers >= 1")
    try:
        options["regularizer"] = _number_or_name(options["regularizer"])
        cell = Cell(
            Settings(**options), tuple(range(first_seed, first_seed + seeds)), steps, device
        )
        folder = out or Path("runs") / cell.configuration
        cell = _of_folder(context, cell, folder, resume)
        require_device(cell.device)
        quick_memory()
        torch.set_num_threads(1)
        run = TrainingRun(cell, folder)
        _carry_out(run, workers or os.cpu_count() or 1)
    except InputError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        what = f"{error.strerror}: {error.filename or folder}" if error.strerror else str(error)
        raise CommandError(f"cannot write the run: {what}", Exit.INFRASTRUCTURE) from None


for _option in reversed(_SETTINGS):
    train = _option(train)


def _carry_out(run: TrainingRun, workers: int) -> None:
    cell = run.cell
    every = cell.settings.validate_every
    total = -(-cell.steps // every) - len(run.looks)
    click.echo(
        f"{len(cell.seeds)} models of d_emb = {cell.settings.model.d_emb}, {cell.steps} steps"
        + (f", continued from step {run.resumed}" if run.resumed else "")
        + f"; {run.folder}",
        err=True,
    )
    for _ in progress(run.proceed(workers), total, _line, "validations"):
        pass
    last = run.looks[-1]
    click.echo(_line(last))
    for seed, step in run.diverged.items():
        click.echo(f"seed {seed} diverged at step {step}: its loss was not finite")
    if run.redraws:
        click.echo(f"{run.redraws} sampled values were not finite and were drawn again")


def _line(look: Look) -> str:
    middle, low, high = quartiles(look.relative)
    return f"step {look.step}: {middle:.4f} of one Lloyd step (quartiles {low:.4f}, {high:.4f})"


def _of_folder(context: click.Context, cell: Cell, folder: Path, resume: bool) -> Cell:
    """The cell to carry out: what stands in the folder, when that is to be resumed."""
    if not (folder / "settings.json").exists():
        if resume and folder.exists() and any(folder.iterdir()):
            raise CommandError(f"{folder} holds no training run: no settings.json in it")
        return cell
    if not resume:
        raise CommandError(f"{folder} holds a run; --resume continues it, --out takes another one")
    stored = Cell.load(folder)
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    asked = {f.name: getattr(cell.settings, f.name) for f in fields(Settings)}
    had = {f.name: getattr(stored.settings, f.name) for f in fields(Settings)}
    asked |= {"seeds": cell.seeds, "steps": cell.steps, "device": cell.device}
    had |= {"seeds": stored.seeds, "steps": stored.steps, "device": stored.device}
    for name in asked:
        if name in given and asked[name] != had[name]:
            raise CommandError(
                f"the run in {folder} has {name} = {had[name]!r}, not {asked[name]!r}; "
                "take another --out"
            )
    return stored


def _number_or_name(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


COMMANDS = (train,)
