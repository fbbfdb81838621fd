"""Helpers of the claims about all regularizers: cases, two precisions, and a global search.

A rational case is judged exactly where the surrogate is rational (exponent 2). Otherwise the
construction answers first, in float64 with a bound on its rounding error; when the two sides of a
claim are closer than that, `mpmath` decides with an implementation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
from hypothesis import strategies as st

from constructions import rational_array, surrogate_gap, surrogate_gradient, surrogate_weights
from verify.claim import Answer, Case, Kind, Measured, compare
from verify.claims.surrogates._shared import DIGITS, entropy_constant

EXPONENTS = (Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(7, 4), Fraction(2))
"""Entmax exponents from entropy to L2 that float64 holds exactly."""

NAMES = {1: "entropy", 2: "L2"}


def label(alpha: Any) -> str:
    """What a regularizer is called in tables."""
    return NAMES.get(alpha, f"entmax {float(alpha):g}")


@st.composite
def vectors(
    draw: st.DrawFn, exponents: Sequence[Fraction] = EXPONENTS, min_k: int = 1, max_k: int = 8
) -> Case:
    """A vector r of k distances, a temperature and an exponent, all exact in float64.

    Values repeat, and some sit at a support threshold (min + tau/2, tau or 2 tau).
    """
    tau = draw(st.builds(Fraction, st.integers(1, 256), st.sampled_from([1, 8, 64])))
    grid = st.builds(Fraction, st.integers(0, 1024), st.sampled_from([1, 16, 256]))
    steps = st.sampled_from([Fraction(0), tau / 4, tau / 2, tau, 2 * tau])
    r = draw(st.lists(st.one_of(grid, steps), min_size=min_k, max_size=max_k))
    return Case(r=r, tau=tau, alpha=draw(st.sampled_from(list(exponents))))


def floats(values: Sequence[Fraction]) -> Any:
    return np.array([float(v) for v in values])


def exact_gap(r: Sequence[Fraction], tau: Fraction) -> Fraction:
    """The gap of the L2 surrogate in exact rationals."""
    return fraction(surrogate_gap(rational_array(list(r)), tau, "l2"))


def exact_value(r: Sequence[Fraction], tau: Fraction) -> Fraction:
    return min(r) + exact_gap(r, tau)


def exact_weights(r: Sequence[Fraction], tau: Fraction) -> list[Fraction]:
    return [fraction(p) for p in surrogate_weights(rational_array(list(r)), tau, "l2")]


def exact_gradient(r: Sequence[Fraction], tau: Fraction) -> list[Fraction]:
    return [fraction(g) for g in surrogate_gradient(rational_array(list(r)), tau, "l2")]


def fraction(value: Any) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def float_gap(r: Sequence[Fraction], tau: Fraction, alpha: Fraction) -> tuple[float, float]:
    """The construction's gap in float64, and how far rounding can have moved it.

    Entropy: a weight exp(-u) / Z has relative error at most (u + E u + 2k + 8) eps, so the gap,
    tau E u, is off by tau eps (E u^2 + (E u)^2 + (2k + 8) E u); u^2 exp(-u) < 0.55 and
    E u <= log k bring that below 16 tau eps k (1 + log k).

    Exponent alpha > 1, p = 1/(alpha - 1): on the support u <= p, and rounding moves u and the
    threshold by at most 4 eps p, a weight by p times as much, besides (p + k + 4) eps for the
    power and for normalizing; k weights times excesses of at most tau p give less than
    32 tau eps k (p + k + 4)^2.
    """
    k = len(r)
    eps = float(np.finfo(float).eps)
    value = float(surrogate_gap(floats(r), float(tau), float(alpha)))
    if alpha == 1:
        return value, 16 * float(tau) * eps * k * (1 + float(np.log(k)))
    return value, 32 * float(tau) * eps * k * (1 / (float(alpha) - 1) + k + 4) ** 2


def precise(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def precise_weights(r: Sequence[Fraction], tau: Fraction, alpha: Fraction) -> list[Any]:
    """Weights for an exponent in [1, 2] to `DIGITS` digits; call within `workdps`.

    sum_j [t - (alpha-1) u_j]_+^(1/(alpha-1)) is convex and increasing in t and at least 1 at
    t = 1, so Newton's method comes down to the threshold from there.
    """
    least = min(r)
    u = [precise((v - least) / tau) for v in r]
    if alpha == 1:
        raw = [mpmath.exp(-v) for v in u]
        total = mpmath.fsum(raw)
        return [w / total for w in raw]
    step, power = precise(alpha - 1), 1 / precise(alpha - 1)
    t = mpmath.mpf(1)
    for _ in range(400):
        inside = [t - step * v for v in u if t > step * v]
        raw = [x**power for x in inside]
        slope = power * mpmath.fsum(w / x for w, x in zip(raw, inside, strict=True))
        move = (mpmath.fsum(raw) - 1) / slope
        t -= move
        if move < mpmath.mpf(10) ** -(DIGITS + 5):
            break
    return [(t - step * v) ** power if t > step * v else mpmath.mpf(0) for v in u]


def precise_gap(r: Sequence[Fraction], tau: Fraction, alpha: Fraction) -> Any:
    """The gap to `DIGITS` digits, without the construction."""
    with mpmath.workdps(DIGITS + 10):
        least = min(r)
        weights = precise_weights(r, tau, alpha)
        return mpmath.fdot(weights, [precise(v - least) for v in r])


def digits_error(*values: Any) -> Any:
    """How far values of `precise_gap` can be off."""
    return sum(abs(v) for v in values) * mpmath.mpf(10) ** -DIGITS


def decided(kind: Kind, quick: Measured, careful: Callable[[], Measured]) -> Measured:
    """`quick`, unless rounding leaves it undecided."""
    return careful() if compare(kind, quick) is Answer.UNDECIDED else quick


@lru_cache(maxsize=512)
def gap_constant(alpha: Fraction, k: int) -> Any:
    """Largest gap over the temperature for an exponent in [1, 2], to `DIGITS` digits.

    (alpha-1) gap / tau is at most m^(alpha-1) - m^alpha - (1-m)^alpha (k-1)^(1-alpha) with m the
    largest weight: a concave function of m, maximized by bisection on its derivative.
    """
    with mpmath.workdps(DIGITS + 10):
        if alpha == 1:
            return entropy_constant(k)
        a, others = precise(alpha), mpmath.mpf(k - 1)

        def slope(m: Any) -> Any:
            rest = a * (1 - m) ** (a - 1) * others ** (1 - a) if k > 1 else 0
            return (a - 1) * m ** (a - 2) - a * m ** (a - 1) + rest

        low, high = mpmath.mpf(1) / k, mpmath.mpf(1)
        for _ in range(4 * DIGITS):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        rest = (1 - low) ** a * others ** (1 - a) if k > 1 else 0
        return (low ** (a - 1) - low**a - rest) / (a - 1)


def evolve(
    fitness: Callable[[Any], Any],
    low: Any,
    high: Any,
    rng: np.random.Generator,
    generations: int,
    population: int = 64,
) -> Any:
    """A maximizer of `fitness` in a box, by differential evolution; needs no derivative.

    Parameters
    ----------
    fitness : (m, n) array of points -> (m,) array of values
    low, high : (n,) corners of the box

    Returns
    -------
    (n,) the best point found
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    x = rng.uniform(low, high, (population, len(low)))
    value = fitness(x)
    for _ in range(generations):
        a, b = x[rng.permutation(population)], x[rng.permutation(population)]
        base = np.where(rng.random((population, 1)) < 0.7, x[np.argmax(value)], x)
        trial = base + rng.uniform(0.3, 0.9, (population, 1)) * (a - b)
        keep = rng.random(x.shape) < 0.1
        trial = np.clip(np.where(keep, x, trial), low, high)
        new = fitness(trial)
        better = new > value
        x, value = np.where(better[:, None], trial, x), np.where(better, new, value)
    return x[np.argmax(value)]
