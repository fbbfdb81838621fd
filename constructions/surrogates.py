r"""Regularized minimum: the smooth stand-ins for min_j r_j, and their weights and gradients.

For r in R^k and a temperature tau > 0,

    P = argmin over the simplex of <p, r> + tau * Omega(p),      S = <P, r>.

Omega is negative Shannon entropy ("ne": softmax weights), half the squared norm ("l2": sparsemax
weights), or the negative Tsallis entropy of an entmax exponent alpha >= 1, which contains both
(alpha = 1 and alpha = 2). S is never below min r (docs/theory/surrogates.md).

Rounding. All is computed from the excess e_j = r_j - min r >= 0, divided by tau once, so that no
temperature a float64 can hold overflows on the way, not even in float32. The value is min r plus
a sum of nonnegative terms, so it is never rounded to below min r. Weights are within a few times
eps, the distance from 1 to the next number (a bound is derived at `sparsemax_threshold`). A
permutation of r, or another place in a batch, changes the order of sums and with it the last bits.

Source: the paper's Appendix H.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from constructions._entmax import below, clip, entmax, softmax, sparsemax_threshold
from constructions.arrays import (
    Array,
    InputError,
    NotRationalError,
    NumberSystem,
    checked,
    checked_scalar,
    quiet,
)
from constructions.recording import noted

__all__ = [
    "exponent_of",
    "gradient_from",
    "sparsemax_threshold",
    "surrogate",
    "surrogate_gap",
    "surrogate_gradient",
    "surrogate_weights",
    "weights",
]

_BLOCK = 1 << 17  # numbers in a block of rows; a few arrays of this size fit in a core's cache
_NARROW = 64  # rows shorter than this are stored by columns


def surrogate(r: Array, temperature: Any, regularizer: Any) -> Array:
    """The regularized minimum <P(r / temperature), r> over the last axis.

    Parameters
    ----------
    r : (..., k) finite numbers, usually squared distances; any supported number system
    temperature : number > 0, in the unit of r
    regularizer : "ne", "l2", or an entmax exponent 1 <= alpha <= 1000

    Returns
    -------
    (...,) in the number system of r; never below min r, and at most mean r up to rounding

    Raises
    ------
    InputError
        empty last axis, NaN or infinity, temperature not positive, unknown regularizer; also when
        both the temperature and max r - min r are close to the largest number or beyond it
    NotRationalError
        exact rationals with anything but "l2" (alpha = 2)

    Torch gradients of every order flow, through this and the functions below. Inside of
    `torch.func` transforms and `torch.compile` no number is looked at: NaN, infinity and overflow
    are not refused there, and entmax exponents other than 1 and 2 have three orders (docs/loss.md).

    >>> import numpy as np
    >>> float(surrogate(np.array([0.1, 0.5, 0.9]), 1.0, "l2"))
    0.21999999999999997
    """
    if _traced(r):
        return _in_plain_torch("surrogate", r, temperature, regularizer)
    return _surrogate(*_checked(r, temperature, regularizer))


@quiet
def _surrogate(system: NumberSystem, r: Array, tau: Any, alpha: Any) -> Array:
    if _tracked(r):
        from constructions._surrogate_autograd import Surrogate

        return Surrogate.apply(r, tau, alpha, system)

    def value(rows: Array) -> tuple[Array]:
        return (system.xp.min(rows, axis=-1) + _gap(rows, tau, alpha, system),)

    return by_rows(value, r, system)[0]


def surrogate_gap(r: Array, temperature: Any, regularizer: Any) -> Array:
    """How far the surrogate is above min r, without subtracting the two; (..., k) -> (...,).

    Takes what `surrogate` takes and raises what it raises.
    """
    if _traced(r):
        return _in_plain_torch("gap", r, temperature, regularizer)
    system, r, tau, alpha = _checked(r, temperature, regularizer)
    return _in_rows(lambda rows: (_gap(rows, tau, alpha, system),), r, system)


def surrogate_weights(r: Array, temperature: Any, regularizer: Any) -> Array:
    """The weights P(r / temperature), (..., k) -> (..., k): nonnegative, of sum 1.

    Takes what `surrogate` takes and raises what it raises.
    """
    if _traced(r):
        return _in_plain_torch("weights", r, temperature, regularizer)
    system, r, tau, alpha = _checked(r, temperature, regularizer)

    def of_rows(rows: Array) -> tuple[Array]:
        return (weights(scaled(rows, tau, system)[2], alpha, system),)

    return _in_rows(of_rows, r, system)


def surrogate_gradient(r: Array, temperature: Any, regularizer: Any) -> Array:
    """The gradient of the surrogate in r, (..., k) -> (..., k); its entries sum to 1.

    For "l2" it jumps where a center enters the support; there the value from inside the smaller
    support is returned. Takes what `surrogate` takes and raises what it raises.
    Source: docs/theory/surrogates.md, "The gradient".
    """
    if _traced(r):
        return _in_plain_torch("gradient", r, temperature, regularizer)
    system, r, tau, alpha = _checked(r, temperature, regularizer)
    return gradient(r, tau, alpha, system)


@quiet
def gradient(r: Array, tau: Any, alpha: Any, system: NumberSystem) -> Array:
    """`surrogate_gradient` of arguments that have been checked."""

    def of_rows(rows: Array) -> tuple[Array]:
        u = scaled(rows, tau, system)[2]
        return (gradient_from(u, weights(u, alpha, system), alpha, system),)

    return by_rows(of_rows, r, system)[0]


def exponent_of(regularizer: Any) -> Any:
    """The entmax exponent of a regularizer: 1 for "ne", 2 for "l2", else the number itself."""
    if isinstance(regularizer, str):
        if regularizer in ("ne", "l2"):
            return {"ne": 1, "l2": 2}[regularizer]
    elif (
        isinstance(regularizer, (int, float, Fraction, np.integer, np.floating))
        and not isinstance(regularizer, bool)
        and 1 <= regularizer <= 1000
    ):
        return regularizer
    raise InputError(
        f"regularizer = {regularizer!r} is not known; allowed: 'ne', 'l2', or an entmax exponent "
        "1 <= alpha <= 1000"
    )


def weights(u: Array, alpha: Any, system: NumberSystem) -> Array:
    """P (..., k) from the scaled excess u = (r - min r) / temperature."""
    if _tracked(u):
        from constructions._surrogate_autograd import Weights

        return Weights.apply(u, alpha, system)
    if alpha == 1:
        return softmax(u, system)
    if alpha == 2:
        return clip(sparsemax_threshold(u, system) - u, system, low=0)
    return entmax(u, float(alpha), system)


def slopes(p: Array, alpha: Any, system: NumberSystem) -> Array:
    """P^(2 - alpha) where P is positive, 0 elsewhere: what the gradient and the Jacobian of the
    weights are made of."""
    if alpha == 1:
        return p
    zero = system.full((1,), 0)
    if alpha == 2:
        return below(zero, p, system)
    # a power of 0 would be infinite, here or in its derivative
    return below(zero, p, system) * system.xp.where(p > 0, p, zero + 1) ** (2 - float(alpha))


def gradient_from(u: Array, p: Array, alpha: Any, system: NumberSystem) -> Array:
    """dS/dr (..., k) from the scaled excess and the weights.

    With s_j = P_j^(2 - alpha) on the support and m the s-weighted mean of u there, it is
    P_j - s_j (u_j - m). On the support (alpha - 1) u_j = const - P_j^(alpha - 1), so that
    u_j - m = (1 / sum s - P_j^(alpha - 1)) / (alpha - 1), which leaves
    P_j + (P_j - s_j / sum s) / (alpha - 1): shorter, but inaccurate when alpha is near 1.
    """
    xp = system.xp
    slope = slopes(p, alpha, system)
    share = slope / xp.sum(slope, axis=-1, keepdims=True)
    if alpha == 2:
        return p + (p - share)
    if alpha >= 1.5:
        return p + (p - share) / (float(alpha) - 1)
    inside = xp.where(p > 0, u, system.full((1,), 0))
    return p - slope * (inside - xp.sum(share * inside, axis=-1, keepdims=True))


def scaled(r: Array, tau: Any, system: NumberSystem) -> tuple[Array, Array, Array]:
    """min r (..., 1), the excess r - min r, and the excess divided by tau, all finite.

    An excess that overflows is cut to the largest number: its weight is zero all the same, given
    that `_checked` turned away the temperatures at which it would not be.
    """
    low = system.xp.min(r, axis=-1, keepdims=True)
    excess = r - low
    if not system.exact:
        excess = clip(excess, system, high=system.max)
    return low, excess, _scaled_excess(excess, tau, system)


def _scaled_excess(excess: Array, tau: Any, system: NumberSystem) -> Array:
    """excess / tau, cut to the largest number."""
    if system.exact:
        return excess / system.scalar(tau)
    if 1 <= tau <= system.max:
        return excess / tau
    if system.tiny <= tau < 1:
        return clip(excess / tau, system, high=system.max)
    # the type of r cannot hold this temperature to full precision: apply it in steps
    mantissa, exponent = math.frexp(tau)
    u = excess
    while exponent:
        step = max(-100, min(100, -exponent))
        u = clip(u * 2.0**step, system, high=system.max)
        exponent += step
    return clip(u / mantissa, system, high=system.max)


def _gap(r: Array, tau: Any, alpha: Any, system: NumberSystem) -> Array:
    _, excess, u = scaled(r, tau, system)
    noted("excess", excess)
    p = noted("weights", weights(noted("scaled excess", u), alpha, system))
    return noted("gap", system.xp.sum(p * excess, axis=-1))


def by_rows(
    function: Callable[[Array], tuple[Array, ...]], r: Array, system: NumberSystem
) -> tuple[Array, ...]:
    """Apply a function of rows (n, k), which returns arrays of n rows, to all rows of r (..., k).

    On a CPU, a large batch is done a block of rows at a time, so that all that is computed on the
    way stays in the cache. Narrow blocks are stored by columns: sums over a few entries then run
    along memory instead of across it. Together that is 1.2 to 2 times as fast.
    """
    if system.exact or str(system.device) != "cpu":
        return function(r)
    xp = system.xp
    batch, k = r.shape[:-1], r.shape[-1]
    n, step = math.prod(batch), max(1, _BLOCK // k)
    rows = xp.reshape(r, (n, k))
    blocks = [function(_by_columns(rows[i : i + step, :])) for i in range(0, n, step) or (0,)]
    results = blocks[0]
    if len(blocks) > 1:
        results = tuple(xp.concat(parts, axis=0) for parts in zip(*blocks, strict=True))
    if not batch:
        return tuple(a[0, ...] for a in results)
    return tuple(xp.reshape(a, (*batch, *a.shape[1:])) for a in results)


@quiet
def _in_rows(function: Callable[[Array], tuple[Array]], r: Array, system: NumberSystem) -> Array:
    return by_rows(function, r, system)[0]


def _by_columns(rows: Array) -> Array:
    """The same matrix, stored by columns where that pays."""
    if rows.shape[-1] >= _NARROW:
        return rows
    if is_torch_array(rows):
        import torch

        return torch.stack(rows.unbind(-1)).mT
    return np.asfortranarray(rows) if isinstance(rows, np.ndarray) else rows


def _traced(r: Any) -> bool:
    """Whether torch watches what is done with `r`, see `constructions._surrogate_traced`."""
    if isinstance(r, np.ndarray) or "torch" not in sys.modules:
        return False
    from constructions._surrogate_traced import traced

    return traced(r)


def _in_plain_torch(what: str, r: Array, temperature: Any, regularizer: Any) -> Array:
    """The function of that name for torch tensors whose numbers must not be looked at."""
    from constructions import _surrogate_traced

    tau = float(checked_scalar("temperature", temperature, "a positive finite number"))
    return getattr(_surrogate_traced, what)(r, tau, exponent_of(regularizer))


def _tracked(a: Array) -> bool:
    """Whether torch records what is done with `a`."""
    if not (is_torch_array(a) and a.requires_grad):
        return False
    import torch

    return torch.is_grad_enabled()


@quiet
def _checked(r: Any, temperature: Any, regularizer: Any) -> tuple[NumberSystem, Array, Any, Any]:
    system, (r,) = checked(r=r)
    if r.ndim < 1 or r.shape[-1] == 0:
        raise InputError(f"r has shape {tuple(r.shape)}; expected (..., k) with k >= 1")
    tau = checked_scalar("temperature", temperature, "a positive finite number")
    alpha = exponent_of(regularizer)
    if not system.exact:
        return system, r, _float_temperature(tau, r, system), alpha
    if alpha != 2:
        raise NotRationalError(
            f"the surrogate for {regularizer!r} is not rational, so it cannot be computed in "
            f"{system}; use 'l2', or convert r to floats"
        )
    return system, r, tau, alpha


def _float_temperature(temperature: Any, r: Array, system: NumberSystem) -> float:
    try:
        tau = float(temperature)
    except OverflowError:
        tau = math.inf
    if not 0 < tau < math.inf:
        raise InputError(
            f"temperature = {temperature} is not a float64 number; allowed: 5e-324 to 1.8e308"
        )
    # at a temperature below largest / 1024, an entry that is further up than the largest number
    # has a weight of at most exp(-1024), which is 0
    if tau > system.max / 1024:
        spread = system.xp.max(r, axis=-1) - system.xp.min(r, axis=-1)
        if not bool(system.xp.all(spread <= system.max)):
            raise InputError(
                f"max r - min r overflows in {system}, and temperature = {tau} is about as large; "
                "divide both by one factor"
            )
    return tau
