r"""Weights of the regularized minimum: softmax, sparsemax, and the entmax family around them.

All take u = (r - min r) / temperature, finite and with a smallest entry of 0, and find P on the
simplex of the last axis. With b = alpha - 1,

    P_j = E(u_j + s),      E(y) = [1 - b y]_+^(1/b)      (exp(-y) for alpha = 1),

for the one s >= 0 that makes them sum to 1 (docs/theory/surrogates.md, "The entmax family").
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from array_api_compat import is_torch_array

from constructions.arrays import Array, NumberSystem

_FEW = 8  # up to so many entries are sorted by comparing all pairs
_ROUNDS = 100  # Newton steps; about 10 are needed, so this only guards against an endless loop


def softmax(u: Array, system: NumberSystem) -> Array:
    """alpha = 1: exp(-u), normalized."""
    w = system.xp.exp(-u)
    return w / system.xp.sum(w, axis=-1, keepdims=True)


def sparsemax_threshold(u: Array, system: NumberSystem) -> Array:
    """alpha = 2: the t (..., 1) in (0, 1] for which the weights max(t - u, 0) sum to 1. Exact in
    rationals.

    Rounding, in halves h of eps, to first order: u was rounded twice, so that u_j <= 1 is off by at
    most 2 h, which moves t by no more. A sum that is made with c additions in sequence is off by a
    factor of at most 1 + c h, and dividing adds h. So t is within (c + 3) h, a weight within
    (c + 6) h, and the sum of s weights within s (c + 2) h of 1. No library that we know makes more
    than c = 64 additions in sequence, whatever k: they add in lanes and in pairs.
    """
    return _by_sorting(u, system) if u.shape[-1] <= _FEW else _by_newton(u, system)


def _by_sorting(u: Array, system: NumberSystem) -> Array:
    """The threshold is the smallest of (1 + sum of the m smallest entries) / m over m: each is the
    solution for m entries alone, so none is too small, and the support is one of these sets.

    Few entries are sorted fastest by exchanging whole columns.
    """
    smaller, larger = _exchange(u, system)
    columns = [u[..., j : j + 1] for j in range(u.shape[-1])]
    for i, j in _sorting_network(len(columns)):
        a, b = columns[i], columns[j]
        columns[i], columns[j] = smaller(a, b), larger(a, b)
    total = threshold = system.full((*u.shape[:-1], 1), 1)
    for m, column in enumerate(columns[1:], 2):  # the smallest entry is 0
        total = total + column
        threshold = smaller(threshold, total / m)
    return threshold


@cache
def _sorting_network(k: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort: which places to put in order, one pair after another."""
    pairs: list[tuple[int, int]] = []
    p = 1
    while p < k:
        q = p
        while q:
            for start in range(q % p, k - q, 2 * q):
                pairs += [
                    (i, i + q)
                    for i in range(start, min(start + q, k - q))
                    if i // (2 * p) == (i + q) // (2 * p)
                ]
            q //= 2
        p *= 2
    return pairs


def _by_newton(u: Array, system: NumberSystem) -> Array:
    """Newton's method on sum_j max(t - u_j, 0) = 1, convex and piecewise linear in t.

    From t = 1, the solution if the smallest entry stood alone, it comes down without passing the
    solution, and is there when the support stops shrinking: after at most k steps, and after about
    10 in practice.
    """
    xp = system.xp
    threshold = system.full((*u.shape[:-1], 1), 1)
    size = threshold + u.shape[-1]
    support = None
    for _ in range(u.shape[-1] + 1):
        support = below(u, threshold, system, support)
        before, size = size, xp.sum(support, axis=-1, keepdims=True)
        if _equal(size, before, system):
            break
        support *= u
        threshold = (xp.sum(support, axis=-1, keepdims=True) + 1) / size
    return threshold


def entmax(u: Array, alpha: float, system: NumberSystem) -> Array:
    """Any alpha > 1 in floats."""
    p = _by_smooth_newton(u, alpha, system) if alpha < 2 else _by_bisection(u, alpha, system)
    return p / system.xp.sum(p, axis=-1, keepdims=True)


def _by_smooth_newton(u: Array, alpha: float, system: NumberSystem) -> Array:
    """Newton's method for s, 1 < alpha < 2, on the norm (sum_j E(u_j + s))^b = 1.

    In 1 - b s this is the 1/b-norm of the positive parts, which is convex, so the method comes
    down to the solution as it does for alpha = 2; and for alpha near 1 it is nearly linear.
    """
    xp = system.xp
    b = alpha - 1
    enough = 1 + (u.shape[-1] + 8) * system.eps  # a sum of k weights is no better than this
    s = system.full((*u.shape[:-1], 1), 0)
    for _ in range(_ROUNDS):
        p, slope = _deformed_exponential(u + s, alpha, system)
        total = xp.sum(p, axis=-1, keepdims=True)
        step = -xp.expm1(-b * xp.log(total)) / b * total
        s = s + step / xp.sum(slope, axis=-1, keepdims=True)
        if bool(xp.all(total <= enough)):
            break
    return _deformed_exponential(u + s, alpha, system)[0]


def _deformed_exponential(y: Array, alpha: float, system: NumberSystem) -> tuple[Array, Array]:
    """E(y), and minus its derivative E(y)^(2 - alpha)."""
    b = alpha - 1
    if alpha == 1.5:
        root = clip(1 - y / 2, system, low=0)
        return root * root, root
    # log1p keeps every digit when alpha is near 1; outside of the support it is -inf
    log = system.xp.log1p(-clip(b * y, system, high=1)) / b
    return system.xp.exp(log), system.xp.exp(log * (1 - b))


def _by_bisection(u: Array, alpha: float, system: NumberSystem) -> Array:
    """alpha > 2, where the norm is not convex: P_j = [t - v_j]_+^(1/b) with v = b u, bisecting t.

    A power below 1 magnifies the rounding of t next to a v_j. So the origin is moved to what was
    found, and a second round of bisections finds the rest of t.
    """
    xp = system.xp
    b = alpha - 1
    v = clip(u * b, system, high=1)
    high = system.full((*u.shape[:-1], 1), 1)
    low = high * float(u.shape[-1]) ** -b
    for _ in range(2):
        for _ in range(2 - int(math.log2(system.eps))):
            middle = (low + high) / 2
            total = xp.sum(clip(middle - v, system, low=0) ** (1 / b), axis=-1, keepdims=True)
            low, high = xp.where(total < 1, middle, low), xp.where(total < 1, high, middle)
        v, low, high = v - low, low - low, high - low
    return clip(high - v, system, low=0) ** (1 / b)


# The primitives below have a form for torch that takes half of the time of the portable one.


def clip(a: Array, system: NumberSystem, low: Any = None, high: Any = None) -> Array:
    """min(max(a, low), high), where a bound is a number or None. May write over `a`."""
    if is_torch_array(a):
        return a.clamp_(low, high)
    if low is not None:
        a = system.xp.maximum(a, system.full((1,), low))
    return a if high is None else system.xp.minimum(a, system.full((1,), high))


def below(a: Array, b: Array, system: NumberSystem, out: Array = None) -> Array:
    """1 where a < b, else 0, as numbers; one is broadcast to the other. May write over `out`."""
    if is_torch_array(a):
        import torch

        if out is None:
            out = torch.empty_like(max(a, b, key=lambda x: (x.ndim, x.numel())))
        return torch.lt(a, b, out=out)
    return system.indicator(a < b)


def _exchange(a: Array, system: NumberSystem) -> tuple[Any, Any]:
    """Entrywise minimum and maximum of two arrays."""
    if is_torch_array(a):
        import torch

        return torch.minimum, torch.maximum
    return system.xp.minimum, system.xp.maximum


def _equal(a: Array, b: Array, system: NumberSystem) -> bool:
    if is_torch_array(a):
        return bool(a.equal(b))
    return bool(system.xp.all(a == b))
