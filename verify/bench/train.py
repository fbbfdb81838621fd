"""bench train: training steps, the newcomer's loop against `constructions.training`."""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections.abc import Callable
from typing import Any

import torch

from constructions.blocked import BLOCK
from constructions.moments import CUBIC
from constructions.objective import centered
from constructions.streams import sample, stream
from constructions.training import Settings, Trainer
from verify.bench._measure import Crew, compared, in_turn
from verify.bench._plain import DROPOUT, PlainTraining, parameters_of
from verify.claim import Table
from verify.experiments.runs import STACK
from verify.experiments.sweep import prepare

SHAPES = ((4, 6), (32, 6), (32, 25))
REGULARIZERS = ("ne", "l2")
ADAM_STEPS = 60
MODELS, STEPS = 3000, 10_000  # of the paper
PAPER_HOURS = 1000  # "about", for all of its models
STACKS = {"cpu": STACK, "cuda": 64}  # models in one computation
TURNS = {"cpu": 2.0, "cuda": 0.3}  # seconds of a turn
COLUMNS = (
    "d", "k", "loss",
    "plain as it comes", "plain at its best", "fast",
    "fast / as it comes", "least", "largest", "fast / at its best", "least ", "largest ",
)  # fmt: skip


def measure(
    shapes: tuple[tuple[int, int], ...] = SHAPES,
    n: int = 512,
    batch: int = 32,
    rounds: int = 5,
    device: str = "cpu",
) -> list[Table]:
    """Model-steps a second on all cores, or on the GPU. A step is everything: sampling, forward,
    loss, backward, Adam.

    "As it comes" is one process with dropout, torch's own threads and the C library's allocator
    untouched; "at its best" has no dropout, an allocator that keeps its memory and, like the fast
    one, a process with one thread for each core. The second table says what the paper's 3,000
    models would take here if all had one of the shapes. The third, without a GPU, says where the
    time of a step goes, and how near its largest part comes to what the core can do.
    """
    rows: list[list[Any]] = [
        [d, k, regularizer, *_rates((d, k, regularizer, n, batch, device), rounds)]
        for d, k in shapes
        for regularizer in REGULARIZERS
    ]
    hours: list[list[Any]] = [
        [d, k, loss, MODELS * STEPS / fast / 3600, PAPER_HOURS]
        for d, k, loss, _, _, fast, *_ in rows
    ]
    place = "the GPU" if device == "cuda" else f"{_cores()} cores"
    tables = [
        Table(
            "bench-train",
            f"Training, n = {n}, batch {batch}, binary code: model-steps a second on {place}",
            COLUMNS,
            rows,
        ),
        Table(
            "bench-train-sweep",
            f"{MODELS:,} models of {STEPS:,} steps, without validation, at that rate",
            ("d", "k", "loss", "hours", "paper, hours, mixed shapes"),
            hours,
        ),
    ]
    if device == "cpu":
        tables.append(_parts_table(shapes, n, batch, rounds))
    return tables


def _parts_table(shapes: tuple[tuple[int, int], ...], n: int, batch: int, rounds: int) -> Table:
    """Measured in a process of its own, as the allocator is told to keep its memory."""
    rows: list[list[Any]] = []
    for d, k in shapes:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            ms = pool.apply(_parts, (d, k, n, batch, rounds))
        step, sampling, attending = (
            ms[part] / STACK for part in ("step", "sampling", "self-attention")
        )
        pairs, (multiplied, exponentials) = batch * n * n, _work_of_a_pair(d)
        limit = pairs * (multiplied * ms["product"] + exponentials * ms["exponential"])
        rows.append([d, k, step, sampling, attending, limit, attending / limit])
    return Table(
        "bench-train-parts",
        "Where a step of a model goes, L2 loss: milliseconds of processor time, beside the "
        "arithmetic of its self-attention at the speed of a large product, and of exponentials",
        (
            "d", "k", "step", "sampling", "self-attention", "its arithmetic alone",
            "self-attention / arithmetic",
        ),
        rows,
    )  # fmt: skip


def _work_of_a_pair(d: int) -> tuple[int, int]:
    """Multiply-adds and exponentials that self-attention and its gradient take for two points, see
    `constructions.blocked` and `constructions.moments`."""
    if d <= CUBIC:
        return d + 1 + math.comb(d + 3, 3), 1
    return 2 * (d + 2) + 2 * (d + 1) + d, 2


def _parts(d: int, k: int, n: int, batch: int, rounds: int) -> dict[str, float]:
    """Milliseconds of a step of a stack, of its parts, of one multiply-add, of an exponential."""
    prepare()
    settings = Settings(d=d, k=k, n=n, batch=batch)
    trainer = Trainer([settings] * STACK, range(STACK))
    streams = [stream("cpu", s, 2) for s in range(STACK)]
    points = centered(sample(settings.distribution, streams, batch).X)
    flat = trainer.flat.detach().requires_grad_()
    size = 1024
    square, scores = torch.rand(size, size), torch.rand(BLOCK["cpu"])
    product, powers = torch.empty_like(square), torch.empty_like(scores)

    def attend() -> None:
        average = trainer.fast.attend(trainer.parameters(flat), points)
        torch.autograd.grad(average.sum(), flat)

    ms = in_turn(
        {
            "step": trainer.advance,
            "sampling": lambda: sample(settings.distribution, streams, batch),
            "self-attention": attend,
            "product": lambda: torch.mm(square, square, out=product),
            "exponential": lambda: torch.exp2(scores, out=powers),
        },
        rounds,
    )
    ms["product"] /= size**3
    ms["exponential"] /= len(scores)
    return ms


def _cores() -> int:
    return os.cpu_count() or 1


def _rates(arguments: tuple[Any, ...], rounds: int) -> list[float]:
    """Model-steps a second of the three, and how the fast one compares with the other two."""
    device = arguments[-1]
    side_by_side = 1 if device == "cuda" else _cores()
    crews = [
        Crew(_plain, (*arguments, False), 1),
        Crew(_plain, (*arguments, True), side_by_side),
        Crew(_fast, arguments, side_by_side),
    ]
    try:
        for crew in crews:
            crew.rate(0)  # all of them have started when the first turn begins
        found = [[crew.rate(TURNS[device]) for crew in crews] for _ in range(rounds)]
    finally:
        for crew in crews:
            crew.dismiss()
    as_it_comes, best, fast = zip(*found, strict=True)
    fast = tuple(rate * STACKS[device] for rate in fast)
    _, _, *of_first = compared(fast, as_it_comes)
    _, _, *of_second = compared(fast, best)
    return [*map(statistics.median, (as_it_comes, best, fast)), *of_first, *of_second]


def _plain(
    d: int, k: int, regularizer: str, n: int, batch: int, device: str, at_best: bool
) -> Callable[[], Any]:
    """A step of the newcomer's loop."""
    if at_best:
        prepare()
    torch.manual_seed(0)
    dropout = 0.0 if at_best else DROPOUT
    loop = PlainTraining(d, k, "binary", regularizer, n, batch, dropout, device)
    return _waited_for(loop.step, device)


def _fast(d: int, k: int, regularizer: str, n: int, batch: int, device: str) -> Callable[[], Any]:
    """A step of a whole stack of models."""
    prepare()
    models = STACKS[device]
    settings = Settings(d=d, k=k, n=n, batch=batch, regularizer=regularizer)
    return _waited_for(Trainer([settings] * models, list(range(models)), device).advance, device)


def _waited_for(step: Callable[[], Any], device: str) -> Callable[[], Any]:
    """The step, ended when the GPU has done what it was told."""
    if device == "cpu":
        return step

    def whole() -> None:
        step()
        torch.cuda.synchronize()

    return whole


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
