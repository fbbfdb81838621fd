"""Stochastic gradient runs on the smoothed k-means loss, with all constants of the theorems known.

Here the parameters are the centers themselves; `_transformer` has those of a transformer. Every
constant is computed and none is guessed. For one point x the loss is S(r), r_j = |x - c_j|^2, with
distances at most sqrt(D) on the region at hand. With G2 and H the largest slope and curvature of S
(docs/theory/convergence.md, "Constants"):

    alpha = 2 sqrt(D) G2          Lipschitz constant of the loss of a point
    beta  = 4 D H + 2 G2          smoothness (entropy, 1.5-entmax)
    rho   = 8 D / tau + 2 G2      weak convexity (L2)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import lambertw

from constructions import surrogate, surrogate_gradient
from verify.bounds.symbols import entropy_slope
from verify.claim import Answer, Case, Claim, Evidence, Measured, Run, compare

LABELS = {"ne": "entropy", 1.5: "1.5-entmax", "l2": "L2"}
ARITHMETIC = "float64; three standard errors of the mean over runs"


@dataclass(frozen=True)
class Constants:
    """Of the loss of one point.

    Attributes
    ----------
    alpha, curvature : Lipschitz constant of the smoothed loss, and its beta (L2: rho)
    true : Lipschitz constant of the true loss min r
    gap : the smoothed loss exceeds the true one by at most this
    """

    alpha: float
    curvature: float
    true: float
    gap: float


class Surrogate(NamedTuple):
    """Of S in r.

    Attributes
    ----------
    slope, slope_euclidean : largest 1-norm and Euclidean norm of its gradient
    curvature : largest eigenvalue of its second derivative (L2: how negative it can be)
    gap : S exceeds min r by at most this
    """

    slope: float
    slope_euclidean: float
    curvature: float
    gap: float


def surrogate_constants(regularizer: Any, k: int, tau: float) -> Surrogate:
    """Of one of the regularizers in `LABELS`."""
    if regularizer == "l2":
        gap = tau * (k - 1) / (4 * k)
        return Surrogate(3 - 2 / k, math.sqrt(4 - 3 / k), 2 / tau, gap)
    if regularizer == "ne":
        # the Euclidean slope is at most the one in the maximum norm
        M, W = float(entropy_slope(k)), float(lambertw((k - 1) / math.e).real)
        return Surrogate(M, M, max(1 + W / 2, M - 1) / tau, tau * W)
    # the gradient is 3 P - 2 sqrt(P) / s, s = sum of sqrt(P): 1-norm at most 5, and squared norm
    # at most max((3 - 2/s)^2, 9/4) < 9. The curvature is at most k / tau
    return Surrogate(5.0, 3.0, k / tau, tau * 4 / (3 * math.sqrt(3)))


def constants(regularizer: Any, k: int, tau: float, D: float) -> Constants:
    """For distances of at most sqrt(D)."""
    reach, S = math.sqrt(D), surrogate_constants(regularizer, k, tau)
    curvature = 4 * D * S.curvature + 2 * S.slope_euclidean
    return Constants(2 * reach * S.slope_euclidean, curvature, 2 * reach, S.gap)


def point_gradients(C: Any, x: Any, tau: float, regularizer: Any) -> Any:
    """Gradients (..., k, d) of the loss of points x (..., d) in the centers C (..., k, d)."""
    apart = C - x[..., None, :]
    slopes = surrogate_gradient((apart**2).sum(-1), tau, regularizer)
    return 2 * slopes[..., None] * apart


def smoothed(C: Any, X: Any, tau: float, regularizer: Any) -> Any:
    """Mean loss (...) of points X (N, d) for centers C (..., k, d)."""
    r = ((C[..., None, :, :] - X[:, None, :]) ** 2).sum(-1)
    return surrogate(r, tau, regularizer).mean(-1)


def true_loss(C: Any, X: Any) -> Any:
    """Mean of min_j |x - c_j|^2."""
    return ((C[..., None, :, :] - X[:, None, :]) ** 2).sum(-1).min(-1).mean(-1)


def full_gradient(C: Any, X: Any, tau: float, regularizer: Any) -> Any:
    """Gradient (..., k, d) of `smoothed`."""
    return point_gradients(C[..., None, :, :], X, tau, regularizer).mean(-3)


def descend(
    C: Any, X: Any, order: Any, eta: float, tau: float, regularizer: Any, inside: bool
) -> Any:
    """SGD from C (R, k, d), all R runs at once.

    Parameters
    ----------
    X : (N, d) points, or (R, N, d) for runs with data of their own
    order : (T, R) which point each run sees at each step
    inside : project onto the unit cube after each step

    Returns
    -------
    (T + 1, R, k, d) the centers along the way
    """
    path = [C]
    runs = np.arange(order.shape[1])
    for seen in order:
        x = X[seen] if X.ndim == 2 else X[runs, seen]
        C = C - eta * point_gradients(C, x, tau, regularizer)
        if inside:
            C = np.clip(C, 0, 1)
        path.append(C)
    return np.stack(path)


def mixture(rng: np.random.Generator, count: int, k: int, d: int) -> Any:
    """Points of a mixture of k normals of width 0.1, clipped to the unit cube."""
    middles = rng.uniform(0.15, 0.85, (k, d))
    X = middles[rng.integers(k, size=count)] + 0.1 * rng.standard_normal((count, d))
    return np.clip(X, 0, 1)


def settings(regularizers: Sequence[Any], run: Run) -> Iterator[dict[str, Any]]:
    """Regularizer, k, d and tau of the runs: fewer sizes below the default profile."""
    sizes = ((2, 1), (3, 2), (6, 4)) if run.profile.factor >= 1 else ((2, 1), (3, 2))
    for regularizer, (k, d), tau in product(regularizers, sizes, (1.0, 0.1)):
        yield {"regularizer": regularizer, "k": k, "d": d, "tau": tau}


def setting_of(case: Case) -> tuple[Any, int, int, float, int]:
    """Regularizer, k, d, tau, steps."""
    regularizer = case["regularizer"]
    return regularizer, case["k"], case["d"], float(case["tau"]), case["steps"]


def judge(claim: Claim, e: Evidence, case: Case, m: Measured) -> None:
    """Count a case; keep the first violation, and the case nearest to its bound."""
    answer = compare(claim.kind, m)
    e.count(answer)
    if answer is Answer.VIOLATED:
        e.counterexample = e.counterexample or case
    if e.ratio is None or m.ratio > e.ratio:
        e.ratio, e.bound, e.measured, e.witness = m.ratio, m.bound, m.value, case
