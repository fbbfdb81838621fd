"""bench multistep: twenty re-embedded steps of inference."""

from __future__ import annotations

from typing import Any

import torch

from constructions.fast import FastTransformer
from constructions.trainable import TrainableTransformer
from verify.bench._measure import CLOCKS, in_turn
from verify.bench._plain import PlainTransformer, parameters_of
from verify.claim import Table

SHAPES = ((32, 512, 4), (32, 512, 32), (8, 2048, 4), (8, 2048, 32))
STEPS, K = 20, 6


def measure(
    shapes: tuple[tuple[int, int, int], ...] = SHAPES,
    steps: int = STEPS,
    rounds: int = 3,
    device: str = "cpu",
) -> Table:
    """The plain model computes all n x n attention weights at each step; they are always the same
    ones, so the fast model computes them once."""
    torch.set_num_threads(1)
    rows = [_row(B, n, d, steps, rounds, device) for B, n, d in shapes]
    return Table(
        "bench-multistep",
        f"{steps} re-embedded steps, k = {K}, binary code, {CLOCKS[device]}",
        ("tasks", "n", "d", "plain, ms", "fast, ms", "ratio", "relative difference"),
        rows,
    )


def _row(batch: int, n: int, d: int, steps: int, rounds: int, device: str) -> list[Any]:
    torch.manual_seed(0)
    X = torch.rand(batch, n, d).to(device)
    C = X[:, :K].clone()
    plain = PlainTransformer(d, K, "binary", dropout=0.0).to(device)
    weights = parameters_of(plain)
    fast = FastTransformer(TrainableTransformer(d, K, "binary"))

    def plainly() -> Any:
        new = C
        for _ in range(steps):
            new = plain(X, new)
        return new

    def quickly() -> Any:
        return fast.iterate(weights, X[None], C[None], steps)[-1][0]

    with torch.no_grad():
        times = in_turn({"plain": plainly, "fast": quickly}, rounds)
        expected = plainly()
        error = float((expected - quickly()).abs().max() / expected.abs().max())
    return [batch, n, d, times["plain"], times["fast"], times["plain"] / times["fast"], error]
