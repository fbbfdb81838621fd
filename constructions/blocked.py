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

Points attending to each other, where keys and values are the points themselves, have a shortcut in
few dimensions: `self_attention`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
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
        offsets = squared(K, scale) if offsets is None else offsets
        return torch.softmax(torch.baddbmm(offsets[..., None], K.mT, Q, alpha=scale), dim=-2)
    if offsets is None:
        return torch.softmax(_Scores.apply(Q, K, scale), dim=-1).mT
    return torch.softmax(torch.baddbmm(offsets[:, None], Q.mT, K, alpha=scale), dim=-1).mT


def squared(K: Tensor, scale: float) -> Tensor:
    """The offsets (T, n) of negative squared distances."""
    return K.square().sum(dim=1) * (-scale / 2)


def fused(
    Q: Tensor, K: Tensor, V: Tensor, scale: float = 1.0, offsets: Tensor | None = None
) -> Tensor:
    """`attention` by torch's own fused kernels, which are fast on a GPU and take widths that are
    multiples of 8, up to `FUSED`."""

    def rows(*parts: Tensor) -> Tensor:
        joined = torch.cat(parts, dim=1)
        return pad(joined.mT, (0, -joined.shape[1] % 8))[:, None]

    offsets = squared(K, scale) if offsets is None else offsets
    q, k, v = rows(Q * scale, torch.ones_like(Q[:, :1])), rows(K, offsets[:, None]), rows(V)
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
    return attention(A, X, X, offsets=-((G @ X) * X).sum(dim=-2))


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

    Attributes
    ----------
    product : torch.mm or torch.bmm, whichever fits the blocks
    """

    def __init__(self, Q: Tensor, n: int) -> None:
        self._like, (T, w, self._m), self._n = Q, Q.shape, n
        limit = BLOCK.get(Q.device.type, BLOCK["cpu"]) * (4 if w >= WIDE else 1)
        self._together = min(T, max(1, limit // (self._m * n)))
        self._rows = min(self._m, max(1, limit // n))
        self._alone = self._together == 1
        self.product = torch.mm if self._alone else torch.bmm

    def cut(self, of_problems: Sequence[Any], of_queries: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What belongs to each block: of tensors (T, ...) all of its problems, of tensors
        (T, ..., m) that of its queries only. A list has an entry a problem; None stays None."""
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
        return zip(
            *(
                self._problems(a[..., start : start + self._rows])
                for start in range(0, self._m, self._rows)
            ),
            strict=True,
        )

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

    def add(self, a: Tensor, b: Tensor, total: Tensor, alpha: float = 1, beta: float = 1) -> None:
        """alpha a b + beta total, in `total`; what is there does not matter if beta is 0."""
        (total.addmm_ if self._alone else total.baddbmm_)(a, b, alpha=alpha, beta=beta)


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


def _small(Q: Tensor, K: Tensor) -> list[bool]:
    """For which problems |q||k| says that no score leaves +-SAFE; a NaN says nothing."""
    reach = Q.square().sum(dim=1).amax(dim=-1) * K.square().sum(dim=1).amax(dim=-1)
    return (reach < SAFE * SAFE).tolist()


def _exp2(scores: Tensor, top: Tensor | None) -> None:
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
        squares = K.square().sum(dim=1, keepdim=True)
        return torch.baddbmm(squares, Q.mT, K, beta=-scale / 2, alpha=scale)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed
    def backward(ctx: Any, grad: Tensor) -> Any:
        Q, K = ctx.saved_tensors
        grad = grad * ctx.scale
        dK = -grad.sum(dim=1, keepdim=True) * K
        return K @ grad.mT, dK.baddbmm_(Q, grad), None


class _Attention(torch.autograd.Function):
    """What is added to all scores of a key, or of a query, is a row more of the operands, unless
    that means to copy more numbers than there are scores."""

    @staticmethod
    def forward(
        ctx: Any, Q: Tensor, K: Tensor, V: Tensor, scale: float, offsets: Tensor | None
    ) -> Tensor:
        T, w, m = Q.shape
        n, v = K.shape[-1], V.shape[1]
        b = squared(K, scale) if offsets is None else offsets
        keep = w >= WIDE and any(ctx.needs_input_grad)
        first = keep or n <= v  # normalize the weights before the product, or the result after it
        rows = m * n > (m + n) * w
        if rows:
            queries, keys = _base_two(Q, K, scale, b)
            small = _small(queries, keys)
        else:
            queries, keys, b, small = Q, K, (b * LOG2_E)[..., None], [False] * T
        values = V
        if rows or not first:
            values = keys[:, : w + 1] if rows and V is K else _with_one(V)
        sums = Q.new_empty(T, v if first else v + 1, m)
        total = Q.new_empty(T, 1, m) if first else sums[:, v:]
        shift = Q.new_zeros(T, 1, m)
        blocks = Blocks(Q, n)
        memory = blocks.memory(apart=keep)
        pieces = blocks.cut(
            (keys.mT, b, values[:, : sums.shape[1]], small), (queries, sums, total, shift)
        )
        for P, (k, b_, x, unshifted, q, found, row, top) in zip(memory, pieces, strict=True):
            if rows:
                blocks.product(k, q, out=P)
            else:
                blocks.add(k, q, P.copy_(b_), scale * LOG2_E)
            _exp2(P, None if unshifted else top)
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
        dQ, dK, dV, doff = (
            torch.zeros_like(a, memory_format=torch.contiguous_format) if needed else None
            for a, needed in zip((Q, K, V, K[:, 0]), wanted, strict=True)
        )
        scores_wanted = not (dQ is None and dK is None and doff is None)
        along = (grad * u).sum(dim=1, keepdim=True)
        slopes = torch.cat([grad, -along], dim=1) if rows else grad
        values = values[:, : slopes.shape[1]]
        blocks = Blocks(Q, K.shape[-1])
        pieces = blocks.cut(
            (keys.mT, K, b, values.mT, ctx.small, dK, doff, dV),
            (queries, slopes, Q, grad, level, along, dQ),
        )
        for P, slope, piece in zip(
            ctx.kept or blocks.memory(), blocks.memory(), pieces, strict=True
        ):
            k, K_, b_, x, unshifted, dK_, doff_, dV_ = piece[:8]
            q, s, Q_, g, top, mean, dQ_ = piece[8:]
            if not ctx.kept:
                if rows:
                    blocks.product(k, q, out=P)
                else:
                    blocks.add(k, q, P.copy_(b_), scale * LOG2_E)
                    P.sub_(top)
                (P if unshifted else P.clamp_(min=FLOOR)).exp2_()
            if dV_ is not None:
                blocks.add(g, P.mT, dV_)
            if not scores_wanted:
                continue
            blocks.product(x, s, out=slope)
            if not rows:
                slope.sub_(mean)
            slope.mul_(P)
            if dQ_ is not None:
                blocks.add(K_, slope, dQ_, scale, beta=0)
            if dK_ is not None:
                blocks.add(Q_, slope.mT, dK_, scale)
            if doff_ is not None:
                doff_.add_(slope.sum(dim=-1))
        ctx.kept = []
        if dK is not None and doff is not None and ctx.distances:
            dK.addcmul_(K, doff[:, None], value=-scale)
        return dQ, dK, dV, None, None if ctx.distances else doff


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, X: Tensor, G: Tensor) -> Tensor:
        T, d, n = X.shape
        V = _powers(X)
        V[:, 0] = ((G @ X) * X).sum(dim=-2).neg_()
        keys, values = V[:, : d + 1], V[:, 1:]
        queries = torch.empty_like(keys)
        queries[:, 0] = LOG2_E
        torch.mul(A, LOG2_E, out=queries[:, 1:])
        sums, top = torch.empty_like(values), X.new_empty(T, 1, n)
        small = _small(queries, keys)
        blocks = Blocks(X, n)
        pieces = blocks.cut((keys.mT, values, small), (queries, sums, top))
        for P, (k, v, unshifted, q, found, row) in zip(blocks.memory(), pieces, strict=True):
            blocks.product(k, q, out=P)
            _exp2(P, None if unshifted else row)
            blocks.product(v, P, out=found)
        u = sums[:, :d] / sums[:, d : d + 1]
        ctx.save_for_backward(sums, u)
        return u

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed
    def backward(ctx: Any, grad: Tensor) -> Any:
        sums, u = ctx.saved_tensors
        d = grad.shape[1]
        along = (grad * u).sum(dim=1, keepdim=True)
        # sums are averages times the one of 1
        weights = torch.cat([grad, along], dim=1) / sums[:, d : d + 1]
        pairs = sums[:, d + 1 :]
        dA = -along * u
        for a in range(d):  # the pairs (a, a), (a, a + 1), ... come first
            dA[:, a:].addcmul_(weights[:, a : a + 1], pairs[:, : d - a])
            dA[:, a] += (weights[:, a + 1 : d] * pairs[:, 1 : d - a]).sum(dim=1)
            pairs = pairs[:, d - a :]
        of_pair, of_triple = _monomials(d)
        found = torch.bmm(weights, sums[:, d + 1 :].mT)
        dG = found[:, d, of_pair] - found.flatten(1)[:, of_triple].sum(dim=1)
        return dA, None, dG


def _powers(X: Tensor) -> Tensor:
    """Rows (T, ..., n): one that is left free, X (T, d, n), ones, and the monomials of degree 2 and
    3, once each, by degree and then lexicographic."""
    T, d, n = X.shape
    V = X.new_empty(T, 1 + math.comb(d + 3, 3), n)
    V[:, 1 : d + 1], V[:, d + 1] = X, 1
    # x_a times those of the degree below that start at x_a or later, which are the last ones
    end, free = d + 1, d + 2
    for degree in (1, 2):
        for a in range(d):
            count = math.comb(d - a + degree - 1, degree)
            torch.mul(X[:, a : a + 1], V[:, end - count : end], out=V[:, free : free + count])
            free += count
        end = free
    return V


@cache
def _monomials(d: int) -> tuple[Tensor, Tensor]:
    """Where to find sums over the queries, (d + 1, monomials of degree 2 and 3), whose row c comes
    with weight g_c: x_a x_b in the last row, (d, d), and x_c x_a x_b in row c of all rows joined,
    (d, d, d)."""
    places = []
    listed: list[tuple[int, ...]] = []
    for degree in (2, 3):
        listed += itertools.combinations_with_replacement(range(d), degree)
    place = {indices: i for i, indices in enumerate(listed)}
    for degree in (2, 3):
        entries = [place[tuple(sorted(i))] for i in itertools.product(range(d), repeat=degree)]
        places.append(torch.tensor(entries).reshape((d,) * degree))
    of_pair, of_triple = places
    return of_pair, of_triple + len(listed) * torch.arange(d)[:, None, None]
