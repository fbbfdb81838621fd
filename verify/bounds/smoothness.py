"""Second derivatives: how curved the updated centers and the smoothed loss are in the parameters.

The companion of `lemmas` for theorems that need a smoothness constant beta, or one of weak
convexity, besides the Lipschitz constant. Proofs: docs/theory/convergence.md, "The transformer".
"""

from __future__ import annotations

from typing import NamedTuple

import sympy

from verify.bounds import lemmas
from verify.bounds.geometry import Expr, Scene, TokenSet


class Motion(NamedTuple):
    """How fast the keys (and values) of a module move, and how fast that changes, when all
    parameters move at unit speed."""

    speed: Expr
    bend: Expr


STILL = Motion(sympy.Integer(0), sympy.Integer(0))


def bend(query: TokenSet, keys: TokenSet, c: Expr, B: Expr, moved: Motion = STILL) -> Expr:
    """Bound on the second derivative of an attention output along a line of unit speed, for a
    query token at rest."""
    R, (R1, m1, r1) = query.R, keys
    D, A = moved
    across = B * (R + R1)
    turn = lemmas.smaller(R1 * (R + R1), r1 * (R + m1 + R1))
    scores = 2 * c * B * sympy.sqrt((R * r1) ** 2 + turn**2 + (across * D) ** 2)
    values = sympy.sqrt(r1**2 + (B * D) ** 2)
    second = 2 * c * (R * values + across * (D + B * A) + (R1**2 + (B * D) ** 2) / 2)
    # the mean of the values' own second derivative, twice the covariance of the first ones, the
    # covariance with the second ones, the third cumulant
    return (D + B * A) + 2 * values * scores + B * r1 * second + 2 * B * r1 * scores**2


def output(scene: Scene) -> Expr:
    """psi: bound on the second derivative of any updated center along a line of unit speed."""
    c, B = scene.c, scene.B
    parts = lemmas.modules(scene, "sharp")
    first = [parts["points_from_centers"], parts["points_from_points"]]
    speed = sympy.sqrt(sum(s.value**2 + s.query**2 + s.key**2 for s in first))
    bends = {
        name: bend(*scene.pairs[name], c, B)
        for name in ("points_from_centers", "points_from_points", "centers_from_centers")
    }
    moved = Motion(speed, _larger(bends["points_from_centers"], bends["points_from_points"]))
    third = bend(*scene.pairs["centers_from_points"], c, B, moved)
    return _larger(third, bends["centers_from_centers"])


def loss(scene: Scene, slope: Expr, curvature: Expr) -> Expr:
    """Bound on the second derivative of the loss of one point along a line of unit speed.

    Parameters
    ----------
    slope : of the surrogate, largest 1-norm of its gradient
    curvature : of the surrogate, largest eigenvalue of its second derivative (for one that is
        only weakly convex: how negative it can be, and the bound is one from below)
    """
    phi, reach = lemmas.output(scene, "sharp"), scene.reach
    fast = 2 * reach * phi  # of a squared distance
    return scene.k * curvature * fast**2 + slope * (2 * phi**2 + 2 * reach * output(scene))


def _larger(a: Expr, b: Expr) -> Expr:
    return sympy.Max(a, b, evaluate=False)
