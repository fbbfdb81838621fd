"""Attention by negative squared distance, soft and hard, and normalized linear attention.

Scores are -g |q - k|^2 with g = inverse temperature / sqrt(d_emb). At inverse temperature infinity
the softmax becomes the averaging hardmax: equal weights on all nearest keys. The limit has a
branch of its own, because infinity times a distance of zero is not a number.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_cupy_namespace

from constructions.arrays import Array, InputError, NumberSystem, checked, checked_scalar, quiet
from constructions.rationals import whole_numbers
from constructions.recording import noted, watched


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
    if not bool(xp.all(xp.isfinite(distances))):
        raise _not_representable("a squared distance overflows", system)
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
        raise _not_representable("a squared distance between distinct points underflows", system)


def _not_representable(what: str, system: NumberSystem) -> InputError:
    return InputError(
        f"{what} in {system}; rescale all coordinates by one factor, or use exact rationals"
    )


def nearest(queries: Array, keys: Array, system: NumberSystem) -> Array:
    """Which keys are nearest to each query: (..., m, n) truth values, ties included."""
    noted("queries", queries)
    noted("keys", keys)
    if system.exact and not watched():
        queries, keys = whole_numbers(queries, keys)  # the same order of distances, and faster
    distances = noted("squared distances", squared_distances(queries, keys, system))
    return distances == system.xp.min(distances, axis=-1, keepdims=True)


@quiet
def hardmax(queries: Array, keys: Array, values: Array, system: NumberSystem) -> Array:
    """The mean of the values of all nearest keys: attention at inverse temperature infinity.

    CuPy arrays go through one kernel that holds no m x n numbers (`constructions._hardmax_cuda`).
    """
    if not is_cupy_namespace(system.xp):
        near = noted("nearest", nearest(queries, keys, system))
        return noted("means", system.mean(near, values))
    from constructions._hardmax_cuda import sums_of_nearest

    noted("queries", queries)
    noted("keys", keys)
    sums, counts, faults = sums_of_nearest(queries, keys, values, system)
    if faults & 1:
        raise _not_representable("a squared distance overflows", system)
    if faults & 2:
        raise _not_representable("a squared distance between distinct points underflows", system)
    return noted("means", system.narrowed(sums / counts))


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
        return hardmax(queries, keys, values, system)
    system.require_float("softmax attention", "use inverse_temperature = inf, or floats")
    sharpness = inverse_temperature / math.sqrt(queries.shape[-1])
    noted("queries", queries)
    noted("keys", keys)
    distances = noted("squared distances", squared_distances(queries, keys, system, sharpness))
    weights = noted("weights", softmax_weights(distances, sharpness, system))
    return noted("means", weights @ values)


@quiet
def distance_attention(
    queries: Array, keys: Array, values: Array, inverse_temperature: Any = math.inf
) -> Array:
    """Attention by negative squared distance, for arrays that have not been checked.

    Parameters
    ----------
    queries : (..., m, p) numbers; numpy, torch, CuPy, array_api_strict, or exact rationals
    keys : (..., n, p), n >= 1
    values : (..., n, v)
    inverse_temperature : positive number, or inf (default): then each query gets the mean of the
        values of all its nearest keys

    Returns
    -------
    (..., m, v) in the number system of the input

    Raises
    ------
    InputError
        NaN, infinity, shapes that do not fit, no key, different libraries or devices, squared
        distances that are not representable.
    NotRationalError
        exact rationals with a finite inverse temperature.

    Source: the paper's Section 2; docs/theory/lipschitz.md, "Model and notation".
    """
    gamma = checked_scalar(
        "inverse_temperature", inverse_temperature, "a positive number or inf", infinity=True
    )
    system, (q, k, v) = checked(queries=queries, keys=keys, values=values)
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1]:
        fits = False
    else:
        leading = (tuple(a.shape[:-2]) for a in (q, k, v))
        fits = k.shape[-2] == v.shape[-2] >= 1 and _broadcast(*leading)
    if not fits:
        raise InputError(
            f"queries, keys and values have shapes {tuple(q.shape)}, {tuple(k.shape)} and "
            f"{tuple(v.shape)}; expected (..., m, p), (..., n, p) and (..., n, v) with n >= 1"
        )
    # vectors without entries are all at the same place, whatever the scale
    return attend(q, k, v, float(gamma) if q.shape[-1] else math.inf, system)


def _broadcast(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


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
