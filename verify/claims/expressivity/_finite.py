"""Measures and cases of the claim about finite inverse temperatures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

from constructions import LloydTransformer, codes
from constructions.certificate import Rounding, error_bound, rounded_error_bound
from verify.claim import Case, Hypothesis, Measured, Run
from verify.claims.expressivity._certificates import (
    Instance,
    closed_form_inverse_temperature,
    instance,
    smallest_gap,
    steps_bounds,
)
from verify.claims.expressivity._shared import code_table
from verify.oracles import balls
from verify.oracles import clustering as oracle
from verify.strategies import growing_grids

CODES = ("binary", "one_hot", "half", "scalar", "circle")


@lru_cache(maxsize=128)
def named(code: str, k: int) -> codes.Code:
    return codes.code(code, k)


def code_of(case: Case) -> codes.Code:
    return named(case["code"], case["k"] if "k" in case else len(case["C"]))


def certified(case: Case) -> float:
    return error_bound(instance(case).geometry, code_of(case), case["inverse_temperature"])


NO_TIES = Hypothesis(
    "no ties",
    "every point has a single nearest center",
    lambda case: instance(case).margin > 0,
)
NO_EMPTY = Hypothesis(
    "no empty cluster",
    "every center is nearest to some point",
    lambda case: 0 not in instance(case).counts,
)
APPLIES = Hypothesis(
    "the certificate applies",
    "the code that a point carries is nearer to its cluster's code than the smallest distance of "
    "two codes, rho < sqrt(s)",
    lambda case: certified(case) < math.inf,
)


def measure(case: Case) -> Measured:
    """The exact layer, in ball arithmetic, against the certificate."""
    return one_layer(instance(case), code_of(case), case["inverse_temperature"])


def one_layer(at: Instance, code: codes.Code, inverse_temperature: float) -> Measured:
    bound = error_bound(at.geometry, code, inverse_temperature)
    found, error = enclosed(at, code, inverse_temperature, at.means, bound)
    return Measured(found, bound, error=error)


def enclosed(
    at: Instance,
    code: codes.Code,
    inverse_temperature: float,
    want: Any,
    bound: float,
    steps: int = 1,
    reembed: bool = False,
) -> tuple[float, float]:
    """Largest distance of a center from where it is wanted, and how uncertain that is; the
    precision is raised until the answer is clear against the bound."""
    bits = 96 + max(0, -math.frexp(bound)[1])
    while True:
        centers = balls.transformer(
            *at.tables, code.table.tolist(), inverse_temperature, steps, reembed, bits
        )
        low, high = balls.farthest(centers, want)
        if high <= bound or low > bound or bits > 4000:
            return (low + high) / 2, (high - low) / 2
        bits *= 2


def as_computed(case: Case) -> Measured:
    """The float64 layer of `LloydTransformer` against the certificate that includes rounding."""
    at, code = instance(case), code_of(case)
    X, C = at.floats
    model = LloydTransformer(X.shape[1], len(C), case["code"], case["inverse_temperature"])
    got = model(X, C)
    gaps = [
        sum((Fraction(u) - v) ** 2 for u, v in zip(row, want, strict=True))
        for row, want in zip(got.tolist(), at.means, strict=True)
    ]
    value = math.sqrt(max(gaps))
    unit = 2.0**-53
    # squared distances of grid points are exact in float64; only their difference could round
    rounding = Rounding(
        unit,
        float(at.margin) * (1 - 4 * unit),
        *(float(np.linalg.norm(np.abs(table).max(axis=0))) for table in (X, C)),
    )
    bound = rounded_error_bound(at.geometry, code, case["inverse_temperature"], rounding)
    return Measured(value, bound, error=value * 1e-14)


def sweep(
    sizes: tuple[tuple[int, int, int], ...], draws: int, least: float
) -> Callable[[Run], Iterator[Case]]:
    """Both families, sizes (k, d, n), all codes, half decades of inverse temperature, down to a
    bound of `least`."""

    def cases(run: Run) -> Iterator[Case]:
        for k, d, n in sizes:
            for family in ("separated", "mixture"):
                for draw in range(run.count(draws)):
                    seed = run.stream("finite-gamma", family, str(draw))
                    for code in CODES:
                        for half_decade in range(0, 19):
                            case = Case(
                                family=family,
                                k=k,
                                d=d,
                                n=n,
                                seed=seed,
                                code=code,
                                inverse_temperature=10 ** (half_decade / 2),
                            )
                            if instance(case).margin > 0 and certified(case) < least:
                                break
                            yield case

    return cases


def attack(code: str, k: int, n: int, starts: int, generator: Any) -> Iterator[Case]:
    """Simplex search over n points, k centers and the inverse temperature, d = 2, for the largest
    share of the bound. Yields the end of each search."""

    def parts(vector: Any) -> tuple[Any, Any, float]:
        places = [[float(u) for u in row] for row in np.reshape(vector[:-1], (n + k, 2))]
        return places[:n], places[n:], math.exp(min(float(vector[-1]), 12.0))

    def missing(vector: Any) -> float:
        X, C, gamma = parts(vector)
        at = Instance.of(X, C)
        if at.margin == 0 or 0 in at.counts:
            return 1.0
        m = one_layer(at, named(code, k), gamma)
        return 1.0 if not 1e-30 < m.bound < math.inf else 1.0 - float(m.ratio)

    for _ in range(starts):
        home = np.arange(n) % k
        C = np.stack([np.arange(k), 0.3 * np.arange(k)], axis=1)
        X = C[home] + 0.2 * generator.standard_normal((n, 2))
        if k == 2:  # two clusters can be far apart along their border
            X[:, 1] += 40.0 * home
        start = np.concatenate([X.ravel(), C.ravel(), [2.0 + k / 2 + generator.random()]])
        options = {"maxfev": 600, "fatol": 1e-6, "xatol": math.inf}
        X, C, gamma = parts(minimize(missing, start, method="Nelder-Mead", options=options).x)
        case = Case(X=X, C=C, code=code, inverse_temperature=gamma)
        if all(h.holds(case) for h in (NO_TIES, NO_EMPTY, APPLIES)):
            yield case


def two_points(run: Run, seed: int) -> Iterator[tuple[Any, Case]]:
    generator = np.random.default_rng(seed)
    for code in CODES:
        for case in attack(code, 2, 2, run.count(3, 2), generator):
            yield code, case


def few_points(run: Run, seed: int) -> Iterator[tuple[Any, Case]]:
    generator = np.random.default_rng(seed)
    for k, n in ((2, 3), (2, 5), (3, 3), (3, 6), (4, 4), (5, 5)):
        for case in attack("binary", k, n, run.count(1), generator):
            yield f"{k}, {n}", case


def several_layers(run: Run) -> Iterator[Case]:
    """Small instances, up to 4 layers, both ways to iterate, decades of inverse temperature."""
    for draw in range(run.count(12)):
        k, d, n = ((2, 1, 6), (3, 1, 8), (3, 2, 8), (4, 2, 10))[draw % 4]
        seed = run.stream("finite-gamma", "several-layers", str(draw))
        for family in ("separated", "mixture"):
            for code in ("binary", "one_hot", "scalar"):
                for reembed in (False, True):
                    for decade in (2, 3, 4, 5):
                        yield Case(
                            family=family,
                            k=k,
                            d=d,
                            n=n,
                            seed=seed,
                            code=code,
                            steps=2 + draw % 3,
                            reembed=reembed,
                            inverse_temperature=10.0**decade,
                        )


def layers_bound(case: Case) -> float:
    how = (case["inverse_temperature"], case["steps"], case["reembed"])
    return steps_bounds(instance(case), code_of(case), *how)


def over_layers(case: Case) -> Measured:
    at, bound = instance(case), layers_bound(case)
    want = oracle.lloyd(*at.tables, case["steps"])
    how = (case["steps"], case["reembed"])
    found, error = enclosed(at, code_of(case), case["inverse_temperature"], want, bound, *how)
    return Measured(found, bound, error=error)


def formula_is_enough(case: Case) -> Measured:
    """The certificate at the closed-form inverse temperature, and beyond, against epsilon."""
    g, code, epsilon = instance(case).geometry, code_of(case), case["epsilon"]
    gamma = closed_form_inverse_temperature(g, code, epsilon)
    worst = max(error_bound(g, code, factor * gamma) for factor in (1, 1.1, 2, 10, 1000))
    return Measured(worst, epsilon)


def accuracies(run: Run) -> Iterator[Case]:
    for k, d, n in ((2, 2, 5), (6, 4, 24), (25, 4, 60), (100, 4, 200)):
        for family in ("separated", "mixture"):
            for draw in range(run.count(5)):
                seed = run.stream("finite-gamma", "formula", family, str(draw))
                for code in CODES:
                    for exponent in (1, 3, 6, 12):
                        yield Case(
                            family=family,
                            k=k,
                            d=d,
                            n=n,
                            seed=seed,
                            code=code,
                            epsilon=10.0**-exponent,
                        )


def any_input(run: Run) -> Iterator[Case]:
    """Every seventh of the small instances, ties, empty clusters and equal centers included."""
    grids = growing_grids(
        1, 4, 3, 2, codes=("binary", "one_hot", "scalar"), steps=3, distinct_centers=False
    )
    stride = max(1, round(14 / run.profile.factor))
    for i, case in enumerate(grids):
        if i % stride == 0 and len(case["C"]) > 1:
            for reembed in (False, True):
                yield Case(**{**case, "reembed": reembed})


def approach(case: Case) -> Measured:
    """Distance from the layers at infinite inverse temperature, against half the rate that the
    smallest gap of scores sets: exp(-g c / 2), at g c = 80."""
    X, C, table = case["X"], case["C"], code_table(case["code"], len(case["C"]))
    gap = smallest_gap(X, C, table, case["steps"])
    gamma = float(80 / gap) * math.sqrt(len(X[0]) + len(table[0]))
    want = oracle.closed_form(X, C, table, case["steps"])
    centers = balls.transformer(X, C, table, gamma, case["steps"], case["reembed"], bits=400)
    low, high = balls.farthest(centers, want)
    return Measured((low + high) / 2, math.exp(-40), error=(high - low) / 2)
