"""Softmax attention of points to each other, where keys and values are the points themselves: in
few dimensions, moments replace the backward pass over the pairs."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from constructions.blocked import LOG2_E, Blocks, attention, exp2, small_scores, squares

Tensor = Any  # torch.Tensor

CUBIC = 4  # up to this many dimensions, third moments are cheaper than a second pass


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
        small = small_scores(squares(queries), squares(keys))
        blocks = Blocks(X, n, len(values[0]))
        pieces = blocks.cut((keys.mT, values, small), (queries, sums, top))
        for P, (k, v, unshifted, q, found, row) in zip(blocks.memory(), pieces, strict=True):
            blocks.product(k, q, out=P)
            exp2(P, None if unshifted else row)
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
        factors = torch.cat([grad, along], dim=1) / sums[:, d : d + 1]
        pairs = sums[:, d + 1 :]
        dA = -along * u
        for a in range(d):  # the pairs (a, a), (a, a + 1), ... come first
            dA[:, a:].addcmul_(factors[:, a : a + 1], pairs[:, : d - a])
            dA[:, a] += (factors[:, a + 1 : d] * pairs[:, 1 : d - a]).sum(dim=1)
            pairs = pairs[:, d - a :]
        of_pair, of_triple = _monomials(d)
        found = torch.bmm(factors, sums[:, d + 1 :].mT)
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
