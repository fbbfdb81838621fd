"""The gradient of the Moreau envelope of a weakly convex function, between two certified numbers.

The envelope of a rho-weakly convex L with parameter 1/(2 rho) has the gradient 2 rho (x - p), p the
minimizer of F(y) = L(y) + rho |y - x|^2, which is rho-strongly convex. Cutting planes with that
curvature,

    F(y) >= F(y_i) + <v_i, y - y_i> + rho/2 |y - y_i|^2    for a subgradient v_i at y_i,

bound min F from below; any weights on them do, through the dual. A point with F(y) - min F <= gap
is within sqrt(2 gap / rho) of p, and one with a subgradient v within |v| / rho. Proof:
docs/theory/convergence.md, "Rates".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Oracle = Callable[[Any], tuple[Any, Any]]
"""Points (P, D) -> values (P,) and subgradients (P, D)."""

_INNER = 60  # moves of weight for each new cut


class Envelope(NamedTuple):
    """Of P points: the norm of the envelope's gradient is at least `low` and at most `high`.

    `moves` (P, D) lead from the points to where the proximal points were found.
    """

    low: Any
    high: Any
    moves: Any


def envelope(oracle: Oracle, start: Any, rho: float, cuts: int = 20) -> Envelope:
    """Solve P proximal problems side by side, with so many cuts each.

    Parameters
    ----------
    oracle : of a function that is rho-weakly convex around the points
    start : (P, D) the points x
    """
    count, size = start.shape
    z = np.zeros((count, size))  # y - x
    slopes, heights = np.empty((count, 0, size)), np.empty((count, 0))
    weights = np.empty((count, 0))
    top, floor = np.full(count, np.inf), np.full(count, -np.inf)
    near, found = np.full(count, np.inf), np.zeros((count, size))  # certified distance, and move
    best = np.zeros((count, size))
    step = np.zeros((count, size))
    for turn in range(cuts):
        value, g = oracle(start + z)
        value = value + rho * (z * z).sum(-1)
        v = g + 2 * rho * z
        better = value < top
        top = np.where(better, value, top)
        best[better] = z[better]
        reach = np.sqrt((v * v).sum(-1)) / rho
        closer = reach < near
        near = np.where(closer, reach, near)
        found[closer], step[closer] = z[closer], v[closer] / (3 * rho)
        # the cut as rho/2 |z|^2 + height + <slope, z>
        height = value - (v * z).sum(-1) + rho / 2 * (z * z).sum(-1)
        slopes = np.concatenate([slopes, (v - rho * z)[:, None]], axis=1)
        heights = np.concatenate([heights, height[:, None]], axis=1)
        weights = np.concatenate([weights, np.zeros((count, 1))], axis=1)
        if weights.shape[1] == 1:
            weights += 1
        weights, bound = _dual(weights, slopes, heights, rho)
        floor = np.maximum(floor, bound)
        # the minimizer of the cuts, and in turn a gradient step: the one copes with kinks, the
        # other is faster where there are none
        z = found - step if turn % 2 else -(weights[..., None] * slopes).sum(1) / rho
    # values carry rounding errors of their own
    gap = np.maximum(top - floor, 0) + 64 * np.finfo(float).eps * (np.abs(top) + np.abs(floor))
    reach = np.sqrt(2 * gap / rho)
    closer = reach < near
    near = np.where(closer, reach, near)
    found[closer] = best[closer]
    length = np.sqrt((found * found).sum(-1))
    return Envelope(2 * rho * np.maximum(length - near, 0), 2 * rho * (length + near), found)


def _dual(weights: Any, slopes: Any, heights: Any, rho: float) -> tuple[Any, Any]:
    """Better weights (P, m) on the cuts, and the lower bound (P,) that they certify.

    Maximizes sum(w height) - |sum(w slope)|^2 / (2 rho) over the simplex: again and again, as much
    weight as pays is moved from the cut where it counts least to the one where it counts most.
    """
    Gram = slopes @ slopes.swapaxes(-1, -2) / rho
    w = weights.copy()
    uphill = heights - (Gram @ w[..., None])[..., 0]
    at = np.arange(len(w))
    for _ in range(_INNER):
        to, off = uphill.argmax(1), np.where(w > 0, uphill, np.inf).argmin(1)
        curve = Gram[at, to, to] + Gram[at, off, off] - 2 * Gram[at, to, off]
        gain = uphill[at, to] - uphill[at, off]
        step = np.clip(gain / np.maximum(curve, 1e-300), 0, w[at, off])
        w[at, to] += step
        w[at, off] -= step
        uphill = uphill - step[:, None] * (Gram[at, to] - Gram[at, off])
    w /= w.sum(-1, keepdims=True)
    return w, (w * heights).sum(-1) - (w * (Gram @ w[..., None])[..., 0]).sum(-1) / 2
