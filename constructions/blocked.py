r"""Softmax attention in blocks that fit the cache, forward and backward, never m x n in memory,
unless one of the two is small.

For queries Q, keys K, offsets b and values V, one column a token,

    P_ji = exp(k_j . q_i + b_j) / sum_l exp(k_l . q_i + b_l),    u_i = sum_j P_ji v_j.

Negative squared distances have this form: -g|q - k|^2 = 2g q.k - g|k|^2 - g|q|^2, and the last
term cancels. The forward pass keeps the logarithm of the denominator; the backward pass computes
P again from it, block by block. What makes it fast on a processor is that a block of scores stays
in the cache between its product, its exponential and its second product, and that base-2
exponentials are three times as fast as natural ones.

Points attending to each other, where keys and values are the points themselves, have a shortcut in
few dimensions: `self_attention`.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad, scaled_dot_product_attention

Tensor = Any  # torch.Tensor

LOG2_E = math.log2(math.e)
BLOCK = {"cpu": 1 << 18, "cuda": 1 << 27}  # scores in a block: one megabyte of float32 in a cache
WIDE = 128  # from this width on, computing scores again costs more than keeping them
SAFE = 60.0  # base-2 scores within +-SAFE need no shift: 2^60 summed over any n is a float32
FLOOR = (
    -100.0
)  # base-2 scores that far below the largest: beneath rounding, above subnormal numbers
FUSED = 256  # widths below this are for torch's fused kernels on a GPU
FEW = 32  # keys or queries: up to here the matrix of weights is small, and torch.softmax is faster
CUBIC = 4  # up to this many dimensions, third moments are cheaper than a second pass


def attention(Q: Tensor, K: Tensor, offsets: Tensor, V: Tensor) -> Tensor:
    """u, (T, v, m), for T independent problems; differentiable in all four.

    Parameters
    ----------
    Q : (T, w, m) queries
    K : (T, w, n) keys
    offsets : (T, n), added to the scores of a key
    V : (T, v, n) values
    """
    if Q.is_cuda and Q.shape[1] < FUSED:
        return fused(Q, K, offsets, V)
    if min(Q.shape[-1], K.shape[-1]) > FEW:
        return _Attention.apply(Q, K, offsets, V)
    if Q.shape[-1] < K.shape[-1]:
        scores = torch.baddbmm(offsets[:, None], Q.mT, K)
        return V @ torch.softmax(scores, dim=-1).mT
    scores = torch.baddbmm(offsets[..., None], K.mT, Q)
    return V @ torch.softmax(scores, dim=-2)


def fused(Q: Tensor, K: Tensor, offsets: Tensor, V: Tensor) -> Tensor:
    """`attention` by torch's own fused kernels, which are fast on a GPU and take widths that are
    multiples of 8, up to `FUSED`."""

    def rows(*parts: Tensor) -> Tensor:
        joined = torch.cat(parts, dim=1)
        return pad(joined.mT, (0, -joined.shape[1] % 8))[:, None]

    q, k, v = rows(Q, torch.ones_like(Q[:, :1])), rows(K, offsets[:, None]), rows(V)
    u = scaled_dot_product_attention(q, k, v, scale=1.0)
    return u[:, 0, :, : V.shape[1]].mT


def self_attention(A: Tensor, X: Tensor, G: Tensor) -> Tensor:
    """u, (T, d, n): averages of the points with scores A_i . x_j - x_j' G x_j.

    Parameters
    ----------
    A : (T, d, n) queries
    X : (T, d, n) points, which are keys and values
    G : (T, d, d) symmetric

    In at most `CUBIC` dimensions the forward pass averages all monomials of x up to degree 3
    beside x itself. These are all that the gradient needs,

        dA_i = Cov_i g_i,    dG = -sum_i (E_i[(g_i.x) x x'] - (g_i.u_i) E_i[x x']),

    (g_i the gradient in u_i, E_i and Cov_i under the weights of query i), so backward has no pass
    over the pairs. X gets a gradient by the general way only.
    """
    trained = torch.is_grad_enabled() and (A.requires_grad or G.requires_grad)
    if trained and X.shape[-2] <= CUBIC and not (X.requires_grad or X.is_cuda):
        return _Moments.apply(A, X, G)
    return attention(A, X, -((G @ X) * X).sum(dim=-2), X)


def blocks_of(tasks: int, m: int, n: int, device: str) -> list[tuple[slice, slice]]:
    """Slices of problems and of queries, so that a block of scores has at most BLOCK entries."""
    limit = BLOCK.get(device, BLOCK["cpu"])
    together = max(1, limit // (m * n))
    rows = min(m, max(1, limit // n))
    return [
        (slice(t, t + together), slice(s, s + rows))
        for t in range(0, tasks, together)
        for s in range(0, m, rows)
    ]


def block_product(K: Tensor, Q: Tensor, scratch: Tensor) -> Tensor:
    """K' Q, (T, n, m), in the memory of `scratch`."""
    T, n, m = K.shape[0], K.shape[-1], Q.shape[-1]
    return product(K.mT, Q, scratch[: T * n * m].view(T, n, m))


def product(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """a b for each problem, in the memory of `out`; for a single one torch.mm is faster."""
    if len(a) > 1:
        return torch.bmm(a, b, out=out)
    torch.mm(a[0], b[0], out=out[0])
    return out


def scratch_for(
    like: Tensor, blocks: list[tuple[slice, slice]], tasks: int, m: int, n: int
) -> Tensor:
    """Memory for the largest of the blocks, which is the first."""
    t, s = blocks[0]
    return like.new_empty(min(t.stop, tasks) * min(s.stop, m) * n)


def _with_one(A: Tensor) -> Tensor:
    return torch.cat([A, torch.ones_like(A[:, :1])], dim=1)


def _base_two(Q: Tensor, K: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys, one row more each, whose products are the scores times log2(e)."""
    return _with_one(Q) * LOG2_E, torch.cat([K, offsets[:, None]], dim=1)


def _small(Q: Tensor, K: Tensor) -> list[bool]:
    """For which problems |q||k| says that no score leaves +-SAFE; a NaN says nothing."""
    reach = Q.square().sum(dim=1).amax(dim=-1) * K.square().sum(dim=1).amax(dim=-1)
    return (reach < SAFE * SAFE).tolist()


def _exp2(scores: Tensor, small: bool) -> tuple[Tensor, Tensor | None]:
    """exp2 of base-2 scores (T, n, m), in place, and what was subtracted first, (T, 1, m)."""
    if small:
        return scores.exp2_(), None
    top = scores.amax(dim=-2, keepdim=True)
    return scores.sub_(top).clamp_(min=FLOOR).exp2_(), top


class _Attention(torch.autograd.Function):
    """What is added to all scores of a key, or of a query, is a row more of the operands, unless
    that means to copy more numbers than there are scores."""

    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, offsets: Tensor, V: Tensor) -> Tensor:
        T, w, m = Q.shape
        n, v = K.shape[-1], V.shape[1]
        keep = w >= WIDE and any(ctx.needs_input_grad)
        first = keep or n <= v  # normalize the weights before the product, or the result after it
        ctx.rows = rows = m * n > (m + n) * w
        sums = Q.new_empty(T, v if first else v + 1, m)
        total = Q.new_empty(T, 1, m) if first else sums[:, v:]
        shift = None
        kept, shifted = [], []
        blocks = blocks_of(T, m, n, Q.device.type)
        scratch = scratch_for(Q, blocks, T, m, n)
        if rows:
            queries, keys = _base_two(Q, K, offsets)
            small = _small(queries, keys)
        values = V if first else _with_one(V)
        for t, s in blocks:
            if rows:
                P, top = _exp2(block_product(keys[t], queries[t, :, s], scratch), all(small[t]))
            else:
                scores = block_product(K[t], Q[t, :, s], scratch).add_(offsets[t, :, None])
                P, top = _exp2(scores.mul_(LOG2_E), False)
            shifted.append(top is not None)
            if top is not None:
                shift = torch.zeros_like(total) if shift is None else shift
                shift[t, :, s] = top
            if first:
                P /= torch.sum(P, dim=-2, keepdim=True, out=total[t, :, s])
            product(values[t], P, sums[t, :, s])
            if keep:
                kept.append(P.clone())
        u = sums if first else sums[:, :v] / total
        level = total.log2() if shift is None else total.log2() + shift
        ctx.kept, ctx.shifted = kept, shifted
        ctx.save_for_backward(Q, K, offsets, V, u, level)
        return u

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed
    def backward(ctx: Any, grad: Tensor) -> Any:
        Q, K, offsets, V, u, level = ctx.saved_tensors
        (T, _, m), n, rows = Q.shape, K.shape[-1], ctx.rows
        for_Q, for_K, for_offsets, for_V = ctx.needs_input_grad
        dQ, dK, dV = (
            torch.empty_like(a, memory_format=torch.contiguous_format) if wanted else None
            for a, wanted in ((Q, for_Q), (K, for_K), (V, for_V))
        )
        doff = torch.zeros_like(offsets) if for_offsets else None
        blocks = blocks_of(T, m, n, Q.device.type)
        scratch, second = (scratch_for(Q, blocks, T, m, n) for _ in range(2))
        along = (grad * u).sum(dim=1, keepdim=True)
        if rows:
            queries, keys = _base_two(Q, K, offsets)
            queries, keys = torch.cat([queries, -level], dim=1), _with_one(keys)
            values, slopes = _with_one(V), torch.cat([grad, -along], dim=1)
        for i, (t, s) in enumerate(blocks):
            g = grad[t, :, s]
            if ctx.kept:
                P = ctx.kept[i]
            else:
                if rows:
                    scores = block_product(keys[t], queries[t, :, s], scratch)
                else:
                    scores = block_product(K[t], Q[t, :, s], scratch).add_(offsets[t, :, None])
                    scores.mul_(LOG2_E).sub_(level[t, :, s])
                P = (scores.clamp_(min=FLOOR) if ctx.shifted[i] else scores).exp2_()
            if dV is not None:
                add_block(dV[t], g, P.mT, s)
            if dQ is None and dK is None and doff is None:
                continue
            if rows:
                slope = block_product(values[t], slopes[t, :, s], second)
            else:
                slope = block_product(V[t], g, second).sub_(along[t, :, s])
            slope *= P
            if dQ is not None:
                product(K[t], slope, dQ[t, :, s])
            if dK is not None:
                add_block(dK[t], Q[t, :, s], slope.mT, s)
            if doff is not None:
                doff[t] += slope.sum(dim=-1)
        ctx.kept = []
        return dQ, dK, doff, dV


def add_block(total: Tensor, a: Tensor, b: Tensor, queries: slice) -> None:
    """total += a b, where what the first block of queries finds in `total` does not count."""
    torch.baddbmm(total, a, b, beta=int(queries.start > 0), out=total)


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, X: Tensor, G: Tensor) -> Tensor:
        T, d, n = X.shape
        offsets = -((G @ X) * X).sum(dim=-2)
        V = _powers(X)
        E = torch.empty_like(V)
        queries, keys = _base_two(A, X, offsets)
        small = _small(queries, keys)
        blocks = blocks_of(T, n, n, X.device.type)
        scratch = scratch_for(X, blocks, T, n, n)
        for t, s in blocks:
            P, _ = _exp2(block_product(keys[t], queries[t, :, s], scratch), all(small[t]))
            product(V[t], P, E[t, :, s])
        E = E[:, 1:] / E[:, :1]
        ctx.save_for_backward(E)
        return E[:, :d].clone()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed
    def backward(ctx: Any, grad: Tensor) -> Any:
        (E,) = ctx.saved_tensors
        d = grad.shape[1]
        of_pair, of_triple = _monomials(d)
        pairs = d * (d + 1) // 2
        E1, E2, E3 = E.split([d, pairs, E.shape[1] - d - pairs], dim=1)
        along = (grad * E1).sum(dim=1, keepdim=True)
        dA = sum(grad[:, c : c + 1] * E2[:, of_pair[c]] for c in range(d)) - along * E1
        third = torch.bmm(grad, E3.mT)  # (T, d, monomials): entry (c, abc) of the sum over queries
        second = torch.bmm(along, E2.mT)[:, 0, of_pair.flatten()].unflatten(-1, (d, d))
        dG = second - sum(third[:, c, of_triple[c].flatten()] for c in range(d)).unflatten(
            -1, (d, d)
        )
        return dA, None, dG


def _powers(X: Tensor) -> Tensor:
    """All monomials of degree 0 to 3 of X (T, d, n), once each: by degree, then lexicographic."""
    T, d, n = X.shape
    V = X.new_empty(T, math.comb(d + 3, 3), n)
    V[:, 0] = 1
    V[:, 1 : d + 1] = X
    # x_a times those of the degree below that start at x_a or later, which are the last ones
    end = d + 1
    for degree in (1, 2):
        free = end
        for a in range(d):
            count = math.comb(d - a + degree - 1, degree)
            torch.mul(X[:, a : a + 1], V[:, end - count : end], out=V[:, free : free + count])
            free += count
        end = free
    return V


@cache
def _monomials(d: int) -> tuple[Tensor, Tensor]:
    """Where x_a x_b and x_c x_a x_b stand among those of their degree: (d, d) and (d, d, d)."""
    tables = []
    for degree in (2, 3):
        listed = itertools.combinations_with_replacement(range(d), degree)
        place = {indices: i for i, indices in enumerate(listed)}
        entries = [place[tuple(sorted(i))] for i in itertools.product(range(d), repeat=degree)]
        tables.append(torch.tensor(entries).reshape((d,) * degree))
    return tables[0], tables[1]
