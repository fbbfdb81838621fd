"""Surrogates, their weights and gradients; and tasks from given random numbers."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from constructions import surrogate, surrogate_weights
from constructions.tasks import FAMILIES, GAUSSIAN, Draws, TaskDistribution, scale_to_unit_cube
from verify.arithmetic import Arithmetic
from verify.claim import Case
from verify.claims.arithmetic import _bounds
from verify.claims.arithmetic._bounds import Unit
from verify.claims.arithmetic._operation import (
    Generator,
    Operation,
    Outputs,
    everywhere,
    floats,
    fractions,
    in_floats,
    short,
)
from verify.oracles import smooth, surrogates

# --- surrogates ----------------------------------------------------------------------------------


def _surrogate(arithmetic: Arithmetic, case: Case) -> Outputs:
    r, tau, name = arithmetic.put(case["r"]), Fraction(case["tau"]), case["regularizer"]
    p = surrogate_weights(r, tau, name)
    return {"value": surrogate(r, tau, name), "weights": p, "support": p > 0}


def sparse_exact(rng: Generator) -> Case:
    """Weights with 1, 2, 4 or 8 multiples of 1/64, and the r they belong to: 1 - P on the support,
    and at least 1 elsewhere; times a power of two."""
    k = int(rng.integers(1, 13))
    size = 2 ** int(rng.integers(0, k.bit_length()))
    p = np.zeros(k)
    p[:size] = (1 + rng.multinomial(64 - size, np.ones(size) / size)) / 64
    r = 1 - p + (p == 0) * rng.integers(0, 3, k) / 8
    tau = 2.0 ** int(rng.integers(-3, 4))
    return Case(r=rng.permutation(r) * tau, tau=tau, regularizer="l2")


def sparse_general(rng: Generator) -> Case:
    k = int(rng.integers(2, 13))
    r = short(rng, (2, k), 0, rng.choice((1, 4)))
    if rng.random() < 0.25:  # the second entry is next to its threshold
        r[0, :2] = 0.5, 0.5 + 2.0**-2 * (1 - 2.0**-21)
        r[0, 2:] = 4
        return Case(r=r, tau=0.25, regularizer="l2")
    return Case(r=r, tau=float(rng.choice((0.25, 1.0))), regularizer="l2")


def _sparse_truth(case: Case) -> Outputs:
    tau, rows = Fraction(case["tau"]), fractions(case["r"])
    single = not isinstance(rows[0], list)
    rows = [rows] if single else rows
    weights = [surrogates.sparsemax(row, tau) for row in rows]
    found: dict[str, Any] = {
        "value": [surrogates.surrogate(row, tau) for row in rows],
        "weights": weights,
        "support": [[int(p > 0) for p in row] for row in weights],
    }
    return {name: v[0] for name, v in found.items()} if single else found


def _sparse_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    r, p, tau = floats(case["r"]), floats(truth["weights"]), float(case["tau"])
    excess, k = r - r.min(-1, keepdims=True), r.shape[-1]
    off = unit.rounding(k + 6, 1.0)
    gap = (p * excess).sum(-1)
    near = np.where(excess <= tau * (1 + 2 * off), excess, 0).sum(-1)
    value = off * near + unit.rounding(k + 2, gap) + unit.rounding(1, abs(floats(truth["value"])))
    # how far each entry is from entering or leaving the support
    threshold = ((p + excess / tau) * (p > 0)).max(-1, keepdims=True)
    sure = abs(threshold - excess / tau) > _bounds.up(off)
    return {
        "value": _bounds.up(value),
        "weights": _bounds.up(np.full(r.shape, off)),
        "support": np.where(sure, 0.0, np.inf),
    }


def _entropic_exact(rng: Generator) -> Case:
    """A power of two of minima, and the rest so high that its weights are 0."""
    m, rest = 2 ** int(rng.integers(0, 4)), int(rng.integers(0, 4))
    tau = 2.0 ** int(rng.integers(-12, -7))
    r = np.concatenate([np.zeros(m), rng.integers(16, 64, rest) / 4]) + rng.integers(0, 9) / 4
    return Case(r=rng.permutation(r), tau=tau, regularizer="ne")


def _entropic_general(rng: Generator) -> Case:
    k = int(rng.integers(2, 13))
    tau = float(rng.choice((0.125, 1.0, 8.0)))
    return Case(r=short(rng, (k,), 0, rng.choice((1, 4))), tau=tau, regularizer="ne")


def _entropic_truth(case: Case) -> Outputs:
    r = fractions(case["r"])
    low = min(r)
    if all(v == low or (v - low) / Fraction(case["tau"]) > 800 for v in r):
        share = Fraction(1, r.count(low))
        weights: Any = [share if v == low else Fraction(0) for v in r]
        return {"value": low, "weights": weights, "support": [int(v == low) for v in r]}
    weights, value = smooth.entropic(case["r"], case["tau"])
    return {"value": value, "weights": weights, "support": [1] * len(r)}


def _entropic_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    p, r = floats(truth["weights"]), floats(case["r"])
    excess, k = r - r.min(), len(r)
    moved = unit.rounding(3, excess / float(case["tau"]))
    gap = _bounds.averaged(p[None], moved[None], excess[:, None], unit)[0, 0]
    omega = np.expm1(moved) + _bounds.FUNCTION * unit.u * np.exp(moved)
    drift = (p * omega).sum()
    off = (p * (omega + drift) + unit.rounding(k + 1, p * (1 + omega))) / (1 - drift)
    return {
        "value": _bounds.up(gap + unit.rounding(1, abs(float(floats(truth["value"]))))),
        "weights": _bounds.up(off),
        "support": np.zeros(k),
    }


# --- tasks ---------------------------------------------------------------------------------------


def _draw(rng: Generator, families: tuple[str, ...], exact: bool) -> Case:
    n, d, k = 8, 2, 3

    def uniform(*shape: int) -> Any:
        if exact:
            return rng.integers(1, 16, shape) / 16
        return (rng.integers(2**12, size=shape) + 0.5) * 2.0**-12

    return Case(
        families=" ".join(families),
        scaling=str(rng.choice(("per-dimension", "common"))),
        scale=0.25,
        places=uniform(k, d),
        members=uniform(n),
        noise=uniform(n, d),
        widths=uniform(k, d),
        shares=uniform(k),
    )


def _noise(case: Case, family: str) -> Any:
    """Uniform in (0, 1), or in (-2, 2) where the family takes normal numbers: (n, d)."""
    uniform = np.asarray(case["noise"])
    return 4 * uniform - 2 if family in GAUSSIAN else uniform


def _task(arithmetic: Arithmetic, case: Case) -> Outputs:
    named = ("places", "members", "widths", "shares")
    given = {name: arithmetic.put([case[name]]) for name in named}
    (n, d), k = np.shape(case["noise"]), len(case["places"])
    found = {}
    for name in case["families"].split():
        draws = Draws(noise=arithmetic.put(_noise(case, name)[None]), **given)
        family = TaskDistribution(name, n, d, k, case["scale"], False, False, case["scaling"])
        X = family.assemble(draws)
        found[f"{name} points"] = X[0, ...]
        found[f"{name} task"] = scale_to_unit_cube(X, scaling=case["scaling"])[0, ...]
        found["components"] = family.components(draws)[0, ...]
    return found


def _components(case: Case) -> tuple[list[int], Any]:
    """The component of each point, and how far its uniform is from the next limit, relatively."""
    shares = fractions(case["shares"])
    limits = [sum(shares[: j + 1], Fraction(0)) / sum(shares) for j in range(len(shares) - 1)]
    members = fractions(case["members"])
    gaps = [min(abs(u - limit) / limit for limit in limits) for u in members]
    return [sum(u >= limit for limit in limits) for u in members], gaps


def _task_truth(case: Case) -> Outputs:
    members, _ = _components(case)
    truth: dict[str, Any] = {"components": members}
    for family in case["families"].split():
        noise = _noise(case, family).tolist()
        points, scaled = (
            _normal_task(case, members, noise)
            if family == "normal"
            else smooth.task(
                family,
                case["places"],
                members,
                noise,
                case["widths"],
                case["scale"],
                case["scaling"],
            )
        )
        truth |= {f"{family} points": points, f"{family} task": scaled}
    return truth


def _normal_task(case: Case, members: list[int], noise: Any) -> tuple[Any, Any]:
    """In rationals."""
    places, widths, scale = fractions(case["places"]), fractions(case["widths"]), case["scale"]
    X = [
        [m + Fraction(scale) * z * w for m, w, z in zip(places[j], widths[j], row, strict=True)]
        for j, row in zip(members, fractions(noise), strict=True)
    ]
    lows = [min(c) for c in zip(*X, strict=True)]
    extents = [max(c) - min(c) for c in zip(*X, strict=True)]
    if case["scaling"] == "common":
        extents = [max(extents)] * len(extents)
    scaled = [
        [(x - low) / (e or 1) for x, low, e in zip(row, lows, extents, strict=True)] for row in X
    ]
    return X, scaled


def _quantile_error(family: str, noise: Any, unit: Unit) -> Any:
    """Of the standard variate, absolutely."""
    f = _bounds.FUNCTION * unit.u
    if family in GAUSSIAN:
        return 0 * noise
    if family == "laplace":
        return unit.rounding(1, abs(np.log(2 * np.minimum(noise, 1 - noise)))) * _bounds.FUNCTION
    if family == "gumbel":
        return 2 * f + f * abs(np.log(-np.log(noise)))
    x = np.pi * np.minimum(noise, 1 - noise)
    return unit.rounding(3, x / np.sin(x) ** 2) + unit.rounding(
        _bounds.FUNCTION + 1, 1 / abs(np.tan(x))
    )


def _task_bound(case: Case, truth: Outputs, unit: Unit) -> Outputs:
    _, gaps = _components(case)
    sure = np.array([float(g) > unit.gamma(len(case["shares"]) + 1) * (1 + 1e-9) for g in gaps])
    lost = np.where(sure, 0.0, np.inf)
    found = {"components": lost}
    for family in case["families"].split():
        points, scaled = _family_bound(case, truth, unit, family)
        found[f"{family} points"] = points + lost[:, None]
        found[f"{family} task"] = scaled + lost.max()
    return found


def _family_bound(case: Case, truth: Outputs, unit: Unit, family: str) -> tuple[Any, Any]:
    X, Y = floats(truth[f"{family} points"]), floats(truth[f"{family} task"])
    members, noise = truth["components"], _noise(case, family)
    size = float(case["scale"]) * floats(case["widths"])[members]
    argument = np.log(X) if family == "lognormal" else X
    spread = abs(argument - floats(case["places"])[members])
    off = size * _quantile_error(family, noise, unit) * 1.01
    off = off + unit.rounding(3, spread + off) + unit.rounding(1, abs(argument) + off)
    if family == "lognormal":
        off = X * (np.expm1(off) + _bounds.FUNCTION * unit.u * np.exp(off))
    # the extremes of a column are off by no more than its worst entry
    worst = off.max(0)
    extents = X.max(0) - X.min(0)
    if case["scaling"] == "common":
        worst, extents = np.full_like(worst, worst.max()), np.full_like(extents, extents.max())
    least = extents - 2 * worst - unit.rounding(1, extents)
    scaled = (off + worst + 2 * worst * Y) / least + unit.rounding(3, Y) * extents / least
    return _bounds.up(off), _bounds.up(np.where(least > 0, scaled, np.inf))


TASKS = (
    Operation(
        "L2 surrogate",
        _surrogate,
        _sparse_truth,
        _sparse_bound,
        sparse_exact,
        sparse_general,
        everywhere,
    ),
    Operation(
        "entropic surrogate",
        _surrogate,
        _entropic_truth,
        _entropic_bound,
        _entropic_exact,
        _entropic_general,
        in_floats,
    ),
    Operation(
        "tasks",
        _task,
        _task_truth,
        _task_bound,
        partial(_draw, families=("normal",), exact=True),
        partial(_draw, families=FAMILIES, exact=False),
        in_floats,
    ),
)
