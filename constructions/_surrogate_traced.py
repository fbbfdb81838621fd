"""The surrogates in plain torch operations that look at no value.

`torch.func` transforms, forward-mode differentiation and `torch.compile` watch a computation
instead of only carrying it out: they take no branch that depends on a number, nothing written over,
and no autograd function without rules of its own. Here values come from a search that records
nothing, and derivatives from a formula of the same value, P = found + (formula - formula), where
the second formula is a constant. So values do not depend on who watches.

The formula is P_j = E(u_j + s) on the support found, for the s that makes the sum 1. One Newton
step for s from the solution changes nothing but its derivatives, and doubles the order up to which
these are right: two steps give the first three derivatives for every exponent. For alpha = 2 the
equation is linear in s, and for alpha = 1 there is softmax: all orders.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from constructions.errors import InputError

Tensor = Any  # torch.Tensor

ROUNDS = 16  # Newton steps; 10 are the most that any size, type or exponent was seen to need


def traced(a: Tensor) -> bool:
    """Whether torch watches what is done with `a`: compiling, `torch.func`, forward mode."""
    if not isinstance(a, torch.Tensor):
        return False
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )


def surrogate(r: Tensor, tau: float, alpha: Any) -> Tensor:
    """`surrogates.surrogate` of r (..., k)."""
    low, excess, u = _scaled(_door(r), tau)
    return low[..., 0] + (_weights(u, alpha) * excess).sum(-1)


def gap(r: Tensor, tau: float, alpha: Any) -> Tensor:
    """`surrogates.surrogate_gap` of r (..., k)."""
    low, excess, u = _scaled(_door(r), tau)
    moved = r.amin(-1) - low[..., 0]  # 0, with the derivative of the minimum
    return (_weights(u, alpha) * excess).sum(-1) - moved


def weights(r: Tensor, tau: float, alpha: Any) -> Tensor:
    """`surrogates.surrogate_weights` of r (..., k)."""
    return _weights(_scaled(_door(r), tau)[2], alpha)


def gradient(r: Tensor, tau: float, alpha: Any) -> Tensor:
    """`surrogates.surrogate_gradient` of r (..., k)."""
    _, _, u = _scaled(_door(r), tau)
    p = _weights(u, alpha)
    inside = p.detach() > 0
    slope = torch.where(inside, torch.where(inside, p, 1) ** (2 - float(alpha)), 0)
    reached = torch.where(inside, u, 0)
    mean = (slope * reached).sum(-1, keepdim=True) / slope.sum(-1, keepdim=True)
    return p - slope * (reached - mean)


def smoothed(r: Tensor, tau: Tensor, alpha: Any) -> Tensor:
    """The surrogate over the last axis, at temperatures that broadcast against r (..., k)."""
    low = r.detach().amin(-1, keepdim=True)
    excess = r - low
    return low[..., 0] + (_weights(excess / tau, alpha) * excess).sum(-1)


def _door(r: Tensor) -> Tensor:
    """What can be said of r without looking at its numbers."""
    if r.ndim < 1 or r.shape[-1] == 0:
        raise InputError(f"r has shape {tuple(r.shape)}; expected (..., k) with k >= 1")
    if r.dtype not in (torch.float32, torch.float64):
        raise InputError(f"r has element type {r.dtype}; allowed: float32, float64")
    return r


def _scaled(r: Tensor, tau: float) -> tuple[Tensor, Tensor, Tensor]:
    """min r (..., 1), the excess, and the excess over tau, as `surrogates.scaled` has them.

    The surrogate does not depend on which number is subtracted, so no derivative flows there.
    """
    info = torch.finfo(r.dtype)
    low = r.detach().amin(-1, keepdim=True)
    excess = (r - low).clamp(max=info.max)
    mantissa, exponent = (tau, 0) if info.tiny <= tau <= info.max else math.frexp(tau)
    u = excess
    while exponent:  # a temperature that the type cannot hold is applied in steps
        step = max(-100, min(100, -exponent))
        u = (u * 2.0**step).clamp(max=info.max)
        exponent += step
    return low, excess, (u / mantissa).clamp(max=info.max)


def _weights(u: Tensor, alpha: Any) -> Tensor:
    """P (..., k) from the scaled excess u, whose smallest entry is 0."""
    if alpha == 1:
        return torch.softmax(-u, dim=-1)
    alpha = float(alpha)
    b = alpha - 1
    fixed = u.detach()
    if alpha == 2:
        p = (_threshold(fixed) - fixed).clamp(min=0)
    else:
        p = _by_newton(fixed, b) if alpha < 2 else _by_bisection(fixed, b)
        p = p / p.sum(-1, keepdim=True)
    top = p.amax(-1, keepdim=True)
    s = -torch.expm1(b * top.log()) / b
    inside = p > 0
    for _ in range(2):
        formula, slope = _exponential(u + s, b, inside)
        total = formula.sum(-1, keepdim=True)
        # less what it is, not less 1: its rounding would meet derivatives of a steep slope
        s = s + (total - total.detach()) / slope.sum(-1, keepdim=True)
    formula, _ = _exponential(u + s, b, inside)
    return p + (formula - formula.detach())


def _threshold(u: Tensor) -> Tensor:
    """The t (..., 1) for which max(t - u, 0) sums to 1: the smallest of (1 + sum of the m smallest
    entries) / m over m. What is 1 above the smallest is never inside."""
    ordered = u.clamp(max=1).sort(dim=-1).values
    sizes = torch.arange(1, u.shape[-1] + 1, dtype=u.dtype, device=u.device)
    return ((ordered.cumsum(-1) + 1) / sizes).amin(-1, keepdim=True)


def _exponential(y: Tensor, b: float, inside: Tensor) -> tuple[Tensor, Tensor]:
    """E(y) = (1 - b y)^(1/b) and minus its derivative, inside of the support; 0 elsewhere."""
    edge = 1 - torch.finfo(y.dtype).eps / 2
    log = torch.log1p(-(b * torch.where(inside, y, 0)).clamp(max=edge)) / b
    return torch.where(inside, log.exp(), 0), torch.where(inside, (log * (1 - b)).exp(), 0)


def _by_newton(u: Tensor, b: float) -> Tensor:
    """`_entmax._by_smooth_newton`, for as many rounds as any input needs."""
    s = torch.zeros_like(u[..., :1])
    for _ in range(ROUNDS):
        y = u + s
        p, slope = _exponential(y, b, b * y < 1)
        total = p.sum(-1, keepdim=True)
        # from below the solution, Newton's method on the convex norm never passes it
        s = (s - torch.expm1(-b * total.log()) / b * total / slope.sum(-1, keepdim=True)).clamp(
            min=0
        )
    y = u + s
    return _exponential(y, b, b * y < 1)[0]


def _by_bisection(u: Tensor, b: float) -> Tensor:
    """`_entmax._by_bisection`: b > 1, in two rounds, the second around what the first found."""
    v = (u * b).clamp(max=1)
    high = torch.ones_like(u[..., :1])
    low = high * float(u.shape[-1]) ** -b
    for _ in range(2):
        for _ in range(2 - int(math.log2(torch.finfo(u.dtype).eps))):
            middle = (low + high) / 2
            few = ((middle - v).clamp(min=0) ** (1 / b)).sum(-1, keepdim=True) < 1
            low, high = torch.where(few, middle, low), torch.where(few, high, middle)
        v, low, high = v - low, low - low, high - low
    return (high - v).clamp(min=0) ** (1 / b)
