r"""The trainable transformer: one layer, twelve matrices, as the formula reads.

Points are tokens [x, 0], centers are tokens [c_j, b_j]; a token is a row of width d_emb = d + p.
With A the attention module

    A(Z, Z') = softmax(-g |Q z_i - K z'_j|^2 over j) V z'_j,    g = gamma / sqrt(d_emb),

one layer is

    points   = points  + A(points,  centers; points_from_centers)
                       + A(points,  points;  points_from_points)
    centers  = centers + A(centers, points;  centers_from_points)      (the new points)
                       + A(centers, centers; centers_from_centers)

and the answer is the first d entries of the centers. This is `constructions.exact` at a finite
inverse temperature with weights that are learned; there is no other difference.

Parameters are a plain dictionary of tensors, `module.role` -> (..., d_emb, d_emb), with
`module.role_bias` -> (..., d_emb) beside them when the model has biases. Leading dimensions of
parameters and of tasks broadcast against each other, so that one call runs many models, many
tasks, or one task for each model.

Source: the paper's Section 2 and Appendix I; docs/theory/lipschitz.md, "Model and notation".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from constructions.arrays import checked_count, checked_scalar
from constructions.attention import Projections
from constructions.codes import Code
from constructions.codes import code as make_code
from constructions.errors import InputError
from constructions.surrogates import surrogate

Tensor = Any  # torch.Tensor
Parameters = dict[str, Tensor]

MODULES = (
    "points_from_centers",
    "points_from_points",
    "centers_from_points",
    "centers_from_centers",
)
ROLES = Projections._fields  # query, key, value
MATRICES = tuple(f"{module}.{role}" for module in MODULES for role in ROLES)
"""The names of the twelve matrices."""


@dataclass(frozen=True)
class TrainableTransformer:
    """The function of the parameters that is trained.

    Parameters
    ----------
    d, k : int >= 1
        coordinates and clusters.
    code : str or array (k, p)
        as for `LloydTransformer`.
    inverse_temperature : positive finite number
        the paper's gamma.
    bias : bool
        whether queries, keys and values have biases. The paper's formula has none, the authors'
        code has.

    Raises
    ------
    InputError
        a parameter out of its range.

    >>> model = TrainableTransformer(d=2, k=3, code="binary", bias=False)
    >>> parameters = model.initial(torch.Generator().manual_seed(0))
    >>> X, C = torch.rand(10, 2, dtype=torch.float64), torch.rand(3, 2, dtype=torch.float64)
    >>> model(parameters, X, C).shape
    torch.Size([3, 2])
    """

    d: int
    k: int
    code: Any = "binary"
    inverse_temperature: float = 1.0
    bias: bool = True

    def __post_init__(self) -> None:
        checked_count("d", self.d, 1)
        checked_count("k", self.k, 1)
        checked_scalar("inverse_temperature", self.inverse_temperature, "a positive finite number")
        make_code(self.code, self.k)

    @cached_property
    def table(self) -> Code:
        """The code of the clusters."""
        return make_code(self.code, self.k)

    @property
    def d_emb(self) -> int:
        """Width of a token."""
        return self.d + self.table.width

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in a fixed order."""
        return MATRICES + (tuple(f"{m}_bias" for m in MATRICES) if self.bias else ())

    def initial(self, generator: Any, batch: tuple[int, ...] = ()) -> Parameters:
        """Random float64 parameters, uniform in +-1/sqrt(d_emb) like `torch.nn.Linear`.

        Parameters
        ----------
        generator : torch.Generator
        batch : leading dimensions, for many models at once
        """
        limit = 1 / math.sqrt(self.d_emb)

        def draw(name: str) -> Tensor:
            shape = (self.d_emb,) if name.endswith("_bias") else (self.d_emb, self.d_emb)
            uniform = torch.rand(
                (*batch, *shape),
                generator=generator,
                dtype=torch.float64,
                device=generator.device,
            )
            return (2 * uniform - 1) * limit

        return {name: draw(name) for name in self.names}

    def tokens(self, X: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
        """X (..., n, d) and C (..., k, d) as tokens (..., n, d_emb) and (..., k, d_emb)."""
        for name, a, rows in (("X", X, "n"), ("C", C, self.k)):
            if (
                a.ndim < 2
                or a.shape[-1] != self.d
                or 0 in a.shape
                or rows not in ("n", a.shape[-2])
            ):
                raise InputError(
                    f"{name} has shape {tuple(a.shape)}; this model takes (..., {rows}, {self.d})"
                )
        codes = torch.tensor(self.table.table.astype(float), dtype=C.dtype, device=C.device)
        blank = X.new_zeros((*X.shape[:-1], self.table.width))
        codes = codes.expand(*C.shape[:-1], self.table.width)
        return torch.cat([X, blank], dim=-1), torch.cat([C, codes], dim=-1)

    def layer(
        self, parameters: Mapping[str, Tensor], points: Tensor, centers: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The tokens after one layer."""
        g = self.inverse_temperature / math.sqrt(self.d_emb)

        def module(name: str, tokens: Tensor, others: Tensor) -> Tensor:
            q, k, v = (
                project(parameters, f"{name}.{role}", rows)
                for role, rows in zip(ROLES, (tokens, others, others), strict=True)
            )
            return torch.softmax(-g * squared_distances(q, k), dim=-1) @ v

        points = (
            points
            + module("points_from_centers", points, centers)
            + module("points_from_points", points, points)
        )
        centers = (
            centers
            + module("centers_from_points", centers, points)
            + module("centers_from_centers", centers, centers)
        )
        return points, centers

    def __call__(self, parameters: Mapping[str, Tensor], X: Tensor, C: Tensor) -> Tensor:
        """The updated centers (..., k, d).

        Parameters
        ----------
        parameters : tensors by name, see `names`
        X : (..., n, d) points
        C : (..., k, d) centers

        Raises
        ------
        InputError
            X or C do not fit the model, or a parameter is missing or has another shape.
        """
        self.check(parameters)
        _, centers = self.layer(parameters, *self.tokens(X, C))
        return centers[..., : self.d]

    def loss(
        self,
        parameters: Mapping[str, Tensor],
        X: Tensor,
        C: Tensor,
        temperature: float,
        regularizer: Any,
    ) -> Tensor:
        """The smoothed k-means loss of the updated centers, summed over the points: (...,).

        Takes what `__call__` and `surrogate` take and raises what they raise.
        """
        r = squared_distances(X, self(parameters, X, C))
        return surrogate(r, temperature, regularizer).sum(dim=-1)

    def check(self, parameters: Mapping[str, Tensor]) -> None:
        """Raise `InputError` unless these are parameters of this model."""
        for name in self.names:
            if name not in parameters:
                raise InputError(f"the parameter {name} is missing")
            shape = tuple(parameters[name].shape)
            want = (self.d_emb,) if name.endswith("_bias") else (self.d_emb, self.d_emb)
            if shape[len(shape) - len(want) :] != want:
                raise InputError(
                    f"the parameter {name} has shape {shape}; this model, with d_emb = "
                    f"{self.d_emb}, takes (..., {', '.join(map(str, want))})"
                )


def project(parameters: Mapping[str, Tensor], name: str, tokens: Tensor) -> Tensor:
    """tokens (..., m, d_emb) times a matrix, plus its bias if there is one."""
    projected = tokens @ parameters[name].mT
    bias = parameters.get(f"{name}_bias")
    return projected if bias is None else projected + bias[..., None, :]


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """|a_i - b_j|^2 for a (..., m, p) and b (..., n, p): (..., m, n).

    The expanded form: for tokens of size about 1 its rounding error is a few units in the last
    place, and second derivatives pass through it (they do not through `torch.cdist`).
    """
    squares = (a * a).sum(dim=-1)[..., :, None] + (b * b).sum(dim=-1)[..., None, :]
    return squares - 2 * a @ b.mT


def from_matrices(matrices: Mapping[str, Projections]) -> Parameters:
    """The weights of a hand-built `LloydTransformer` as parameters of a model without biases."""
    return {
        f"{module}.{role}": torch.tensor(matrix.astype(float), dtype=torch.float64)
        for module, projections in matrices.items()
        for role, matrix in zip(ROLES, projections, strict=True)
    }
