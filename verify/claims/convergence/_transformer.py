"""The same with a transformer: its twelve matrices are the parameters, and its constants are those
of the Lipschitz chain, for spectral norms of at most B (docs/theory/convergence.md, "The
transformer"):

    alpha = 2 G R_Delta phi
    beta  = k H (2 R_Delta phi)^2 + G (2 phi^2 + 2 R_Delta psi)      (L2: rho, with H = 2 / tau)

Parameters of R runs are one array (R, 12, d_emb, d_emb).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import sympy
import torch

from constructions.surrogates import surrogate
from constructions.trainable import MATRICES, TrainableTransformer, squared_distances
from verify.bounds import lemmas, smoothness
from verify.bounds.evaluate import Setting, fast
from verify.bounds.geometry import scene
from verify.claims.convergence import _runs as runs

CODE, BOUND, START = "binary", 0.5, 0.4
"""The code, the bound B, and the largest norm of a matrix at the start. B is small because beta
grows like B^14; at B = 1 it is a hundred to a thousand times as large."""


@cache
def _functions() -> tuple[Any, ...]:
    """phi, R_Delta and the curvature, as functions of (d, k, n, gamma, tau, B), the curvature also
    of the slope and curvature of the surrogate."""
    where = scene(CODE)
    slope, curvature = sympy.symbols("slope curvature", positive=True)
    whole = smoothness.loss(where, slope, curvature)
    parts = [fast(whole.subs({slope: a, curvature: b})) for a, b in ((1, 0), (0, 1))]
    return fast(lemmas.output(where, "sharp")), fast(where.reach), *parts


@cache
def constants(regularizer: Any, k: int, d: int, tau: float) -> runs.Constants:
    """Of the loss of one point, or the mean over the points of a task."""
    arguments = Setting(CODE, d, k, 1, 1.0, tau, BOUND).arguments
    phi, reach, by_slope, by_curvature = (float(f(*arguments)) for f in _functions())
    S = runs.surrogate_constants(regularizer, k, tau)
    return runs.Constants(
        2 * S.slope * reach * phi,
        S.slope * by_slope + S.curvature * by_curvature,
        2 * reach * phi,
        S.gap,
    )


@cache
def reach(k: int, d: int) -> float:
    """R_Delta: no distance exceeds it, so no loss its square."""
    return float(_functions()[1](*Setting(CODE, d, k, 1, 1.0, 1.0, BOUND).arguments))


def start(rng: np.random.Generator, k: int, d: int) -> Any:
    """(12, d_emb, d_emb) random matrices, the largest norm `START`."""
    e = model_of(k, d).d_emb
    M = rng.standard_normal((len(MATRICES), e, e))
    return M * START / np.linalg.norm(M, 2, axis=(1, 2)).max()


def inside(parameters: Any) -> bool:
    """Whether all matrices have norm at most `BOUND`: there the constants hold."""
    flat = np.reshape(parameters, (-1, *np.shape(parameters)[-2:]))
    return bool((np.linalg.norm(flat, 2, axis=(1, 2)) <= BOUND).all())


@cache
def model_of(k: int, d: int) -> TrainableTransformer:
    return TrainableTransformer(d, k, CODE, 1.0, bias=False)


def distances(parameters: Any, X: Any, C: Any, seen: Any = None) -> Any:
    """(R, n, k) squared distances of the points to the updated centers: of all points, or of the
    one (R,) that each run sees. X and C are (n, d), (k, d), or one of these for each run."""
    model = model_of(C.shape[-2], C.shape[-1])
    moved = model(dict(zip(MATRICES, parameters.unbind(1), strict=True)), X, C)
    shown = X if seen is None else X[seen][:, None, :]
    return squared_distances(shown, moved)


def losses(
    parameters: Any, X: Any, C: Any, tau: float, regularizer: Any, seen: Any = None
) -> tuple[Any, Any]:
    """Mean smoothed losses (R,) of numpy parameters, and their gradients (R, 12, e, e)."""
    leaf = torch.tensor(parameters, dtype=torch.float64, requires_grad=True)
    r = distances(leaf, torch.as_tensor(X), torch.as_tensor(C), seen)
    value = surrogate(r, tau, regularizer).mean(-1)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach().numpy(), gradient.numpy()


def true_losses(parameters: Any, X: Any, C: Any) -> Any:
    """Mean of min_j r (runs, tasks) for parameters (runs, 12, e, e) and tasks (tasks, n, d), or
    tasks (runs, tasks, n, d) of each run's own."""
    with torch.no_grad():
        many = torch.as_tensor(parameters)[:, None].expand(-1, X.shape[-3], -1, -1, -1)
        shape = many.shape[:2]

        def flat(a: Any) -> Any:
            return torch.as_tensor(a).expand(*shape, *a.shape[-2:]).flatten(0, 1)

        r = distances(many.flatten(0, 1), flat(X), flat(C))
        return r.min(-1).values.mean(-1).view(shape).numpy()


def tasks(rng: np.random.Generator, count: int, n: int, k: int, d: int) -> tuple[Any, Any]:
    """Points (count, n, d) of mixtures, and the first k as centers."""
    X = np.stack([runs.mixture(rng, n, k, d) for _ in range(count)])
    return X, X[:, :k]
