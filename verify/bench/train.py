"""bench train: training steps, the newcomer's loop against `constructions.training`."""

from __future__ import annotations

import os
from typing import Any

import torch

from constructions.streams import sample, stream
from constructions.training import Settings, Trainer
from verify.bench._measure import CLOCKS, fresh, in_turn
from verify.bench._plain import DROPOUT, PlainTraining, parameters_of
from verify.claim import Table
from verify.experiments.runs import STACK
from verify.memory import quick_memory

SHAPES = ((4, 6), (32, 6), (32, 25))
REGULARIZERS = ("ne", "l2")
ADAM_STEPS = 60
MODELS, STEPS = 3000, 10_000  # of the paper
PAPER_STEPS = MODELS * STEPS
PAPER_HOURS = 1000  # "about", for all of its models
STACKS = {"cpu": STACK, "cuda": 64}  # models in one computation
COLUMNS = (
    "d", "k", "loss",
    "plain as it comes, ms", "plain at its best, ms", "fast, ms a model",
    "as it comes / fast", "at its best / fast", "fast, model-steps/s on one core or GPU",
)  # fmt: skip


def measure(
    shapes: tuple[tuple[int, int], ...] = SHAPES,
    n: int = 512,
    batch: int = 32,
    rounds: int = 5,
    device: str = "cpu",
) -> list[Table]:
    """A step is everything: sampling, forward, loss, backward, Adam.

    "As it comes" is with dropout and the C library's allocator untouched; "at its best" without
    dropout and with an allocator that keeps its memory, as the fast one has it, too. Each of the
    two is measured in a process of its own beside the fast one. The second table says what the
    paper's 3,000 models would take here, on this device or on all cores of this processor, if all
    had one of the shapes.
    """
    rows = []
    for d, k in shapes:
        for regularizer in REGULARIZERS:
            arguments = (d, k, regularizer, n, batch, rounds, device)
            as_it_comes, _ = fresh(_times, *arguments, False)
            best, fast = fresh(_times, *arguments, True)
            ratios = as_it_comes / fast, best / fast
            rows.append([d, k, regularizer, as_it_comes, best, fast, *ratios, 1e3 / fast])
    side_by_side = 1 if device == "cuda" else os.cpu_count() or 1
    hours = [[*row[:3], PAPER_STEPS * row[5] / 3.6e6 / side_by_side, PAPER_HOURS] for row in rows]
    return [
        Table(
            "bench-train",
            f"A training step, n = {n}, batch {batch}, binary code, {CLOCKS[device]}",
            COLUMNS,
            rows,
        ),
        Table(
            "bench-train-sweep",
            f"{MODELS} models of {STEPS} steps, without validation, from the times above",
            ("d", "k", "loss", "hours", "paper, hours, mixed shapes"),
            hours,
        ),
    ]


def _times(
    d: int, k: int, regularizer: str, n: int, batch: int, rounds: int, device: str, at_best: bool
) -> tuple[float, float]:
    """Milliseconds of a plain step and of a fast one, the latter for each model."""
    if at_best:
        quick_memory()
    torch.manual_seed(0)
    plain = PlainTraining(
        d, k, "binary", regularizer, n, batch, 0.0 if at_best else DROPOUT, device
    )
    settings = Settings(d=d, k=k, n=n, batch=batch, regularizer=regularizer)
    models = STACKS[device]
    fast = Trainer([settings] * models, list(range(models)), device)
    times = in_turn({"plain": plain.step, "fast": fast.advance}, rounds)
    return times["plain"], times["fast"] / models


def difference(d: int = 4, k: int = 6, n: int = 512, batch: int = 32) -> float:
    """Largest difference of parameters after 60 Adam steps of both loops on the same tasks, in
    float64: what rounding does in float32, Adam's division by small gradients makes larger."""
    settings = Settings(d=d, k=k, n=n, batch=batch)
    fast = Trainer([settings], [0], dtype=torch.float64)
    plain = PlainTraining(d, k, settings.code, str(settings.regularizer), n, batch, 0.0)
    plain.model.double()
    names: Any = dict(plain.model.named_parameters())
    start = fast.parameters()
    with torch.no_grad():
        for name, p in names.items():
            p.copy_(start[name.replace(".weight", "").replace(".bias", "_bias")][0])
    same = stream("cpu", 0, 1)
    for _ in range(ADAM_STEPS):
        tasks = sample(settings.distribution, [same], batch, torch.float64)
        plain.learn(tasks.X[0], tasks.C[0])
        fast.advance()
    found, other = fast.parameters(), parameters_of(plain.model)
    return max(float((found[name] - other[name]).abs().max()) for name in found)
