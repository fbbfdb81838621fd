"""Two exact instances that bound the true Lipschitz constant from below.

LB1: every token is (1, ..., 1), the value matrices are B times the identity, queries and keys are
zero, so all attention is uniform. LB2: half of the points sit at 1, half at 0, and two pairs of
centers' coordinates are made so that all attentions are exact ties while queries and keys matter;
its gradient grows like gamma^2. Proofs: docs/theory/lipschitz.md, "Lower bounds".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from constructions.trainable import MATRICES, Parameters, TrainableTransformer


class Instance(NamedTuple):
    """Parameters of a model without biases, points (n, d) and centers (k, d), float64."""

    parameters: Parameters
    X: Any
    C: Any


def flat(model: TrainableTransformer, n: int, B: float) -> Instance:
    """LB1, for every d, k and n."""
    e = model.d_emb
    parameters = {name: torch.zeros(e, e, dtype=torch.float64) for name in MATRICES}
    for name in MATRICES:
        if name.endswith("value"):
            parameters[name] = B * torch.eye(e, dtype=torch.float64)
    ones = torch.ones(max(n, model.k), model.d, dtype=torch.float64)
    return Instance(parameters, ones[:n], ones[: model.k])


def steep(model: TrainableTransformer, n: int) -> Instance:
    """LB2, for even d, k and n.

    In two dimensions, with f+- = (1, +-1)/sqrt(2): centers alternate between (1, 0) and (0, 1),
    the three matrices that read them are the identity, and the centers' attention to the points
    compares f- with f- for a query along (1, 0). Each of the two coordinates is then repeated d/2
    times.
    """
    half = model.d // 2
    lift = torch.zeros(model.d_emb, 2, dtype=torch.float64)  # orthonormal columns
    lift[:half, 0] = half**-0.5
    lift[half : model.d, 1] = half**-0.5
    minus = torch.tensor([1.0, -1.0], dtype=torch.float64) / 2**0.5
    first = torch.tensor([1.0, 0.0], dtype=torch.float64)
    small = dict.fromkeys(MATRICES, torch.zeros(2, 2, dtype=torch.float64))
    for role in ("query", "key", "value"):
        small[f"points_from_centers.{role}"] = torch.eye(2, dtype=torch.float64)
    small["centers_from_points.value"] = torch.eye(2, dtype=torch.float64)
    small["centers_from_points.query"] = torch.outer(minus, first)
    small["centers_from_points.key"] = torch.outer(minus, minus)
    X = torch.zeros(n, model.d, dtype=torch.float64)
    X[: n // 2] = 1
    C = torch.zeros(model.k, model.d, dtype=torch.float64)
    C[0::2, :half] = 1
    C[1::2, half:] = 1
    return Instance({name: lift @ m @ lift.T for name, m in small.items()}, X, C)


def gradient_norm(
    model: TrainableTransformer, instance: Instance, tau: float, regularizer: Any
) -> float:
    """Frobenius norm of the gradient of the loss in all matrices together."""
    leaves = {name: m.detach().clone().requires_grad_() for name, m in instance.parameters.items()}
    loss = model.loss(leaves, instance.X, instance.C, tau, regularizer)
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    squares = [(g * g).sum() for g in gradients if g is not None]
    return float(torch.stack(squares).sum().sqrt())
