"""Instances and bounds for the claim about finite inverse temperatures.

An instance is held in integers over one common denominator, so that margins, assignments and means
are exact however large it is. The bounds for several layers extend `constructions.certificate`,
which is about one layer; docs/theory/expressivity.md derives them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from constructions.certificate import Geometry, error_bound, geometry
from constructions.codes import Code
from verify.claim import Case
from verify.oracles import clustering as oracle

GRID = 1024
"""Drawn coordinates are multiples of 1/GRID: squared distances are exact in float64."""

SAFE = 1 + 1e-9
"""More than all rounding in a bound computed here: exponents are below 800 and relatively right to
a few units of 1e-16."""


@dataclass(frozen=True, eq=False)
class Instance:
    """Points and centers as integers over one denominator: `points` (n, d), `centers` (k, d)."""

    points: Any
    centers: Any
    unit: int

    @classmethod
    def of(cls, X: Any, C: Any) -> Instance:
        """From nested lists of rationals (or floats, at their exact value)."""
        rows = [[[Fraction(v) for v in row] for row in table] for table in (X, C)]
        unit = math.lcm(*(v.denominator for table in rows for row in table for v in row))
        points, centers = (
            np.array([[int(v * unit) for v in row] for row in table], dtype=object)
            for table in rows
        )
        return cls(points, centers, unit)

    @cached_property
    def distances(self) -> Any:
        """Squared distances (n, k), times unit squared."""
        gaps = self.points[:, None, :] - self.centers[None, :, :]
        return (gaps * gaps).sum(axis=2)

    @cached_property
    def margin(self) -> Fraction:
        """Smallest excess of the second nearest squared distance over the nearest."""
        if len(self.centers) == 1:
            return Fraction(10**9)
        two = np.sort(self.distances, axis=1)[:, :2]
        return Fraction(int((two[:, 1] - two[:, 0]).min()), self.unit**2)

    @cached_property
    def labels(self) -> Any:
        return np.argmin(self.distances, axis=1)

    @cached_property
    def counts(self) -> Any:
        return np.bincount(self.labels, minlength=len(self.centers))

    @cached_property
    def means(self) -> list[list[Fraction]]:
        """Lloyd's new centers; there must be no empty cluster."""
        sums = [self.points[self.labels == j].sum(axis=0) for j in range(len(self.centers))]
        return [
            [Fraction(int(v), int(count) * self.unit) for v in row]
            for row, count in zip(sums, self.counts, strict=True)
        ]

    @cached_property
    def geometry(self) -> Geometry:
        margin = float(self.margin) * (1 - 1e-15)
        return geometry(*self.floats, margin=margin, assignments=self.labels)

    @cached_property
    def floats(self) -> tuple[Any, Any]:
        """Points and centers in float64, correctly rounded; exact for drawn instances."""
        return tuple(  # type: ignore[return-value]
            np.array([[int(v) / self.unit for v in row] for row in table])
            for table in (self.points, self.centers)
        )

    @cached_property
    def tables(self) -> tuple[Any, Any]:
        """Points and centers as nested lists of fractions."""
        return tuple(  # type: ignore[return-value]
            [[Fraction(int(v), self.unit) for v in row] for row in table]
            for table in (self.points, self.centers)
        )


def instance(case: Case) -> Instance:
    """The instance of a case: written out as X and C, or drawn from family, k, d, n and seed."""
    if "X" in case:
        return Instance.of(case["X"], case["C"])
    return _drawn(*(case[name] for name in ("family", "k", "d", "n", "seed")))


@lru_cache(maxsize=64)
def _drawn(family: str, k: int, d: int, n: int, seed: int) -> Instance:
    """`separated`: points within 1/16 of k distinct sites of a lattice, the sites as centers.
    `mixture`: a normal mixture in the unit cube, k distinct points as centers (the paper's way)."""
    generator = np.random.default_rng([seed, k, d, n])
    if family == "separated":
        side = math.ceil((k + 1) ** (1 / d)) + 1
        sites = generator.permutation(side**d)[:k]
        digits = np.stack(np.unravel_index(sites, (side,) * d), axis=1)
        centers = digits * (GRID // 4)
        home = np.concatenate([np.arange(k), generator.integers(0, k, n - k)])
        reach = math.floor(GRID / 16 / math.sqrt(d))
        points = centers[home] + generator.integers(-reach, reach + 1, (n, d))
        return Instance(points, centers, GRID)
    middles = generator.random((k, d))
    raw = middles[generator.integers(0, k, n)] + 0.1 * generator.standard_normal((n, d))
    raw = (raw - raw.min()) / (raw.max() - raw.min())
    points = np.round(raw * GRID).astype(np.int64)
    return Instance(points, points[:k], GRID)


def steps_bounds(
    start: Instance, code: Code, inverse_temperature: float, steps: int, reembed: bool
) -> float:
    """How far the centers can be from Lloyd's after several layers; infinite when not certified.

    Let e be the bound after t layers. Squared distances to the moved centers change by at most
    2 e (sum of the two distances), so that a margin of m leaves m - 4 R e, with R the largest
    distance of a point from a center; while that is positive, assignments are Lloyd's, and one more
    layer is off by the one-layer bound at that margin. Errors do not add up.

    Without re-embedding, a layer finds the codes that the last one left: the self-attention takes
    them away up to a share omega, the weight that goes to other places. With D the diameter of the
    codes that the points carry, each carried code is off by omega D more.
    """
    at, error, spread = start, 0.0, 0.0
    code_diameter = math.sqrt(float(code.diameter)) * SAFE
    omega = _share(
        start.geometry.n - 1, _sharpness(start, code, inverse_temperature) * _closest(start)
    )
    for _ in range(steps):
        if 0 in at.counts or at.margin <= 0:
            return math.inf
        reach = math.sqrt(float(at.distances.max()) / at.unit**2) * SAFE
        moved = replace(
            at.geometry,
            margin=(at.geometry.margin - 4 * reach * error * SAFE) * (1 - 1e-12),
            center_diameter=at.geometry.center_diameter + 2 * error,
        )
        if not moved.margin > 0:
            return math.inf
        drift = 0.0 if reembed else omega * spread * SAFE
        spread = code_diameter + 2 * omega * spread
        if reembed:
            error = error_bound(moved, code, inverse_temperature)
        else:
            error = drifting_bound(moved, code, inverse_temperature, drift)
        if error == math.inf:
            return math.inf
        at = Instance.of(at.tables[0], at.means)
    return error


def drifting_bound(g: Geometry, code: Code, inverse_temperature: float, drift: float) -> float:
    """`error_bound` when the code that a point carries is off by `drift` to begin with."""
    root, diameter = math.sqrt(float(code.separation)), math.sqrt(float(code.diameter))
    sharpness = inverse_temperature / math.sqrt(g.d + code.width)
    rho = (_share(g.k - 1, sharpness * g.margin) * diameter + drift) * SAFE
    if g.k == 1 or rho >= root:
        return 0.0 if g.k == 1 else math.inf
    own = _share(g.k - 1, sharpness * root * root) * g.center_diameter
    reach = sharpness * root * (root - 2 * rho)
    unequal = math.tanh(sharpness * rho * rho / 4)
    return SAFE * max(
        own + _share((g.n - size) / size, reach) * g.data_diameter + unequal * width
        for size, width in zip(g.sizes, g.diameters, strict=True)
    )


def closed_form_inverse_temperature(g: Geometry, code: Code, epsilon: float) -> float:
    """A sufficient inverse temperature as one formula, for k >= 2: a third of epsilon for each of
    the three effects. The tighter `sufficient_inverse_temperature` searches instead."""
    s, diameter = float(code.separation), math.sqrt(float(code.diameter))
    other = g.k - 1
    parts = (
        math.log(4 * other * diameter / math.sqrt(s)) / g.margin,
        _log(3 * (g.n - 1) * g.data_diameter / epsilon) * 2 / s,
        _log(3 * other * g.center_diameter / epsilon) / s,
        _log(3 * other**2 * diameter**2 * g.data_diameter / (4 * math.e * g.margin * epsilon))
        / g.margin,
    )
    return math.sqrt(g.d + code.width) * max(parts) * SAFE


def smallest_gap(X: Any, C: Any, codes: Any, steps: int) -> Fraction:
    """How far, in squared distance, the next key is beyond the nearest ones: the smallest such gap
    over all attention of all layers at infinite inverse temperature. It sets the pace at which the
    finite layers approach the infinite one, on every input."""
    found = []
    for layer in range(steps):
        carried = [oracle.mean([codes[j] for j in oracle.nearest(x, C)]) for x in X]
        pairs = [(X, C), (codes, carried), (codes, codes), *([(X, X)] if layer else [])]
        for queries, keys in pairs:
            for query in queries:
                values = sorted({oracle.squared_distance(query, key) for key in keys})
                found += [values[1] - values[0]] if len(values) > 1 else []
        C = oracle.closed_form(X, C, codes)
    return min(found, default=Fraction(1))


def _sharpness(start: Instance, code: Code, inverse_temperature: float) -> float:
    return inverse_temperature / math.sqrt(start.points.shape[1] + code.width)


def _closest(start: Instance) -> float:
    """Smallest squared distance of two points at different places."""
    gaps = start.points[:, None, :] - start.points[None, :, :]
    squares = (gaps * gaps).sum(axis=2).ravel()
    apart = [int(v) for v in squares if v]
    return min(apart) / start.unit**2 if apart else math.inf


def _share(weight: float, exponent: float) -> float:
    """weight / (weight + e^exponent); at least e^-700 of the weight, so that it never vanishes."""
    return weight / (weight + math.exp(min(exponent, 700.0))) if weight else 0.0


def _log(value: float) -> float:
    return max(0.0, math.log(value)) if value > 0 else 0.0
