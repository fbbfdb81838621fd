"""What is compared against: the transformer and its training as a newcomer to the paper writes it.

One model, `torch.nn.Linear` projections, `torch.cdist` squared, a softmax of the whole matrix,
dropout 0.01 on the attention weights as in the authors' code; tasks, scaling and Lloyd's step one
task at a time. Nothing is slow on purpose.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from sklearn.preprocessing import MinMaxScaler

from constructions.codes import code as make_code

Tensor = Any  # torch.Tensor
DROPOUT = 0.01


class Attention(torch.nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(width, width) for _ in range(3))
        self.dropout = torch.nn.Dropout(dropout)
        self.scale = 1 / math.sqrt(width)

    def forward(self, tokens: Tensor, others: Tensor) -> Tensor:
        distances = torch.cdist(self.query(tokens), self.key(others)) ** 2
        weights = torch.softmax(-self.scale * distances, dim=-1)
        return self.dropout(weights) @ self.value(others)


class PlainTransformer(torch.nn.Module):
    """(B, n, d) points and (B, k, d) centers to new centers."""

    def __init__(self, d: int, k: int, code: str, dropout: float = DROPOUT) -> None:
        super().__init__()
        table = make_code(code, k).table.astype(float)
        self.register_buffer("table", torch.tensor(table, dtype=torch.float32))
        self.d, width = d, d + table.shape[1]
        for name in (
            "points_from_centers",
            "points_from_points",
            "centers_from_points",
            "centers_from_centers",
        ):
            setattr(self, name, Attention(width, dropout))

    def forward(self, X: Tensor, C: Tensor) -> Tensor:
        B, n, _ = X.shape
        points = torch.cat([X, X.new_zeros(B, n, self.table.shape[1])], dim=-1)
        centers = torch.cat([C, self.table.expand(B, -1, -1)], dim=-1)
        points = (
            points
            + self.points_from_centers(points, centers)
            + self.points_from_points(points, points)
        )
        centers = (
            centers
            + self.centers_from_points(centers, points)
            + self.centers_from_centers(centers, centers)
        )
        return centers[..., : self.d]


def parameters_of(model: PlainTransformer) -> dict[str, Tensor]:
    """The parameters under the names of `TrainableTransformer`, with a model axis in front."""
    return {
        name.replace(".weight", "").replace(".bias", "_bias"): p.detach()[None]
        for name, p in model.named_parameters()
    }


def sample_task(n: int, d: int, k: int, scale: float = 0.1) -> tuple[Tensor, Tensor]:
    """One task from a normal mixture, with torch's distributions and scikit-learn's scaler."""
    mixture = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(torch.ones(k)),
        torch.distributions.Independent(
            torch.distributions.Normal(torch.rand(k, d), torch.full((k, d), scale)), 1
        ),
    )
    X = torch.tensor(MinMaxScaler().fit_transform(mixture.sample((n,)).numpy()))
    return X, X[torch.randperm(n)[:k]]


def sample_batch(batch: int, n: int, d: int, k: int) -> tuple[Tensor, Tensor]:
    tasks = [sample_task(n, d, k) for _ in range(batch)]
    return torch.stack([X for X, _ in tasks]), torch.stack([C for _, C in tasks])


def loss_of(X: Tensor, C: Tensor, tau: float, regularizer: str) -> Tensor:
    """The smoothed loss, with softmax ("ne") or a sorting sparsemax ("l2")."""
    r = torch.cdist(X, C) ** 2
    if regularizer == "ne":
        weights = torch.softmax(-r / tau, dim=-1)
    else:
        z = -r / tau
        ordered, _ = torch.sort(z, dim=-1, descending=True)
        ranks = torch.arange(1, z.shape[-1] + 1, device=z.device)
        sums = ordered.cumsum(dim=-1) - 1
        size = (ranks * ordered > sums).sum(dim=-1, keepdim=True)
        weights = torch.clamp(z - sums.gather(-1, size - 1) / size, min=0)
    return (weights * r).sum(dim=-1).mean()


def lloyd(X: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    """One Lloyd step of one task, cluster by cluster; the new centers and the old inertia."""
    distances = torch.cdist(X, C) ** 2
    low, assigned = distances.min(dim=1)
    new = C.clone()
    for j in range(len(C)):
        members = X[assigned == j]
        if len(members):
            new[j] = members.mean(dim=0)
    return new, low.sum()


class PlainTraining:
    """The training loop: `step` is one step."""

    def __init__(
        self,
        d: int,
        k: int,
        code: str,
        regularizer: str,
        n: int,
        batch: int,
        dropout: float,
        device: str = "cpu",
    ) -> None:
        self.model = PlainTransformer(d, k, code, dropout).to(device)
        self.device = device
        self.adam = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.shape = (batch, n, d, k)
        self.regularizer = regularizer

    def step(self) -> None:
        X, C = sample_batch(*self.shape)
        self.learn(X.to(self.device), C.to(self.device))

    def learn(self, X: Tensor, C: Tensor) -> None:
        loss = loss_of(X, self.model(X, C), 0.1, self.regularizer)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
