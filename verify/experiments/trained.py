"""Trained models read back, by people who may point at anything.

A safetensors file is a table of numbers behind a header of JSON: reading one runs no code, which
is why no other kind is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors

from constructions.errors import InputError
from verify.experiments.cells import Cell
from verify.experiments.runs import MODELS


@dataclass(frozen=True)
class Trained:
    """The models of a run.

    Attributes
    ----------
    cell : what was trained
    parameters : by name, (models, ...) float64 tensors, finite, one model for each seed of the cell
    source : the file
    """

    cell: Cell
    parameters: dict[str, Any]
    source: Path

    def of_seed(self, seed: int) -> dict[str, Any]:
        """The parameters of one model.

        Raises
        ------
        InputError
            no model has this seed.
        """
        if seed not in self.cell.seeds:
            listed = ", ".join(map(str, self.cell.seeds[:20]))
            more = ", ..." if len(self.cell.seeds) > 20 else ""
            raise InputError(f"{self.source} has no model of seed {seed}; it has {listed}{more}")
        at = self.cell.seeds.index(seed)
        return {name: stack[at] for name, stack in self.parameters.items()}


def read_trained(path: Path) -> Trained:
    """The models in a folder of `leanlloyd train`, or in its models.safetensors.

    Raises
    ------
    InputError
        there are none, the file is of another kind, or it does not fit the settings beside it.
    """
    file = path / MODELS if path.is_dir() else path
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        where = f"no {MODELS} in it: no run, or not finished" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {where}") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None
    try:
        stacks = load_tensors(data)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{file} is not a safetensors file; no other kind is read, as a pickle can run code "
            f"({error})"
        ) from None
    cell = _cell(file)
    _check(file, cell, stacks)
    return Trained(cell, {name: a.double() for name, a in stacks.items()}, file)


def _cell(file: Path) -> Cell:
    try:
        return Cell.load(file.parent)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{file.parent / 'settings.json'}: cannot be read: {reason}") from None


def _check(file: Path, cell: Cell, stacks: dict[str, Any]) -> None:
    model, count = cell.settings.model, len(cell.seeds)
    extra = sorted(set(stacks) - set(model.names))
    missing = [name for name in model.names if name not in stacks]
    if extra or missing:
        what = f"has no {missing[0]}" if missing else f"has a {extra[0]} too many"
        raise InputError(
            f"{file} {what}: not the {MODELS} of a training with the settings beside it"
        )
    for name, stack in stacks.items():
        want = (count, *model.shape(name))
        if tuple(stack.shape) != want or not stack.dtype.is_floating_point:
            raise InputError(
                f"{file}: {name} has shape {tuple(stack.shape)} and type {stack.dtype}; the "
                f"settings beside it ask for floating-point numbers of shape {want}"
            )
        if not bool(torch.isfinite(stack).all()):
            raise InputError(f"{file}: {name} holds numbers that are not finite")
