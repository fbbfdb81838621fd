"""Clustering tasks on a device: many independent torch streams, one batch of each at a time.

The distribution is `TaskDistribution`'s; only where the random numbers come from differs. Models
that train side by side have a stream each, so what one of them sees does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from constructions.arrays import checked
from constructions.tasks import GAUSSIAN, Draws, TaskDistribution, Tasks, rescale

Tensor = Any  # torch.Tensor

UNIFORM = torch.float64  # 2^-25, the smallest float32 uniform, would cut heavy tails short


def stream(device: str, *key: int) -> Any:
    """A torch generator of its own for every key of nonnegative integers."""
    (seed,) = np.random.SeedSequence(key).generate_state(1, np.uint64)
    return torch.Generator(device).manual_seed(int(seed >> np.uint64(1)))


def sample(
    distribution: TaskDistribution, streams: Sequence[Any], batch: int, dtype: Any = torch.float32
) -> Tasks:
    """A batch of tasks from each of S streams.

    Parameters
    ----------
    distribution : what to sample
    streams : S torch generators on one device, see `stream`
    batch : B >= 1 tasks from each
    dtype : element type of the result, torch.float32 or torch.float64

    Returns
    -------
    Tasks with X (S, B, n, d), C (S, B, k, d), and redraws (S, B)
    """
    draws = _draw(distribution, streams, batch, dtype)
    redraws = torch.zeros(len(streams) * batch, dtype=torch.int64)
    while (X := _scaled(distribution.assemble(draws), distribution.scaling)) is None:
        lost = ~torch.isfinite(distribution.assemble(draws))
        redraws += lost.sum(dim=(1, 2)).cpu()
        for s, generator in enumerate(streams):
            mine = slice(s * batch, (s + 1) * batch)
            count = int(lost[mine].sum())
            noise = _noise(distribution.family, generator, (count,), dtype)
            draws.noise[mine][lost[mine]] = noise
    X = X.to(dtype).unflatten(0, (len(streams), batch))
    return Tasks(X, X[:, :, : distribution.k], redraws.view(len(streams), batch))


def _scaled(X: Tensor, scaling: str) -> Tensor | None:
    """`tasks.rescale`, or None if a value is not finite.

    In columns, points innermost: that is faster, and training wants it so anyway.
    """
    columns = X.mT.contiguous()
    low, high = columns.amin(dim=-1, keepdim=True), columns.amax(dim=-1, keepdim=True)
    extent = high - low
    if not bool(torch.isfinite(extent).all()):
        if not bool(torch.isfinite(X).all()):
            return None
        system, _ = checked(X=X[:1, :1])
        return rescale(X, scaling, system)  # finite numbers that are infinitely far apart
    if scaling == "common":
        extent = extent.amax(dim=-2, keepdim=True)
    return columns.sub_(low).div_(torch.where(extent == 0, 1.0, extent)).mT


def _draw(distribution: TaskDistribution, streams: Sequence[Any], batch: int, dtype: Any) -> Draws:
    of, (n, d, k) = distribution, (distribution.n, distribution.d, distribution.k)

    def uniform(*shape: int) -> Tensor:
        each = [_uniform(generator, (batch, *shape), dtype) for generator in streams]
        return torch.cat(each)

    return Draws(
        places=uniform(k, d),
        members=uniform(n),
        noise=torch.cat([_noise(of.family, g, (batch, n, d), dtype) for g in streams]),
        widths=None if of.isotropic else uniform(k, d),
        shares=None if of.equal_weights else uniform(k),
    )


def _noise(family: str, generator: Any, shape: tuple[int, ...], dtype: Any) -> Tensor:
    if family in GAUSSIAN:
        return torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)
    return _uniform(generator, shape, UNIFORM)


def _uniform(generator: Any, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Strictly between 0 and 1: a zero, which torch may draw, becomes half the next number."""
    drawn = torch.rand(shape, generator=generator, dtype=dtype, device=generator.device)
    return drawn.clamp_(min=torch.finfo(dtype).eps / 4)
