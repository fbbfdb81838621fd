"""The hand-built transformer that executes Lloyd's algorithm, for any code.

A token is a row: d coordinates, then p code entries. Points enter as [x, 0], centers as
[c_j, b_j]. One layer runs four attention modules in parallel pairs:

    points   <- points  + cross-attention on centers + self-attention on points
    centers  <- centers + cross-attention on the new points + self-attention on centers

The point modules look at coordinates and move codes: the cross-attention writes the code of the
nearest center, and the self-attention (value = minus the code) erases what stood there before.
The center modules look at codes and move coordinates: the cross-attention averages the points
that carry the center's code, and the self-attention erases the old coordinates.

A module's output is added to the residual; the self-attention goes first, so that in floats the
old contents cancel to exactly zero before the new ones are written.

Why this is exact at inverse temperature infinity (docs/theory/expressivity.md, "The closed
form"): a point's self-attention reaches only points at the same place. These carry the same code
(by induction over layers: the first codes are all zero, and every later one is a function of the
place alone), so their average is the point's own code, and residual minus average is zero. A
center's self-attention reaches only centers with the same code, which is itself when codes are
distinct. What is left is the two cross-attentions. QED.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from constructions.arrays import (
    Array,
    InputError,
    NumberSystem,
    checked_count,
    checked_scalar,
    checked_task,
    quiet,
)
from constructions.attention import Projections, attend, attend_linear
from constructions.codes import code as make_code
from constructions.lloyd import empty_cluster_error
from constructions.recording import noted, section

CENTER_UPDATES = ("distance", "linear")


class LloydTransformer:
    """A transformer layer whose weights are written down, not learned.

    Parameters
    ----------
    d : int >= 1
        number of coordinates.
    k : int >= 1
        number of clusters.
    code : str or array (k, p)
        `binary` (the paper's), `one_hot`, `scalar`, `powers`, `circle`, `gray`, `half`, `none`, or
        one code a row.
    inverse_temperature : float > 0 or inf
        the paper's gamma. Infinity is the averaging hardmax, where everything is rational.
    center_update : "distance" or "linear"
        how centers read points: by distance attention on codes (the paper), or by normalized
        linear attention (Clarkson et al. 2026, meant for the one-hot code).

    Attributes
    ----------
    d_emb : int, the token width d + p
    code : the `Code`
    matrices : dict of four `Projections` (query, key, value), each (d_emb, d_emb) integers; the
        keys are `points_from_centers`, `points_from_points`, `centers_from_points`,
        `centers_from_centers`

    Source: the paper's Section 2 and Appendix B.
    """

    def __init__(
        self,
        d: int,
        k: int,
        code: Any = "binary",
        inverse_temperature: float = math.inf,
        center_update: str = "distance",
    ) -> None:
        self.d = checked_count("d", d, 1)
        self.k = checked_count("k", k, 1)
        self.code = make_code(code, self.k)
        self.inverse_temperature = checked_scalar(
            "inverse_temperature", inverse_temperature, "a positive number or inf", infinity=True
        )
        try:
            float(self.inverse_temperature)
        except OverflowError:
            raise InputError("inverse_temperature is beyond every float; use inf") from None
        if center_update not in CENTER_UPDATES:
            raise InputError(
                f"center_update = {center_update!r} is not known; allowed: "
                + ", ".join(map(repr, CENTER_UPDATES))
            )
        self.center_update = center_update
        self.d_emb = self.d + self.code.width
        self.matrices = _matrices(self.d, self.code.width)

    def __repr__(self) -> str:
        return (
            f"LloydTransformer(d={self.d}, k={self.k}, code={self.code.name!r}, "
            f"inverse_temperature={self.inverse_temperature}, "
            f"center_update={self.center_update!r})"
        )

    @quiet
    def __call__(
        self,
        X: Array,
        C: Array,
        steps: int = 1,
        *,
        reembed: bool = False,
        literal: bool = False,
    ) -> Array:
        """Centers (..., k, d) after `steps` layers, in the number system of the input.

        Parameters
        ----------
        X : (..., n, d) points, n >= k
        C : (..., k, d) initial centers
        steps : int >= 0
        reembed : bool
            start every layer from fresh tokens [x, 0] and [c, b] instead of feeding the layer's
            output tokens to the next (the paper's two ways to iterate).
        literal : bool
            multiply all twelve matrices and compute all pairs, also where the proof in this
            module says what comes out. Without it, an infinite inverse temperature costs O(nk)
            time and memory a step instead of O(n^2). At a finite one, and with codes that are not
            distinct, the literal layer is the only one.

        Raises
        ------
        InputError
            shapes that do not fit the model, numbers that are not finite, squared distances or
            sums that are not representable.
        NotRationalError
            exact rationals with a finite inverse temperature or with the circle code.
        EmptyClusterError
            the linear center update meets a center that is nearest to no point (0/0).
        """
        steps = checked_count("steps", steps, 0)
        system, X, C = self._checked(X, C)
        codes = self.code.array(system)
        if self.inverse_temperature != math.inf:
            system.require_float(
                "attention at a finite inverse temperature",
                "use inverse_temperature = inf, or floating-point points",
            )
        elif self.code.distinct and not literal:
            for _ in range(steps):
                C = self._closed_form(X, C, codes, system)
            return C if steps else system.xp.concat([C], axis=-1)  # never the caller's own memory
        weights = self._weights(system)
        points, centers = self._embed(X, C, codes, system)
        for _ in range(steps):
            points, centers = self._layer(points, centers, weights, system)
            if reembed:
                points, centers = self._embed(X, centers[..., : self.d], codes, system)
        return system.narrowed(centers[..., : self.d])

    @quiet
    def embed(self, X: Array, C: Array) -> tuple[Array, Array]:
        """Tokens [x, 0] of shape (..., n, d_emb) and [c, b] of shape (..., k, d_emb)."""
        system, X, C = self._checked(X, C)
        return self._embed(X, C, self.code.array(system), system)

    @quiet
    def layer(self, points: Array, centers: Array) -> tuple[Array, Array]:
        """One layer with all twelve matrices, tokens (..., n, d_emb) and (..., k, d_emb)."""
        system, points, centers = checked_task(points, centers)
        if points.shape[-1] != self.d_emb or centers.shape[-2] != self.k:
            raise InputError(
                f"tokens of shape {tuple(points.shape)} and {tuple(centers.shape)}; this model is "
                f"for tokens of width {self.d_emb}, {self.k} of them centers"
            )
        return self._layer(points, centers, self._weights(system), system)

    def _checked(self, X: Array, C: Array) -> tuple[NumberSystem, Array, Array]:
        system, X, C = checked_task(X, C)
        if C.shape[-2] != self.k or C.shape[-1] != self.d:
            raise InputError(
                f"C has shape {tuple(C.shape)}; this model is for k = {self.k} centers in "
                f"d = {self.d} coordinates"
            )
        return system, X, C

    def _weights(self, system: NumberSystem) -> dict[str, Projections]:
        """The twelve matrices in a number system, transposed for tokens that are rows."""
        return {
            name: Projections(*(system.array(m.T) for m in module))
            for name, module in self.matrices.items()
        }

    def _embed(self, X: Array, C: Array, codes: Array, system: NumberSystem) -> tuple[Array, Array]:
        blank = system.full((*X.shape[:-1], self.code.width), 0)
        codes = system.xp.broadcast_to(codes, (*C.shape[:-1], self.code.width))
        concat = system.xp.concat
        section("embedding")
        points = noted("points", concat([X, blank], axis=-1))
        return points, noted("centers", concat([C, codes], axis=-1))

    def _layer(
        self,
        points: Array,
        centers: Array,
        weights: dict[str, Projections],
        system: NumberSystem,
    ) -> tuple[Array, Array]:
        def module(name: str, tokens: Array, others: Array) -> Array:
            section(name)
            query, key, value = weights[name]
            queries, keys, values = tokens @ query, others @ key, noted("values", others @ value)
            if name == "centers_from_points" and self.center_update == "linear":
                return _normalized(*attend_linear(queries, keys, values, system), system)
            gamma = float(self.inverse_temperature)
            return noted("output", attend(queries, keys, values, gamma, system))

        cross = module("points_from_centers", points, centers)
        points = points + module("points_from_points", points, points) + cross
        section("layer")
        noted("points", points)
        cross = module("centers_from_points", centers, points)
        centers = centers + module("centers_from_centers", centers, centers) + cross
        section("layer")
        return points, noted("centers", centers)

    def _closed_form(self, X: Array, C: Array, codes: Array, system: NumberSystem) -> Array:
        """What a layer computes at inverse temperature infinity with distinct codes: see above."""
        spread = system.xp.broadcast_to(codes, (*C.shape[:-1], codes.shape[-1]))
        section("closed form")
        carried = attend(X, C, spread, math.inf, system)
        if self.center_update == "linear":
            return _normalized(*attend_linear(codes, carried, X, system), system)
        return attend(codes, carried, X, math.inf, system)


def _normalized(sums: Array, totals: Array, system: NumberSystem) -> Array:
    vacant = totals == 0
    if bool(system.xp.any(vacant)):
        raise empty_cluster_error(
            vacant[..., 0],
            "gets attention weights of sum zero, so its mean is 0/0: with the one-hot code, no "
            "point is nearest to its center",
        )
    return system.narrowed(sums / totals)


def _matrices(d: int, p: int) -> dict[str, Projections]:
    """Selectors of the coordinate block and of the code block, with the signs of the proof."""
    place = np.diag([1] * d + [0] * p).astype(np.int64)
    mark = np.diag([0] * d + [1] * p).astype(np.int64)
    return {
        "points_from_centers": Projections(place, place, mark),
        "points_from_points": Projections(place, place, -mark),
        "centers_from_points": Projections(mark, mark, place),
        "centers_from_centers": Projections(mark, mark, -place),
    }
