"""A training run in a folder: it survives a kill at any moment and continues to the same bits.

    settings.json        what is trained; written first
    state.safetensors    a checkpoint: all that the future depends on, and the curve so far
    curve.csv            one row a validation and model
    record.json          processor seconds up to each validation, and the machine
    models.safetensors   the trained parameters, (models, ...) by name; written last

Each file is written beside its target and renamed. `state.safetensors` alone decides where a run
continues, so files of different ages do no harm.

Models are trained in stacks of at most `STACK`, whatever the number of processor cores, so that
the numbers do not depend on it. Cores run stacks side by side.
"""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from constructions.errors import InputError
from constructions.training import Look, Trainer
from verify.experiments.cells import Cell
from verify.files import begin_folder, complete_folder, write_atomically

STACK = 4
CHECKPOINT_EVERY = 10.0  # seconds
MODELS = "models.safetensors"
COLUMNS = ("step", "seed", "loss", "relative", "learning_rate")


class TrainingRun:
    """A cell being trained in a folder.

    Attributes
    ----------
    cell, folder : what and where
    looks : validations so far, each over all seeds
    seconds : of processor time, from the start to each of them
    resumed : the step it continued from, 0 for a new run

    Raises
    ------
    InputError
        the checkpoint in the folder belongs to other settings, or cannot be read.
    OSError
        the folder cannot be written.
    """

    def __init__(self, cell: Cell, folder: Path) -> None:
        self.cell, self.folder = cell, folder
        self.looks: list[Look] = []
        self.seconds: list[float] = []
        groups = [cell.seeds[i : i + STACK] for i in range(0, len(cell.seeds), STACK)]
        self.stacks = [
            Trainer([cell.settings] * len(seeds), seeds, cell.device) for seeds in groups
        ]
        self._stop = Event()
        self._restore()
        self.resumed = self.step
        text = json.dumps(cell.to_json(), indent=1) + "\n"
        begin_folder(folder)
        write_atomically(folder / "settings.json", text)

    @property
    def step(self) -> int:
        return self.stacks[0].step

    @property
    def diverged(self) -> dict[int, int]:
        """Seeds that were given up, and at which step."""
        steps = [s for stack in self.stacks for s in stack.diverged.tolist()]
        return {seed: s for seed, s in zip(self.cell.seeds, steps, strict=True) if s}

    @property
    def redraws(self) -> int:
        """Sampled values that were not finite and were drawn again."""
        return sum(int(stack.redraws.sum()) for stack in self.stacks)

    def proceed(self, workers: int = 1) -> Iterator[Look]:
        """Train to the end, one validation at a time, saving on the way.

        Left early, by an exception or an interrupt, it stops within a step and saves nothing more:
        stacks may stand at different steps then.
        """
        saved = time.monotonic()
        spent = (self.seconds[-1] if self.seconds else 0.0) - time.process_time()
        every = self.cell.settings.validate_every
        # a training that has run aground has gradients so small that each product takes ten times
        # as long; numbers below 1e-38 count as 0 in these threads
        pool = ThreadPoolExecutor(workers, "train", torch.set_flush_denormal, (True,))
        self._stop.clear()
        try:
            while self.step < self.cell.steps:
                target = min((self.step // every + 1) * every, self.cell.steps)
                jobs = [pool.submit(self._advance, stack, target) for stack in self.stacks]
                look = _joined([job.result() for job in jobs])
                self.looks.append(look)
                self.seconds.append(spent + time.process_time())
                if time.monotonic() - saved > CHECKPOINT_EVERY:
                    self.save()
                    saved = time.monotonic()
                yield look
            self.save()
            record = {
                "seconds": [round(s, 2) for s in self.seconds],
                "redraws": self.redraws,
                "machine": machine(),
            }
            write_atomically(self.folder / "record.json", json.dumps(record) + "\n")
            write_atomically(self.folder / MODELS, save_tensors(self._models()))
            complete_folder(self.folder)
        finally:
            self._stop.set()
            pool.shutdown(cancel_futures=True)

    def _advance(self, stack: Trainer, step: int) -> Look:
        while stack.step < step:
            if self._stop.is_set():
                raise CancelledError
            stack.advance()
        return stack.validate()

    def save(self) -> None:
        """Write a checkpoint and the curve."""
        tensors = {
            f"{i}/{name}": tensor.contiguous()
            for i, stack in enumerate(self.stacks)
            for name, tensor in stack.state().items()
        }
        tensors["curve"] = torch.tensor(
            [[[float(look.step)] * len(look.loss), *look[1:]] for look in self.looks],
            dtype=torch.float64,
        ).reshape(len(self.looks), 4, len(self.cell.seeds))
        tensors["seconds"] = torch.tensor(self.seconds, dtype=torch.float64)
        metadata = {"cell": json.dumps(self.cell.to_json())}
        write_atomically(self.folder / "state.safetensors", save_tensors(tensors, metadata))
        write_atomically(self.folder / "curve.csv", curve_csv(self.looks, self.cell.seeds))

    def _restore(self) -> None:
        file = self.folder / "state.safetensors"
        if not file.exists():
            return
        data = file.read_bytes()
        try:
            tensors = load_tensors(data)
            saved = Cell.from_json(json.loads(_metadata(data)["cell"]))
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file} is not a checkpoint: {error}") from None
        if saved != self.cell:
            mine, other = _flat(self.cell), _flat(saved)
            names = [name for name in mine if other[name] != mine[name]]
            raise InputError(f"{file} belongs to a run with another {', '.join(names)}")
        for i, stack in enumerate(self.stacks):
            mark = f"{i}/"
            stack.restore({n[len(mark) :]: t for n, t in tensors.items() if n.startswith(mark)})
        self.looks = [
            Look(int(step[0]), *(row.tolist() for row in rest)) for step, *rest in tensors["curve"]
        ]
        self.seconds = tensors["seconds"].tolist()

    def _models(self) -> dict[str, Any]:
        parts = [stack.parameters() for stack in self.stacks]
        return {name: torch.cat([p[name] for p in parts]).contiguous() for name in parts[0]}


def curve_csv(looks: Sequence[Look], seeds: Sequence[int]) -> str:
    """The curve as a table, one row a validation and model."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for look in looks:
        for seed, *numbers in zip(seeds, *look[1:], strict=True):
            writer.writerow([look.step, seed, *map(repr, numbers)])
    return out.getvalue()


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, lower and upper quartile of what is finite; NaN if nothing is."""
    finite = torch.tensor([v for v in values if math.isfinite(v)], dtype=torch.float64)
    if not len(finite):
        return math.nan, math.nan, math.nan
    low, middle, high = finite.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
    return float(middle), float(low), float(high)


def _joined(parts: Sequence[Look]) -> Look:
    return Look(
        parts[0].step,
        [v for part in parts for v in part.loss],
        [v for part in parts for v in part.relative],
        [v for part in parts for v in part.learning_rate],
    )


def _flat(cell: Cell) -> dict[str, Any]:
    data = cell.to_json()
    return dict(data.pop("settings") | data)


def machine() -> str:
    """The processor and the libraries that computed, in words."""
    parts = [platform.machine(), platform.system(), f"torch {torch.__version__}"]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)


def _metadata(data: bytes) -> dict[str, str]:
    """The metadata of a safetensors file: its header is JSON after eight bytes of length."""
    length = int.from_bytes(data[:8], "little")
    return dict(json.loads(data[8 : 8 + length])["__metadata__"])
