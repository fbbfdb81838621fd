"""bench lloyd: batched Lloyd steps against a loop over clusters, and against scikit-learn."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from constructions.objective import inertia, lloyd_step
from verify.bench._measure import in_turn
from verify.bench._plain import lloyd
from verify.claim import Table

SHAPES = ((32, 512, 6, 4), (1, 1_000_000, 100, 32))
COLUMNS = (
    "tasks", "n", "k", "d", "loop over clusters, ms", "scikit-learn, ms", "batched, ms",
    "loop / batched", "scikit-learn / batched", "inertia, relative difference",
)  # fmt: skip


def measure(scale: float = 1.0, rounds: int = 5) -> Table:
    """One step, and the inertia before and after it. `scale` shrinks the large problem."""
    torch.set_num_threads(1)
    return Table(
        "bench-lloyd",
        "One Lloyd step and the inertia after it, process CPU time, one thread",
        COLUMNS,
        [_row(B, max(k, round(n * scale)) if B == 1 else n, k, d, rounds)
         for B, n, k, d in SHAPES],
    )  # fmt: skip


def _row(tasks: int, n: int, k: int, d: int, rounds: int) -> list[Any]:
    X = torch.rand(tasks, n, d, generator=torch.Generator().manual_seed(0))
    C = X[:, :k].clone()

    def loop() -> list[Any]:
        return [(torch.cdist(x, lloyd(x, c)[0]) ** 2).min(dim=1).values.sum() for x, c in
                zip(X, C, strict=True)]  # fmt: skip

    def library() -> None:
        # one thread for every contestant
        with threadpool_limits(1):
            for x, c in zip(X.numpy(), C.numpy(), strict=True):
                KMeans(k, init=c, n_init=1, max_iter=1, algorithm="lloyd").fit(x)

    def batched() -> Any:
        new, _ = lloyd_step(X.mT[None], C.mT[None])
        return inertia(X.mT[None], new)[0]

    times = in_turn({"loop": loop, "library": library, "batched": batched}, rounds)
    expected = torch.stack(loop()).double()
    gap = float(((batched().double() - expected) / expected).abs().max())
    a, b, c = times["loop"], times["library"], times["batched"]
    return [tasks, n, k, d, a, b, c, a / c, b / c, gap]
