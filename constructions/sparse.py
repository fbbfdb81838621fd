r"""Sparsemax over columns, and sparsemax attention in blocks that fit the cache.

As `blocked.attention` for the weights that minimize |P - scores|^2 over the simplex,

    P_ji = max(s_ji - t_i, 0),    s_ji = k_j . q_i + b_j,    u_i = sum_j P_ji v_j,

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
from constructions.blocked import add_block, block_product, blocks_of, scratch_for

Tensor = Any  # torch.Tensor


def threshold(u: Tensor) -> Tensor:
    """The t (..., 1, m) for which max(t - u, 0) sums to 1 over the axis -2, whose smallest is 0."""
    system, _ = checked(u=u.new_zeros(1))
    # what is 1 above the smallest is not in the support, and may be infinite
    return sparsemax_threshold(u.clamp(max=1).mT, system).mT


def sparse_attention(Q: Tensor, K: Tensor, offsets: Tensor, V: Tensor) -> Tensor:
    """u, (T, v, m); takes what `blocked.attention` takes and is differentiable in all four."""
    return _SparseAttention.apply(Q, K, offsets, V)


class _SparseAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, offsets: Tensor, V: Tensor) -> Tensor:
        (T, _, m), n = Q.shape, K.shape[-1]
        u, top, depth = (Q.new_empty(T, rows, m) for rows in (V.shape[1], 1, 1))
        blocks = blocks_of(T, m, n, Q.device.type)
        scratch = scratch_for(Q, blocks, T, m, n)
        for t, s in blocks:
            scores = block_product(K[t], Q[t, :, s], scratch).add_(offsets[t, :, None])
            torch.amax(scores, dim=-2, keepdim=True, out=top[t, :, s])
            below = torch.sub(top[t, :, s], scores, out=scores)
            depth[t, :, s] = threshold(below)
            P = torch.sub(depth[t, :, s], below, out=below).clamp_(min=0)
            torch.bmm(V[t], P, out=u[t, :, s])
        ctx.save_for_backward(Q, K, offsets, V, top, depth)
        return u

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed
    def backward(ctx: Any, grad: Tensor) -> Any:
        Q, K, offsets, V, top, depth = ctx.saved_tensors
        (T, _, m), n = Q.shape, K.shape[-1]
        dQ, dK, dV = (torch.empty_like(a, memory_format=torch.contiguous_format) for a in (Q, K, V))
        doff = torch.zeros_like(offsets)
        blocks = blocks_of(T, m, n, Q.device.type)
        scratch, second = (scratch_for(Q, blocks, T, m, n) for _ in range(2))
        for t, s in blocks:
            g = grad[t, :, s]
            scores = block_product(K[t], Q[t, :, s], scratch).add_(offsets[t, :, None])
            P = scores.sub_(top[t, :, s]).add_(depth[t, :, s]).clamp_(min=0)
            add_block(dV[t], g, P.mT, s)
            inside = P.sign_()
            slope = block_product(V[t], g, second).mul_(inside)
            mean = slope.sum(dim=-2, keepdim=True) / inside.sum(dim=-2, keepdim=True)
            slope -= inside.mul_(mean)
            torch.bmm(K[t], slope, out=dQ[t, :, s])
            add_block(dK[t], Q[t, :, s], slope.mT, s)
            doff[t] += slope.sum(dim=-1)
        return dQ, dK, doff, dV
