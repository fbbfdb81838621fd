"""bench attention: the paper's Table 1 on this machine, for a plain and for a fast implementation.

The paper compares one-hot with binary codes, in one implementation. Both implementations show that
comparison here, so that it is seen how much of it is the implementation's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from constructions.fast import FastTransformer
from constructions.trainable import TrainableTransformer
from verify.bench._measure import CLOCKS, afresh, by_round, compared, peak_bytes
from verify.bench._plain import PlainTransformer, parameters_of
from verify.claim import Table

D, N = 32, 1024
CLUSTERS = (6, 25, 100, 400, 1000)
CODES = ("one_hot", "binary", "scalar")
PAPER = {  # k: forward, backward, memory of one-hot over binary, the paper's Table 1
    6: (4.25 / 4.83, 9.53 / 10.66, 419.93 / 416.29),
    25: (5.24 / 4.99, 11.21 / 11.01, 441.08 / 423.23),
    100: (9.76 / 4.52, 20.21 / 9.93, 532.96 / 447.04),
    400: (38.68 / 7.89, 66.13 / 16.47, 1095.60 / 531.02),
    1000: (193.07 / 15.90, 308.28 / 32.33, 3930.34 / 1207.75),
}
QUANTITIES = ("forward", "backward", "memory")
CODES_TABLE = "bench-attention-codes"
Rounds = dict[str, list[float]]  # by quantity: milliseconds or megabytes


def measure(
    clusters: tuple[int, ...] = CLUSTERS,
    batches: tuple[int, ...] = (1, 8),
    rounds: int = 3,
    device: str = "cpu",
) -> list[Table]:
    """Two tables: plain against fast for every code, and one-hot against the narrower codes."""
    # a GPU has an allocator of its own, and takes seconds to begin with
    measured = partial(afresh, _shape) if device == "cpu" else _shape
    found = {
        (B, k, code): measured(B, k, code, rounds, device)
        for B in batches
        for k in clusters
        for code in CODES
    }
    rows, ratios = [], []
    for (B, k, code), (plain, fast, error) in found.items():
        pairs = [compared(plain[q], fast[q])[:3] for q in QUANTITIES]
        rows.append([B, k, code, *(x for pair in pairs for x in pair), error])
    for B, k, other, (i, q) in itertools.product(
        batches, clusters, CODES[1:], enumerate(QUANTITIES)
    ):
        row: list[Any] = [B, k, other, q]
        for wide, narrow in zip(found[B, k, "one_hot"][:2], found[B, k, other][:2], strict=True):
            row += compared(wide[q], narrow[q])[2:]
        row.append(PAPER[k][i] if other == "binary" and k in PAPER else None)
        ratios.append(row)
    return [
        Table(
            "bench-attention",
            f"One layer, d = {D}, n = {N}: plain (dropout off) against fast, {CLOCKS[device]}; "
            "memory is the largest sum of live tensors in forward and backward",
            (
                "batch", "k", "code",
                "plain forward, ms", "fast forward, ms", "forward ratio",
                "plain backward, ms", "fast backward, ms", "backward ratio",
                "plain memory, MB", "fast memory, MB", "memory ratio",
                "largest difference of the outputs",
            ),
            rows,
        ),
        Table(
            CODES_TABLE,
            f"One-hot over a narrower code, d = {D}, n = {N}, in the plain and in the fast "
            "implementation, beside the paper's Table 1; least and largest ratio of a round",
            (
                "batch", "k", "narrower code", "quantity",
                "plain", "plain, least", "plain, largest",
                "fast", "fast, least", "fast, largest", "paper",
            ),
            ratios,
        ),
    ]  # fmt: skip


def _shape(batch: int, k: int, code: str, rounds: int, device: str) -> tuple[Rounds, Rounds, float]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    X = torch.rand(batch, N, D).to(device)
    C = X[:, :k].clone()
    plain = PlainTransformer(D, k, code, dropout=0.0).to(device)
    weights = {n: p.requires_grad_() for n, p in parameters_of(plain).items()}
    model = FastTransformer(TrainableTransformer(D, k, code))

    def fast_forward() -> Any:
        return model(weights, X[None], C[None])

    def plain_forward() -> Any:
        return plain(X, C)

    def backward(forward: Callable[[], Any], wanted: list[Any]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(forward().square().sum(), wanted)

    plain_both = backward(plain_forward, list(plain.parameters()))
    fast_both = backward(fast_forward, list(weights.values()))
    times = by_round(
        {"plain": plain_forward, "fast": fast_forward, "plain+": plain_both, "fast+": fast_both},
        rounds,
    )
    results = [
        {
            "forward": times[name],
            "backward": [b - a for a, b in zip(times[name], times[f"{name}+"], strict=True)],
            "memory": [peak_bytes(both) / 1e6] * rounds,
        }
        for name, both in (("plain", plain_both), ("fast", fast_both))
    ]
    error = float((fast_forward()[0] - plain_forward()).detach().abs().max())
    return results[0], results[1], error
