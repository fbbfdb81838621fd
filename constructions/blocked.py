r"""Softmax attention in blocks that fit the cache, forward and backward, never m x n in memory.

For queries Q, keys K, offsets b and values V, one column a token,

    P_ji = exp(k_j . q_i + b_j) / sum_l exp(k_l . q_i + b_l),    u_i = sum_j P_ji v_j.

Negative squared distances have this form: -g|q - k|^2 = 2g q.k - g|k|^2 - g|q|^2, and the last
term cancels. The forward pass keeps the logarithm of the denominator; the backward pass computes
P again from it, block by block. What makes it fast on a processor is that a block of scores stays
in the cache between its product, its exponential and its second product, that base-2 exponentials
are three times as fast as natural ones, and that the longer axis lies innermost in memory.

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

Tensor = Any  # torch.Tensor

LOG2_E = math.log2(math.e)
BLOCK = {"cpu": 1 << 18, "cuda": 1 << 27}  # scores in a block: one megabyte of float32 in a cache
WIDE = 128  # from this width on, computing scores again costs more than keeping them
SAFE = 60.0  # base-2 scores within +-SAFE need no shift: 2^60 summed over any n is a float32
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
    return _Attention.apply(Q, K, offsets, V)


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
    if trained and X.shape[-2] <= CUBIC and not X.requires_grad:
        return _Moments.apply(A, X, G)
    return attention(A, X, -((G @ X) * X).sum(dim=-2), X)


def _blocks(tasks: int, m: int, n: int, device: str) -> list[tuple[slice, slice]]:
    """Slices of problems and of queries, so that a block of scores has at most BLOCK entries."""
    limit = BLOCK.get(device, BLOCK["cpu"])
    together = max(1, limit // (m * n))
    rows = min(m, max(1, limit // n))
    return [
        (slice(t, t + together), slice(s, s + rows))
        for t in range(0, tasks, together)
        for s in range(0, m, rows)
    ]


def _product(K: Tensor, Q: Tensor) -> Tensor:
    """K' Q, (T, n, m), laid out with the longer of its two axes innermost."""
    if K.shape[-1] >= Q.shape[-1]:
        return torch.bmm(Q.mT, K).mT
    return torch.bmm(K.mT, Q)


def _augmented(Q: Tensor, K: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys with one more entry, so that their products are base-2 scores."""
    one = torch.ones_like(Q[:, :1])
    return torch.cat([Q, one], dim=1) * LOG2_E, torch.cat([K, offsets[:, None]], dim=1)


def _moderate(Q: Tensor, K: Tensor) -> bool:
    """Whether |q||k| says that no score leaves +-SAFE. False where there is a NaN."""
    reach = Q.square().sum(dim=1).amax() * K.square().sum(dim=1).amax()
    return bool(reach < SAFE * SAFE)


def _weights(Q: Tensor, K: Tensor, moderate: bool) -> tuple[Tensor, Tensor]:
    """exp2 of the scores of a block, (T, n, m), and what was subtracted first, (T, 1, m)."""
    scores = _product(K, Q)
    if moderate:
        return scores.exp2_(), scores.new_zeros(())
    top = scores.amax(dim=-2, keepdim=True)
    return scores.sub_(top).exp2_(), top


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, offsets: Tensor, V: Tensor) -> Tensor:
        T, w, m = Q.shape
        n, v = K.shape[-1], V.shape[1]
        Qa, Ka = _augmented(Q, K, offsets)
        moderate = _moderate(Qa, Ka)
        keep = w >= WIDE and any(ctx.needs_input_grad)
        first = keep or n <= v  # normalize the weights before the product, or the result after it
        Va = V if first else torch.cat([V, torch.ones_like(V[:, :1])], dim=1)
        out = Q.new_empty(T, Va.shape[1], m)
        level = Q.new_empty(T, 1, m)
        kept = []
        for t, s in _blocks(T, m, n, Q.device.type):
            P, top = _weights(Qa[t, :, s], Ka[t], moderate)
            if first:
                total = P.sum(dim=-2, keepdim=True)
                P /= total
                level[t, :, s] = top + total.log2_()
            else:
                level[t, :, s] = top
            torch.bmm(Va[t], P, out=out[t, :, s])
            if keep:
                kept.append(P)
        if not first:
            level += out[:, v:].log2()
            out = out[:, :v] / out[:, v:]
        ctx.kept = kept
        ctx.save_for_backward(Q, K, offsets, V, out, level)
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> Any:
        Q, K, offsets, V, u, level = ctx.saved_tensors
        (T, _, m), n = Q.shape, K.shape[-1]
        for_Q, for_K, for_offsets, for_V = ctx.needs_input_grad
        Qa, Ka = _augmented(Q, K, offsets)
        # two more entries subtract the level from the scores, and g.u from the products g.v
        Qa, Ka = torch.cat([Qa, -level], 1), torch.cat([Ka, torch.ones_like(Ka[:, :1])], 1)
        ga = torch.cat([grad, -(grad * u).sum(dim=1, keepdim=True)], dim=1)
        Va = torch.cat([V, torch.ones_like(V[:, :1])], dim=1)
        dQ, dK, dV = (
            torch.empty_like(a, memory_format=torch.contiguous_format) if wanted else None
            for a, wanted in ((Q, for_Q), (K, for_K), (V, for_V))
        )
        doff = torch.zeros_like(offsets) if for_offsets else None
        for i, (t, s) in enumerate(_blocks(T, m, n, Q.device.type)):
            P = ctx.kept[i] if ctx.kept else _product(Ka[t], Qa[t, :, s]).exp2_()
            if dV is not None:
                _add(dV[t], grad[t, :, s], P.mT, s)
            if dQ is None and dK is None and doff is None:
                continue
            slope = _product(Va[t], ga[t, :, s]).mul_(P)
            if dQ is not None:
                torch.bmm(K[t], slope, out=dQ[t, :, s])
            if dK is not None:
                _add(dK[t], Q[t, :, s], slope.mT, s)
            if doff is not None:
                doff[t] += slope.sum(dim=-1)
        ctx.kept = []
        return dQ, dK, doff, dV


def _add(total: Tensor, a: Tensor, b: Tensor, queries: slice) -> None:
    """total += a b, where what the first block of queries finds in `total` does not count."""
    torch.baddbmm(total, a, b, beta=int(queries.start > 0), out=total)


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, X: Tensor, G: Tensor) -> Tensor:
        T, d, n = X.shape
        Qa, Ka = _augmented(A, X, -((G @ X) * X).sum(dim=-2))
        pairs, triples, _, _ = _monomials(d)
        X2 = X[:, pairs[0]] * X[:, pairs[1]]
        X3 = X2[:, triples[0]] * X[:, triples[1]]
        V = torch.cat([torch.ones_like(X[:, :1]), X, X2, X3], dim=1)
        moderate = _moderate(Qa, Ka)
        E = X.new_empty(T, V.shape[1], n)
        for t, s in _blocks(T, n, n, X.device.type):
            P, _ = _weights(Qa[t, :, s], Ka[t], moderate)
            torch.bmm(V[t], P, out=E[t, :, s])
        E = E[:, 1:] / E[:, :1]
        ctx.save_for_backward(E)
        return E[:, :d].clone()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> Any:
        (E,) = ctx.saved_tensors
        d = grad.shape[1]
        pairs, _, of_pair, of_triple = _monomials(d)
        E1, E2, E3 = E.split([d, len(pairs[0]), E.shape[1] - d - len(pairs[0])], dim=1)
        along = (grad * E1).sum(dim=1, keepdim=True)
        dA = sum(grad[:, c : c + 1] * E2[:, of_pair[c]] for c in range(d)) - along * E1
        third = torch.bmm(grad, E3.mT)  # (T, d, monomials): entry (c, abc) of the sum over queries
        second = torch.bmm(along, E2.mT)[:, 0, of_pair.flatten()].unflatten(-1, (d, d))
        dG = second - sum(third[:, c, of_triple[c].flatten()] for c in range(d)).unflatten(
            -1, (d, d)
        )
        return dA, None, dG


@cache
def _monomials(d: int) -> tuple[Any, Any, Any, Any]:
    """Index tables of the monomials of degree 2 and 3 in d variables, each listed once.

    (first, second) factor of each pair; (pair, factor) of each triple; the places of x_a x_b,
    (d, d), and of x_c x_a x_b, (d, d, d), in these lists.
    """
    pairs = list(itertools.combinations_with_replacement(range(d), 2))
    triples = list(itertools.combinations_with_replacement(range(d), 3))
    place2 = {p: i for i, p in enumerate(pairs)}
    place3 = {t: i for i, t in enumerate(triples)}

    def table(order: int, place: dict[Any, int]) -> Tensor:
        entries = [place[tuple(sorted(i))] for i in itertools.product(range(d), repeat=order)]
        return torch.tensor(entries).reshape((d,) * order)

    return (
        ([a for a, _ in pairs], [b for _, b in pairs]),
        ([place2[t[:2]] for t in triples], [t[2] for t in triples]),
        table(2, place2),
        table(3, place3),
    )
