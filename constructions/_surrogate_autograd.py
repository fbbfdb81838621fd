"""Torch gradients of the surrogates.

The gradient is known in closed form (`surrogates.gradient`), so backward does not replay the
search for the threshold. When a gradient of the gradient is wanted, backward computes the closed
form again with differentiable operations, the support held fixed.
"""

from __future__ import annotations

from typing import Any

import torch

from constructions import surrogates
from constructions.arrays import Array, NumberSystem


def surrogate_with_gradient(r: Array, tau: Any, alpha: Any, system: NumberSystem) -> Array:
    """`surrogates.surrogate` for a tensor that requires a gradient."""
    return _Surrogate.apply(r, float(tau), alpha, system)


class _Surrogate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, r: Any, tau: float, alpha: Any, system: NumberSystem) -> Any:
        excess = surrogates._excess(r, system)
        u = surrogates._scaled_excess(excess, tau, system)
        p = surrogates.weights(u, alpha, system)
        ctx.save_for_backward(r, u, p)
        ctx.tau, ctx.alpha, ctx.system = tau, alpha, system
        return torch.amin(r, dim=-1) + torch.sum(p * excess, dim=-1)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        r, u, p = ctx.saved_tensors
        if torch.is_grad_enabled():
            u = surrogates._scaled_excess(surrogates._excess(r, ctx.system), ctx.tau, ctx.system)
            p = surrogates.weights(u, ctx.alpha, ctx.system)
        slope = surrogates.gradient_from(u, p, ctx.alpha, ctx.system)
        return grad[..., None] * slope, None, None, None
