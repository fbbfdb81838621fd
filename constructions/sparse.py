r"""Sparsemax over columns, and sparsemax attention in blocks that fit the cache.

As `blocked.attention` for the weights that minimize |P - scores|^2 over the simplex,

    P_ji = max(s_ji - t_i, 0),    s_ji = a k_j . q_i + b_j,    u_i = sum_j P_ji v_j,

with the t_i that makes them sum to 1. The forward pass keeps the largest score and how far t is
below it; the backward pass computes P again from them. Only keys in the support of a query get a
gradient, the slope less its mean over them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from constructions._entmax import sparsemax_threshold
from constructions.arrays import checked
from constructions.blocked import Blocks, add, distance_offsets

Tensor = Any  # torch.Tensor


def threshold(u: Tensor) -> Tensor:
    """The t (..., 1, m) for which max(t - u, 0) sums to 1 over the axis -2, whose smallest is 0."""
    system, _ = checked(u=u.new_zeros(1))
    # what is 1 above the smallest is not in the support, and may be infinite
    return sparsemax_threshold(u.clamp(max=1).mT, system).mT


def sparse_attention(
    Q: Tensor, K: Tensor, V: Tensor, scale: float = 1.0, offsets: Tensor | None = None
) -> Tensor:
    """u, (T, v, m); takes what `blocked.attention` takes and is differentiable in all tensors."""
    return _SparseAttention.apply(
        Q * scale, K, distance_offsets(K, scale) if offsets is None else offsets, V
    )


class _SparseAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, offsets: Tensor, V: Tensor) -> Tensor:
        T, _, m = Q.shape
        u, top, depth = (Q.new_empty(T, rows, m) for rows in (V.shape[1], 1, 1))
        blocks = Blocks(Q, K.shape[-1], V.shape[1])
        pieces = blocks.cut((K.mT, offsets, V), (Q, top, depth, u))
        for scores, (k, b, v, q, largest, t, out) in zip(blocks.memory(), pieces, strict=True):
            blocks.product(k, q, out=scores).add_(b[..., None])
            torch.amax(scores, dim=-2, keepdim=True, out=largest)
            below = torch.sub(largest, scores, out=scores)
            t.copy_(threshold(below))
            blocks.product(v, torch.sub(t, below, out=below).clamp_(min=0), out=out)
        ctx.save_for_backward(Q, K, offsets, V, top, depth)
        return u

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed
    def backward(ctx: Any, grad: Tensor) -> Any:
        Q, K, offsets, V, top, depth = ctx.saved_tensors
        dQ, dK, doff, dV = (
            torch.zeros_like(a, memory_format=torch.contiguous_format) for a in (Q, K, offsets, V)
        )
        blocks = Blocks(Q, K.shape[-1], V.shape[1])
        pieces = blocks.cut((K, offsets, V, dK, doff, dV), (Q, top, depth, grad, dQ))
        for scores, slope, (k, b, v, dk, db, dv, q, largest, t, g, dq) in zip(
            blocks.memory(), blocks.memory(), pieces, strict=True
        ):
            blocks.product(k.mT, q, out=scores).add_(b[..., None])
            P = scores.sub_(largest).add_(t).clamp_(min=0)
            add(dv, g, P.mT)
            inside = P.sign_()
            blocks.product(v.mT, g, out=slope).mul_(inside)
            mean = slope.sum(dim=-2, keepdim=True) / inside.sum(dim=-2, keepdim=True)
            slope -= inside.mul_(mean)
            blocks.product(k, slope, out=dq)
            add(dk, q, slope.mT)
            db += slope.sum(dim=-1)
        return dQ, dK, doff, dV
