"""What the surrogate claims have in common: measures, solver encodings, and the ascent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from constructions import as_fractions, rational_array, surrogate_gap, surrogate_gradient
from verify.claim import Case, Measured, Run, Script

SIZES = (2, 3, 6, 10, 16, 25, 100, 253, 1000)
"""Numbers of centers at which the sharp constants are searched for; 253 is where the entropy
gap overtakes sqrt(2 log k)."""

DIGITS = 40
"""Decimal digits for what is not rational."""

ARITHMETIC = "float64 with a rounding bound, else mpmath (50 digits)"

SCRIPT = Script("surrogates", lambda case: {"r": case["r"], "tau": case["tau"]})


def exact_l2_gap(case: Case) -> Fraction:
    """The gap of the L2 surrogate in exact rationals."""
    return as_fractions(surrogate_gap(rational_array(case["r"]), case["tau"], "l2"))


def entropy_gap(case: Case) -> Any:
    """The gap of the entropy surrogate, to `DIGITS` digits."""
    with mpmath.workdps(DIGITS + 10):
        excess = [mpmath.mpf(e.numerator) / e.denominator for e in _excesses(case)]
        tau = mpmath.mpf(case["tau"].numerator) / case["tau"].denominator
        weights = [mpmath.exp(-e / tau) for e in excess]
        return mpmath.fdot(weights, excess) / mpmath.fsum(weights)


def l2_constant(k: int) -> Fraction:
    """Largest gap of the L2 surrogate in units of the temperature: (k - 1) / (4k)."""
    return Fraction(k - 1, 4 * k)


def entropy_constant(k: int) -> Any:
    """Largest gap of the entropy surrogate in units of the temperature: W0((k - 1) / e)."""
    with mpmath.workdps(DIGITS + 10):
        return mpmath.lambertw((k - 1) / mpmath.e).real


def measure_l2(case: Case) -> Measured:
    k = len(case["r"])
    return Measured(exact_l2_gap(case), case["tau"] * l2_constant(k))


def measure_entropy(case: Case) -> Measured:
    """Values carry 50 digits; 40 of them are relied on."""
    with mpmath.workdps(DIGITS + 10):
        tau = mpmath.mpf(case["tau"].numerator) / case["tau"].denominator
        bound = tau * entropy_constant(len(case["r"]))
        value = entropy_gap(case)
        return Measured(value, bound, error=(abs(value) + bound) * mpmath.mpf(10) ** -DIGITS)


def ascend(
    regularizer: Any, sizes: tuple[int, ...] = SIZES
) -> Callable[[Run, int], Iterator[tuple[int, Case]]]:
    """An adversarial search for the largest gap: quasi-Newton ascent in r at temperature 1, from
    random starts of several widths, without any hint of where the maximum is."""
    from scipy.optimize import minimize

    def search(run: Run, seed: int) -> Iterator[tuple[int, Case]]:
        rng = np.random.default_rng(seed)
        for k in sizes:
            for start in range(run.count(6, 4)):
                width = (0.05, 1.0, 3.0, 0.3)[start % 4] * (1 + np.log(k) * (start % 2))
                r = rng.uniform(0, width, k)
                best = minimize(
                    lambda v: -float(surrogate_gap(v, 1.0, regularizer)),
                    r,
                    jac=lambda v: _nearest_vertex(v) - surrogate_gradient(v, 1.0, regularizer),
                    method="L-BFGS-B",
                    options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9},
                ).x
                excess = [Fraction(float(e)).limit_denominator(10**9) for e in best - best.min()]
                yield k, Case(r=excess, tau=Fraction(1), regularizer=regularizer)

    return search


def _nearest_vertex(r: Any) -> Any:
    """Gradient of min r."""
    vertex = np.zeros_like(r)
    vertex[np.argmin(r)] = 1
    return vertex


def _excesses(case: Case) -> list[Fraction]:
    return [v - min(case["r"]) for v in case["r"]]
