r"""Softmax attention in blocks that fit the cache, forward and backward, never m x n in memory,
unless one of the two is small.

For queries Q, keys K, a scale a, offsets b and values V, one column a token,

    P_ji = exp(a k_j . q_i + b_j) / sum_l exp(a k_l . q_i + b_l),    u_i = sum_j P_ji v_j.

Negative squared distances have this form: -g|q - k|^2 = 2g q.k - g|k|^2 - g|q|^2, and the last
term cancels. So a = 2g, and b_j = -a|k_j|^2 / 2 if no offsets are given.

The forward pass keeps the logarithm of the denominator; the backward pass computes P again from
it, block by block. What makes it fast on a processor is that a block of scores stays in the cache
between its product, its exponential and its second product, and that base-2 exponentials are three
times as fast as natural ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad, scaled_dot_product_attention

Tensor = Any  # torch.Tensor

LOG2_E = math.log2(math.e)
BLOCK = {"cpu": 1 << 18, "cuda": 1 << 27}  # scores in a block: one megabyte of float32 in a cache
WIDE = 128  # from this width on, computing scores again costs more than keeping them
SAFE = 60.0  # base-2 scores within +-SAFE need no shift: 2^60 summed over any n is a float32
FLOOR = -100.0  # a base-2 score so far below the largest is lost in rounding, and not subnormal
FUSED = 256  # widths below this are for torch's fused kernels on a GPU
FEW = 32  # keys or queries: up to here the matrix of weights is small, and torch.softmax is faster


def attention(
    Q: Tensor, K: Tensor, V: Tensor, scale: float = 1.0, offsets: Tensor | None = None
) -> Tensor:
    """u, (T, v, m), for T independent problems; differentiable in all tensors.

    Parameters
    ----------
    Q : (T, w, m) queries
    K : (T, w, n) keys
    V : (T, v, n) values
    scale : positive, multiplies products of queries and keys
    offsets : (T, n), added to the scores of a key; without them the scores are -scale/2 |q - k|^2
    """
    if Q.is_cuda and Q.shape[1] < FUSED:
        return fused(Q, K, V, scale, offsets)
    if few(min(Q.shape[-1], K.shape[-1])):
        return V @ weights(Q, K, scale, offsets)
    return _Attention.apply(Q, K, V, scale, offsets)


def few(tokens: int) -> bool:
    """Whether the weights of so many queries or keys are small enough to be kept."""
    return tokens <= FEW


def weights(Q: Tensor, K: Tensor, scale: float = 1.0, offsets: Tensor | None = None) -> Tensor:
    """P, (T, n, m), for few keys or few queries."""
    if Q.shape[-1] > K.shape[-1]:
        offsets = distance_offsets(K, scale) if offsets is None else offsets
        return torch.softmax(torch.baddbmm(offsets[..., None], K.mT, Q, alpha=scale), dim=-2)
    if offsets is None:
        return torch.softmax(_Scores.apply(Q, K, scale), dim=-1).mT
    return torch.softmax(torch.baddbmm(offsets[:, None], Q.mT, K, alpha=scale), dim=-1).mT


def distance_offsets(K: Tensor, scale: float) -> Tensor:
    """The offsets (T, n) of negative squared distances."""
    return squares(K) * (-scale / 2)


def fused(
    Q: Tensor, K: Tensor, V: Tensor, scale: float = 1.0, offsets: Tensor | None = None
) -> Tensor:
    """`attention` by torch's own fused kernels, which are fast on a GPU and take widths that are
    multiples of 8, up to `FUSED`."""

    def rows(*parts: Tensor) -> Tensor:
        joined = torch.cat(parts, dim=1)
        return pad(joined.mT, (0, -joined.shape[1] % 8))[:, None]

    offsets = distance_offsets(K, scale) if offsets is None else offsets
    q, k, v = rows(Q * scale, torch.ones_like(Q[:, :1])), rows(K, offsets[:, None]), rows(V)
    u = scaled_dot_product_attention(q, k, v, scale=1.0)
    return u[:, 0, :, : V.shape[1]].mT


class Blocks:
    """T problems with m queries and n keys, cut so that a block of scores fits the cache: some
    problems at a time, or some queries of one problem.

    A block of scores takes a tenth of a millisecond and drives the interpreter out of the cache, so
    that a call between two products costs many microseconds. Hence all views are made beforehand,
    and problems that are alone in a block lose their leading axis: the product of two matrices
    starts faster than that of two stacks of one.

    Parameters
    ----------
    Q : (T, w, m) queries
    n : keys of a problem
    v : rows of a value

    Attributes
    ----------
    product : torch.mm or torch.bmm, whichever fits the blocks
    first : for each block, whether it is the first of its problem
    """

    def __init__(self, Q: Tensor, n: int, v: int) -> None:
        self._like, (T, w, self._m), self._n = Q, Q.shape, n
        # wide products are slow in narrow blocks, which costs more than the cache saves
        limit = BLOCK.get(Q.device.type, BLOCK["cpu"]) * (4 if max(w, v) >= WIDE else 1)
        self._together = min(T, max(1, limit // (self._m * n)))
        self._rows = min(self._m, max(1, limit // n))
        self._alone = self._together == 1
        self.product = torch.mm if self._alone else torch.bmm
        parts = -(-self._m // self._rows)
        self.first = [i % parts == 0 for i in range(-(-T // self._together) * parts)]

    def cut(self, of_problems: Sequence[Any], of_queries: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What belongs to each block: of tensors (T, ...) all of its problems, of tensors
        (T, ..., m) that of its queries only. Of a list of truths, one a problem, whether all of its
        problems have it; None stays None."""
        pieces = zip(
            *map(self._problems, of_problems), *map(self._queries, of_queries), strict=False
        )
        split = len(of_problems)
        return [
            (*piece[:split], *queries)
            for piece in pieces
            for queries in zip(*piece[split:], strict=False)
        ]

    def _problems(self, a: Any) -> Iterable[Any]:
        if a is None:
            return itertools.repeat(None)
        if isinstance(a, list):
            return [all(a[t : t + self._together]) for t in range(0, len(a), self._together)]
        return a.unbind() if self._alone else a.split(self._together)

    def _queries(self, a: Any) -> Iterable[Any]:
        if a is None:
            return itertools.repeat(itertools.repeat(None))
        if self._rows == self._m:
            return [(part,) for part in self._problems(a)]
        return [part.split(self._rows, dim=-1) for part in self._problems(a)]

    def memory(self, apart: bool = False) -> list[Tensor]:
        """For each block, where its scores (..., n, rows) can stand: all at the same place, or all
        apart."""
        T, place = len(self._like), None
        found: list[Tensor] = []
        for t in range(0, T, self._together):
            lead = () if self._alone else (min(self._together, T - t),)
            for start in range(0, self._m, self._rows):
                shape = (*lead, self._n, min(self._rows, self._m - start))
                if place is None or apart:
                    place = self._like.new_empty(shape)
                if not apart and found and found[-1].shape == shape:
                    found.append(found[-1])
                else:
                    found.append(place.flatten()[: math.prod(shape)].view(shape))
        return found


def add(total: Tensor, a: Tensor, b: Tensor, scale: float = 1.0, first: bool = False) -> None:
    """scale a b, of matrices or of stacks of them, added to `total`, or the first of what stands
    there."""
    (total.addmm_ if total.ndim == 2 else total.baddbmm_)(a, b, alpha=scale, beta=not first)


def _with_one(A: Tensor) -> Tensor:
    return torch.cat([A, torch.ones_like(A[:, :1])], dim=1)


def _base_two(Q: Tensor, K: Tensor, scale: float, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys with rows more, [scale Q, -level, 1] log2(e) and [K, 1, offsets]: their
    products are the scores in base 2, less what will stand in the place of `level`, which is 0 for
    now."""
    T, w, m = Q.shape
    queries, keys = Q.new_empty(T, w + 2, m), K.new_empty(T, w + 2, K.shape[-1])
    torch.mul(Q, scale * LOG2_E, out=queries[:, :w])
    queries[:, w], queries[:, w + 1] = 0, LOG2_E
    keys[:, :w], keys[:, w], keys[:, w + 1] = K, 1, offsets
    return queries, keys


def squares(A: Tensor) -> Tensor:
    """|a|^2 of all tokens, (T, n)."""
    return A.square().sum(dim=1)


def small_scores(
    q: Tensor, k: Tensor, scale: float = 1.0, offsets: Tensor | None = None
) -> list[bool]:
    """For which problems the `squares` of queries and keys say that no score leaves +-SAFE: their
    products, or with offsets scale k.q + offset, turned into base 2. A NaN says nothing."""
    reach = (q.amax(dim=-1) * k.amax(dim=-1)).sqrt_()
    if offsets is not None:
        reach = reach.mul_(scale).add_(offsets.abs().amax(dim=-1)).mul_(LOG2_E)
    return (reach < SAFE).tolist()


def exp2(scores: Tensor, top: Tensor | None) -> None:
    """exp2 of base-2 scores (..., n, m), in place; if `top` is given, less their maxima, which are
    written there."""
    if top is not None:
        torch.amax(scores, dim=-2, keepdim=True, out=top)
        scores.sub_(top).clamp_(min=FLOOR)
    scores.exp2_()


class _Scores(torch.autograd.Function):
    """scale (k_j . q_i - |k_j|^2 / 2), (T, m, n): -scale/2 |q_i - k_j|^2 less what is constant over
    the keys."""

    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        ctx.save_for_backward(Q, K)
        return torch.baddbmm(squares(K)[:, None], Q.mT, K, beta=-scale / 2, alpha=scale)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed
    def backward(ctx: Any, grad: Tensor) -> Any:
        (Q, K), scale = ctx.saved_tensors, ctx.scale
        dQ = torch.baddbmm(Q, K, grad.mT, beta=0, alpha=scale)
        dK = (grad.sum(dim=1, keepdim=True) * -scale) * K
        return dQ, dK.baddbmm_(Q, grad, alpha=scale), None


class _Attention(torch.autograd.Function):
    """What is added to all scores of a key, or of a query, is a row more of the operands, unless
    that means to copy more numbers than there are scores."""

    @staticmethod
    def forward(
        ctx: Any, Q: Tensor, K: Tensor, V: Tensor, scale: float, offsets: Tensor | None
    ) -> Tensor:
        T, w, m = Q.shape
        n, v = K.shape[-1], V.shape[1]
        sizes = squares(K)
        b = sizes * (-scale / 2) if offsets is None else offsets
        keep = w >= WIDE and any(ctx.needs_input_grad)
        first = keep or n <= v  # normalize the weights before the product, or the result after it
        rows, ones = (m * n > (m + n) * width for width in (w, v))
        if rows:
            queries, keys = _base_two(Q, K, scale, b)
            small = small_scores(squares(Q), sizes, scale, b)
        else:
            queries, keys, b, small = Q, K, (b * LOG2_E)[..., None], [False] * T
        values = V
        if ones or not first:
            values = keys[:, : w + 1] if rows and V is K else _with_one(V)
        sums = Q.new_empty(T, v if first else v + 1, m)
        total = Q.new_empty(T, 1, m) if first else sums[:, v:]
        shift = Q.new_zeros(T, 1, m)
        blocks = Blocks(Q, n, v)
        memory = blocks.memory(apart=keep)
        pieces = blocks.cut(
            (keys.mT, b, values[:, : sums.shape[1]], small), (queries, sums, total, shift)
        )
        for P, (k, b_, x, unshifted, q, found, row, top) in zip(memory, pieces, strict=True):
            if rows:
                blocks.product(k, q, out=P)
            else:
                add(P.copy_(b_), k, q, scale * LOG2_E)
            exp2(P, None if unshifted else top)
            if first:
                P /= torch.sum(P, dim=-2, keepdim=True, out=row)
            blocks.product(x, P, out=found)
        u = sums if first else sums[:, :v] / total
        level = total.log2() + shift
        if rows:
            queries[:, w : w + 1] = -level
        ctx.rows, ctx.scale, ctx.small = rows, scale, small
        ctx.distances, ctx.kept = offsets is None, memory if keep else []
        ctx.save_for_backward(Q, K, V, b, queries, keys, values, level, u)
        return u

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed
    def backward(ctx: Any, grad: Tensor) -> Any:
        Q, K, V, b, queries, keys, values, level, u = ctx.saved_tensors
        rows, scale = ctx.rows, ctx.scale
        wanted = [*ctx.needs_input_grad[:3], ctx.needs_input_grad[4]]
        wanted[3] |= wanted[1] and ctx.distances
        dQ, dK, dV = (
            a.new_empty(a.shape) if needed else None
            for a, needed in zip((Q, K, V), wanted[:3], strict=True)
        )
        doff = K.new_zeros(K[:, 0].shape) if wanted[3] else None
        scores_wanted = not (dQ is None and dK is None and doff is None)
        along = (grad * u).sum(dim=1, keepdim=True)
        ones = values.shape[1] > V.shape[1]
        slopes = torch.cat([grad, -along], dim=1) if ones else grad
        blocks = Blocks(Q, K.shape[-1], V.shape[1])
        pieces = blocks.cut(
            (keys.mT, K, b, values.mT, ctx.small, dK, doff, dV),
            (queries, slopes, Q, grad, level, along, dQ),
        )
        for P, slope, first, piece in zip(
            ctx.kept or blocks.memory(), blocks.memory(), blocks.first, pieces, strict=True
        ):
            k, K_, b_, x, unshifted, dK_, doff_, dV_ = piece[:8]
            q, s, Q_, g, top, mean, dQ_ = piece[8:]
            if not ctx.kept:
                if rows:
                    blocks.product(k, q, out=P)
                else:
                    add(P.copy_(b_), k, q, scale * LOG2_E)
                    P.sub_(top)
                (P if unshifted else P.clamp_(min=FLOOR)).exp2_()
            if dV_ is not None:
                add(dV_, g, P.mT, first=first)
            if not scores_wanted:
                continue
            blocks.product(x, s, out=slope)
            if not ones:
                slope.sub_(mean)
            slope.mul_(P)
            if dQ_ is not None:
                add(dQ_, K_, slope, scale, first=True)
            if dK_ is not None:
                add(dK_, Q_, slope.mT, scale, first)
            if doff_ is not None:
                doff_.add_(slope.sum(dim=-1))
        ctx.kept = []
        if dK is not None and doff is not None and ctx.distances:
            dK.addcmul_(K, doff[:, None], value=-scale)
        return dQ, dK, dV, None, None if ctx.distances else doff
