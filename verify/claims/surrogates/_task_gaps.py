"""The gap between surrogate and objective on the paper's tasks: medians over tasks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from constructions.arrays import checked
from constructions.attention import squared_distances
from constructions.lloyd import lloyd_step
from constructions.surrogates import surrogate_gap
from constructions.tasks import FAMILIES, SCALINGS, TaskDistribution, scale_to_unit_cube

INITIAL, GOOD = "initial", "after 20 Lloyd steps"  # the two choices of centers
SURROGATES = tuple(itertools.product(("ne", "l2"), (1.0, 0.25, 0.1)))
LEVEL = 0.99  # of the interval of one ratio of medians; a median's own has half its error
CHUNK = 50  # tasks worked on at once: few enough to stay in cache


@dataclass(frozen=True)
class Gaps:
    """One number a task, (T,), for tasks of one family at one choice of centers.

    Attributes
    ----------
    objective : the k-means cost
    outliers : share of it in the 1 % of points that are farthest from their center
    limit : what the gap grows to with the temperature, sum(mean r - min r)
    gap : (regularizer, temperature) -> surrogate minus objective
    """

    objective: Any
    outliers: Any
    limit: Any
    gap: dict[tuple[str, float], Any] = field(default_factory=dict)


class Median(NamedTuple):
    value: float
    low: float
    high: float


def median(values: Any) -> Median:
    """The median and an interval for it between two order statistics, valid for every continuous
    distribution: the count of values below the true median is binomial."""
    n = len(values)
    tail = (1 - LEVEL) / 4
    below = int(binom.ppf(tail, n, 0.5))  # the smallest count of probability >= tail
    if below < 1:
        raise ValueError(f"{n} tasks are too few for an interval of level {1 - 2 * tail}")
    ordered = np.sort(values)
    return Median(float(np.median(values)), float(ordered[below - 1]), float(ordered[n - below]))


@lru_cache(maxsize=len(FAMILIES) * len(SCALINGS))
def gaps(family: str, scaling: str, tasks: int, seed: int) -> dict[str, Gaps]:
    """The gaps on the paper's tasks (n = 512, d = 4, k = 6, scale 0.1), by choice of centers.

    Both scalings see the same tasks.
    """
    distribution = TaskDistribution(family, scaling=scaling)
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    raw, _ = distribution.points(rng, tasks)
    found: dict[str, list[Gaps]] = {INITIAL: [], GOOD: []}
    for start in range(0, tasks, CHUNK):
        X = scale_to_unit_cube(raw[start : start + CHUNK], scaling=scaling)
        C = X[:, : distribution.k]
        found[INITIAL].append(_gaps_at(X, C))
        for _ in range(20):
            C = lloyd_step(X, C, empty="keep").centers
        found[GOOD].append(_gaps_at(X, C))
    return {centers: _joined(parts) for centers, parts in found.items()}


def _gaps_at(X: Any, C: Any) -> Gaps:
    r = squared_distances(X, C, checked(X=X)[0])
    least = r.min(axis=-1)
    objective = least.sum(axis=-1)
    few = math.ceil(least.shape[-1] / 100)
    far = np.partition(least, -few, axis=-1)[:, -few:].sum(axis=-1)
    gap = {(name, tau): surrogate_gap(r, tau, name).sum(axis=-1) for name, tau in SURROGATES}
    return Gaps(objective, far / objective, (r.mean(axis=-1) - least).sum(axis=-1), gap)


def _joined(parts: Sequence[Gaps]) -> Gaps:
    plain = [f.name for f in fields(Gaps) if f.name != "gap"]
    arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in plain}
    return Gaps(
        **arrays, gap={key: np.concatenate([p.gap[key] for p in parts]) for key in SURROGATES}
    )
