"""Faults of one library, device or element type alone: name, place, how to make it, who notices.

The exact arithmetics stay right, so only a comparison between arithmetics can notice. Several have
been made in public.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from constructions import surrogates

BITS, BOUNDS = "same-bits/matrix", "rounding-bounds/matrix"


def _library(system: Any) -> str:
    return str(system.xp.__name__).rsplit(".", 1)[-1]


def _expanded_in_torch(original: Any) -> Any:
    def distances(queries: Any, keys: Any, system: Any, *rest: Any, **named: Any) -> Any:
        if _library(system) != "torch":
            return original(queries, keys, system, *rest, **named)
        squares = (queries**2).sum(-1)[..., :, None] + (keys**2).sum(-1)[..., None, :]
        return squares - 2 * queries @ keys.mT

    return distances


def _sums_in_float32(original: Any) -> Any:
    return lambda self, array: array


def _back_on_the_host(original: Any) -> Any:
    """The result leaves the second device of array_api_strict."""

    def mean(self: Any, mask: Any, values: Any) -> Any:
        found = original(self, mask, values)
        if "device1" not in str(self.device):
            return found
        return found.to_device(self.xp.Device("CPU_DEVICE"))

    return mean


def _wider(original: Any) -> Any:
    """A float32 result comes back as float64 from numpy."""

    def narrowed(self: Any, array: Any) -> Any:
        return array if _library(self) == "numpy" and not self.exact else original(self, array)

    return narrowed


def _negative_weights_in_numpy(original: Any) -> Any:
    def clip(a: Any, system: Any, low: Any = None, high: Any = None) -> Any:
        numpy = _library(system) == "numpy" and not system.exact
        return original(a, system, None if numpy else low, high)

    return clip


def _without_mirror(original: Any) -> Any:
    """The Cauchy quantile from the far end: 1 / tan next to pi loses the digits of the tail."""

    def standard(family: str, noise: Any) -> Any:
        if family != "cauchy" or not isinstance(noise, torch.Tensor):
            return original(family, noise)
        return -1 / torch.tan(math.pi * noise)

    return standard


def _bias_in_half(original: Any) -> Any:
    """Biases lost in bfloat16 only."""

    def project(parameters: Any, name: str, tokens: Any) -> Any:
        if tokens.dtype is not torch.bfloat16:
            return original(parameters, name, tokens)
        return tokens @ parameters[name].mT

    return project


def _gradient_of_fixed_weights(original: Any) -> Any:
    """The product rule forgotten, in torch: dS/dr = P."""

    def value_and_gradient(rows: Any, tau: Any, alpha: Any, system: Any) -> Any:
        value, _ = original(rows, tau, alpha, system)
        return value, surrogates.weights(surrogates.scaled(rows, tau, system)[2], alpha, system)

    return value_and_gradient


def _other_bits_each_time(original: Any) -> Any:
    """What a sum by atomic additions does: another order, another last bit."""
    calls = itertools.count()

    def weights(distances: Any, sharpness: float, system: Any) -> Any:
        found = original(distances, sharpness, system)
        return found if next(calls) % 2 else found * (1 + system.eps)

    return weights


MUTANTS: tuple[tuple[str, str, Callable[[Any], Any], tuple[str, ...]], ...] = (
    (
        "torch's squared distances are expanded",
        "constructions.attention.squared_distances",
        _expanded_in_torch,
        (BITS, BOUNDS),
    ),
    (
        "means of float32 numbers are summed in float32",
        "constructions.arrays.NumberSystem.widened",
        _sums_in_float32,
        (BOUNDS,),
    ),
    (
        "a mean comes back on another device",
        "constructions.arrays.NumberSystem.mean",
        _back_on_the_host,
        (BITS, BOUNDS),
    ),
    (
        "numpy's float32 becomes float64",
        "constructions.arrays.NumberSystem.narrowed",
        _wider,
        (BITS, BOUNDS),
    ),
    (
        "numpy's sparsemax weights are not clipped",
        "constructions._entmax.clip",
        _negative_weights_in_numpy,
        (BITS, BOUNDS),
    ),
    (
        "torch's Cauchy quantile is not mirrored",
        "constructions.tasks.standard",
        _without_mirror,
        (BOUNDS,),
    ),
    (
        "biases are lost in bfloat16",
        "constructions.trainable.project",
        _bias_in_half,
        (BOUNDS,),
    ),
    (
        "torch's gradient forgets that weights move",
        "constructions._surrogate_autograd._value_and_gradient",
        _gradient_of_fixed_weights,
        (BITS, BOUNDS),
    ),
    (
        "softmax weights in another order each time",
        "constructions.attention.softmax_weights",
        _other_bits_each_time,
        ("determinism/repeats",),
    ),
)
