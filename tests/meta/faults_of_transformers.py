"""Faults of codes, attention and the transformer: name, place, how to make it, and who notices.

A fault replaces one attribute of one module. Each is a mistake that somebody could make.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from constructions import attention, codes
from constructions.attention import Projections

# --- codes ---------------------------------------------------------------------------------------


def _table(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A named code whose table is changed; `change` gets an integer table."""
    return lambda original: lambda k: codes.Code("changed", change(original(k).table))


def _top_bit_lost(table: Any) -> Any:
    return np.where(np.arange(table.shape[1]) == table.shape[1] - 1, 0, table)


def _first_two_equal(original: Any) -> Any:
    def circle(k: int) -> codes.Code:
        right = original(k)
        return codes.Code("circle", right.table[[0, *range(k - 1)]], rational=False)

    return circle


def _in_named(name: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda named: named | {name: make(named[name])}


# --- attention -----------------------------------------------------------------------------------


def _sum_instead_of_mean(original: Any) -> Any:
    def mean(self: Any, mask: Any, values: Any) -> Any:
        return original(self, mask, values) * mask.sum(axis=-1)[..., None]

    return mean


def _one_of_equals(last: bool) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def nearest(queries: Any, keys: Any, system: Any) -> Any:
            near = original(queries, keys, system)
            flipped = near[..., ::-1] if last else near
            first = flipped & (np.cumsum(flipped, axis=-1) == 1)
            return first[..., ::-1] if last else first

        return nearest

    return make


def _farthest(original: Any) -> Any:
    def nearest(queries: Any, keys: Any, system: Any) -> Any:
        r = attention.squared_distances(queries, keys, system)
        return r == system.xp.max(r, axis=-1, keepdims=True)

    return nearest


def _absolute_distances(original: Any) -> Any:
    def distances(queries: Any, keys: Any, system: Any, sharpness: float = math.inf) -> Any:
        return abs(queries[..., :, None, :] - keys[..., None, :, :]).sum(axis=-1)

    return distances


def _without_scaling(original: Any) -> Any:
    def attend(queries: Any, keys: Any, values: Any, gamma: float, system: Any) -> Any:
        return original(queries, keys, values, gamma * math.sqrt(queries.shape[-1]), system)

    return attend


def _scaled_twice(original: Any) -> Any:
    def attend(queries: Any, keys: Any, values: Any, gamma: float, system: Any) -> Any:
        return original(queries, keys, values, gamma / math.sqrt(queries.shape[-1]), system)

    return attend


def _linear_not_normalized(original: Any) -> Any:
    return lambda sums, totals, system: sums / system.scalar(sums.shape[-2])


def _linear_squared(original: Any) -> Any:
    def attend_linear(queries: Any, keys: Any, values: Any, system: Any) -> Any:
        weights = (queries @ system.xp.matrix_transpose(keys)) ** 2
        return weights @ values, system.xp.sum(weights, axis=-1, keepdims=True)

    return attend_linear


# --- the transformer -----------------------------------------------------------------------------


def _matrices(module: str, **changed: Callable[[Projections], Any]) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def matrices(d: int, p: int) -> Any:
            right = original(d, p)
            wrong = {name: change(right[module]) for name, change in changed.items()}
            return right | {module: right[module]._replace(**wrong)}

        return matrices

    return make


def _stale_points(original: Any) -> Any:
    """The centers look at the points as they were before this layer."""

    def layer(self: Any, points: Any, centers: Any, weights: Any, system: Any) -> Any:
        moved, _ = original(self, points, centers, weights, system)
        _, stale = original(
            self, points, centers, weights | {"points_from_centers": _nothing(weights)}, system
        )
        return moved, stale

    def _nothing(weights: Any) -> Any:
        right = weights["points_from_centers"]
        return right._replace(value=right.value * 0)

    return layer


def _no_residual(original: Any) -> Any:
    def layer(self: Any, points: Any, centers: Any, weights: Any, system: Any) -> Any:
        moved, after = original(self, points, centers, weights, system)
        return moved, after - centers

    return layer


def _one_step_too_few(original: Any) -> Any:
    def call(self: Any, X: Any, C: Any, steps: int = 1, **options: Any) -> Any:
        return original(self, X, C, steps=max(steps - 1, min(steps, 1)), **options)

    return call


MUTANTS = (
    (
        "the top bit of the binary code is lost",
        "constructions.codes.NAMED",
        _in_named("binary", _table(_top_bit_lost)),
        ("thm-2.1/random", "duplicate-centers/three-ways-random", "hypothesis-needed/without-ties"),
    ),
    (
        "the bits of the binary code are complemented",
        "constructions.codes.NAMED",
        _in_named("binary", _table(lambda t: 1 - t)),
        ("embedding-norm/floor-tables",),
    ),
    (
        "the scalar code counts every number twice",
        "constructions.codes.NAMED",
        _in_named("scalar", _table(lambda t: t // 2)),
        ("any-code/named", "empty-clusters/closed-form"),
    ),
    (
        "two codes of the circle coincide",
        "constructions.codes.NAMED",
        _in_named("circle", _first_two_equal),
        ("any-code/circle",),
    ),
    (
        "widths by floor instead of ceiling",
        "constructions.codes.width_of",
        lambda o: lambda k: max(k.bit_length() - 1, 0),
        ("param-count/width", "embedding-norm/as-stated"),
    ),
    (
        "hard attention sums",
        "constructions.arrays.NumberSystem.mean",
        _sum_instead_of_mean,
        ("thm-2.1/small-grids", "oh-exact/linear", "duplicate-centers/every-pair"),
    ),
    (
        "ties go to the first key",
        "constructions.attention.nearest",
        _one_of_equals(False),
        ("ties/closed-form", "empty-clusters/one-hot-mean"),
    ),
    (
        "ties go to the last key",
        "constructions.attention.nearest",
        _one_of_equals(True),
        ("ties/closed-form", "oh-exact/fractional-shares"),
    ),
    (
        "the farthest key wins",
        "constructions.attention.nearest",
        _farthest,
        ("thm-2.1/random", "empty-clusters/closed-form"),
    ),
    (
        "distances are sums of absolute values",
        "constructions.attention.squared_distances",
        _absolute_distances,
        ("any-code/arbitrary",),
    ),
    (
        "the scaling by 1/sqrt(d_emb) is missing",
        "constructions.exact.attend",
        _without_scaling,
        ("finite-gamma/as-the-formula",),
    ),
    (
        "the scaling by 1/sqrt(d_emb) is done twice",
        "constructions.exact.attend",
        _scaled_twice,
        ("finite-gamma/float64",),
    ),
    (
        "linear attention is not normalized",
        "constructions.exact._normalized",
        _linear_not_normalized,
        ("oh-exact/linear", "empty-clusters/linear-undefined"),
    ),
    (
        "linear attention squares its weights",
        "constructions.exact.attend_linear",
        _linear_squared,
        ("oh-exact/fractional-shares",),
    ),
    (
        "points add their own codes instead of erasing them",
        "constructions.exact._matrices",
        _matrices("points_from_points", value=lambda m: -m.value),
        ("any-code/arbitrary",),
    ),
    (
        "centers add their own place instead of erasing it",
        "constructions.exact._matrices",
        _matrices("centers_from_centers", value=lambda m: -m.value),
        ("one-weights-all-k/random", "hypothesis-needed/all-in-force"),
    ),
    (
        "points do not erase",
        "constructions.exact._matrices",
        _matrices("points_from_points", value=lambda m: 0 * m.value),
        ("any-code/arbitrary", "oh-exact/distance"),
    ),
    (
        "centers look for places instead of codes",
        "constructions.exact._matrices",
        _matrices("centers_from_points", query=lambda m: m.value, key=lambda m: m.value),
        ("duplicate-centers/random", "one-weights-all-k/random"),
    ),
    (
        "centers see stale points",
        "constructions.exact.LloydTransformer._layer",
        _stale_points,
        ("any-code/arbitrary", "empty-clusters/linear-undefined"),
    ),
    (
        "centers without residual",
        "constructions.exact.LloydTransformer._layer",
        _no_residual,
        ("thm-2.1/small-grids", "ties/powers-dropped"),
    ),
    (
        "one step too few",
        "constructions.exact.LloydTransformer.__call__",
        _one_step_too_few,
        ("oh-exact/linear",),
    ),
)
