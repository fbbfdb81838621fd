r"""What is minimized, and the yardstick: smoothed k-means losses, inertia, Lloyd steps of batches.

Points and centers are columns here, X (S, B, d, n) and C (S, B, d, k), around a common origin near
the points (`centered`): squared distances are computed in the expanded form, which loses no
digits there. NaN and infinity pass through, so that a diverged model shows and spoils no other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from constructions._surrogate_traced import smoothed, traced
from constructions.arrays import checked
from constructions.blocked import add
from constructions.sparse import threshold
from constructions.surrogates import exponent_of, gradient_from, weights

Tensor = Any  # torch.Tensor

CACHED = 1 << 17  # distances whose surrogates are computed together
BLOCK = {"cpu": 1 << 18, "cuda": 1 << 27}  # distances in memory at a time, in a Lloyd step
WIDE = 16  # coordinates that make a row of points long enough to compute along it
SAMPLE = 16  # points, at least, whose median stands for that of all of them


class Points(NamedTuple):
    """Points as columns around a median: X (S, B, d, n) and the median (S, B, d, 1)."""

    X: Tensor
    median: Tensor


def centered(X: Tensor) -> Points:
    """Points (S, B, n, d) as columns around their coordinate-wise median.

    All that matters is that the origin lies among the bulk of the points, so the median is that of
    every (n / SAMPLE)-th point; that of all of them would take a tenth of a training step.
    """
    columns = X.mT.contiguous()
    some = columns[..., :: max(1, X.shape[-2] // SAMPLE)]
    median = some.median(dim=-1, keepdim=True).values
    return Points(columns - median, median)


def squared_distances(X: Tensor, C: Tensor) -> Tensor:
    """|c_j - x_i|^2, (S, B, k, n), not below 0."""
    left = torch.cat([-2 * C, C.square().sum(-2, keepdim=True), torch.ones_like(C[..., :1, :])], -2)
    right = torch.cat([X, torch.ones_like(X[..., :1, :]), X.square().sum(-2, keepdim=True)], -2)
    return (left.mT @ right).clamp_(min=0)


def smoothed_loss(
    X: Tensor, C: Tensor, temperatures: Tensor, regularizers: Sequence[Any]
) -> Tensor:
    """The surrogate of the squared distances, mean over the points: (S, B).

    Gradients of every order reach X and C; inside of `torch.func` and `torch.compile` as well, by
    `_in_plain_torch`.

    Parameters
    ----------
    X, C : (S, B, d, n) and (S, B, d, k)
    temperatures : (S,) positive, one for each model, or (S, B), one for each task
    regularizers : S of what `constructions.surrogates.surrogate` takes

    Raises
    ------
    InputError
        unknown regularizer.
    """
    exponents = tuple(exponent_of(name) for name in regularizers)
    tau = temperatures.to(C).view(len(C), -1).expand(C.shape[:2])[..., None, None]
    if traced(C):
        return _in_plain_torch(X, C, tau, exponents)
    return _SmoothedLoss.apply(X, C, tau, exponents)


def _in_plain_torch(X: Tensor, C: Tensor, tau: Tensor, exponents: tuple[Any, ...]) -> Tensor:
    """The loss without functions of our own, for derivatives of derivatives.

    Distances that rounding made negative count as 0, yet keep their derivatives: the second one is
    the same everywhere, and initial centers often lie on points.
    """
    values = []
    first = 0
    for alpha, same in itertools.groupby(exponents):
        models = slice(first, first := first + len(list(same)))
        x, c = X[models], C[models]
        r = c.square().sum(-2)[..., None] - 2 * c.mT @ x + x.square().sum(-2)[..., None, :]
        r = r - r.detach().clamp(max=0)
        values.append(smoothed(r.mT, tau[models], alpha).mean(-1))
    return torch.cat(values)


class _SmoothedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, X: Tensor, C: Tensor, tau: Tensor, exponents: tuple[Any, ...]) -> Tensor:
        values, slopes = [], []
        together = max(1, CACHED // (C.shape[-1] * X.shape[-1]))  # tasks
        first = 0
        for alpha, same in itertools.groupby(exponents):
            models = slice(first, first := first + len(list(same)))
            tasks = (a[models].flatten(0, 1).split(together) for a in (X, C, tau))
            for x, c, t in zip(*tasks, strict=True):
                value, slope = _surrogate(squared_distances(x, c), t, alpha)
                values.append(value.mean(dim=(-2, -1)))
                slopes.append(slope)
        ctx.exponents = exponents
        ctx.save_for_backward(X, C, tau, torch.cat(slopes).unflatten(0, C.shape[:2]))
        return torch.cat(values).view(C.shape[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        X, C, tau, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted
            return *_again(X, C, tau, ctx.exponents, grad, ctx.needs_input_grad), None, None
        factor = 2 / X.shape[-1] * grad[..., None, None]
        dX = dC = None
        if ctx.needs_input_grad[0]:
            dX = (X * slope.sum(dim=-2)[..., None, :] - C @ slope) * factor
        if ctx.needs_input_grad[1]:
            dC = (C * slope.sum(dim=-1)[..., None, :] - X @ slope.mT) * factor
        return dX, dC, None, None


def _again(
    X: Tensor, C: Tensor, tau: Tensor, exponents: tuple[Any, ...], grad: Tensor, needed: Any
) -> list[Tensor]:
    """The gradients in X and C as something that can be differentiated."""
    wanted = [a for a, need in zip((X, C), needed, strict=False) if need]
    value = _in_plain_torch(X, C, tau, exponents)
    found = iter(torch.autograd.grad(value, wanted, grad, create_graph=True))
    return [next(found) if need else None for need in needed[:2]]


def _surrogate(r: Tensor, tau: Tensor, alpha: Any) -> tuple[Tensor, Tensor]:
    """The surrogate (B, 1, n) of squared distances (B, k, n), and its gradient (B, k, n).

    `constructions.surrogates` with the points innermost; the two famous members written out.
    """
    low = r.amin(dim=-2, keepdim=True)
    excess = r - low
    if alpha == 1:
        p = (excess / -tau).exp_()
        p /= p.sum(dim=-2, keepdim=True)
        gap = (p * excess).sum(dim=-2, keepdim=True)
        return low + gap, excess.sub_(gap).div_(-tau).add_(1).mul_(p)
    u = excess / tau
    if alpha == 2:
        p = (threshold(u) - u).clamp_(min=0)
        value = low + excess.mul_(p).sum(dim=-2, keepdim=True)
        inside = p.sign()
        mean = excess.copy_(u).mul_(inside).sum(dim=-2, keepdim=True)
        mean /= inside.sum(dim=-2, keepdim=True)
        return value, p.sub_(u.sub_(mean).mul_(inside))
    system, _ = checked(r=r.new_zeros(1))
    p = weights(u.mT, alpha, system)
    slope = gradient_from(u.mT, p, alpha, system).mT
    return low + (p.mT * excess).sum(dim=-2, keepdim=True), slope


def inertia(X: Tensor, C: Tensor) -> Tensor:
    """The k-means loss of centers, sum over the points: (S, B)."""
    lead = C.shape[:2]
    X, C = _tasks(X), _tasks(C)
    total = C.new_zeros(C.shape[:-2])
    for _, squares, r in _parts(X, C, _origin(C)):
        total += r.amin(dim=-2).sum(dim=-1) + squares
    return total.view(lead)


def lloyd_step(X: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    """The centers after one Lloyd step (S, B, d, k), and the inertia (S, B) of those given.

    A tied point goes to its center of lowest index; an empty cluster keeps its center.
    """
    lead = C.shape[:2]
    X, C = _tasks(X), _tasks(C)
    origin = _origin(C)
    sums = torch.zeros_like(C.mT, memory_format=torch.contiguous_format)
    counts, total = C.new_zeros(sums.shape[:-1]), C.new_zeros(C.shape[:-2])
    for part, squares, r in _parts(X, C, origin):
        low = r.amin(dim=-2, keepdim=True)
        total += low.sum(dim=(-2, -1)) + squares
        member = torch.eq(r, low, out=r)
        found = member.sum(dim=-1)
        if float(found.sum()) != low.numel():  # ties
            member *= member.cumsum(dim=-2) == 1
            found = member.sum(dim=-1)
        counts += found
        add(sums, member, part.mT)
    counts = counts[..., None, :]
    moved = torch.where(counts > 0, sums.mT / counts + origin, C)
    return moved.view(*lead, *C.shape[-2:]), total.view(lead)


def _tasks(A: Tensor) -> Tensor:
    """(S, B, ...) as (T, ...); a single task loses that axis, as the product of two matrices starts
    faster than that of two stacks of one."""
    A = A.flatten(0, 1)
    return A[0] if len(A) == 1 else A


def _origin(C: Tensor) -> Tensor:
    """The median of the centers, (..., d, 1)."""
    return C.median(dim=-1, keepdim=True).values


def _parts(X: Tensor, C: Tensor, origin: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Pieces of m points, whose distances to the centers fit the cache.

    Yields the points around an origin, (..., d, m); the sum of their squares, (...); and
    |c_j - x_i|^2 - |x_i|^2, (..., k, m), all that the nearest center depends on. They are
    overwritten by the next piece.
    """
    (*lead, d, n), k = X.shape, C.shape[-1]
    moved = C - origin
    # The points get a row more, for |c_j|^2: a constant whose square is nothing beside those of the
    # points, so that the squares of a whole piece can be summed, which is contiguous.
    last = _power_of_two(moved.abs().amax(dim=(-2, -1), keepdim=True)) * 2.0**-40
    last.clamp_(min=torch.finfo(last.dtype).tiny)
    reader = torch.cat([-2 * moved, moved.square().sum(dim=-2, keepdim=True) / last], dim=-2).mT
    limit = BLOCK.get(X.device.type, BLOCK["cpu"]) // (math.prod(lead) * k)
    size = min(n, 1 << max(1, limit).bit_length() - 1)
    # wide points that are rows in memory stay rows: to transpose them takes as long as amin
    by_row = d >= WIDE and X.stride(-2) == 1
    part = X.new_empty(0)
    for piece in X.split(size, dim=-1):
        m = piece.shape[-1]
        if part.shape[-1] != m:
            whole = X.new_empty(*lead, m, d + 1) if by_row else X.new_empty(*lead, d + 1, m)
            part, flat = whole.mT if by_row else whole, whole.flatten(-2)
            part[..., -1:, :] = last
            points, r = part[..., :-1, :], X.new_empty(*lead, k, m)
        torch.sub(piece, origin, out=points)
        squares = _squares(flat)  # while they are in the cache
        add(r, reader, part, first=True)
        yield points, squares, r


def _squares(A: Tensor) -> Tensor:
    """|a|^2 of rows (..., N)."""
    return torch.dot(A, A) if A.ndim == 1 else A.square().sum(dim=-1)


def _power_of_two(a: Tensor) -> Tensor:
    """The smallest one above numbers that are not negative, exactly; 0 for 0."""
    return a / torch.frexp(a).mantissa.clamp_(min=0.5)
