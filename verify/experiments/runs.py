"""A training run in a folder: it survives a kill at any moment and continues to the same bits.

    settings.json        what is trained; written first
    state.safetensors    a checkpoint: all that the future depends on, and the curve so far
    curve.csv            one row a validation and model
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
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from constructions.errors import InputError
from constructions.training import Look, Settings, Trainer
from verify.files import write_atomically

STACK = 4
CHECKPOINT_EVERY = 10.0  # seconds
FORMAT = 1
COLUMNS = ("step", "seed", "loss", "relative", "learning_rate")


@dataclass(frozen=True)
class Plan:
    """One configuration, trained from several seeds."""

    settings: Settings
    seeds: tuple[int, ...]
    steps: int
    device: str = "cpu"

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "settings": asdict(self.settings)} | {
            "seeds": list(self.seeds),
            "steps": self.steps,
            "device": self.device,
        }

    @classmethod
    def load(cls, folder: Path) -> Plan:
        """The plan of the run in a folder.

        Raises
        ------
        InputError
            there is none, or it is not one of this version.
        """
        file = folder / "settings.json"
        try:
            data = json.loads(file.read_text("utf-8"))
            if data["format"] != FORMAT:
                raise InputError(f"{file} has format {data['format']}; this version reads {FORMAT}")
            settings = Settings(**data["settings"])
            return cls(settings, tuple(data["seeds"]), data["steps"], data["device"])
        except FileNotFoundError:
            raise InputError(f"{folder} holds no training run: no settings.json in it") from None
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{file} cannot be read: {error}") from None


class TrainingRun:
    """A plan being carried out in a folder.

    Attributes
    ----------
    plan, folder : what and where
    looks : validations so far, each over all seeds
    resumed : the step it continued from, 0 for a new run

    Raises
    ------
    InputError
        the checkpoint in the folder belongs to other settings, or cannot be read.
    OSError
        the folder cannot be written.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.looks: list[Look] = []
        groups = [plan.seeds[i : i + STACK] for i in range(0, len(plan.seeds), STACK)]
        self.stacks = [
            Trainer([plan.settings] * len(seeds), seeds, plan.device) for seeds in groups
        ]
        self._stop = Event()
        self._restore()
        self.resumed = self.step
        text = json.dumps(plan.to_json(), indent=1) + "\n"
        write_atomically(folder / "settings.json", text)

    @property
    def step(self) -> int:
        return self.stacks[0].step

    @property
    def diverged(self) -> dict[int, int]:
        """Seeds that were given up, and at which step."""
        steps = [s for stack in self.stacks for s in stack.diverged.tolist()]
        return {seed: s for seed, s in zip(self.plan.seeds, steps, strict=True) if s}

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
        every = self.plan.settings.validate_every
        pool = ThreadPoolExecutor(workers)
        self._stop.clear()
        try:
            while self.step < self.plan.steps:
                target = min((self.step // every + 1) * every, self.plan.steps)
                jobs = [pool.submit(self._advance, stack, target) for stack in self.stacks]
                look = _joined([job.result() for job in jobs])
                self.looks.append(look)
                if time.monotonic() - saved > CHECKPOINT_EVERY:
                    self.save()
                    saved = time.monotonic()
                yield look
            self.save()
            write_atomically(self.folder / "models.safetensors", save_tensors(self._models()))
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
        ).reshape(len(self.looks), 4, len(self.plan.seeds))
        metadata = {"plan": json.dumps(_identity(self.plan))}
        write_atomically(self.folder / "state.safetensors", save_tensors(tensors, metadata))
        write_atomically(self.folder / "curve.csv", curve_csv(self.looks, self.plan.seeds))

    def _restore(self) -> None:
        file = self.folder / "state.safetensors"
        if not file.exists():
            return
        data = file.read_bytes()
        try:
            tensors = load_tensors(data)
            saved = json.loads(_metadata(data)["plan"])
        except (SafetensorError, KeyError, ValueError) as error:
            raise InputError(f"{file} is not a checkpoint: {error}") from None
        mine = _identity(self.plan)
        if saved != mine:
            names = [name for name in mine if saved.get(name) != mine[name]]
            raise InputError(f"{file} belongs to a run with another {', '.join(names)}")
        for i, stack in enumerate(self.stacks):
            mark = f"{i}/"
            stack.restore({n[len(mark) :]: t for n, t in tensors.items() if n.startswith(mark)})
        self.looks = [
            Look(int(step[0]), *(row.tolist() for row in rest)) for step, *rest in tensors["curve"]
        ]

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


def _identity(plan: Plan) -> dict[str, Any]:
    """What a checkpoint must agree in."""
    data = plan.to_json()
    return data.pop("settings") | data


def _metadata(data: bytes) -> dict[str, str]:
    """The metadata of a safetensors file: its header is JSON after eight bytes of length."""
    length = int.from_bytes(data[:8], "little")
    return dict(json.loads(data[8 : 8 + length])["__metadata__"])
