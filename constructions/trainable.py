r"""The trainable transformer: one layer, twelve matrices, as the formula reads.

Points are tokens [x, 0], centers are tokens [c_j, b_j]; a token is a row of width d_emb = d + p.
With A the attention module

    A(Z, Z') = softmax(-g |Q z_i - K z'_j|^2 over j) V z'_j,    g = gamma / sqrt(d_qkv),

one layer is

    points   = points  + A(points,  centers; points_from_centers)
                       + A(points,  points;  points_from_points)
    centers  = centers + A(centers, points;  centers_from_points)      (the new points)
                       + A(centers, centers; centers_from_centers)

and the answer is the first d entries of the centers. This is `constructions.exact` at a finite
inverse temperature with weights that are learned; there is no other difference.

Options, from the authors' code: queries and keys may be wider than tokens, by a whole factor
(d_qkv); values may not, as they are added to tokens with no matrix in between. Sparsemax may stand
for softmax, and entries of the weights may be dropped in training.

Parameters are a plain dictionary of tensors, `module.role` -> (..., d_emb, d_emb), or (..., d_qkv,
d_emb) for queries and keys, with `module.role_bias` beside them when the model has biases, one
entry a row. Leading dimensions of parameters and of tasks broadcast against each other, so that one
call runs many models, many tasks, or one task for each model.

Source: the paper's Section 2 and Appendix I; docs/theory/lipschitz.md, "Model and notation".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from constructions.arrays import checked_count, checked_scalar, checked_tensors
from constructions.attention import Projections
from constructions.codes import Code
from constructions.codes import code as make_code
from constructions.errors import InputError
from constructions.rationals import describe
from constructions.recording import noted, section
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
    attention : "softmax" or "sparsemax"
        how scores become weights.
    qkv_multiplier : int >= 1
        d_qkv / d_emb, the width of queries and keys over that of tokens.
    dropout : 0 <= p < 1
        each weight is set to 0 with this probability, or else divided by 1 - p; only when a
        generator is given.

    Scores come from differences of queries and keys, so rounding is relative to the size of a
    projected token, |W| |x| + |bias|, and not to its square. `FastTransformer` moves the points
    around their median first and loses nothing far from the origin either way.

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
    attention: str = "softmax"
    qkv_multiplier: int = 1
    dropout: float = 0.0

    def __post_init__(self) -> None:
        checked_count("d", self.d, 1)
        checked_count("k", self.k, 1)
        checked_scalar("inverse_temperature", self.inverse_temperature, "a positive finite number")
        checked_count("qkv_multiplier", self.qkv_multiplier, 1)
        if self.attention not in ATTENTIONS:
            raise InputError(
                f"attention = {self.attention!r} is not known; allowed: {', '.join(ATTENTIONS)}"
            )
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout = {self.dropout} is out of range; allowed: 0 <= p < 1")
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
    def d_qkv(self) -> int:
        """Width of queries and keys."""
        return self.qkv_multiplier * self.d_emb

    @property
    def scale(self) -> float:
        """The factor g of the squared distances."""
        return self.inverse_temperature / math.sqrt(self.d_qkv)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a parameter, without leading dimensions."""
        rows = self.d_emb if "value" in name else self.d_qkv
        return (rows,) if name.endswith("_bias") else (rows, self.d_emb)

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
            uniform = torch.rand(
                (*batch, *self.shape(name)),
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

    def weights(self, scores: Tensor, generator: Any = None) -> Tensor:
        """Attention weights (..., m, n) of scores; a generator drops some of them."""
        weights = ATTENTIONS[self.attention](scores)
        if self.dropout == 0 or generator is None:
            return weights
        drawn = torch.rand(
            weights.shape, generator=generator, dtype=weights.dtype, device=weights.device
        )
        return weights * (drawn >= self.dropout) / (1 - self.dropout)

    def layer(
        self,
        parameters: Mapping[str, Tensor],
        points: Tensor,
        centers: Tensor,
        generator: Any = None,
    ) -> tuple[Tensor, Tensor]:
        """The tokens after one layer."""

        def module(name: str, tokens: Tensor, others: Tensor) -> Tensor:
            q, k, v = (
                project(parameters, f"{name}.{role}", rows)
                for role, rows in zip(ROLES, (tokens, others, others), strict=True)
            )
            section(name)
            noted("queries", q)
            noted("keys", k)
            r = noted("squared distances", squared_distances(q, k))
            weights = noted("weights", self.weights(-self.scale * r, generator))
            return noted("output", weights @ v)

        points = (
            points
            + module("points_from_centers", points, centers)
            + module("points_from_points", points, points)
        )
        section("layer")
        noted("points", points)
        centers = (
            centers
            + module("centers_from_points", centers, points)
            + module("centers_from_centers", centers, centers)
        )
        section("layer")
        return points, noted("centers", centers)

    def __call__(
        self, parameters: Mapping[str, Tensor], X: Tensor, C: Tensor, generator: Any = None
    ) -> Tensor:
        """The updated centers (..., k, d).

        Parameters
        ----------
        parameters : tensors by name, see `names`
        X : (..., n, d) points
        C : (..., k, d) centers
        generator : of the dropout; without one nothing is dropped

        Raises
        ------
        InputError
            X or C do not fit the model, a parameter is missing or has another shape, or not all are
            tensors of one float type on one device. NaN and infinity pass, so that a model that
            diverged shows it.
        """
        self.check(parameters, X=X, C=C)
        points, centers = self.tokens(X, C)
        batches = (X.shape[:-2], C.shape[:-2], parameters[self.names[0]].shape[:-2])
        try:
            torch.broadcast_shapes(*batches)
        except RuntimeError:
            shapes = ", ".join(str(tuple(batch)) for batch in batches)
            raise InputError(
                f"batch shapes of X, C and the parameters do not broadcast: {shapes}"
            ) from None
        _, centers = self.layer(parameters, points, centers, generator)
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

    def check(self, parameters: Mapping[str, Tensor], **inputs: Tensor) -> None:
        """Raise `InputError` unless these are parameters of this model, and the inputs, given by
        name, are of their element type and on their device."""
        if not isinstance(parameters, Mapping):
            raise InputError(f"parameters are tensors by name, got {describe(parameters)}")
        for name in self.names:
            if name not in parameters:
                raise InputError(f"the parameter {name} is missing")
            checked_tensors(**{name: parameters[name]})
            shape, want = tuple(parameters[name].shape), self.shape(name)
            if shape[len(shape) - len(want) :] != want:
                raise InputError(
                    f"the parameter {name} has shape {shape}; this model, with d_emb = "
                    f"{self.d_emb}, takes (..., {', '.join(map(str, want))})"
                )
        checked_tensors(**{name: parameters[name] for name in self.names}, **inputs)


def project(parameters: Mapping[str, Tensor], name: str, tokens: Tensor) -> Tensor:
    """tokens (..., m, d_emb) times a matrix, plus its bias if there is one."""
    projected = tokens @ parameters[name].mT
    bias = parameters.get(f"{name}_bias")
    return projected if bias is None else projected + bias[..., None, :]


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """|a_i - b_j|^2 for a (..., m, p) and b (..., n, p): (..., m, n).

    From differences, which keep their digits far from the origin and at any inverse temperature,
    for the price of m n p numbers in memory. Derivatives of all orders pass through it (they do
    not through `torch.cdist`).
    """
    return (a[..., :, None, :] - b[..., None, :, :]).square().sum(dim=-1)


def softmax(scores: Tensor) -> Tensor:
    """exp(scores), normalized over the last axis."""
    return torch.softmax(scores, dim=-1)


def sparsemax(scores: Tensor) -> Tensor:
    """max(t - u, 0) with the t that makes it sum to 1 over the last axis: the smallest of
    (1 + sum of the m smallest u) / m over m.

    u is how far a score is below the largest: sums of the scores themselves would have no digit
    left for the 1 when these are large. What is 1 below gets no weight, however far it is.
    """
    u = (scores.detach().amax(dim=-1, keepdim=True) - scores).clamp(max=1)
    ordered = u.detach().sort(dim=-1).values
    sizes = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
    least = ((ordered.cumsum(dim=-1) + 1) / sizes).amin(dim=-1, keepdim=True)
    inside = u < least
    t = (torch.where(inside, u, 0).sum(-1, keepdim=True) + 1) / inside.sum(-1, keepdim=True)
    return torch.where(inside, t - u, 0).clamp(min=0)


ATTENTIONS = {"softmax": softmax, "sparsemax": sparsemax}


def from_matrices(matrices: Mapping[str, Projections]) -> Parameters:
    """The weights of a hand-built `LloydTransformer` as parameters of a model without biases."""
    return {
        f"{module}.{role}": torch.tensor(matrix.astype(float), dtype=torch.float64)
        for module, projections in matrices.items()
        for role, matrix in zip(ROLES, projections, strict=True)
    }
