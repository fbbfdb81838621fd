"""Exact distances of one step: margins, ties, the largest safe temperature; and what floats decide.

`survey` works in rationals. `decide` says for float32 or float64 which of its assignments are sure
to come out right, and compares with what `lloyd_step` does in that type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import fmpq, fmpz, fmpz_mat

from constructions import InputError, lloyd_step
from constructions.certificate import Rounding

_ROWS = 4096  # points taken at a time: bounds the memory of exact distances
TYPES: dict[str, Any] = {"float64": np.float64, "float32": np.float32}


@dataclass(frozen=True)
class Survey:
    """What exact squared distances say about points (n, d) and centers (k, d).

    Attributes
    ----------
    assignments : (n,) index of the nearest center, the lowest at ties
    ties : the nearest centers of every point that has more than one
    margin : smallest excess of the second nearest center over the nearest, `fmpq`; 0 when a point
        is tied; None for k = 1
    margin_point : a point where it is attained
    tau_star : the largest temperature at which the sparsemax loss equals the k-means loss,
        min over points of m (next distinct distance - smallest), with m the number of nearest
        centers; None when every temperature does
    tau_point : a point where it is attained
    objective : sum of the smallest squared distances, `fmpq`
    excess, distances : (n, k) float64, the exact values rounded once; None where float64 cannot
        hold them
    """

    assignments: Any
    ties: dict[int, tuple[int, ...]]
    margin: Any
    margin_point: int | None
    tau_star: Any
    tau_point: int | None
    objective: Any
    excess: Any
    distances: Any

    def empty_clusters(self, k: int) -> list[int]:
        return sorted(set(range(k)) - set(self.assignments.tolist()))


def survey(X: Any, C: Any) -> Survey:
    """Survey points X (n, d) and centers C (k, d), object arrays of `fmpq`.

    All squared distances are whole multiples of one unit. They come out of one product of integer
    matrices, |x|^2 - 2 x.c + |c|^2, which loses nothing in integers.
    """
    n, k = len(X), len(C)
    places, keys, unit = _in_integers(X, C)
    assignments = np.empty(n, dtype=np.int64)
    ties: dict[int, tuple[int, ...]] = {}
    margin = tau_star = margin_point = tau_point = None
    objective = 0
    floats: dict[str, Any] = {"excess": np.empty((n, k)), "distances": np.empty((n, k))}
    for first in range(0, n, _ROWS):
        rows = slice(first, min(first + _ROWS, n))
        distances = np.array((fmpz_mat(places[rows]) * keys).table(), dtype=object)
        best = distances.min(axis=1)
        excess = distances - best[:, None]
        near = excess == 0
        count = near.sum(axis=1)
        assignments[rows] = near.argmax(axis=1)
        objective += best.sum()
        for i in np.nonzero(count > 1)[0].tolist():
            ties[first + i] = tuple(np.nonzero(near[i])[0].tolist())
        further = np.nonzero(count < k)[0]
        if len(further):
            # the nearest centers are masked by the row's largest excess, which is never smaller
            # than the next distinct one
            part = excess[further]
            part = np.where(near[further], part.max(axis=1)[:, None], part).min(axis=1)
            weighted = part * count[further].astype(object)
            i = int(weighted.argmin())
            if tau_star is None or weighted[i] < tau_star:
                tau_star, tau_point = weighted[i], first + int(further[i])
            alone = np.nonzero(count[further] == 1)[0]
            if len(alone):
                i = int(alone[part[alone].argmin()])
                if margin is None or part[i] < margin:
                    margin, margin_point = part[i], first + int(further[i])
        for name, values in (("excess", excess), ("distances", distances)):
            if floats[name] is not None:
                floats[name] = _store(floats[name], rows, values, unit)
    if ties:
        margin, margin_point = fmpz(0), min(ties)
    return Survey(
        assignments,
        ties,
        None if margin is None else fmpq(margin, unit),
        margin_point,
        None if tau_star is None else fmpq(tau_star, unit),
        tau_point,
        fmpq(objective, unit),
        **floats,
    )


def _in_integers(X: Any, C: Any) -> tuple[list[list[int]], fmpz_mat, int]:
    """Rows [|x|^2, x, 1] and columns [1, -2 c, |c|^2], times integers that make them whole, so that
    their product is the table of squared distances times the integer returned last."""
    scale = math.lcm(*{int(v.q) for v in X.ravel()})
    points = [[int(v.p) * (scale // int(v.q)) for v in row] for row in X]
    own = [math.lcm(*{int((v * scale).q) for v in row}) for row in C]
    common = math.lcm(*own)
    centers = [[int((v * scale * common).p) for v in row] for row in C]
    left = [[sum(v * v for v in row), *row, 1] for row in points]
    right = [
        [common**2, *(-2 * common * v for v in row), sum(v * v for v in row)] for row in centers
    ]
    return left, fmpz_mat(right).transpose(), (scale * common) ** 2


def _store(target: Any, rows: slice, exact: Any, unit: int) -> Any:
    """Put exact values into a float64 array; None when one overflows, or underflows to zero."""
    try:
        target[rows] = [[int(v) / unit for v in row] for row in exact]
    except OverflowError:
        return None
    return None if bool(((target[rows] == 0) & (exact != 0)).any()) else target


@dataclass(frozen=True)
class Points:
    """The points in one float type, and how far rounding moved each of them.

    Attributes
    ----------
    name : "float64" or "float32"
    values : (n, d) in that type; None where the type cannot hold them
    moved : (n,) bound on the Euclidean distance from the exact point
    """

    name: str
    values: Any
    moved: Any

    @property
    def unit(self) -> float:
        return unit_roundoff(self.name)


def unit_roundoff(name: str) -> float:
    return float(np.finfo(TYPES[name]).eps) / 2


def points_in(X: Any, name: str) -> Points:
    """Round exact points X to a float type."""
    values = rounded(X, name)
    if values is None:
        return Points(name, None, None)
    return Points(name, values, _moved(X, values, unit_roundoff(name)))


def rounded(exact: Any, name: str) -> Any:
    """Exact numbers in a float type, None where one is out of its range."""
    try:
        with np.errstate(over="ignore", under="ignore"):
            values = exact.astype(np.float64).astype(TYPES[name])
    except OverflowError:
        return None
    return values if bool(np.isfinite(values).all()) else None


def _moved(exact: Any, values: Any, unit: float) -> Any:
    same = [
        all(_is(x, v) for x, v in zip(*rows, strict=True))
        for rows in zip(exact, values.astype(np.float64).tolist(), strict=True)
    ]
    # twice the unit, for the double rounding to float32 by way of float64; and the smallest number
    bound = 2 * unit * _norms(values) + np.finfo(values.dtype).smallest_subnormal * len(values[0])
    return np.where(same, 0.0, bound.astype(np.float64))


def _is(exact: fmpq, value: float) -> bool:
    top, bottom = value.as_integer_ratio()
    return bool(exact.p == top and exact.q == bottom)


def _norms(values: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.sqrt((values.astype(np.float64) ** 2).sum(axis=1))


@dataclass(frozen=True)
class Decided:
    """What one float type can say about the assignments of one step.

    Attributes
    ----------
    problem : why the type cannot be used at all, or None
    undecided : the points without a tie whose assignment rounding might change
    wrong : those of the untied points that `lloyd_step` really assigned otherwise in this type
    rounding : what the certificate needs, None with a problem
    """

    problem: str | None
    undecided: list[int]
    wrong: list[int]
    rounding: Rounding | None


def decide(points: Points, C: Any, found: Survey) -> Decided:
    """Which assignments are sure in a float type, from exact centers C (k, d) rounded to it.

    With u the unit roundoff: a squared distance r is a sum of d squared differences, so what comes
    out is relatively within a = (d + 4) u / (1 - (d + 4) u) of the distance of the *rounded* point
    and center. These lie within h of the exact ones, so it is within
    E = (2 sqrt(r) h + h^2)(1 + a) + a r of the exact distance.
    An assignment is sure when excess - E(nearest) - E(other) > 0 for every other center.
    """
    centers = rounded(C, points.name)
    if points.values is None or centers is None:
        problem = f"{points.name} cannot hold the coordinates; try --scale common"
        return Decided(problem, [], [], None)
    try:
        with np.errstate(all="ignore"):
            labels = lloyd_step(points.values, centers, "keep").assignments
    except InputError as error:
        return Decided(f"{str(error).split(';')[0]}; try --scale common", [], [], None)
    if found.excess is None or found.distances is None:
        return Decided("the squared distances are beyond float64; try --scale common", [], [], None)
    unit, d = points.unit, C.shape[1]
    a = (d + 4) * unit / (1 - (d + 4) * unit)
    r = found.distances
    h = points.moved[:, None] + _moved(C, centers, unit)[None, :]
    off = ((2 * np.sqrt(r) * h + h * h) * (1 + a) + a * r) * (1 + 1e-12)
    rows = np.arange(len(r))
    left = found.excess * (1 - 1e-15) - off - off[rows, found.assignments][:, None]
    left[rows, found.assignments] = np.inf
    left = left.min(axis=1)
    tied = np.zeros(len(r), dtype=bool)
    tied[list(found.ties)] = True
    rounding = Rounding(unit, float(left.min()), _box(points.values), _box(centers))
    return Decided(
        None,
        np.nonzero((left <= 0) & ~tied)[0].tolist(),
        np.nonzero((labels != found.assignments) & ~tied)[0].tolist(),
        rounding,
    )


def _box(values: Any) -> float:
    return float(np.linalg.norm(np.abs(values).max(axis=0).astype(np.float64))) * (1 + 1e-6)
