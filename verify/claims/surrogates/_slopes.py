"""How steep the surrogate is, and how fast its gradient turns: constants, measures, searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np

from constructions import surrogate_gradient
from verify.claim import Case, Kind, Measured, Run
from verify.claims.surrogates._family import (
    decided,
    digits_error,
    evolve,
    exact_value,
    float_gap,
    precise,
    precise_gap,
)
from verify.claims.surrogates._shared import DIGITS

NE, ENTMAX, L2 = Fraction(1), Fraction(3, 2), Fraction(2)


@lru_cache(maxsize=64)
def entropy_slope(k: int) -> Any:
    """M_k, the sharp Lipschitz constant of the entropy surrogate for the largest-entry norm: the
    root of 2 M = log((k-1)(M+1)/(M-1)), by bisection, to `DIGITS` digits."""
    with mpmath.workdps(DIGITS + 10):
        low, high = mpmath.mpf(1), mpmath.mpf(2 + k)
        for _ in range(5 * DIGITS):
            m = (low + high) / 2
            below = (m - 1) * mpmath.exp(2 * m) < (k - 1) * (m + 1)
            low, high = (m, high) if below else (low, m)
        return high


def sharp_slope(alpha: Fraction, k: int) -> Any:
    """Lipschitz constant for the largest-entry norm: 3 - 2/k (L2), M_k (entropy)."""
    return Fraction(3 * k - 2, k) if alpha == 2 else entropy_slope(k)


def slope(case: Case) -> Measured:
    """|S(r) - S(r')| / |r - r'| against the constant of the norm: "inf", or "2" for the squares
    of both under the Euclidean norm (L2 only)."""
    r, other, tau, alpha = case["r"], case["other"], case["tau"], case["alpha"]
    k, apart = len(r), [abs(a - b) for a, b in zip(r, other, strict=True)]
    lift, distance = min(r) - min(other), max(apart)
    if alpha == 2:
        change = exact_value(r, tau) - exact_value(other, tau)
        if case["norm"] == "2":
            return Measured(change**2 / sum(a * a for a in apart), Fraction(4 * k - 3, k))
        return Measured(abs(change) / distance, sharp_slope(alpha, k))

    def careful() -> Measured:
        with mpmath.workdps(DIGITS + 10):
            change = precise(lift) + precise_gap(r, tau, alpha) - precise_gap(other, tau, alpha)
            error = digits_error(precise(tau / distance), precise(lift / distance), k)
            return Measured(abs(change) / precise(distance), sharp_slope(alpha, k), error)

    (a, error), (b, more) = float_gap(r, tau, alpha), float_gap(other, tau, alpha)
    value = abs(float(lift) + a - b) / float(distance)
    error += more + 2.0**-50 * (a + b + abs(float(lift)))
    bound = float(sharp_slope(alpha, k))
    return decided(Kind.TIGHT, Measured(value, bound, error / float(distance)), careful)


def weights_at(x: Any) -> Any:
    """Positive weights (..., k) from a point of the search box (0, 1]^k; many are small."""
    p = x**6
    return p / p.sum(-1, keepdims=True)


def distances_of(p: Any, alpha: Fraction) -> Any:
    """The excesses that have the positive weights p at temperature 1, (..., k) -> (..., k)."""
    level = -np.log(p) if alpha == 1 else -(p ** float(alpha - 1)) / float(alpha - 1)
    return level - level.min(-1, keepdims=True)


def hunt(
    alpha: Fraction, k: int, tau: Fraction, rng: np.random.Generator, norm: str = "inf"
) -> Case:
    """The pair with the steepest slope: from where evolution of the weights finds the largest
    gradient, one step along the direction in which the norm makes it largest."""

    def fitness(x: Any) -> Any:
        g = surrogate_gradient(distances_of(weights_at(x), alpha), 1.0, float(alpha))
        return np.abs(g).sum(-1) if norm == "inf" else (g * g).sum(-1)

    best = distances_of(weights_at(evolve(fitness, [0.1] * k, [1.0] * k, rng, 200)), alpha)
    g = surrogate_gradient(best, 1.0, float(alpha))
    move = np.sign(g) if norm == "inf" else g
    r, other = (
        [tau * Fraction(round(v * 2**24), 2**24) for v in end] for end in (best, best + move / 1024)
    )
    return Case(r=r, other=other, tau=tau, alpha=alpha, norm=norm)


def ascent(alpha: Fraction, norm: str = "inf") -> Callable[[Run, int], Iterator[tuple[int, Case]]]:
    def search(run: Run, seed: int) -> Iterator[tuple[int, Case]]:
        rng = np.random.default_rng(seed)
        for k in (2, 3, 6, 10):
            for _ in range(run.count(1)):
                yield k, hunt(alpha, k, Fraction(1), rng, norm)

    return search


def smoothness(alpha: Fraction, k: int) -> float:
    """A bound of the smoothness constant times the temperature: max(1 + W0((k-1)/e)/2, M_k - 1)
    for entropy, k (which is sharp) for exponent 3/2, infinite for L2; k >= 2."""
    if alpha == NE:
        w = float(mpmath.lambertw((k - 1) / mpmath.e).real)
        return max(1 + w / 2, float(entropy_slope(k)) - 1)
    return k if alpha == ENTMAX else float("inf")


def hessian(p: Any, alpha: Fraction) -> Any:
    """The Hessian at temperature 1 in terms of positive weights p, (..., k) -> (..., k, k).

    With s = p^(2-alpha) of sum t and A = I - 1 s^T / t it is A^T diag(d) A, where
    d = ((2-alpha) p^(3-2 alpha) / t - alpha s) / (alpha-1), and for entropy d = p (u - 2) with
    u = -log p - H(p).
    """
    a = float(alpha)
    s = p ** (2 - a)
    t = s.sum(-1, keepdims=True)
    if alpha == 1:
        logs = np.log(p)
        d = p * ((p * logs).sum(-1, keepdims=True) - logs - 2)
    else:
        d = ((2 - a) * p ** (3 - 2 * a) / t - a * s) / (a - 1)
    A = np.eye(p.shape[-1]) - (s / t)[..., None, :]
    return np.swapaxes(A, -1, -2) @ (d[..., :, None] * A)


def fastest_turn(
    alpha: Fraction, k: int, rng: np.random.Generator, generations: int = 300
) -> tuple[Any, Any]:
    """Where, and in which direction, the gradient turns fastest at temperature 1: the distances
    (k,) and the unit vector (k,), by evolution of the weights."""

    def fitness(x: Any) -> Any:
        return np.abs(np.linalg.eigvalsh(hessian(weights_at(x), alpha))).max(-1)

    best = weights_at(evolve(fitness, [0.05] * k, [1.0] * k, rng, generations))
    values, vectors = np.linalg.eigh(hessian(best, alpha))
    return distances_of(best, alpha), vectors[:, np.argmax(np.abs(values))]


def turn(r: Any, d: Any, tau: float, alpha: Fraction, step: float = 2.0**-16) -> float:
    """|grad S(r + h d) - grad S(r - h d)| / |2 h d|, with h = step * tau and d a unit vector."""
    h = step * tau
    a, b = (surrogate_gradient(r + sign * h * d, tau, float(alpha)) for sign in (1, -1))
    return float(np.linalg.norm(a - b) / (2 * h))
