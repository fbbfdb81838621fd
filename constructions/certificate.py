"""How far the constructed transformer can be from Lloyd's step at a finite inverse temperature.

A single layer from zero codes, no ties, no empty cluster. Three effects are bounded: center
self-attention that does not quite stay at home, attention leaking to other clusters, and unequal
weights inside a cluster. Derivation: docs/theory/expressivity.md, "Finite inverse temperature".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from constructions.arrays import checked_scalar
from constructions.codes import Code

_ALL_PAIRS = 4000  # up to this many points a diameter is computed from all pairs


@dataclass(frozen=True)
class Geometry:
    """What the certificate needs to know about an instance.

    Attributes
    ----------
    d : coordinates
    margin : smallest excess of the second nearest squared distance over the nearest, over points
    sizes : points in each cluster
    diameters : diameter of each cluster
    data_diameter, center_diameter : of all points, of all centers; upper bounds when there are
        very many points
    """

    d: int
    margin: float
    sizes: tuple[int, ...]
    diameters: tuple[float, ...]
    data_diameter: float
    center_diameter: float

    @property
    def k(self) -> int:
        return len(self.sizes)

    @property
    def n(self) -> int:
        return sum(self.sizes)


def geometry(X: Any, C: Any, margin: float | None = None) -> Geometry:
    """The geometry of points X (n, d) and centers C (k, d), in float64.

    `margin` can be given when it is known exactly; otherwise it is computed from differences.
    """
    X, C = np.asarray(X, dtype=np.float64), np.asarray(C, dtype=np.float64)
    distances = np.zeros((len(X), len(C)))
    for axis in range(X.shape[1]):
        distances += (X[:, axis, None] - C[None, :, axis]) ** 2
    labels = distances.argmin(axis=1)
    if margin is None:
        margin = math.inf
        if len(C) > 1:
            two = np.partition(distances, 1, axis=1)[:, :2]
            margin = float((two[:, 1] - two[:, 0]).min())
    members = [X[labels == j] for j in range(len(C))]
    return Geometry(
        X.shape[1],
        float(margin),
        tuple(len(m) for m in members),
        tuple(_diameter(m) for m in members),
        _diameter(X),
        _diameter(C),
    )


def error_bound(g: Geometry, code: Code, inverse_temperature: float) -> float:
    """Largest possible Euclidean distance of a center from the Lloyd center; infinite when there
    is a tie, an empty cluster, equal codes, or too small an inverse temperature."""
    if g.k == 1:
        return 0.0
    s, diameter = float(code.separation), math.sqrt(float(code.diameter))
    if g.margin <= 0 or s <= 0 or 0 in g.sizes:
        return math.inf
    sharpness = inverse_temperature / math.sqrt(g.d + code.width)
    astray = _share(g.k - 1, sharpness * g.margin)
    rho = astray * diameter
    if rho >= math.sqrt(s):
        return math.inf
    own = _share(g.k - 1, sharpness * s) * g.center_diameter
    reach = sharpness * (s - 2 * math.sqrt(s) * rho)
    unequal = math.tanh(sharpness * rho * rho / 4)
    return max(
        own + _share((g.n - size) / size, reach) * g.data_diameter + unequal * width
        for size, width in zip(g.sizes, g.diameters, strict=True)
    )


def sufficient_inverse_temperature(g: Geometry, code: Code, epsilon: float) -> float:
    """An inverse temperature at which `error_bound` is at most `epsilon`: the smallest that
    bisection finds, to a relative 1e-9. Infinite when no finite one is certified.

    Raises
    ------
    InputError
        epsilon is not positive.
    """
    epsilon = float(checked_scalar("epsilon", epsilon, "a positive finite number"))
    if g.k == 1:
        return 0.0
    high = 1.0
    while error_bound(g, code, high) > epsilon:
        high *= 2
        if high > 1e300:
            return math.inf
    low = high / 2 if high > 1 else 0.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if error_bound(g, code, middle) <= epsilon else (middle, high)
    return high


def _share(weight: float, exponent: float) -> float:
    """weight / (weight + e^exponent), without overflow."""
    if weight == 0:
        return 0.0
    if exponent > 700:
        return weight * math.exp(-exponent) if exponent < 745 else 0.0
    return weight / (weight + math.exp(exponent))


def _diameter(points: Any) -> float:
    if len(points) < 2:
        return 0.0
    if len(points) > _ALL_PAIRS:
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        return 2 * float(np.sqrt(((points - middle) ** 2).sum(axis=1)).max())
    from scipy.spatial.distance import pdist

    return float(pdist(points).max())
