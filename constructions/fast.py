r"""The trainable transformer, fast: the function of `TrainableTransformer`, many models at once.

It takes a leading model axis: parameters (S, ...), points (S, B, n, d), centers (S, B, k, d), for
S models with B tasks each. Inside, tokens are columns, points innermost.

What is not computed, with tokens [x, 0] and [c, b] and g the scaled inverse temperature:

* Points have an empty code part, so of their matrices only the first d columns act. The scores of
  a point on a point are A_i . x_j - x_j' G x_j with A = 2g Wk'(Wq x + bq - bk) and G = g Wk'Wk:
  inner width d, not d_emb, and x itself as value (`moments.self_attention`).
* The new points, d_emb wide, never exist. Centers read them through a key and a value matrix, which
  are multiplied with the matrices that make the new points beforehand.
* Of the new centers only the first d rows are wanted, so values are projected there first. With few
  centers not even the values exist: their averages are the projections of averages.
* A one-hot code picks columns of a matrix; nothing is multiplied.
* All projections of centers are affine functions of the centers. What they are made of, products of
  parameters, is computed once for all steps (`prepare`).

Scores are expanded squares, which lose all digits far from the origin. So points and centers are
moved by the coordinate-wise median of the points first, and keys and queries by its image: what
is constant over the keys of a query is left out of the scores. The mean would not do: one far
outlier moves it away from all the other points.

The self-attention of the points, n x n and most of the time, does not depend on the centers:
re-embedded iteration computes it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from constructions.arrays import checked_count
from constructions.blocked import attention, few, weights
from constructions.errors import InputError
from constructions.moments import self_attention
from constructions.objective import Points, centered
from constructions.sparse import sparse_attention
from constructions.trainable import ROLES, TrainableTransformer

Tensor = Any  # torch.Tensor


class Projection(NamedTuple):
    """A projection of tokens [x, b]: its matrix as (S, r, d) and (S, r, p), its bias as (S, r, 1).
    Of tokens without a code, the second is None.

    A matrix of which both parts are used is split once: the gradient of each slice of it would be
    a matrix of zeros.
    """

    x: Tensor
    code: Tensor
    bias: Tensor


class Prepared(NamedTuple):
    """What the steps of one set of points share, for T = S B problems.

    Attributes
    ----------
    X : (T, d, n) points around their median
    average : (T, d, n) what the self-attention of the points makes of them
    maps : six pairs (T, r, d + 1) and (T, r, k), affine functions of the centers
    cross : keys and values of the new points as functions of what these average of the centers,
        (T, d_qkv + d, d), and of the codes, (T, d_qkv + d, p), or of the centers one by one,
        (T, d_qkv + d, k)
    reader : the same as functions of `X` and of `average`, (T, d_qkv + d, d) each
    constant : (T, d, 1), added to all new centers
    fixed : (T, d_qkv, n) keys, or (T, d_qkv + d, n) keys and values: `reader` applied
    """

    X: Tensor
    average: Tensor
    maps: tuple[tuple[Tensor, Tensor], ...]
    cross: tuple[Tensor, Tensor]
    reader: tuple[Tensor, Tensor]
    constant: Tensor
    fixed: Tensor


@dataclass(frozen=True)
class FastTransformer:
    """`TrainableTransformer`, computed without what is not needed.

    Raises
    ------
    InputError
        the model has dropout: its masks would be n x n, and nothing here is.

    >>> plain = TrainableTransformer(d=2, k=3, code="binary")
    >>> fast = FastTransformer(plain)
    >>> generator = torch.Generator().manual_seed(0)
    >>> parameters = plain.initial(generator, (5,))
    >>> X = torch.rand(5, 8, 10, 2, dtype=torch.float64, generator=generator)
    >>> fast(parameters, X, X[:, :, :3]).shape
    torch.Size([5, 8, 3, 2])
    """

    model: TrainableTransformer
    _tables: dict[Any, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.model.dropout:
            raise InputError(
                f"dropout = {self.model.dropout}: only TrainableTransformer can drop weights"
            )

    def __call__(self, parameters: Mapping[str, Tensor], X: Tensor, C: Tensor) -> Tensor:
        """The updated centers (S, B, k, d).

        Parameters
        ----------
        parameters : tensors by name, (S, d_emb, d_emb) and (S, d_emb)
        X : (S, B, n, d) points, in the element type of the parameters
        C : (S, B, k, d) centers

        Raises
        ------
        InputError
            shapes that do not fit the model or each other.
        """
        self._check(parameters, X, C)
        points = centered(X)
        moved = self.step(self.prepare(parameters, points), C.mT - points.median)
        return (moved + points.median).mT

    def iterate(
        self,
        parameters: Mapping[str, Tensor],
        X: Tensor,
        C: Tensor,
        steps: int,
        reembed: bool = True,
    ) -> list[Tensor]:
        """The centers after 0, 1, ..., `steps` steps.

        Re-embedding starts each step from fresh tokens; the self-attention of the points is
        computed once. Without it, the layer's output tokens go into the next layer ("naive").
        Takes what `__call__` takes and raises what it raises.
        """
        self._check(parameters, X, C)
        checked_count("steps", steps, 0)
        if not reembed:
            return self._naive(parameters, X, C, steps)
        points = centered(X)
        prepared = self.prepare(parameters, points)
        moved = C.mT - points.median
        found = [C]
        for _ in range(steps):
            moved = self.step(prepared, moved)
            found.append((moved + points.median).mT)
        return found

    def attend(self, parameters: Mapping[str, Tensor], points: Points) -> Tensor:
        """The averages (S, B, d, n) that the self-attention of the points takes of them."""
        d, g = self.model.d, self.model.scale
        q, k = (self._of_points(parameters, f"points_from_points.{role}") for role in ROLES[:2])
        gap = (q.x - k.x)[:, None] @ points.median + (q.bias - k.bias)[:, None]
        into = 2 * g * k.x.mT
        A = _batched(torch.baddbmm, into[:, None] @ gap, (into @ q.x)[:, None], points.X)
        G = (g * k.x.mT @ k.x)[:, None].expand(A.shape[0], A.shape[1], d, d)
        if self.model.attention == "softmax":
            return _batched(self_attention, A, points.X, G)
        offsets = -((G @ points.X) * points.X).sum(dim=-2)
        return _batched(sparse_attention, A, points.X, points.X, offsets=offsets.flatten(0, 1))

    def prepare(self, parameters: Mapping[str, Tensor], points: Points) -> Prepared:
        """All of a step that does not depend on the centers.

        Takes parameters as `__call__` does, and points (S, B, d, n) from `centered`.
        """
        d, d_qkv, g = self.model.d, self.model.d_qkv, self.model.scale
        X, median = points
        lead = X.shape[:2]

        def each(matrix: Tensor) -> Tensor:
            """(S, ...) or (S, B, ...) as (T, ...)."""
            matrix = matrix if matrix.ndim == 4 else matrix[:, None]
            return matrix.expand(*lead, -1, -1).flatten(0, 1)

        def affine(x: Tensor, code: Tensor, shift: Tensor | None = None) -> tuple[Tensor, Tensor]:
            """[x, code] times [c, b], plus shift (S, B, r, 1): what multiplies [c, 1],
            (T, r, d + 1), and what the codes add, (T, r, k)."""
            if shift is None:
                shift = x.new_zeros(1, x.shape[1], 1)
            return torch.cat([each(x), each(shift)], dim=-1), each(self._of_codes(code))

        # points from centers: kappa are the keys less the query of the median
        q = self._of_points(parameters, "points_from_centers.query")
        k, cross = (self._read(parameters, f"points_from_centers.{role}") for role in ROLES[1:])
        gap = (k.x - q.x)[:, None] @ median + (k.bias - q.bias)[:, None]
        into = 2 * g * q.x.mT
        kappa = affine(k.x, k.code, gap)
        keys = affine(into @ k.x, into @ k.code, into[:, None] @ gap)

        # centers from points: what reads the new points, and what they are made of
        q = self._read(parameters, "centers_from_points.query")
        Wk, bk = self._whole(parameters, "centers_from_points.key")
        Wv, bv = self._whole(parameters, "centers_from_points.value", d)
        own = self._of_points(parameters, "points_from_points.value")
        average = self.attend(parameters, points).flatten(0, 1)
        reader = torch.cat([Wk, Wv], dim=1)
        made = reader @ torch.cat([cross.x, cross.code, own.x, cross.bias + own.bias], dim=-1)
        of_cross, of_code, of_own, shift = made.split([d, cross.code.shape[-1], d, 1], dim=-1)
        of_points, _ = reader.split([d, reader.shape[-1] - d], dim=-1)
        # what is read of a point at the median, and of what it gets from centers there
        middle = (of_points + of_cross + of_own)[:, None] @ median + shift[:, None]
        K, V = middle.split([d_qkv, d], dim=-2)
        gap = q.x[:, None] @ median + (q.bias - bk)[:, None] - K
        queries = affine(q.x, q.code, gap)
        constant = V + bv[:, None]

        # centers from centers
        q, k = (self._read(parameters, f"centers_from_centers.{role}") for role in ROLES[:2])
        v = self._read(parameters, "centers_from_centers.value", d)
        gap = (q.x - k.x)[:, None] @ median + (q.bias - k.bias)[:, None]
        among = affine(q.x, q.code, gap), affine(*k[:2]), affine(*v[:2])
        constant = constant + v.x[:, None] @ median + v.bias[:, None]

        of_points, of_own = each(of_points), each(of_own)
        rows = d_qkv if self._few else d_qkv + d
        X = X.flatten(0, 1)
        return Prepared(
            X,
            average,
            (kappa, keys, queries, *among),
            (each(of_cross), each(of_code if self._by_token else self._of_codes(of_code))),
            (of_points, of_own),
            constant.flatten(0, 1),
            torch.baddbmm(of_points[:, :rows] @ X, of_own[:, :rows], average),
        )

    def step(self, prepared: Prepared, moved: Tensor) -> Tensor:
        """One step: centers (S, B, d, k) around the median of the points, and so the result."""
        g, lead = self.model.scale, moved.shape[:2]
        moved = moved.flatten(0, 1)
        with_one = torch.cat([moved, torch.ones_like(moved[:, :1])], dim=1)
        kappa, keys, Q, Qc, Kc, Vc = (
            torch.baddbmm(part, whole, with_one) for whole, part in prepared.maps
        )
        offsets = -g * kappa.square().sum(dim=1)
        new = moved + prepared.constant + self._from_points(prepared, moved, keys, offsets, Q)
        attention = _ATTENTION[self.model.attention]
        new = new + attention(Qc, Kc, Vc, 2 * g)
        return new.unflatten(0, lead)

    def _from_points(
        self, prepared: Prepared, moved: Tensor, keys: Tensor, offsets: Tensor, Q: Tensor
    ) -> Tensor:
        """What centers (T, d, k) take from the new points, by queries (T, d_qkv, k); the points
        take averages of the tokens of centers first, by keys (T, d, k) and their offsets."""
        g, d, d_qkv = self.model.scale, self.model.d, self.model.d_qkv
        X, (of_center, of_code), fixed = prepared.X, prepared.cross, prepared.fixed
        attention = _ATTENTION[self.model.attention]
        if self._few:
            values = torch.baddbmm(of_code, of_center, moved)
            of_keys, of_values = values.split([d_qkv, d], dim=1)
            P = weights(X, keys, offsets=offsets)
            P2 = weights(Q, torch.baddbmm(fixed, of_keys, P), 2 * g)
            found = torch.bmm(of_values, P @ P2)
            for part, tokens in zip(prepared.reader, (X, prepared.average), strict=True):
                found = torch.baddbmm(found, part[:, d_qkv:], tokens @ P2)
            return found
        if self._by_token:
            codes = self._codes(moved).mT.expand(len(moved), -1, -1)
            averages = attention(X, keys, torch.cat([moved, codes], dim=1), offsets=offsets)
            centers, codes = averages.split([d, codes.shape[1]], dim=1)
            read = torch.baddbmm(torch.baddbmm(fixed, of_center, centers), of_code, codes)
        else:
            values = torch.baddbmm(of_code, of_center, moved)
            read = fixed + attention(X, keys, values, offsets=offsets)
        K, V = read.split([d_qkv, d], dim=1)
        return attention(Q, K, V, 2 * g)

    @property
    def _by_token(self) -> bool:
        """Whether points average tokens of centers, and not what is read of these: for narrow
        codes."""
        return not (self._few or self._one_hot)

    @property
    def _one_hot(self) -> bool:
        return self.model.table.name == "one_hot"

    @property
    def _few(self) -> bool:
        """Whether weights on or of centers are so few that they are best kept: then values of
        points need not be made of all points and averaged, but can be made of averages."""
        return self.model.attention == "softmax" and few(self.model.k)

    def _naive(
        self, parameters: Mapping[str, Tensor], X: Tensor, C: Tensor, steps: int
    ) -> list[Tensor]:
        """Output tokens into the next layer: nothing is known to be empty, so nothing is saved
        but the n x n memory."""

        attention = _ATTENTION[self.model.attention]

        def module(name: str, tokens: Tensor, others: Tensor) -> Tensor:
            q, k, v = (
                W[:, None] @ rows + b[:, None]
                for (W, b), rows in zip(
                    (self._whole(parameters, f"{name}.{role}") for role in ROLES),
                    (tokens, others, others),
                    strict=True,
                )
            )
            middle = k.detach().median(dim=-1, keepdim=True).values
            return _batched(attention, q - middle, k - middle, v, scale=2 * self.model.scale)

        points, centers = (tokens.mT for tokens in self.model.tokens(X, C))
        found = [C]
        for _ in range(steps):
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
            found.append(centers[..., : self.model.d, :].mT)
        return found

    def _whole(
        self, parameters: Mapping[str, Tensor], name: str, rows: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """A matrix (S, r, D) and its bias as a column (S, r, 1); all rows, or the first ones."""
        matrix = parameters[name]
        bias = parameters.get(f"{name}_bias")
        bias = matrix.new_zeros(matrix.shape[:-1]) if bias is None else bias
        if rows is not None:
            matrix, bias = matrix[:, :rows], bias[:, :rows]
        return matrix, bias[..., None]

    def _read(
        self, parameters: Mapping[str, Tensor], name: str, rows: int | None = None
    ) -> Projection:
        """The projection of that name; all rows of it, or the first ones."""
        matrix, bias = self._whole(parameters, name, rows)
        x, code = matrix.split([self.model.d, matrix.shape[-1] - self.model.d], dim=-1)
        return Projection(x, code, bias)

    def _of_points(self, parameters: Mapping[str, Tensor], name: str) -> Projection:
        """The projection of that name, for tokens whose code is empty."""
        matrix, bias = self._whole(parameters, name)
        return Projection(matrix[..., : self.model.d], None, bias)

    def _of_codes(self, matrix: Tensor) -> Tensor:
        """A matrix (S, r, p) times the codes, (S, r, k)."""
        return matrix if self._one_hot else matrix @ self._codes(matrix).mT

    def _codes(self, like: Tensor) -> Tensor:
        """The code table (k, p); making a tensor of it takes as long as a product of matrices."""
        key = (like.dtype, like.device)
        if key not in self._tables:
            table = self.model.table.table.astype(float)
            self._tables[key] = torch.tensor(table, dtype=like.dtype, device=like.device)
        return self._tables[key]

    def _check(self, parameters: Mapping[str, Tensor], X: Tensor, C: Tensor) -> None:
        self.model.check(parameters, X=X, C=C)
        S = parameters[self.model.names[0]].shape[:-2]
        d, k = self.model.d, self.model.k
        if (
            X.ndim != 4
            or C.ndim != 4
            or tuple(X.shape[:1]) != tuple(S)
            or X.shape[:2] != C.shape[:2]
            or X.shape[-1] != d
            or tuple(C.shape[-2:]) != (k, d)
            or 0 in X.shape
        ):
            raise InputError(
                f"parameters of batch shape {tuple(S)}, X of shape {tuple(X.shape)} and C of shape "
                f"{tuple(C.shape)}; expected (S,), (S, B, n, {d}) and (S, B, {k}, {d})"
            )


_ATTENTION = {"softmax": attention, "sparsemax": sparse_attention}


def _batched(function: Any, *arrays: Tensor, **options: Any) -> Tensor:
    """A function of problems (T, ...) on models and tasks (S, B, ...)."""
    lead = arrays[0].shape[:2]
    flat = (a.expand(*lead, *a.shape[2:]).flatten(0, 1) for a in arrays)
    return function(*flat, **options).unflatten(0, lead)
