"""The smoothed k-means loss as a module for training loops."""

from __future__ import annotations

from typing import Any

import torch

from constructions.arrays import checked_scalar
from constructions.errors import InputError
from constructions.objective import smoothed_loss
from constructions.surrogates import exponent_of

Tensor = Any  # torch.Tensor


class KMeansSurrogateLoss(torch.nn.Module):
    r"""Mean over the points of the surrogate of their squared distances to the centers.

    Parameters
    ----------
    temperature : positive finite number, in the unit of squared distances
    regularizer : "l2", "ne", or an entmax exponent 1 <= alpha <= 1000

    It has no parameters. Called with points X (..., n, d) and centers C (..., k, d), float32 or
    float64 tensors on one device, it returns the loss (...) of each task: a number for one task,
    `.mean()` for a batch. Leading dimensions broadcast. Gradients flow to X and to C, of every
    order, also under `torch.func` and `torch.compile`. As the temperature goes to 0 this is
    inertia / n. Numbers are not looked at: NaN and infinity pass through.

    Raises
    ------
    InputError
        temperature or regularizer out of their range; shapes or element types that do not fit.

    >>> X = torch.tensor([[0.0], [1.0], [5.0], [7.0]])
    >>> C = torch.tensor([[0.5], [6.0]], requires_grad=True)
    >>> KMeansSurrogateLoss(temperature=0.1)(X, C).item()
    0.625

    Source: docs/loss.md; docs/theory/surrogates.md.
    """

    def __init__(self, temperature: float, regularizer: Any = "l2") -> None:
        super().__init__()
        checked = checked_scalar("temperature", temperature, "a positive finite number")
        self.temperature, self.regularizer = float(checked), regularizer
        exponent_of(regularizer)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}, regularizer={self.regularizer!r}"

    def forward(self, X: Tensor, C: Tensor) -> Tensor:
        _check(X, C)
        lead = torch.broadcast_shapes(X.shape[:-2], C.shape[:-2])
        # squared distances are expanded: the origin has to lie among the points
        middle = X.detach().median(dim=-2, keepdim=True).values
        points, centers = (
            (a - middle).expand(*lead, *a.shape[-2:]).reshape(1, -1, *a.shape[-2:]).mT
            for a in (X, C)
        )
        tau = points.new_full((1,), self.temperature)
        return smoothed_loss(points, centers, tau, (self.regularizer,)).reshape(lead)


def _check(X: Tensor, C: Tensor) -> None:
    for name, a, rows in (("X", X, "n"), ("C", C, "k")):
        if not isinstance(a, torch.Tensor):
            raise InputError(f"{name} must be a torch tensor; torch.as_tensor makes one")
        if a.dtype not in (torch.float32, torch.float64):
            raise InputError(f"{name} has element type {a.dtype}; allowed: float32, float64")
        if a.ndim < 2 or 0 in a.shape[-2:]:
            raise InputError(f"{name} has shape {tuple(a.shape)}; expected (..., {rows}, d)")
    if X.shape[-1] != C.shape[-1] or X.dtype != C.dtype:
        raise InputError(
            f"X is {X.dtype} of shape {tuple(X.shape)}, C {C.dtype} of shape {tuple(C.shape)}; "
            "they need the same d and the same element type"
        )
