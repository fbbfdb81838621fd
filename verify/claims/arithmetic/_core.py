"""Attention, the Lloyd step and the exact transformer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from constructions import LloydTransformer, lloyd_step
from constructions.arrays import checked
from constructions.attention import attend
from verify.arithmetic import Arithmetic
from verify.claim import Case
from verify.claims.arithmetic import _bounds
from verify.claims.arithmetic._bounds import Unit
from verify.claims.arithmetic._operation import (
    Generator,
    Operation,
    Outputs,
    floats,
    fractions,
    grid,
    in_floats,
    short,
)
from verify.oracles import clustering, smooth

SHIFTS = (0.0, 2.0**14, 2.0**14, 2.0**40)
"""Where the exact inputs lie, at random. At 2^14 squares of coordinates need more digits than
float32 has, and at 2^40 more than float64 has, while all differences are exact."""
FAR = 1e6  # inverse temperature at which every weight but those of the nearest keys is 0


def _attend(arithmetic: Arithmetic, case: Case) -> Outputs:
    system, (q, k, v) = checked(**{name: arithmetic.put(case[name]) for name in ("q", "k", "v")})
    gamma = float(case["gamma"]) if "gamma" in case else math.inf
    return {"average": attend(q, k, v, gamma, system)}


def _place(rng: Generator) -> tuple[float, int]:
    """Where to put an exact input, and how many binary digits that takes."""
    shift = float(rng.choice(SHIFTS))
    return shift, 53 if shift > 2.0**20 else 24


# --- softmax attention ---------------------------------------------------------------------------


def _exact_softmax(rng: Generator) -> Case:
    """Keys that are all equally far from each query, so that every weight is a power of two; or so
    sharp a softmax that it is 0 and powers of two."""
    p, (shift, digits) = int(rng.integers(1, 4)), _place(rng)
    if rng.random() < 0.5:
        corners = np.array(list(np.ndindex((2,) * p))) * 2.0 - 1
        k, gamma = corners * int(rng.integers(1, 4)) / 4 + shift, float(rng.integers(1, 40)) / 4
        q = np.full((2, p), shift)
    else:
        k = np.unique(grid(rng, (5, p), 4, 0.25, shift), axis=0)
        q, k, gamma = k, np.repeat(k, 2 ** int(rng.integers(0, 3)), axis=0), FAR
    v = grid(rng, (len(k), 2), 40, 0.25)
    return Case(q=q, k=k, v=v, gamma=gamma, digits=digits)


def _general_softmax(rng: Generator) -> Case:
    p, n = int(rng.integers(1, 6)), int(rng.integers(2, 14))
    shift = float(rng.choice((0.0, 0.0, 8.0)))
    q, k = (short(rng, (m, p), shift, shift + 1) for m in (3, n))
    return Case(q=q, k=k, v=short(rng, (n, 2), -1), gamma=float(rng.choice((0.5, 4.0, 30.0))))


def _soft_truth(case: Case) -> Outputs:
    q, k, v = (fractions(case[name]) for name in ("q", "k", "v"))
    r = [[clustering.squared_distance(a, b) for b in k] for a in q]
    low = [min(row) for row in r]
    sharpness = case["gamma"] / 3  # or sharper, for p <= 9
    if all(x == low[i] or (x - low[i]) * sharpness > 800 for i, row in enumerate(r) for x in row):
        # a weight below exp(-800) is 0 in every float type, and no rounded average can tell
        return {"average": clustering.averaging_attention(q, k, v)}
    return {"average": smooth.attention(q, k, v, case["gamma"])}


def _soft_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    q, k, v = (floats(case[name]) for name in ("q", "k", "v"))
    p, r = q.shape[-1], _bounds.distances(q, k)
    sharpness, low = case["gamma"] / math.sqrt(p), r.min(-1, keepdims=True)
    a = np.exp(-sharpness * (r - low))
    a /= a.sum(-1, keepdims=True)
    moved = sharpness * unit.rounding(p + 7, r + low)
    return {"average": _bounds.averaged(a, moved, v, unit)}


# --- hardmax attention ---------------------------------------------------------------------------


def _exact_hardmax(rng: Generator) -> Case:
    p, (shift, digits) = int(rng.integers(1, 4)), _place(rng)
    q, k = (grid(rng, (m, p), 3, 0.25, shift) for m in (6, 8))
    return Case(q=q, k=k, v=grid(rng, (8, 2), 40, 0.25), digits=digits)


def _general_hardmax(rng: Generator) -> Case:
    """Some keys are equal, so that there is something to average; some nearly tie."""
    p = int(rng.integers(1, 6))
    q, k = short(rng, (5, p)), short(rng, (6, p))
    if rng.random() < 0.3:
        q[0], k[0], k[1] = 0, 0, 0
        k[0, 0], k[1, 0] = 2.0**-7, 2.0**-7 + 2.0**-30
    k = np.concatenate([k, k[rng.integers(0, 6, 7)]])
    return Case(q=q, k=k, v=short(rng, (len(k), 2), -1))


def _hard_truth(case: Case) -> Outputs:
    q, k, v = (fractions(case[name]) for name in ("q", "k", "v"))
    return {"average": clustering.averaging_attention(q, k, v)}


def _twins(near: list[list[int]], keys: Any) -> Any:
    """Which keys (n, p) are equal to the first of the nearest ones, a row a query: (m, n)."""
    return np.array([np.all(keys == keys[js[0]], axis=-1) for js in near])


def _hard_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    q, k, v = (floats(case[name]) for name in ("q", "k", "v"))
    near = [clustering.nearest(x, fractions(case["k"])) for x in fractions(case["q"])]
    same = _twins(near, k)
    sure = _bounds.decided(_bounds.distances(q, k), _bounds.distance_error(q, k, unit), same)
    rows = [
        _bounds.mean_error(v[js], unit) if sure[i] else np.full(v.shape[1], np.inf)
        for i, js in enumerate(near)
    ]
    return {"average": np.array(rows)}


# --- Lloyd's step and the transformer ------------------------------------------------------------


def _path(case: Case) -> list[Any] | None:
    """The centers after every step; None if a step has a tie or an empty cluster, where the
    transformer does something else than Lloyd's algorithm."""
    X, centers = fractions(case["X"]), [fractions(case["C"])]
    for _ in range(case["steps"]):
        if clustering.tied_points(X, centers[-1]) or clustering.empty_clusters(X, centers[-1]):
            return None
        centers.append(clustering.lloyd(X, centers[-1]))
    return centers


def _exact_clusters(rng: Generator) -> Case:
    """Points whose clusters have means on a dyadic grid at every step."""
    while True:
        d, k, (shift, digits) = int(rng.integers(1, 4)), int(rng.integers(1, 5)), _place(rng)
        X = grid(rng, (2 * k + int(rng.integers(0, 5)), d), 8, 0.25, shift)
        code = str(rng.choice(("binary", "one_hot", "scalar")))
        case = Case(X=X, C=X[:k], code=code, steps=3, digits=digits)
        path = _path(case)
        if path and max(v.denominator for C in path for row in C for v in row) <= 64:
            return case


def _exact_step(rng: Generator) -> Case:
    """Ties and empty clusters included: every sum is exact, and a mean is rounded once."""
    d, k, (shift, digits) = int(rng.integers(1, 4)), int(rng.integers(1, 6)), _place(rng)
    X = grid(rng, (k + int(rng.integers(0, 9)), d), 4, 0.25, shift)
    return Case(X=X, C=X[rng.permutation(len(X))[:k]], digits=digits)


def _general_clusters(rng: Generator) -> Case:
    while True:
        d, k = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        X = short(rng, (4 * k + 3, d))
        if rng.random() < 0.3 and k > 1:  # a point that nearly ties, undecidable in float32
            X[[0, 1, -1]] = 0
            X[0, 0], X[1, 0] = 2.0**-7, -(2.0**-7) - 2.0**-30
        case = Case(X=X, C=X[:k], code="binary", steps=2)
        if _path(case):
            return case


def _step(arithmetic: Arithmetic, case: Case) -> Outputs:
    step = lloyd_step(arithmetic.put(case["X"]), arithmetic.put(case["C"]), empty="keep")
    return {"centers": step.centers, "assignments": step.assignments}


def _step_truth(case: Case) -> Outputs:
    X, C = fractions(case["X"]), fractions(case["C"])
    labels = [clustering.nearest(x, C)[0] for x in X]
    return {"centers": clustering.lloyd(X, C), "assignments": labels}


def _transform(arithmetic: Arithmetic, case: Case) -> Outputs:
    X, C = arithmetic.put(case["X"]), arithmetic.put(case["C"])
    model = LloydTransformer(len(case["X"][0]), len(case["C"]), case["code"])
    return {
        "closed form": model(X, C, case["steps"]),
        "all matrices": model(X, C, case["steps"], literal=True),
    }


def _transform_truth(case: Case) -> Outputs:
    centers = clustering.lloyd(fractions(case["X"]), fractions(case["C"]), case["steps"])
    return {"closed form": centers, "all matrices": centers}


def _mean_bound(case: Case, unit: Unit, steps: int) -> tuple[Any, Any]:
    """Bounds of the centers after some steps, and of the assignments in the last one.

    A center depends on the points and the assignments alone, so errors do not add up over steps;
    they only make the next decision harder.
    """
    X, C = fractions(case["X"]), fractions(case["C"])
    points, moved = floats(X), np.zeros((len(C), len(X[0])))
    sure = np.ones(len(X), dtype=bool)
    for _ in range(steps):
        near = [clustering.nearest(x, C) for x in X]
        centers = floats(C)
        error = _bounds.distance_error(points, centers, unit, moved)
        same = _twins(near, centers)
        if np.any(moved):  # by different amounts: nothing ties any more
            same &= np.arange(len(C)) == same.argmax(-1)[:, None]
        sure &= _bounds.decided(_bounds.distances(points, centers), error, same)
        labels = np.array([js[0] for js in near])
        moved = np.array(
            [
                _bounds.mean_error(points[labels == j], unit) if np.any(labels == j) else moved[j]
                for j in range(len(C))
            ]
        )
        C = clustering.lloyd(X, C)
    return (moved if np.all(sure) else moved + np.inf), np.where(sure, 0.0, np.inf)


def _step_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    centers, assignments = _mean_bound(case, unit, 1)
    return {"centers": centers, "assignments": assignments}


def _transform_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    centers, _ = _mean_bound(case, unit, case["steps"])
    return {"closed form": centers, "all matrices": centers}


def _step_case(rng: Generator) -> Case:
    case = _general_clusters(rng)
    return Case(X=case["X"], C=case["C"])


CORE = (
    Operation(
        "softmax attention",
        _attend,
        _soft_truth,
        _soft_bound,
        _exact_softmax,
        _general_softmax,
        in_floats,
    ),
    Operation(
        "hardmax attention", _attend, _hard_truth, _hard_bound, _exact_hardmax, _general_hardmax
    ),
    Operation("Lloyd step", _step, _step_truth, _step_bound, _exact_step, _step_case),
    Operation(
        "exact transformer",
        _transform,
        _transform_truth,
        _transform_bound,
        _exact_clusters,
        _general_clusters,
    ),
)
