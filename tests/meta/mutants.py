"""Mathematical faults to plant in the constructions, one at a time.

A fault replaces one attribute of one module. Each is a mistake that somebody could make, and most
have been made in public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from constructions import attention, codes
from constructions.attention import Projections


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes
    ----------
    name : what is wrong
    place : module and attribute, "constructions.exact._matrices"
    make : from the right object to the wrong one
    killers : "claim/check" that have to notice
    """

    name: str
    place: str
    make: Callable[[Any], Any]
    killers: tuple[str, ...]


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


# --- surrogates ----------------------------------------------------------------------------------


def _temperature(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda original: lambda excess, tau, system: original(excess, change(tau), system)


def _threshold_of_one_round(original: Any) -> Any:
    """Newton's method stopped after its first step."""

    def threshold(u: Any, system: Any) -> Any:
        one = system.full((1,), 1)
        u = np.minimum(u, one)
        inside = system.indicator(u < one)
        size = system.xp.sum(inside, axis=-1, keepdims=True)
        return (system.xp.sum(inside * u, axis=-1, keepdims=True) + one) / size, size

    return threshold


def _threshold_shifted(original: Any) -> Any:
    def threshold(u: Any, system: Any) -> Any:
        t, size = original(u, system)
        return t + system.full((1,), 1) / 64, size

    return threshold


def _gap_from_the_maximum(original: Any) -> Any:
    def gap(r: Any, tau: Any, alpha: Any, system: Any) -> Any:
        return original(r, tau, alpha, system) - (system.xp.max(r, axis=-1) - r.min(axis=-1))

    return gap


def _entropy_in_bits(original: Any) -> Any:
    def weights(u: Any, alpha: Any, system: Any) -> Any:
        return original(u * math.log(2) if alpha == 1 else u, alpha, system)

    return weights


def _flat_weights(original: Any) -> Any:
    def weights(u: Any, alpha: Any, system: Any) -> Any:
        p = original(u, alpha, system)
        return p * 0 + system.full((1,), 1) / p.shape[-1]

    return weights


def _sharper_exponent(original: Any) -> Any:
    def weights(u: Any, alpha: Any, system: Any) -> Any:
        return original(u, (1 + alpha) / 2 if 1 < alpha < 2 else alpha, system)

    return weights


def _gradient_of_fixed_weights(original: Any) -> Any:
    """The product rule forgotten: dS/dr = P."""
    return lambda u, p, alpha, system: p


# --- tasks ---------------------------------------------------------------------------------------


def _one_factor_a_coordinate(original: Any) -> Any:
    return lambda X, scaling, system: original(X, "per-dimension", system)


def _by_reciprocal(original: Any) -> Any:
    """Multiplies by 1 / extent: some values end up above 1 by a rounding (a public report)."""

    def rescale(X: Any, scaling: str, system: Any) -> Any:
        low = system.xp.min(X, axis=-2, keepdims=True)
        extent = system.xp.max(X, axis=-2, keepdims=True) - low
        if scaling == "common":
            extent = system.xp.max(extent, axis=-1, keepdims=True)
        one = system.full((1,), 1)
        return (X - low) * (one / system.xp.where(extent == 0, one, extent))

    return rescale


def _not_shifted(original: Any) -> Any:
    def rescale(X: Any, scaling: str, system: Any) -> Any:
        return original(X, scaling, system) + system.xp.min(X, axis=-2, keepdims=True)

    return rescale


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the top bit of the binary code is lost",
        "constructions.codes.NAMED",
        _in_named("binary", _table(_top_bit_lost)),
        ("thm-2.1/random", "duplicate-centers/three-ways-random", "hypothesis-needed/without-ties"),
    ),
    Mutant(
        "the bits of the binary code are complemented",
        "constructions.codes.NAMED",
        _in_named("binary", _table(lambda t: 1 - t)),
        ("embedding-norm/floor-tables",),
    ),
    Mutant(
        "the scalar code counts every number twice",
        "constructions.codes.NAMED",
        _in_named("scalar", _table(lambda t: t // 2)),
        ("any-code/named", "empty-clusters/closed-form"),
    ),
    Mutant(
        "two codes of the circle coincide",
        "constructions.codes.NAMED",
        _in_named("circle", _first_two_equal),
        ("any-code/circle",),
    ),
    Mutant(
        "widths by floor instead of ceiling",
        "constructions.codes.width_of",
        lambda o: lambda k: max(k.bit_length() - 1, 0),
        ("param-count/width", "embedding-norm/as-stated"),
    ),
    Mutant(
        "hard attention sums",
        "constructions.arrays.NumberSystem.mean",
        _sum_instead_of_mean,
        ("thm-2.1/small-grids", "oh-exact/linear", "duplicate-centers/every-pair"),
    ),
    Mutant(
        "ties go to the first key",
        "constructions.attention.nearest",
        _one_of_equals(False),
        ("ties/closed-form", "empty-clusters/one-hot-mean"),
    ),
    Mutant(
        "ties go to the last key",
        "constructions.attention.nearest",
        _one_of_equals(True),
        ("ties/closed-form", "oh-exact/fractional-shares"),
    ),
    Mutant(
        "the farthest key wins",
        "constructions.attention.nearest",
        _farthest,
        ("thm-2.1/random", "empty-clusters/closed-form"),
    ),
    Mutant(
        "distances are sums of absolute values",
        "constructions.attention.squared_distances",
        _absolute_distances,
        ("any-code/arbitrary",),
    ),
    Mutant(
        "the scaling by 1/sqrt(d_emb) is missing",
        "constructions.exact.attend",
        _without_scaling,
        ("finite-gamma/as-the-formula",),
    ),
    Mutant(
        "the scaling by 1/sqrt(d_emb) is done twice",
        "constructions.exact.attend",
        _scaled_twice,
        ("finite-gamma/float64",),
    ),
    Mutant(
        "linear attention is not normalized",
        "constructions.exact._normalized",
        _linear_not_normalized,
        ("oh-exact/linear", "empty-clusters/linear-undefined"),
    ),
    Mutant(
        "linear attention squares its weights",
        "constructions.exact.attend_linear",
        _linear_squared,
        ("oh-exact/fractional-shares",),
    ),
    Mutant(
        "points add their own codes instead of erasing them",
        "constructions.exact._matrices",
        _matrices("points_from_points", value=lambda m: -m.value),
        ("any-code/arbitrary",),
    ),
    Mutant(
        "centers add their own place instead of erasing it",
        "constructions.exact._matrices",
        _matrices("centers_from_centers", value=lambda m: -m.value),
        ("one-weights-all-k/random", "hypothesis-needed/all-in-force"),
    ),
    Mutant(
        "points do not erase",
        "constructions.exact._matrices",
        _matrices("points_from_points", value=lambda m: 0 * m.value),
        ("any-code/arbitrary", "oh-exact/distance"),
    ),
    Mutant(
        "centers look for places instead of codes",
        "constructions.exact._matrices",
        _matrices("centers_from_points", query=lambda m: m.value, key=lambda m: m.value),
        ("duplicate-centers/random", "one-weights-all-k/random"),
    ),
    Mutant(
        "centers see stale points",
        "constructions.exact.LloydTransformer._layer",
        _stale_points,
        ("any-code/arbitrary", "empty-clusters/linear-undefined"),
    ),
    Mutant(
        "centers without residual",
        "constructions.exact.LloydTransformer._layer",
        _no_residual,
        ("thm-2.1/small-grids", "ties/powers-dropped"),
    ),
    Mutant(
        "one step too few",
        "constructions.exact.LloydTransformer.__call__",
        _one_step_too_few,
        ("oh-exact/linear",),
    ),
    Mutant(
        "the temperature is squared",
        "constructions.surrogates._scaled_excess",
        _temperature(lambda t: t * t),
        ("sparsemax-formula/random", "surrogate-lipschitz/six-decades"),
    ),
    Mutant(
        "the temperature is inverted",
        "constructions.surrogates._scaled_excess",
        _temperature(lambda t: 1 / t),
        ("tau-monotone/l2", "l2-differentiable/identity"),
    ),
    Mutant(
        "the temperature is halved",
        "constructions.surrogates._scaled_excess",
        _temperature(lambda t: t / 2),
        ("sharp-gap-l2/ascent", "omega-tau/random-l2"),
    ),
    Mutant(
        "the temperature is doubled",
        "constructions.surrogates._scaled_excess",
        _temperature(lambda t: t * 2),
        ("sharp-gap-l2/random", "l2-zero-gap/random"),
    ),
    Mutant(
        "the sparsemax threshold after one round",
        "constructions.surrogates.sparsemax_threshold",
        _threshold_of_one_round,
        ("sparsemax-formula/random", "l2-differentiable/identity"),
    ),
    Mutant(
        "the sparsemax threshold is off by 1/64",
        "constructions.surrogates.sparsemax_threshold",
        _threshold_shifted,
        ("sparsemax-formula/small-grid", "l2-zero-gap/random"),
    ),
    Mutant(
        "the gap is taken from the maximum",
        "constructions.surrogates._gap",
        _gap_from_the_maximum,
        ("surrogate-upper-bound/random", "tau-limit/l2"),
    ),
    Mutant(
        "entropy in bits",
        "constructions.surrogates.weights",
        _entropy_in_bits,
        ("omega-tau/ascent-ne",),
    ),
    Mutant(
        "weights are all equal",
        "constructions.surrogates.weights",
        _flat_weights,
        ("sparsemax-formula/zero-weights", "tau-limit/l2"),
    ),
    Mutant(
        "a wrong entmax exponent",
        "constructions.surrogates.weights",
        _sharper_exponent,
        ("entmax-family/ascent",),
    ),
    Mutant(
        "the gradient forgets that weights move",
        "constructions.surrogates.gradient_from",
        _gradient_of_fixed_weights,
        ("l2-differentiable/jump", "surrogate-lipschitz/ascent-l2"),
    ),
    Mutant(
        "the common scale is one a coordinate",
        "constructions.tasks.rescale",
        _one_factor_a_coordinate,
        ("kmeans-invariance/common-grid",),
    ),
    Mutant(
        "scaling multiplies by the reciprocal",
        "constructions.tasks.rescale",
        _by_reciprocal,
        ("tasks-unit-cube/any-points",),
    ),
    Mutant(
        "scaling does not shift to zero",
        "constructions.tasks.rescale",
        _not_shifted,
        ("tasks-unit-cube/degenerate", "kmeans-invariance/common-grid"),
    ),
)
