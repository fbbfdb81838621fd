r"""Regularized minimum: the smooth stand-ins for min_j r_j, and their weights and gradients.

For r in R^k and a temperature tau > 0,

    P = argmin over the simplex of <p, r> + tau * Omega(p),      S = <P, r>.

Omega is negative Shannon entropy ("ne": softmax weights), half the squared norm ("l2": sparsemax
weights), or the negative Tsallis entropy of an entmax exponent alpha >= 1, which contains both
(alpha = 1 and alpha = 2). S is never below min r (docs/theory/surrogates.md).

Everything is computed from the excess e_j = r_j - min r >= 0, divided by tau once, with powers of
two taken apart so that no temperature a float64 can hold overflows or underflows on the way, not
even in float32. The value is min r plus a sum of nonnegative terms, so rounding never takes it
below min r.

Source: the paper's Appendix H.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from constructions.arrays import (
    Array,
    InputError,
    NotRationalError,
    NumberSystem,
    checked,
    checked_scalar,
)

_STEPS = 64  # bisections after which an entmax threshold is known to the last bit of a float64


def surrogate(r: Array, temperature: Any, regularizer: Any) -> Array:
    """The regularized minimum <P(r / temperature), r> over the last axis.

    Parameters
    ----------
    r : (..., k) finite numbers, usually squared distances; any supported number system
    temperature : number > 0, in the unit of r
    regularizer : "ne", "l2", or an entmax exponent alpha >= 1

    Returns
    -------
    (...,) in the number system of r; min r <= result <= mean r

    Raises
    ------
    InputError
        empty last axis, NaN or infinity, temperature not positive, unknown regularizer
    NotRationalError
        exact rationals with anything but "l2" (alpha = 2)

    Torch gradients flow, including those of the gradient.

    >>> import numpy as np
    >>> float(surrogate(np.array([0.1, 0.5, 0.9]), 1.0, "l2"))
    0.21999999999999997
    """
    system, r, tau, alpha = _checked(r, temperature, regularizer)
    if is_torch_array(r) and r.requires_grad:
        from constructions._surrogate_autograd import surrogate_with_gradient

        return surrogate_with_gradient(r, tau, alpha, system)
    return system.xp.min(r, axis=-1) + _gap(r, tau, alpha, system)


def surrogate_gap(r: Array, temperature: Any, regularizer: Any) -> Array:
    """How far the surrogate is above min r, to full relative precision; (..., k) -> (...,).

    Takes what `surrogate` takes and raises what it raises.
    """
    return _gap(*_gap_arguments(r, temperature, regularizer))


def surrogate_weights(r: Array, temperature: Any, regularizer: Any) -> Array:
    """The weights P(r / temperature), (..., k) -> (..., k): nonnegative, of sum 1.

    Takes what `surrogate` takes and raises what it raises.
    """
    system, r, tau, alpha = _checked(r, temperature, regularizer)
    return weights(_scaled_excess(_excess(r, system), tau, system), alpha, system)


def surrogate_gradient(r: Array, temperature: Any, regularizer: Any) -> Array:
    """The gradient of the surrogate in r, (..., k) -> (..., k); its entries sum to 1.

    For "l2" it jumps where a center enters the support; there the value from inside the smaller
    support is returned. Takes what `surrogate` takes and raises what it raises.
    Source: docs/theory/surrogates.md, "The gradient".
    """
    system, r, tau, alpha = _checked(r, temperature, regularizer)
    u = _scaled_excess(_excess(r, system), tau, system)
    return gradient_from(u, weights(u, alpha, system), alpha, system)


def exponent_of(regularizer: Any) -> Any:
    """The entmax exponent of a regularizer: 1 for "ne", 2 for "l2", else the number itself."""
    if isinstance(regularizer, str):
        if regularizer in ("ne", "l2"):
            return {"ne": 1, "l2": 2}[regularizer]
    elif (
        isinstance(regularizer, (int, float, Fraction, np.integer, np.floating))
        and not isinstance(regularizer, bool)
        and 1 <= regularizer < math.inf
    ):
        return regularizer
    raise InputError(
        f"regularizer = {regularizer!r} is not known; allowed: 'ne', 'l2', or an entmax exponent "
        "alpha >= 1"
    )


def weights(u: Array, alpha: Any, system: NumberSystem) -> Array:
    """P from the scaled excess u = (r - min r) / temperature."""
    xp = system.xp
    if alpha == 1:
        system.require_float("the entropy surrogate", "use 'l2', or floats")
        w = xp.exp(-u)
        return w / xp.sum(w, axis=-1, keepdims=True)
    if alpha == 2:
        threshold, _ = sparsemax_threshold(u, system)
        return _positive(threshold - u, system)
    system.require_float(f"the entmax surrogate with alpha = {alpha}", "use 'l2', or floats")
    return _entmax(u, float(alpha), system)


def gradient_from(u: Array, p: Array, alpha: Any, system: NumberSystem) -> Array:
    """dS/dr from the scaled excess and the weights.

    With s_j = P_j^(2 - alpha) on the support and m the s-weighted mean of u there, it is
    P_j - s_j (u_j - m).
    """
    xp = system.xp
    support = p > 0
    one = system.full((1,), 1)
    if alpha == 1:
        slope = p
    elif alpha == 2:
        slope = system.indicator(support)
    else:
        slope = system.indicator(support) * xp.where(support, p, one) ** (2 - float(alpha))
    inside = xp.where(support, u, one * 0)
    mean = xp.sum(slope * inside, axis=-1, keepdims=True) / xp.sum(slope, axis=-1, keepdims=True)
    return p - slope * (inside - mean)


def sparsemax_threshold(u: Array, system: NumberSystem) -> tuple[Array, Array]:
    """The t with sum_j max(t - u_j, 0) = 1, and the size of the support {u_j < t}.

    Newton's method on a convex piecewise linear function of t. It starts from 1, the threshold if
    the smallest entry stood alone, which is never too small: each step solves for the current
    support, which only shrinks, so it ends after at most k steps, exactly in rationals.
    """
    xp = system.xp
    one = system.full((1,), 1)
    u = xp.minimum(u, one) if not system.exact else np.minimum(u, one)  # 1 is out of support
    inside = system.indicator(u < one)
    while True:
        size = xp.sum(inside, axis=-1, keepdims=True)
        threshold = (xp.sum(inside * u, axis=-1, keepdims=True) + one) / size
        smaller = inside * system.indicator(u < threshold)
        if bool(xp.all(xp.sum(smaller, axis=-1, keepdims=True) == size)):
            return threshold, size
        inside = smaller


def _entmax(u: Array, alpha: float, system: NumberSystem) -> Array:
    """P_j = [t - (alpha-1) u_j]_+^(1/(alpha-1)) with t in (0, 1] such that they sum to 1.

    Bisection: the sum is increasing in t, at least 1 at t = 1 and at most 1 at k^(1-alpha).
    """
    xp = system.xp
    v = xp.minimum(u, system.full((1,), 1 / (alpha - 1))) * (alpha - 1)
    power = 1 / (alpha - 1)
    high = system.full((*u.shape[:-1], 1), 1)
    low = high * float(u.shape[-1]) ** (1 - alpha)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        enough = xp.sum(_positive(middle - v, system) ** power, axis=-1, keepdims=True) >= 1
        low, high = xp.where(enough, low, middle), xp.where(enough, middle, high)
    p = _positive(high - v, system) ** power
    return p / xp.sum(p, axis=-1, keepdims=True)


def _gap(r: Array, tau: Any, alpha: Any, system: NumberSystem) -> Array:
    excess = _excess(r, system)
    p = weights(_scaled_excess(excess, tau, system), alpha, system)
    return system.xp.sum(p * excess, axis=-1)


def _gap_arguments(r: Any, temperature: Any, regularizer: Any) -> tuple[Any, ...]:
    system, r, tau, alpha = _checked(r, temperature, regularizer)
    return r, tau, alpha, system


def _excess(r: Array, system: NumberSystem) -> Array:
    """r - min r, kept finite: an entry so far up that the difference overflows has no weight."""
    excess = r - system.xp.min(r, axis=-1, keepdims=True)
    if system.exact:
        return excess
    return system.xp.minimum(excess, system.full((1,), system.max))


def _scaled_excess(excess: Array, tau: Any, system: NumberSystem) -> Array:
    """excess / tau; infinity where that is what the quotient rounds to, never NaN."""
    if system.exact:
        return excess / system.scalar(tau)
    mantissa, exponent = math.frexp(float(tau))
    scaled = excess / mantissa
    while exponent:  # float32 cannot hold every power of two that a float64 temperature has
        step = max(-100, min(100, -exponent))
        scaled = scaled * 2.0**step
        exponent += step
    return scaled


def _positive(a: Array, system: NumberSystem) -> Array:
    """max(a, 0)."""
    return system.xp.where(a > 0, a, system.full((1,), 0))


def _checked(r: Any, temperature: Any, regularizer: Any) -> tuple[NumberSystem, Array, Any, Any]:
    system, (r,) = checked(r=r)
    if r.ndim < 1 or 0 in r.shape:
        raise InputError(f"r has shape {tuple(r.shape)}; expected (..., k) with k >= 1")
    tau = checked_scalar("temperature", temperature, "a positive finite number")
    alpha = exponent_of(regularizer)
    if system.exact and alpha != 2:
        raise NotRationalError(
            f"the surrogate for {regularizer!r} is not rational, so it cannot be computed in "
            f"{system}; use 'l2', or convert r to floats"
        )
    return system, r, tau, alpha
