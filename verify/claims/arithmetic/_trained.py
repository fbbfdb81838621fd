"""The trained transformer's forward pass, and gradients that have an exact rational value."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from constructions import LloydTransformer, surrogate, surrogate_weights
from constructions.codes import code as make_code
from constructions.objective import smoothed_loss
from constructions.trainable import MODULES, ROLES, TrainableTransformer, from_matrices
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
    in_full_torch,
    in_torch,
    short,
)
from verify.claims.arithmetic._tasks import sparse_exact, sparse_general
from verify.oracles import clustering, smooth, surrogates

SHARP = 1536.0
"""With 4 or 2 entries a token, exp(-SHARP / 2) is 0 in every type, and no score overflows one."""

# --- the forward pass ----------------------------------------------------------------------------


@cache
def _model(d: int, k: int, gamma: float, bias: bool) -> TrainableTransformer:
    return TrainableTransformer(d, k, "binary", gamma, bias)


def _parameters(case: Case) -> dict[str, Any]:
    """The matrices and biases of a case, nested lists by name; of the hand-built transformer where
    the case has none."""
    if "matrices" in case:
        matrices, biases = iter(case["matrices"]), iter(case["biases"])
        named: dict[str, Any] = {}
        for module in MODULES:
            for role in ROLES:
                named[f"{module}.{role}"] = next(matrices)
                named[f"{module}.{role}_bias"] = next(biases)
        return named
    built = LloydTransformer(len(case["X"][0]), len(case["C"]), "binary")
    return {name: matrix.tolist() for name, matrix in from_matrices(built.matrices).items()}


def _forward(arithmetic: Arithmetic, case: Case) -> Outputs:
    model = _model(len(case["X"][0]), len(case["C"]), float(case["gamma"]), "matrices" in case)
    parameters = {name: arithmetic.put(table) for name, table in _parameters(case).items()}
    return {"centers": model(parameters, arithmetic.put(case["X"]), arithmetic.put(case["C"]))}


def _exact_forward(rng: Generator) -> Case:
    """Small integers, no ties, and clusters of 1, 2 or 4 points."""
    while True:
        d = k = int(rng.integers(1, 3))
        X = grid(rng, (k + int(rng.integers(0, 4)), d), 3, 1.0)
        case = Case(X=X, C=X[:k], gamma=SHARP)
        rows, centers = fractions(case["X"]), fractions(case["C"])
        labels = [clustering.nearest(x, centers) for x in rows]
        sizes = [sum(js == [j] for js in labels) for j in range(k)]
        if sum(sizes) == len(X) and all(size in (1, 2, 4) for size in sizes):
            return case


def _general_forward(rng: Generator) -> Case:
    """Numbers that bfloat16 holds."""
    d, k, n = 2, 3, 6
    width = d + make_code("binary", k).width
    return Case(
        X=rng.integers(0, 65, (n, d)) / 64,
        C=rng.integers(0, 65, (k, d)) / 64,
        gamma=float(rng.choice((0.25, 1.0))),
        matrices=rng.integers(-32, 33, (12, width, width)) / 64,
        biases=rng.integers(-32, 33, (12, width)) / 64,
    )


def _forward_truth(case: Case) -> Outputs:
    X, C = fractions(case["X"]), fractions(case["C"])
    if "matrices" not in case:
        return {"centers": clustering.lloyd(X, C)}
    codes = make_code("binary", len(C)).table.tolist()
    return {"centers": smooth.trained(_parameters(case), X, C, codes, case["gamma"])}


def _forward_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    """Value and error of every token, carried through the layer line by line."""
    parameters = {name: floats(table) for name, table in _parameters(case).items()}
    X, C = floats(case["X"]), floats(case["C"])
    codes = make_code("binary", len(C)).table.astype(np.float64)
    points = np.concatenate([X, np.zeros((len(X), codes.shape[1]))], axis=-1)
    centers = np.concatenate([C, codes], axis=-1)
    width = points.shape[-1]
    sharpness = case["gamma"] / math.sqrt(width)
    Pair = tuple[Any, Any]

    def affine(name: str, tokens: Pair) -> Pair:
        W, (z, off) = parameters[name], tokens
        bias = parameters.get(f"{name}_bias", np.zeros(width))
        size = (abs(z) + off) @ abs(W).T + abs(bias)
        return z @ W.T + bias, off @ abs(W).T + unit.rounding(width + 1, size)

    def module(name: str, tokens: Pair, others: Pair) -> Pair:
        (q, dq), (k, dk), (v, dv) = (
            affine(f"{name}.{role}", rows)
            for role, rows in zip(ROLES, (tokens, others, others), strict=True)
        )
        r = _bounds.distances(q, k)
        away = dq[:, None] + dk[None]
        shift = (2 * abs(q[:, None] - k[None]) * away + away**2).sum(-1)
        # a difference counts twice in its square, which is rounded and summed
        size = (abs(q[:, None] - k[None]) + away) ** 2
        shift = shift + unit.rounding(width + 2, size.sum(-1))
        score = sharpness * r
        moved = sharpness * shift + unit.rounding(3, score + sharpness * shift)
        excess = score - score.min(-1, keepdims=True)
        moved = moved + unit.rounding(1, excess + 2 * moved.max())
        a = np.exp(-excess)
        a /= a.sum(-1, keepdims=True)
        return a @ v, _bounds.averaged(a, moved, v, unit, dv)

    def added(*terms: Pair) -> Pair:
        off = sum(error for _, error in terms)
        size = sum(abs(value) for value, _ in terms)
        return sum(value for value, _ in terms), off + unit.rounding(len(terms) - 1, size + off)

    old: Pair = (points, np.zeros_like(points))
    own: Pair = (centers, np.zeros_like(centers))
    new = added(
        old, module("points_from_centers", old, own), module("points_from_points", old, old)
    )
    _, error = added(
        own, module("centers_from_points", own, new), module("centers_from_centers", own, own)
    )
    return {"centers": _bounds.up(error[:, : X.shape[1]])}


# --- gradients -----------------------------------------------------------------------------------


def _slopes(row: list[Fraction], tau: Fraction) -> list[Fraction]:
    """The gradient of the L2 surrogate: 2 P - 1/s on the support of s entries."""
    p = surrogates.sparsemax(row, tau)
    size = sum(v > 0 for v in p)
    return [2 * v - Fraction(1, size) if v > 0 else Fraction(0) for v in p]


def _surrogate_slope(arithmetic: Arithmetic, case: Case) -> Outputs:
    torch = import_module("torch")
    found = {}
    for name in ("value", "weights"):
        r = arithmetic.put(case["r"]).requires_grad_()
        if name == "value":
            total = surrogate(r, case["tau"], "l2").sum()
        else:
            p = surrogate_weights(r, case["tau"], "l2")
            total = (p * arithmetic.put(case["direction"])).sum()
        (found[name],) = torch.autograd.grad(total, r)
    return found


def _with_direction(draw: Any) -> Any:
    """A case and whole numbers that its weights are multiplied by."""

    def drawn(rng: Generator) -> Case:
        case = draw(rng)
        return Case(**case, direction=rng.integers(-8, 9, np.shape(case["r"])))

    return drawn


def _surrogate_slope_truth(case: Case) -> Outputs:
    tau, rows, directions = Fraction(case["tau"]), fractions(case["r"]), case["direction"]
    single = not isinstance(rows[0], list)
    slopes, moves = [], []
    for row, v in zip(*(([rows], [directions]) if single else (rows, directions)), strict=True):
        slopes.append(_slopes(row, tau))
        inside = [p > 0 for p in surrogates.sparsemax(row, tau)]
        mean = Fraction(sum(x for x, i in zip(v, inside, strict=True) if i), sum(inside))
        moves.append(
            [-(x - mean) / tau if i else Fraction(0) for x, i in zip(v, inside, strict=True)]
        )
    if single:
        return {"value": slopes[0], "weights": moves[0]}
    return {"value": slopes, "weights": moves}


def _support_gap(r: Any, tau: float) -> Any:
    """How far the entry nearest to the threshold is from it, in each row."""
    rows = np.atleast_2d(r)
    p = np.array(
        [
            [float(v) for v in surrogates.sparsemax(fractions(x.tolist()), Fraction(tau))]
            for x in rows
        ]
    )
    u = (rows - rows.min(-1, keepdims=True)) / tau
    threshold = ((p + u) * (p > 0)).max(-1, keepdims=True)
    return abs(threshold - u).min(-1)


def _surrogate_slope_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    r, v, tau = floats(case["r"]), floats(case["direction"]), float(case["tau"])
    k = r.shape[-1]
    sure = _support_gap(r, tau) > unit.rounding(k + 6, 1.0) * (1 + 1e-9)
    lost = np.where(sure, 0.0, np.inf).reshape(r.shape[:-1])[..., None]
    # the weights' gradient passes through r - min r, which returns the sum of all to the minimum
    size = (abs(v) + abs(v).max(-1, keepdims=True)).sum(-1, keepdims=True) / tau
    value = np.full(r.shape, unit.rounding(2 * k + 16, 1.0))
    weights = np.broadcast_to(unit.rounding(2 * k + 8, size), r.shape)
    return {"value": _bounds.up(value) + lost, "weights": _bounds.up(weights) + lost}


def _loss_slope(arithmetic: Arithmetic, case: Case) -> Outputs:
    torch = import_module("torch")
    X, C = (arithmetic.put(case[name]).mT[None, None] for name in ("X", "C"))
    C = C.clone().requires_grad_()
    tau = torch.tensor([float(case["tau"])], dtype=torch.float64)
    (found,) = torch.autograd.grad(smoothed_loss(X, C, tau, ("l2",)).sum(), C)
    return {"centers": found[0, 0].mT}


def _exact_loss(rng: Generator) -> Case:
    """At a temperature so low that this is the gradient of the k-means loss, ties shared; 4 or 8
    points, at most two nearest centers each."""
    while True:
        d, k, n = int(rng.integers(1, 4)), int(rng.integers(1, 5)), 2 ** int(rng.integers(2, 4))
        case = Case(X=grid(rng, (n, d), 8, 0.25), C=grid(rng, (k, d), 8, 0.25), tau=2.0**-6)
        near = [clustering.nearest(x, fractions(case["C"])) for x in fractions(case["X"])]
        if max(map(len, near)) <= 2:
            return case


def _general_loss(rng: Generator) -> Case:
    d, k, n = 3, int(rng.integers(2, 5)), 6
    tau = float(rng.choice((0.125, 1.0)))
    return Case(X=short(rng, (n, d)), C=short(rng, (k, d)), tau=tau)


def _distances(case: Case) -> list[list[Fraction]]:
    X, C = fractions(case["X"]), fractions(case["C"])
    return [[clustering.squared_distance(x, c) for c in C] for x in X]


def _loss_slope_truth(case: Case) -> Outputs:
    X, C = fractions(case["X"]), fractions(case["C"])
    slopes = [_slopes(row, Fraction(case["tau"])) for row in _distances(case)]
    return {
        "centers": [
            [
                sum((g[j] * 2 * (c - x[a]) for g, x in zip(slopes, X, strict=True)), Fraction(0))
                / len(X)
                for a, c in enumerate(center)
            ]
            for j, center in enumerate(C)
        ]
    }


def _loss_slope_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    X, C, tau = floats(case["X"]), floats(case["C"]), float(case["tau"])
    (n, d), k = X.shape, len(C)
    r = floats(_distances(case))
    size = ((abs(X)[:, None] + abs(C)[None]) ** 2).sum(-1)
    moved = 2 * unit.rounding(d + 3, size).max(-1) / tau + unit.rounding(k + 6, 1.0)
    sure = _support_gap(r, tau) > moved * (1 + 1e-9)
    # of one entry of the gradient in r, which is P - (u - mean u) on the support
    slope = 3 * moved + unit.rounding(4, 2.0)
    G = abs(floats([_slopes(row, Fraction(case["tau"])) for row in _distances(case)]))
    reach = abs(C)[None] + abs(X)[:, None]  # (n, k, d)
    grown = (G + slope[:, None])[..., None] * reach
    total = (slope[:, None, None] * reach).sum(0) + unit.rounding(n + 5, grown.sum(0))
    return {"centers": _bounds.up(2 / n * total) + (0.0 if np.all(sure) else np.inf)}


TRAINED = (
    Operation(
        "trainable forward pass",
        _forward,
        _forward_truth,
        _forward_bound,
        _exact_forward,
        _general_forward,
        in_torch,
    ),
    Operation(
        "gradient of the L2 surrogate",
        _surrogate_slope,
        _surrogate_slope_truth,
        _surrogate_slope_bound,
        _with_direction(sparse_exact),
        _with_direction(sparse_general),
        in_full_torch,
    ),
    Operation(
        "gradient of the smoothed loss",
        _loss_slope,
        _loss_slope_truth,
        _loss_slope_bound,
        _exact_loss,
        _general_loss,
        in_full_torch,
    ),
)
