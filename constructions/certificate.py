"""How far the constructed transformer can be from Lloyd's step at a finite inverse temperature.

A single layer from zero codes, no ties, no empty cluster. Three effects are bounded: center
self-attention that does not quite stay at home, attention leaking to other clusters, and unequal
weights inside a cluster. The same bound, with a term for every rounding, holds for the layer as
`LloydTransformer` computes it in float32 or float64.

Derivation: docs/theory/expressivity.md, "Finite inverse temperature". Every function rounds its
own answer to the safe side: margins down, diameters and errors up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from constructions.arrays import checked_scalar
from constructions.codes import Code
from constructions.errors import InputError

_ALL_PAIRS = 4000  # up to this many points a diameter is computed from all pairs
_UNIT = 2.0**-53  # of the float64 arithmetic in this module
_UP = 1 + 1e-12  # more than the rounding of exp, tanh and a few products together
_LOOSE = 1e-13  # the same for what is computed in front of an exp
_EXP = 8  # exp of numpy and torch is taken to be right within 8 unit roundoffs (4 ulp)


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

    @cached_property
    def n(self) -> int:
        return sum(self.sizes)

    @cached_property
    def extremes(self) -> tuple[tuple[int, float], ...]:
        """The largest diameter for each size of a cluster: what the bound can depend on."""
        widest: dict[int, float] = {}
        for size, wide in zip(self.sizes, self.diameters, strict=True):
            widest[size] = max(wide, widest.get(size, 0.0))
        return tuple(sorted(widest.items()))


@dataclass(frozen=True)
class Rounding:
    """What the certificate needs to know about the arithmetic that runs the layer.

    Attributes
    ----------
    unit : unit roundoff, half the distance from 1 to the next number
    margin : what is left of the smallest margin when every squared distance is computed as wrongly
        as it can be; zero or less when rounding can change an assignment
    points, centers : length of the vector of largest absolute coordinates of the points and of
        the centers
    """

    unit: float
    margin: float
    points: float
    centers: float


def geometry(
    X: Any, C: Any, margin: float | None = None, assignments: Any | None = None
) -> Geometry:
    """The geometry of points X (n, d) and centers C (k, d), in float64.

    `margin` and `assignments` (n,) can be given when they are known exactly. Otherwise they are
    computed from differences, and the margin is lowered by all that rounding can have added to it,
    so that a tie never looks like a margin; X and C are taken to be float64 values.

    Raises
    ------
    InputError
        a squared distance overflows float64.
    """
    X, C = np.asarray(X, dtype=np.float64), np.asarray(C, dtype=np.float64)
    if margin is None or assignments is None:
        found, labels = _margin(X, C)
        margin = found if margin is None else margin
        assignments = labels if assignments is None else np.asarray(assignments)
    members = [X[assignments == j] for j in range(len(C))]
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
    return _bound(g, _constants(code), code.width, inverse_temperature, None)


def rounded_error_bound(
    g: Geometry, code: Code, inverse_temperature: float, rounding: Rounding
) -> float:
    r"""`error_bound` for the layer as it is computed in floating point, rounding included.

    Write u for the unit roundoff and a(m) = m u / (1 - m u), the relative error of m operations.

    - Squared distances to centers: `rounding.margin` takes the place of the margin.
    - The code that a point carries is a sum of k products: off by a(2k + 4) of the largest code
      entry in each of its p coordinates, which is added to rho. The table itself is rounded once.
    - Distances of codes are relatively right to a(p + 2). With the difference to the minimum, the
      product with the inverse temperature and exp itself, exponents are relatively right to
      (p + 8) u and weights to 8 u more.
    - The mean over n points and over k centers: off by a(2n + 12) and a(2k + 12) of the box that
      holds them; this includes the two additions, and rounding points and centers to the type.
    """
    return _bound(g, _constants(code), code.width, inverse_temperature, rounding)


def sufficient_inverse_temperature(
    g: Geometry, code: Code, epsilon: float, rounding: Rounding | None = None
) -> float:
    """An inverse temperature at which the error bound is at most `epsilon`: the smallest that
    bisection finds, to a relative 1e-9. Infinite when no finite one is certified.

    Without `rounding` the answer holds for every larger inverse temperature as well: all three
    terms of the bound only fall from there on. (The third one first rises, so a small value of the
    bound is not enough; what is asked for is being past that rise.) With `rounding`, only for the
    one returned.

    Raises
    ------
    InputError
        epsilon is not positive.
    """
    epsilon = float(checked_scalar("epsilon", epsilon, "a positive finite number"))
    constants = _constants(code)
    if g.k == 1:
        return 0.0 if _bound(g, constants, code.width, 1.0, rounding) <= epsilon else math.inf

    def enough(inverse_temperature: float) -> bool:
        past = rounding is not None or _past_the_rise(g, constants, code.width, inverse_temperature)
        return past and _bound(g, constants, code.width, inverse_temperature, rounding) <= epsilon

    return _smallest(enough)


class _Constants:
    """Of a code: square root of the separation, diameter, largest absolute entry."""

    def __init__(self, code: Code) -> None:
        self.root = _square_root(code.separation) / _UP if code.k > 1 else math.inf
        self.diameter = _square_root(code.diameter) * _UP
        entries = (abs(v) for v in np.asarray(code.table).ravel().tolist())
        self.largest = _square_root(max(entries, default=0) ** 2) * _UP


@lru_cache(maxsize=64)
def _constants(code: Code) -> _Constants:
    return _Constants(code)


def _bound(
    g: Geometry,
    constants: _Constants,
    width: int,
    inverse_temperature: float,
    rounding: Rounding | None,
) -> float:
    unit = rounding.unit if rounding else 0.0
    margin = rounding.margin if rounding else g.margin
    arithmetic = 0.0
    if rounding:
        arithmetic = _operations(2 * g.n + 12, unit) * rounding.points
        arithmetic += _operations(2 * g.k + 12, unit) * rounding.centers
    if g.k == 1:
        return arithmetic
    entry = math.sqrt(width) * constants.largest if width else 0.0
    root = constants.root - 2 * unit * entry
    diameter = constants.diameter + 2 * unit * entry
    if not (margin > 0 and root > 0 and math.isfinite(diameter)) or 0 in g.sizes:
        return math.inf
    if inverse_temperature == math.inf:
        return arithmetic
    sharpness = inverse_temperature / math.sqrt(g.d + width)
    loose = (width + 8) * unit + _LOOSE
    low, high, extra = sharpness * (1 - loose), sharpness * (1 + loose), 3 * _EXP * unit
    astray = _share(g.k - 1, low * margin - extra) * _UP
    rho = astray * diameter
    if rounding:
        rho += _operations(2 * g.k + 4, unit) * entry
    if not rho < root:
        return math.inf
    own = _share(g.k - 1, low * root * root - extra) * g.center_diameter
    # (root - rho)^2 - rho^2, the one subtraction that can cancel, in factors
    reach = low * root * (root - 2 * rho) - (high - low) * rho * rho - extra
    unequal = math.tanh((high * rho * rho + extra) / 4) if rho else math.tanh(extra / 4)
    worst = max(
        own + _share((g.n - size) / size, reach) * g.data_diameter + unequal * wide
        for size, wide in g.extremes
    )
    return (worst + arithmetic) * _UP


def _past_the_rise(
    g: Geometry, constants: _Constants, width: int, inverse_temperature: float
) -> bool:
    """Whether every term of the bound falls from this inverse temperature on.

    The first two do as soon as rho < root / 2. The third is increasing in sharpness * rho^2, whose
    logarithm has derivative 1 / sharpness - 2 margin (1 - astray): negative for good once
    2 sharpness margin (1 - astray) > 1, because the left side increases.
    """
    exponent = inverse_temperature / math.sqrt(g.d + width) * g.margin
    astray = _share(g.k - 1, exponent)
    return 2 * exponent * (1 - astray) > 1 and 2 * astray * constants.diameter < constants.root


def _smallest(enough: Callable[[float], bool]) -> float:
    """The smallest number that is enough, by doubling and bisection; infinite if none is found."""
    high = 1.0
    while not enough(high):
        high *= 2
        if high > 1e300:
            return math.inf
    low = high / 2 if high > 1 else 0.0
    while high - low > 1e-9 * high and high > 1e-300:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _operations(count: int, unit: float) -> float:
    """Relative error of `count` roundings one after another."""
    return count * unit / (1 - count * unit) if count * unit < 0.5 else math.inf


def _share(weight: float, exponent: float) -> float:
    """weight / (weight + e^exponent), without overflow."""
    if weight == 0:
        return 0.0
    if exponent > 700:
        return weight * math.exp(-min(exponent, 744.0))  # not rounded to zero
    return weight / (weight + math.exp(exponent))


def _square_root(value: Any) -> float:
    """The square root of an integer, a fraction or a float; infinite beyond float64."""
    try:
        return math.sqrt(value)
    except OverflowError:
        return math.inf


def _margin(X: Any, C: Any) -> tuple[float, Any]:
    """The smallest margin, lowered by its rounding, and the assignments."""
    distances = np.zeros((len(X), len(C)))
    with np.errstate(over="ignore"):
        for axis in range(X.shape[1]):
            distances += (X[:, axis, None] - C[None, :, axis]) ** 2
    if not np.isfinite(distances).all():
        raise InputError(
            "a squared distance overflows float64; rescale all coordinates by one factor"
        )
    labels = distances.argmin(axis=1)
    if len(C) == 1:
        return math.inf, labels
    two = np.partition(distances, 1, axis=1)[:, :2]
    error = _operations(X.shape[1] + 4, _UNIT)  # of one squared distance, and of the subtraction
    return float((two[:, 1] * (1 - error) - two[:, 0] * (1 + error)).min()), labels


def _diameter(points: Any) -> float:
    if len(points) < 2:
        return 0.0
    # room for the rounding of the distances and for points that were rounded to float64
    slack = 4 * _UNIT * float(np.linalg.norm(np.abs(points).max(axis=0)))
    wider = 1 + (points.shape[1] + 4) * _UNIT
    if len(points) > _ALL_PAIRS:
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        return 2 * float(np.sqrt(((points - middle) ** 2).sum(axis=1)).max()) * wider + slack
    from scipy.spatial.distance import pdist

    return float(pdist(points).max()) * wider + slack
