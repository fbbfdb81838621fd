"""Torch gradients of the surrogates, in closed form instead of through the search for a threshold.

With s_j = P_j^(2 - alpha), the Jacobian of the weights in the scaled excess u is
-(diag(s) - s s^T / sum s) (docs/theory/surrogates.md, "Stability"). The backward passes are
written with the differentiable functions themselves, so gradients of every order are right.
"""

from __future__ import annotations

from typing import Any

import torch

from constructions import surrogates
from constructions.arrays import Array, NumberSystem


class Surrogate(torch.autograd.Function):
    """`surrogates.surrogate`; the gradient is computed along with the value."""

    @staticmethod
    def forward(ctx: Any, r: Array, tau: float, alpha: Any, system: NumberSystem) -> Array:
        value, gradient = surrogates.by_rows(
            lambda rows: _value_and_gradient(rows, tau, alpha, system), r, system
        )
        ctx.save_for_backward(r, gradient)
        ctx.problem = tau, alpha, system
        return value

    @staticmethod
    def backward(ctx: Any, grad: Array) -> Any:
        r, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted
            gradient = surrogates.gradient(r, *ctx.problem)
        return grad[..., None] * gradient, None, None, None


class Weights(torch.autograd.Function):
    """`surrogates.weights`."""

    @staticmethod
    def forward(ctx: Any, u: Array, alpha: Any, system: NumberSystem) -> Array:
        ctx.save_for_backward(u)
        ctx.problem = alpha, system
        return surrogates.weights(u, alpha, system)

    @staticmethod
    def backward(ctx: Any, grad: Array) -> Any:
        (u,) = ctx.saved_tensors
        slope = surrogates.slopes(surrogates.weights(u, *ctx.problem), *ctx.problem)
        mean = (slope * grad).sum(-1, keepdim=True) / slope.sum(-1, keepdim=True)
        return -slope * (grad - mean), None, None


def _value_and_gradient(
    rows: Array, tau: float, alpha: Any, system: NumberSystem
) -> tuple[Array, Array]:
    """`surrogate` and `surrogate_gradient` of rows (n, k), in few passes over little memory."""
    low, excess, u = surrogates.scaled(rows, tau, system)
    p = surrogates.weights(u, alpha, system)
    value = low[..., 0] + excess.mul_(p).sum(-1)
    if alpha < 1.5:
        return value, surrogates.gradient_from(u, p, alpha, system)
    slope = surrogates.slopes(p, alpha, system)
    b = float(alpha) - 1
    share = slope.div_(slope.sum(-1, keepdim=True).mul_(b))
    return value, p.mul_(1 + 1 / b).sub_(share)
