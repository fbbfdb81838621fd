"""bench sampling: a batch of tasks at once against one task at a time."""

from __future__ import annotations

from typing import Any

import torch

from constructions.streams import sample, stream
from constructions.tasks import TaskDistribution
from verify.bench._measure import in_turn
from verify.bench._plain import sample_batch
from verify.claim import Table

SHAPES = ((4, 6), (32, 6), (32, 25))


def measure(rounds: int = 9) -> Table:
    """32 tasks of 512 points."""
    torch.set_num_threads(1)
    rows = [_row(d, k, rounds) for d, k in SHAPES]
    return Table(
        "bench-sampling",
        "Sampling 32 tasks of 512 points, process CPU time, one thread",
        ("d", "k", "one task at a time, ms", "batch at once, ms", "ratio"),
        rows,
    )


def _row(d: int, k: int, rounds: int) -> list[Any]:
    distribution, streams = TaskDistribution(d=d, k=k), [stream("cpu", 0)]
    times = in_turn(
        {
            "plain": lambda: sample_batch(32, 512, d, k),
            "fast": lambda: sample(distribution, streams, 32),
        },
        rounds,
    )
    return [d, k, times["plain"], times["fast"], times["plain"] / times["fast"]]
