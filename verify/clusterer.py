"""Transformers as scikit-learn clusterers: trained ones, and the exact one.

>>> from verify.clusterer import LearnedClusterer, LloydClusterer
>>> import numpy as np
>>> X = np.random.default_rng(0).random((128, 2))
>>> LearnedClusterer.load("d2-k3-one_hot").fit(X).cluster_centers_.shape
(3, 2)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from constructions import LloydTransformer, scale_to_unit_cube
from constructions.errors import InputError
from constructions.fast import FastTransformer
from constructions.tasks import TaskDistribution
from verify.experiments.trained import Trained, read_trained

Array = Any

SHIPPED = Path(str(resources.files("verify"))) / "models"
FAR = 4.0  # a number of points this many times larger or smaller than in training is far from it


def shipped() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(p.name for p in SHIPPED.iterdir() if (p / "settings.json").exists())


def find_model(run: str | Path) -> Trained:
    """The models in a folder of `leanlloyd train`, or those that ship under this name.

    Raises
    ------
    InputError
        there are none, or they cannot be read.
    """
    path = Path(run)
    if not path.exists():
        if str(run) not in shipped():
            raise InputError(
                f"{run}: no such folder, and no model of that name; shipped are "
                f"{', '.join(shipped())}"
            )
        path = SHIPPED / str(run)
    return read_trained(path)


def name_of(trained: Trained) -> str:
    """What a user calls it: the name of a shipped model, or the folder."""
    folder = trained.source.parent
    return folder.name if folder.parent == SHIPPED else str(folder)


def require_fit(trained: Trained, shape: tuple[int, ...]) -> None:
    """Raise `InputError` unless the model is for points of this shape (n, d)."""
    (n, d), s = shape, trained.cell.settings
    if d != s.d:
        raise InputError(
            f"the points have d = {d} coordinates, but {name_of(trained)} is for d = {s.d}; a "
            "trained model serves the d and k of its training only"
        )
    if n < s.k:
        raise InputError(f"{n} points for the k = {s.k} centers of {name_of(trained)}")


@dataclass(frozen=True)
class Box:
    """The map into the unit cube, x -> (x - low) / extent, and back.

    Attributes
    ----------
    low, extent : (d,) float64; the extent of what is constant is 1
    """

    low: Array
    extent: Array

    @classmethod
    def around(cls, points: Array, scaling: str) -> Box:
        """That of `scale_to_unit_cube` for points (n, d)."""
        low = points.min(axis=0)
        with np.errstate(over="ignore"):
            extent = points.max(axis=0) - low
        if scaling == "common":
            extent = np.full_like(extent, extent.max())
        if not np.isfinite(extent).all():
            raise InputError("the range of a coordinate is beyond float64; rescale the data")
        return cls(low, np.where(extent == 0, 1.0, extent))

    def inside(self, A: Array) -> Array:
        return (A - self.low) / self.extent

    def outside(self, A: Array) -> Array:
        return A * self.extent + self.low


def apply_steps(trained: Trained, seed: int, X: Array, C: Array, steps: int) -> list[Array]:
    """Centers (k, d) after 0 ... `steps` re-embedded steps, in the units of the data.

    Points X (n, d) and centers C (k, d) are scaled as in the training, together, and what comes
    out is scaled back.

    Raises
    ------
    InputError
        another d or k than that of the model, no model of that seed, centers that diverge.
    """
    s = trained.cell.settings
    require_fit(trained, X.shape)
    if len(C) != s.k:
        raise InputError(f"{len(C)} initial centers; {name_of(trained)} is for k = {s.k}")
    inside_X, inside_C = scale_to_unit_cube(X, C, scaling=s.scaling)
    box = Box.around(np.concatenate([X, C]), s.scaling)
    fast = FastTransformer(replace(s.model, dropout=0.0))
    parameters = {name: p[None] for name, p in trained.of_seed(seed).items()}
    points, begun = (torch.from_numpy(np.array(a))[None, None] for a in (inside_X, inside_C))
    with torch.no_grad():
        found = fast.iterate(parameters, points, begun, steps)
    centers = [C] + [box.outside(c[0, 0].numpy()) for c in found[1:]]
    if not all(np.isfinite(c).all() for c in centers):
        raise InputError(f"{trained.source}, seed {seed}: the centers are not finite")
    return centers


def warnings_for(trained: Trained, X: Array) -> list[str]:
    """What is unlike the training about points (n, d): their number, and how they fill the cube."""
    s, n = trained.cell.settings, len(X)
    found = []
    if not 1 / FAR <= n / s.n <= FAR:
        found.append(f"n = {n} points; the model was trained on n = {s.n}")
    low, high = _spreads(s.distribution)
    spread = _spread(Box.around(X, s.scaling).inside(X))
    if not low <= spread <= high:
        found.append(
            f"scaled into the unit cube, the points are {spread:.3f} from their mean (root mean "
            f"square); tasks of the training are {low:.3f} to {high:.3f}"
        )
    return found


def _spread(X: Array) -> float:
    return float(np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()))


@cache
def _spreads(distribution: TaskDistribution) -> tuple[float, float]:
    """The least and the largest spread of 256 tasks of the training."""
    tasks = distribution.sample(np.random.default_rng(0), 256)
    each = [_spread(X) for X in tasks.X]
    return min(each), max(each)


class _StepClusterer(ClusterMixin, BaseEstimator):
    """What both share: initial centers, steps, and the answers of a fitted clusterer.

    Attributes
    ----------
    cluster_centers_ : (k, d) in the units of the data
    labels_ : (n,) the nearest center of each point
    inertia_ : sum of squared distances to them
    n_iter_ : steps done
    n_features_in_ : d
    """

    def fit(self, X: Array, y: Any = None) -> Any:
        """Points X (n, d); y is ignored."""
        X = validate_data(self, X, dtype=np.float64)
        k = self._clusters()
        if k > len(X):
            raise InputError(f"n_samples={len(X)} should be >= n_clusters={k}")
        C = self._initial(X, k)
        self._box = self._around(X, C)
        self.cluster_centers_, self.n_iter_ = self._run(X, C)
        self.labels_ = self._nearest(X)
        self.inertia_ = float(((X - self.cluster_centers_[self.labels_]) ** 2).sum())
        return self

    def predict(self, X: Array) -> Array:
        """The nearest center of each point, (n,)."""
        check_is_fitted(self)
        return self._nearest(validate_data(self, X, dtype=np.float64, reset=False))

    def _nearest(self, X: Array) -> Array:
        points, centers = (self._box.inside(A) for A in (X, self.cluster_centers_))
        r = [((points - c) ** 2).sum(axis=1) for c in centers]
        return np.argmin(r, axis=0).astype(np.int32)

    def _initial(self, X: Array, k: int) -> Array:
        given: Any = self.init
        if not isinstance(given, str):
            C = np.array(given, dtype=np.float64)
            if C.shape != (k, X.shape[1]) or not np.isfinite(C).all():
                raise InputError(
                    f"init has shape {C.shape}; expected {(k, X.shape[1])}, finite numbers"
                )
            return C
        random = check_random_state(self.random_state)
        if given == "k-means++":
            return kmeans_plusplus(X, k, random_state=random)[0]
        if given == "random":
            return X[random.choice(len(X), k, replace=False)]
        raise InputError(f"init = {given!r} is not known; allowed: 'k-means++', 'random', an array")

    def _clusters(self) -> int:
        raise NotImplementedError

    def _around(self, X: Array, C: Array) -> Box:
        """The space in which a center is nearest: that of the data, unless overridden."""
        return Box(np.zeros(X.shape[1]), np.ones(X.shape[1]))

    def _run(self, X: Array, C: Array) -> tuple[Array, int]:
        raise NotImplementedError


class LloydClusterer(_StepClusterer):
    """The exact transformer: Lloyd's algorithm by attention at inverse temperature infinity.

    Parameters
    ----------
    n_clusters : int >= 1
    code : a name of `constructions.codes`
    init : "k-means++", "random", or centers (k, d)
    max_iter : steps at most; it stops when the centers stay where they are
    random_state : of the initial centers

    It differs from `sklearn.cluster.KMeans` where the transformer does: ties are shared, the
    center of an empty cluster jumps (docs/theory/expressivity.md), and there is one start.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        code: str = "binary",
        init: Any = "k-means++",
        max_iter: int = 300,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.code = code
        self.init = init
        self.max_iter = max_iter
        self.random_state = random_state

    def _clusters(self) -> int:
        return self.n_clusters

    def _run(self, X: Array, C: Array) -> tuple[Array, int]:
        model = LloydTransformer(X.shape[1], self.n_clusters, self.code)
        for step in range(1, self.max_iter + 1):
            moved = model(X, C)
            if (moved == C).all():
                return moved, step
            C = moved
        return C, self.max_iter


class LearnedClusterer(_StepClusterer):
    """A trained transformer; points and centers are scaled as in its training, and back.

    Parameters
    ----------
    run : folder of `leanlloyd train`, or the name of a shipped model
    seed : which of its models
    init, random_state : as for `LloydClusterer`; in training, initial centers are random points
    max_iter : steps; all of them are done

    A center is nearest in the unit cube, where the model works; `inertia_` is in the units of the
    data. Data unlike those of the training raise a `UserWarning`.
    """

    def __init__(
        self,
        run: Any = "d2-k3-one_hot",
        *,
        seed: int = 0,
        init: Any = "random",
        max_iter: int = 5,
        random_state: Any = None,
    ) -> None:
        self.run = run
        self.seed = seed
        self.init = init
        self.max_iter = max_iter
        self.random_state = random_state

    @classmethod
    def load(cls, run: Any, seed: int = 0, **options: Any) -> LearnedClusterer:
        """A clusterer for models that can be read, or an `InputError`."""
        find_model(run).of_seed(seed)
        return cls(run, seed=seed, **options)

    def _clusters(self) -> int:
        return find_model(self.run).cell.settings.k

    def _around(self, X: Array, C: Array) -> Box:
        scaling = find_model(self.run).cell.settings.scaling
        return Box.around(np.concatenate([X, C]), scaling)

    def _run(self, X: Array, C: Array) -> tuple[Array, int]:
        trained = find_model(self.run)
        centers = apply_steps(trained, self.seed, X, C, self.max_iter)
        for text in warnings_for(trained, X):
            warnings.warn(text, UserWarning, stacklevel=3)
        return centers[-1], self.max_iter
