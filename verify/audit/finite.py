"""How large an inverse temperature the finite transformer needs on the user's data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from constructions import InputError, LloydTransformer, codes, rational_array
from constructions.certificate import (
    Geometry,
    error_bound,
    geometry,
    rounded_error_bound,
    sufficient_inverse_temperature,
)
from constructions.codes import Code
from verify.audit.beside import Step
from verify.audit.survey import TYPES, Decided, Points, rounded

CODES = tuple(name for name in codes.NAMED if name != "none")
EVERY_CODE_WORK = 20_000_000  # n^2 d_emb up to which every code is run
ONE_CODE_WORK = 400_000_000  # and up to which the codes asked for are run
MOST_POINTS = 5000  # a layer holds several tables of n^2 numbers


@dataclass(frozen=True)
class Certified:
    """One code at its hardest step: the one that needs the largest inverse temperature, or, where
    the inverse temperature is given, the one with the largest bound.

    Attributes
    ----------
    code : Code
    step : number of that step; None when no step has a certificate
    gamma : inverse temperature from which on the bound is at most epsilon; infinite if none is
    by_step : the same for every step that has a certificate, in their order
    at : inverse temperature of `bound` and of `measured`: the one asked for, or `gamma`
    bound : the certificate there
    sure : by float type, an inverse temperature at which the bound with rounding is at most
        epsilon; infinite if there is none
    measured : by float type, largest distance of a center from Lloyd's when the layer was run
    skipped : by float type, why it was not run
    """

    code: Code
    step: int | None
    gamma: float
    by_step: list[float]
    at: float
    bound: float
    sure: dict[str, float]
    measured: dict[str, float]
    skipped: dict[str, str]


@dataclass(frozen=True)
class Certifiable:
    """A step with its geometry and what each float type decides about it."""

    step: Step
    geometry: Geometry
    decided: dict[str, Decided]


def certifiable(
    step: Step, points: dict[str, Points], decided: dict[str, Decided]
) -> Certifiable | str:
    """The step ready for certificates, or why there are none for it."""
    found = step.found
    if found.ties:
        return "a tie"
    if step.empty:
        return "an empty cluster"
    double = decided["float64"]
    if double.problem is not None or found.excess is None:
        return double.problem or "the margins are beyond float64"
    margin = math.inf if found.margin is None else float(found.margin)
    centers = rounded(step.before, "float64")
    shape = geometry(points["float64"].values, centers, margin, found.assignments)
    return Certifiable(step, shape, decided)


def certify(
    name: str,
    steps: Sequence[Certifiable],
    epsilon: float,
    gamma: float | None,
    points: dict[str, Points],
    asked: bool,
) -> Certified:
    """The certificate of one code for a single layer from exact centers, at its hardest step.

    `gamma` asks for the bound and the run at that inverse temperature. `asked` says that the user
    named the code, so it is worth more time.
    """
    k, d = steps[0].step.before.shape if steps else (1, 1)
    code = codes.code(name, k)
    if not steps:
        return Certified(code, None, math.inf, [], math.inf, math.inf, {}, {}, {})
    needed = [sufficient_inverse_temperature(s.geometry, code, epsilon) for s in steps]
    star = max(needed)
    at = star if gamma is None else gamma
    bounds = needed if gamma is None else [error_bound(s.geometry, code, gamma) for s in steps]
    hardest = steps[max(range(len(steps)), key=bounds.__getitem__)]
    bound = error_bound(hardest.geometry, code, at)
    sure: dict[str, float] = {}
    measured: dict[str, float] = {}
    skipped: dict[str, str] = {}
    for kind in TYPES:
        rounding = hardest.decided[kind].rounding
        sure[kind] = math.inf
        if rounding is not None and gamma is None:
            sure[kind] = sufficient_inverse_temperature(hardest.geometry, code, epsilon, rounding)
        elif rounding is not None and gamma is not None:
            inside = rounded_error_bound(hardest.geometry, code, gamma, rounding) <= epsilon
            sure[kind] = gamma if inside else math.inf
        reason = _too_long(len(points["float64"].values), d + code.width, asked)
        if hardest.decided[kind].problem is not None:
            reason = hardest.decided[kind].problem
        if at == math.inf:
            reason = "no finite inverse temperature is certified"
        if reason is None:
            found = measure(code, hardest.step, at, points[kind])
            if isinstance(found, float):
                measured[kind] = found
            else:
                skipped[kind] = found
        else:
            skipped[kind] = reason
    return Certified(code, hardest.step.number, star, needed, at, bound, sure, measured, skipped)


def measure(code: Code, step: Step, gamma: float, points: Points) -> float | str:
    """Run one layer in a float type and compare with the exact step: the largest Euclidean
    distance of a center, computed from the exact values of the floats. Or why it cannot run."""
    k, d = step.before.shape
    centers = rounded(step.before, points.name)
    model = LloydTransformer(d, k, code.name, max(gamma, 1e-300))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            out = model(points.values, centers)
    except InputError as error:
        return str(error)
    if not bool(np.isfinite(out).all()):
        return f"the result overflows {points.name}"
    away = ((rational_array(out) - step.after) ** 2).sum(axis=1)
    return math.sqrt(float(away.max()))


def curve(
    steps: Sequence[Certifiable], result: Certified, count: int = 61
) -> dict[str, list[float]]:
    """The bound against the inverse temperature, around the certified one."""
    if result.gamma == math.inf or result.gamma == 0:
        return {"gamma": [], "bound": []}
    shape = next(s.geometry for s in steps if s.step.number == result.step)
    gammas = [result.gamma * 10 ** (-1.5 + 2.2 * i / (count - 1)) for i in range(count)]
    return {"gamma": gammas, "bound": [error_bound(shape, result.code, g) for g in gammas]}


def _too_long(n: int, d_emb: int, asked: bool) -> str | None:
    """The self-attention of the points compares all pairs: n^2 d_emb operations."""
    work = n * n * d_emb
    if n > MOST_POINTS or work > ONE_CODE_WORK:
        return (
            f"n = {n} is too many: self-attention compares all pairs of points; the limits are "
            f"n = {MOST_POINTS} and n^2 d_emb = {ONE_CODE_WORK // 10**6} million"
        )
    if work > EVERY_CODE_WORK and not asked:
        return f"n = {n}: run only for the codes named by --code"
    return None
