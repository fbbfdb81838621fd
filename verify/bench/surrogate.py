"""bench surrogate: the L2 surrogate in torch against entmax's sparsemax, value and gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from constructions import surrogate
from verify.bench._measure import by_round, compared
from verify.claim import Table

ROWS = 16384
SIZES = (6, 25, 100, 1000)
TEMPERATURES = (1.0, 0.1)


def measure(sizes: tuple[int, ...] = SIZES, rows: int = ROWS, rounds: int = 5) -> Table:
    """float32 squared distances between points of the unit cube, shape (rows, k)."""
    from entmax import sparsemax

    def plain(r: Any, tau: float) -> Any:
        return (sparsemax(-r / tau, dim=-1) * r).sum(-1)

    def ours(r: Any, tau: float) -> Any:
        return surrogate(r, tau, "l2")

    torch.set_num_threads(1)
    found = []
    for k in sizes:
        r = _distances(rows, k)
        for tau in TEMPERATURES:
            gradients = [_gradient(f, r, tau) for f in (plain, ours)]
            off = float((gradients[0] - gradients[1]).abs().max())
            contest = {"entmax": partial(_gradient, plain, r, tau),
                       "ours": partial(_gradient, ours, r, tau)}  # fmt: skip
            times = by_round(contest, rounds)
            found.append([k, tau, *compared(times["entmax"], times["ours"]), off])
    return Table(
        "bench-surrogate",
        f"L2 surrogate of {rows} vectors, value and gradient, process CPU time, one thread",
        (
            "k",
            "tau",
            "entmax, ms",
            "leanlloyd, ms",
            "entmax / leanlloyd",
            "least",
            "largest",
            "gradients differ by",
        ),
        found,
    )


def _distances(rows: int, k: int) -> Any:
    generator = torch.Generator().manual_seed(k)
    x, c = (torch.rand(m, 4, generator=generator) for m in (rows, k))
    return sum((x[:, None, i] - c[None, :, i]) ** 2 for i in range(4))


def _gradient(value: Any, r: Any, tau: float) -> Any:
    r = r.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(value(r, tau).sum(), r)
    return gradient
