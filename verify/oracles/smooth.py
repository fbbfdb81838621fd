"""Smooth formulas in ball arithmetic: the entropic surrogate, tasks, and the trained transformer.

Every number is a ball that is certain to contain the true value (see `verify.oracles.balls`). The
smallest of some balls is taken by their midpoints: the callers use inputs whose balls are apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flint import arb, ctx

from verify.oracles.balls import Table, _attend, _ball, _combine, _table

_BITS = 160


def attention(queries: Any, keys: Any, values: Any, inverse_temperature: Any) -> Table:
    """Softmax attention by negative squared distance, (m, v) balls.

    queries (m, p), keys (n, p) and values (n, v) are nested lists of rationals or floats; the
    scores are scaled by 1/sqrt(p).
    """
    with ctx.workprec(_BITS):
        sharpness = _ball(inverse_temperature) / arb(len(queries[0])).sqrt()
        return _attend(_table(queries), _table(keys), _table(values), sharpness)


def entropic(r: Any, tau: Any) -> tuple[list[Any], Any]:
    """Softmax weights of -r / tau, and the surrogate that they make of r (k,)."""
    with ctx.workprec(_BITS):
        low = min(r)
        excess = [_ball(v) - _ball(low) for v in r]
        weights = [(-e / _ball(tau)).exp() for e in excess]
        total = sum(weights, arb(0))
        weights = [w / total for w in weights]
        gap = sum((w * e for w, e in zip(weights, excess, strict=True)), arb(0))
        return weights, _ball(low) + gap


def task(
    family: str,
    places: Any,
    members: list[int],
    noise: Any,
    widths: Any,
    scale: Any,
    scaling: str,
) -> tuple[Table, Table]:
    """Points of a mixture (n, d) before and after they are scaled into the unit cube.

    Parameters
    ----------
    places, widths : (k, d) centers and relative widths of the components
    members : the component of each point
    noise : (n, d) standard normal for normal and lognormal families, else uniform in (0, 1)
    scale : of all components
    scaling : "per-dimension" or "common"
    """
    with ctx.workprec(_BITS):
        points = []
        for j, row in zip(members, noise, strict=True):
            point = []
            for place, wide, z in zip(places[j], widths[j], row, strict=True):
                spread = _ball(scale) * _ball(wide) * _standard(family, _ball(z))
                x = _ball(place) + spread
                point.append(x.exp() if family == "lognormal" else x)
            points.append(point)
        columns = list(zip(*points, strict=True))
        lows = [min(c, key=lambda x: float(x.mid())) for c in columns]
        highs = [max(c, key=lambda x: float(x.mid())) for c in columns]
        extents = [high - low for low, high in zip(lows, highs, strict=True)]
        if scaling == "common":
            extents = [max(extents, key=lambda x: float(x.mid()))] * len(extents)
        scaled = [
            [(x - low) / extent for x, low, extent in zip(p, lows, extents, strict=True)]
            for p in points
        ]
        return points, scaled


def trained(
    parameters: Mapping[str, Any], X: Any, C: Any, codes: Any, inverse_temperature: Any
) -> Table:
    """Centers (k, d) after one layer of the transformer with any parameters.

    `parameters` holds matrices "module.role" (D, D) and biases "module.role_bias" (D,); X (n, d),
    C (k, d) and codes (k, p) are nested lists, and D = d + p.
    """
    with ctx.workprec(_BITS):
        blank = [0] * len(codes[0])
        points = [[*row, *blank] for row in _table(X)]
        centers = [[*row, *mark] for row, mark in zip(_table(C), _table(codes), strict=True)]
        points, centers = _table(points), _table(centers)
        sharpness = _ball(inverse_temperature) / arb(len(points[0])).sqrt()

        def module(name: str, tokens: Table, others: Table) -> Table:
            q, k, v = (
                [_affine(parameters, f"{name}.{role}", row) for row in rows]
                for role, rows in (("query", tokens), ("key", others), ("value", others))
            )
            return _attend(q, k, v, sharpness)

        cross, own = (
            module("points_from_centers", points, centers),
            module("points_from_points", points, points),
        )
        points = _combine(_combine(points, cross, 1), own, 1)
        cross, own = (
            module("centers_from_points", centers, points),
            module("centers_from_centers", centers, centers),
        )
        centers = _combine(_combine(centers, cross, 1), own, 1)
        return [row[: len(X[0])] for row in centers]


def _affine(parameters: Mapping[str, Any], name: str, row: list[Any]) -> list[Any]:
    biases = parameters[f"{name}_bias"]
    return [
        sum((_ball(w) * x for w, x in zip(weights, row, strict=True)), _ball(bias))
        for weights, bias in zip(parameters[name], biases, strict=True)
    ]


def _standard(family: str, noise: Any) -> Any:
    """The quantile function of a family; noise itself where that is normal."""
    if family == "gumbel":
        return -(-noise.log()).log()
    if family == "cauchy":
        return -(arb.pi() * noise).cot()
    if family == "laplace":
        half = noise if noise < arb(1) / 2 else 1 - noise
        size = -(2 * half).log()
        return -size if noise < arb(1) / 2 else size
    return noise
