"""Attention by negative squared distance, soft and hard, and normalized linear attention.

Scores are -g |q - k|^2 with g = inverse temperature / sqrt(d_emb). At inverse temperature infinity
the softmax becomes the averaging hardmax: equal weights on all nearest keys. The limit has a
branch of its own, because infinity times a distance of zero is not a number.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from constructions.arrays import Array, InputError, NumberSystem, quiet
from constructions.rationals import whole_numbers


class Projections(NamedTuple):
    """The three matrices of one attention module, each (d_emb, d_emb); tokens are rows, so a
    module computes `tokens @ matrix.T`."""

    query: Any
    key: Any
    value: Any


@quiet
def squared_distances(
    queries: Array, keys: Array, system: NumberSystem, sharpness: float = math.inf
) -> Array:
    """|q - k|^2 for all pairs: (..., m, p) and (..., n, p) give (..., m, n).

    Summed coordinate by coordinate from differences. The expanded form |q|^2 - 2 q.k + |k|^2
    loses every digit far from the origin. The fixed order makes the result bit-equal across
    libraries, and padding with zero coordinates changes nothing.

    `sharpness` is what the distances will be multiplied by: infinite where they decide ties.

    Raises
    ------
    InputError
        a distance overflows, or a nonzero distance underflows so that it would pass for a tie.
    """
    total = system.full((*queries.shape[:-1], keys.shape[-2]), 0)
    for axis in range(queries.shape[-1]):
        difference = queries[..., :, None, axis] - keys[..., None, :, axis]
        square = difference * difference
        total = square if axis == 0 else total + square
    if not system.exact:
        _require_representable(total, queries, keys, system, sharpness)
    return total


def _require_representable(
    distances: Array, queries: Array, keys: Array, system: NumberSystem, sharpness: float
) -> None:
    xp = system.xp
    advice = f"in {system}; rescale all coordinates by one factor, or use exact rationals"
    if not bool(xp.all(xp.isfinite(distances))):
        raise InputError(f"a squared distance overflows {advice}")
    if sharpness * system.tiny * queries.shape[-1] <= system.eps:
        return  # what underflow can take away from a score is below its rounding
    # full relative precision needs every squared difference that matters to be a normal number
    small = distances < system.tiny / system.eps
    if not bool(xp.any(small)):
        return
    apart = small & False
    for axis in range(queries.shape[-1]):
        apart = apart | (queries[..., :, None, axis] != keys[..., None, :, axis])
    if bool(xp.any(small & apart)):
        raise InputError(f"a squared distance between distinct points underflows {advice}")


def nearest(queries: Array, keys: Array, system: NumberSystem) -> Array:
    """Which keys are nearest to each query: (..., m, n) truth values, ties included."""
    if system.exact:
        queries, keys = whole_numbers(queries, keys)
    distances = squared_distances(queries, keys, system)
    return distances == system.xp.min(distances, axis=-1, keepdims=True)


@quiet
def softmax_weights(distances: Array, sharpness: float, system: NumberSystem) -> Array:
    """exp(-sharpness * distance), normalized over the last axis.

    The smallest distance is subtracted before scaling, so no finite sharpness overflows.
    """
    xp = system.xp
    excess = distances - xp.min(distances, axis=-1, keepdims=True)
    weights = xp.exp(excess * -min(sharpness, system.max))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def attend(
    queries: Array, keys: Array, values: Array, inverse_temperature: float, system: NumberSystem
) -> Array:
    """Attention output (..., m, v) for projected queries (..., m, p), keys (..., n, p) and
    values (..., n, v), with the paper's scaling 1/sqrt(p)."""
    if inverse_temperature == math.inf:
        return system.mean(nearest(queries, keys, system), values)
    system.require_float("softmax attention", "use inverse_temperature = inf, or floats")
    sharpness = inverse_temperature / math.sqrt(queries.shape[-1])
    distances = squared_distances(queries, keys, system, sharpness)
    return softmax_weights(distances, sharpness, system) @ values


def attend_linear(
    queries: Array, keys: Array, values: Array, system: NumberSystem
) -> tuple[Array, Array]:
    """Normalized linear attention: weights q.k divided by their sum over the keys.

    Returns
    -------
    sums : (..., m, v) the weighted sums of the values, not yet divided, in the wide type of
        `NumberSystem.widened`
    totals : (..., m, 1) the sums of the weights; zero where no key has weight
    """
    weights = system.widened(queries) @ system.xp.matrix_transpose(system.widened(keys))
    return weights @ system.widened(values), system.xp.sum(weights, axis=-1, keepdims=True)
