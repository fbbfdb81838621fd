"""How far the regularized loss lies above the k-means loss, and which temperature is safe."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from constructions import surrogate_gap

REGULARIZERS: dict[str, Any] = {"NE": "ne", "L2": "l2", "1.5-entmax": 1.5}
SHARES = (0.01, 0.1)  # relative gaps that `safe_temperature` is asked for
_ROWS = 16384


@dataclass(frozen=True)
class Gaps:
    """The excess r_ij - min_j r_ij of every point, in float64, rows sorted.

    Everything here depends on the excess alone: the gap does not change when a constant is added
    to the distances of a point.
    """

    excess: Any
    objective: float

    @property
    def n(self) -> int:
        return int(self.excess.shape[0])

    @property
    def k(self) -> int:
        return int(self.excess.shape[1])

    def total(self, temperature: float, name: str) -> float:
        """Sum over the points of the regularized minimum minus the minimum."""
        alpha = {"NE": 1.0, "L2": 2.0, "1.5-entmax": 1.5}[name]
        excess = self.excess
        if alpha > 1 and self.k > 1:
            # a unique minimum with a margin of temperature / (alpha - 1) has gap zero exactly
            excess = excess[(excess[:, 1] == 0) | (excess[:, 1] < temperature / (alpha - 1))]
        rows = [excess[i : i + _ROWS] for i in range(0, len(excess), _ROWS)]
        gap = entmax15_gap if alpha == 1.5 else _gap_of(name)
        return math.fsum(float(gap(part, temperature).sum()) for part in rows)

    @property
    def largest(self) -> float:
        """The limit of the total gap for large temperatures: mean minus minimum, summed."""
        return math.fsum(self.excess.mean(axis=1).tolist())

    def cap(self, temperature: float, name: str) -> float:
        """What the total gap of n points can be at most, whatever the data."""
        return self.n * temperature * worst_gap(name, self.k)


def gaps(excess: Any, objective: float) -> Gaps:
    """From excess (n, k) >= 0 with a zero in every row."""
    return Gaps(np.sort(excess, axis=1), objective)


def safe_temperature(data: Gaps, name: str, share: float) -> float:
    """The largest temperature whose gap is at most `share` of the objective, rounded down to three
    digits; infinite when every temperature is safe, 0 when none is (an objective of 0).

    The gap grows with the temperature, so bisection finds it.
    """
    allowed = share * data.objective
    if data.largest <= allowed:
        return math.inf
    if allowed <= 0:
        return 0.0
    low = high = max(data.largest / data.n, 1e-300)
    while data.total(high, name) <= allowed:
        low, high = high, high * 4
    while data.total(low, name) > allowed:
        low, high = low / 4, low
    while high > low * 1.0002:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if data.total(middle, name) <= allowed else (low, middle)
    return _rounded_down(low)


def curve(data: Gaps, low: float, high: float, count: int = 49) -> dict[str, list[float]]:
    """Total gaps against temperatures, evenly spaced in the logarithm."""
    temperatures = [low * (high / low) ** (i / (count - 1)) for i in range(count)]
    found = {name: [data.total(t, name) for t in temperatures] for name in REGULARIZERS}
    return {"tau": temperatures, **found}


def worst_gap(name: str, k: int) -> float:
    """The largest gap of one point at temperature 1 among k centers (docs/theory/surrogates.md,
    "The worst case"). For the entropies of NE and L2 in closed form."""
    from scipy.optimize import minimize_scalar
    from scipy.special import lambertw

    if k == 1:
        return 0.0
    if name == "NE":
        return float(lambertw((k - 1) / math.e).real)
    if name == "L2":
        return (k - 1) / (4 * k)

    def negative(m: float) -> float:  # all other weights equal; m is the weight of the minimum
        return -2 * (math.sqrt(m) - m**1.5 - (1 - m) ** 1.5 / math.sqrt(k - 1))

    found = minimize_scalar(negative, bounds=(1 / k, 1), method="bounded", options={"xatol": 1e-12})
    return -float(found.fun)


def entmax15_gap(excess: Any, temperature: float) -> Any:
    """`surrogate_gap(excess, temperature, 1.5)` of sorted rows (n, k), without its bisection.

    Weights are (t - v_j)^2 on v_j < t, v = excess / (2 temperature). Over the s smallest entries
    they sum to one at t = mean + sqrt((1 - sum of squared deviations) / s); the support is the
    largest s with v_s < t (Peters, Niculae and Martins 2019).
    """
    v = np.minimum(excess / (2 * temperature), 2.0)  # an entry of 1 or more has no weight
    size = np.arange(1, v.shape[1] + 1)
    mean = np.cumsum(v, axis=1) / size
    deviations = np.maximum(np.cumsum(v * v, axis=1) - size * mean * mean, 0)
    threshold = mean + np.sqrt(np.maximum(1 - deviations, 0) / size)
    support = (v < threshold) & (deviations < 1)
    last = np.maximum(support.sum(axis=1, keepdims=True) - 1, 0)
    weights = np.maximum(np.take_along_axis(threshold, last, axis=1) - v, 0) ** 2
    return (weights / weights.sum(axis=1, keepdims=True) * excess).sum(axis=1)


def _gap_of(name: str) -> Callable[[Any, float], Any]:
    return lambda excess, temperature: surrogate_gap(excess, temperature, REGULARIZERS[name])


def _rounded_down(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return min(float(f"{math.floor(value / unit) * unit:.3g}"), value)
