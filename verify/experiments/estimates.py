"""How long a sweep will take on this machine, from a measured step of every distinct shape."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from constructions.training import Settings, Trainer
from verify.experiments.cells import Cell
from verify.experiments.runs import STACK
from verify.experiments.sweep import prepare


@dataclass
class Estimate:
    """Expected processor hours of cells, from measured training steps."""

    hours: dict[str, float] = field(default_factory=dict)  # by cell

    @property
    def total(self) -> float:
        return sum(self.hours.values())


def elapsed(hours: Sequence[float], workers: int) -> float:
    """Hours until workers that each take the next cell when they are free have done all."""
    busy = [0.0] * workers
    for each in hours:
        heapq.heapreplace(busy, busy[0] + each)
    return max(busy)


def estimate(
    cells: Sequence[Cell], steps: int = 3, on_shape: Callable[[int, int], None] | None = None
) -> Estimate:
    """Time a few steps of every distinct shape, and scale up. Validations are counted as steps.

    `on_shape` is called with (shapes timed, shapes in all).
    """
    prepare()
    found = Estimate()
    each: dict[Settings, float] = {}
    shapes = {_shape(cell) for cell in cells}
    for cell in cells:
        shape = _shape(cell)
        if shape not in each:
            each[shape] = _seconds(shape, steps)
            if on_shape is not None:
                on_shape(len(each), len(shapes))
        looks = cell.steps / shape.validate_every * shape.validation_batches / 3
        found.hours[cell.name] = each[shape] * len(cell.seeds) * (cell.steps + looks) / 3600
    return found


def _shape(cell: Cell) -> Settings:
    """What the time of a step depends on: the settings without those that only change numbers."""
    return replace(
        cell.settings,
        temperature=0.1,
        learning_rate=0.01,
        scaling="per-dimension",
        log_loss=False,
        relative_temperature=False,
    )


def _seconds(settings: Settings, steps: int) -> float:
    """Processor seconds of a training step of one model."""
    trainer = Trainer([settings] * STACK, range(STACK))
    trainer.advance()
    start = time.process_time()
    for _ in range(steps):
        trainer.advance()
    return (time.process_time() - start) / steps / STACK
