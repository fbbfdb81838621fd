"""Faults of the surrogates and the tasks: name, place, how to make it, and who notices.

Several have been made in public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

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
        return (system.xp.sum(inside * u, axis=-1, keepdims=True) + one) / size

    return threshold


def _threshold_shifted(original: Any) -> Any:
    def threshold(u: Any, system: Any) -> Any:
        return original(u, system) + system.full((1,), 1) / 64

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


MUTANTS = (
    (
        "the temperature is squared",
        "constructions.surrogates._scaled_excess",
        _temperature(lambda t: t * t),
        ("sparsemax-formula/random", "surrogate-lipschitz/six-decades"),
    ),
    (
        "the temperature is inverted",
        "constructions.surrogates._scaled_excess",
        _temperature(lambda t: 1 / t),
        ("tau-monotone/l2", "l2-differentiable/identity"),
    ),
    (
        "the temperature is halved",
        "constructions.surrogates._scaled_excess",
        _temperature(lambda t: t / 2),
        ("sharp-gap-l2/ascent", "omega-tau/random-l2"),
    ),
    (
        "the temperature is doubled",
        "constructions.surrogates._scaled_excess",
        _temperature(lambda t: t * 2),
        ("sharp-gap-l2/random", "l2-zero-gap/random"),
    ),
    (
        "the sparsemax threshold after one round",
        "constructions.surrogates.sparsemax_threshold",
        _threshold_of_one_round,
        ("sparsemax-formula/random", "l2-differentiable/identity"),
    ),
    (
        "the sparsemax threshold is off by 1/64",
        "constructions.surrogates.sparsemax_threshold",
        _threshold_shifted,
        ("sparsemax-formula/small-grid", "l2-zero-gap/random"),
    ),
    (
        "the gap is taken from the maximum",
        "constructions.surrogates._gap",
        _gap_from_the_maximum,
        ("surrogate-upper-bound/random", "tau-limit/l2"),
    ),
    (
        "entropy in bits",
        "constructions.surrogates.weights",
        _entropy_in_bits,
        ("omega-tau/ascent-ne",),
    ),
    (
        "weights are all equal",
        "constructions.surrogates.weights",
        _flat_weights,
        ("sparsemax-formula/zero-weights", "tau-limit/l2"),
    ),
    (
        "a wrong entmax exponent",
        "constructions.surrogates.weights",
        _sharper_exponent,
        ("entmax-family/ascent",),
    ),
    (
        "the gradient forgets that weights move",
        "constructions.surrogates.gradient_from",
        _gradient_of_fixed_weights,
        ("l2-differentiable/jump", "surrogate-lipschitz/ascent-l2"),
    ),
    (
        "the common scale is one a coordinate",
        "constructions.tasks.rescale",
        _one_factor_a_coordinate,
        ("kmeans-invariance/common-grid",),
    ),
    (
        "scaling multiplies by the reciprocal",
        "constructions.tasks.rescale",
        _by_reciprocal,
        ("tasks-unit-cube/any-points",),
    ),
    (
        "scaling does not shift to zero",
        "constructions.tasks.rescale",
        _not_shifted,
        ("tasks-unit-cube/degenerate", "kmeans-invariance/common-grid"),
    ),
)
