"""A model of the shape that the paper describes, and the way to put one's own in its place.

The class was written from the paper's description: a single head, attention by negative squared
distances, square projections, dropout, and centers that are embedded anew for each step. With the
weights of `hand_built` it is Lloyd's algorithm up to its finite temperature.

Who has a model of their own runs

    LEANLLOYD_MODEL=theirs.py:make leanlloyd conform verify.conformance.wild.paper_model:step

where `make(d, k)` returns what is called as model(points (1, n, d), centers (1, k, d)) and gives
centers (1, k, d) after one step.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from constructions.codes import binary
from verify.conformance.loading import load
from verify.conformance.wild import adapter

VARIABLE = "LEANLLOYD_MODEL"
INVERSE_TEMPERATURE = 2.0**30


class Head(nn.Module):
    """One head: each query gets a mean of the values, weighted by its nearness to the keys."""

    def __init__(self, width: int, inverse_temperature: float, dropout: float) -> None:
        super().__init__()
        self.inverse_temperature = inverse_temperature
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, asking: Tensor, asked: Tensor) -> Tensor:
        difference = self.query(asking)[..., :, None, :] - self.key(asked)[..., None, :, :]
        scores = -self.inverse_temperature * difference.square().sum(-1)
        weights: Tensor = self.dropout(scores.softmax(-1))
        return weights @ self.value(asked)


class ClusteringTransformer(nn.Module):
    """Points learn the code of their center; centers move to the points that carry theirs.

    Parameters
    ----------
    d, k : coordinates and clusters
    width : of the embedding, d plus the length of the code
    inverse_temperature : of the softmax
    dropout : of the attention weights, in training
    """

    code: Tensor

    def __init__(
        self, d: int, k: int, width: int, inverse_temperature: float, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.d = d
        code = torch.tensor([[float(u) for u in row] for row in binary(k).table])
        self.register_buffer("code", code.reshape(k, width - d))
        self.to_centers = Head(width, inverse_temperature, dropout)
        self.to_points = Head(width, inverse_temperature, dropout)

    def embed(self, points: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (..., n, width) without a code, and (..., k, width) with theirs."""
        width = self.code.shape[-1]
        blank = points.new_zeros(*points.shape[:-1], width)
        code = self.code.to(centers).expand(*centers.shape[:-1], width)
        return torch.cat([points, blank], -1), torch.cat([centers, code], -1)

    def forward(self, points: Tensor, centers: Tensor) -> Tensor:
        """Centers (..., k, d) after one step, for points (..., n, d) and centers (..., k, d)."""
        x, c = self.embed(points, centers)
        x = x + self.to_centers(x, c)
        moved: Tensor = self.to_points(c, x)[..., : self.d]
        return moved


def hand_built(d: int, k: int) -> ClusteringTransformer:
    """The model with projections that pick places or codes."""
    width = d + (k - 1).bit_length()
    model = ClusteringTransformer(d, k, width, INVERSE_TEMPERATURE).double().eval()
    places = torch.diag((torch.arange(width) < d).double())
    codes = torch.eye(width, dtype=torch.float64) - places
    first, second = model.to_centers, model.to_points
    with torch.no_grad():
        for head, near, told in ((first, places, codes), (second, codes, places)):
            head.query.weight.copy_(near)
            head.key.weight.copy_(near)
            head.value.weight.copy_(told)
    return model


@adapter(
    "a clustering transformer of the paper's shape, hand-built",
    "torch",
    documented={
        "ties": "the claim ties of this report: a tied point carries the mean code of its nearest "
        "centers, and is nobody's if another point carries a code itself",
        "empty-clusters": "the claim empty-clusters of this report: an empty cluster's center "
        "jumps to the points of the nearest code",
        "scaling": "the claim finite-gamma of this report: at a finite temperature, scale matters",
    },
    note=f"{VARIABLE}=theirs.py:make puts another model in its place.",
    role="lloyd_step",
    library="torch",
    dtype="float64",
    ties="average",
    empty="any",
    batches=False,
)
def step(X: Any, C: Any) -> Any:
    theirs = os.environ.get(VARIABLE)
    make = load(theirs) if theirs else hand_built
    model = make(X.shape[-1], len(C))
    with torch.no_grad():
        return model(X[None], C[None])[0]
