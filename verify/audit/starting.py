"""The points as exact rationals, scaled if asked for, and the centers to start from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flint import fmpq

from constructions.arrays import rational_array
from verify.audit.reading import STANDARD_INPUT, Table, read_table
from verify.console import CommandError

SCALES = ("none", "common", "per-dimension")
INITS = ("first-k", "random", "k-means++")


@dataclass(frozen=True)
class Start:
    """A k-means task.

    Attributes
    ----------
    X, C : (n, d) points and (k, d) initial centers, object arrays of `fmpq`
    distinct : number of distinct points
    constant : columns without variation
    indices : which points the centers are, None when they come from a file
    """

    X: Any
    C: Any
    distinct: int
    constant: list[int]
    indices: list[int] | None


def start(table: Table, k: int, init: str, seed: int, scale: str) -> Start:
    """Check k, scale the points and choose the initial centers.

    Raises
    ------
    CommandError
        k below 1, above n or above the number of distinct points; an unknown choice; a file of
        centers that does not fit.
    """
    if scale not in SCALES:
        raise CommandError(f"--scale {scale}: unknown; allowed: {', '.join(SCALES)}")
    n, d = table.values.shape
    if k < 1:
        raise CommandError(f"-k {k} is out of range; allowed: 1 <= k <= n = {n}")
    if k > n:
        raise CommandError(f"-k {k} is more than the n = {n} points of {table.source}")
    given = None
    if init not in INITS:
        given = _centers_from(Path(init), k, d, table)
    X = rational_array(table.values)
    constant = [a for a in range(d) if bool((X[:, a] == X[0, a]).all())]
    X, given = _scaled(X, given, scale)
    groups: dict[tuple[Any, ...], int] = {}
    for i, row in enumerate(X.tolist()):
        groups.setdefault(tuple(row), i)
    if k > len(groups):
        raise CommandError(
            f"-k {k} is more than the {len(groups)} distinct points of {table.source}, so a "
            "cluster would always be empty; choose a smaller k"
        )
    if given is not None:
        return Start(X, given, len(groups), constant, None)
    indices = _choose(X, k, init, seed, list(groups.values()))
    return Start(X, X[indices], len(groups), constant, indices)


def _choose(X: Any, k: int, init: str, seed: int, distinct: list[int]) -> list[int]:
    if init == "first-k":
        return list(range(k))
    if init == "random":
        generator = np.random.default_rng(seed)
        return sorted(int(i) for i in generator.choice(distinct, size=k, replace=False))
    from sklearn.cluster import kmeans_plusplus

    try:
        points = X.astype(np.float64)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _, indices = kmeans_plusplus(points, k, random_state=seed)
            spread = (points - points[0]) ** 2
            finite = bool(np.isfinite(spread.sum())) and bool(np.isfinite((points**2).sum()))
    except (ValueError, OverflowError, FloatingPointError, IndexError):
        finite = False
    if not finite:
        raise CommandError(
            "--init k-means++ needs squared distances that float64 can hold, and these overflow; "
            "use --init random, or --scale common"
        )
    return [int(i) for i in indices]


def _centers_from(path: Path, k: int, d: int, points: Table) -> Any:
    if not path.exists() and not path.suffix and path != STANDARD_INPUT:
        raise CommandError(
            f"--init {path}: unknown, and no such file; allowed: {', '.join(INITS)}, or a file of "
            "centers"
        )
    try:
        values = read_table(path, how=points.how, points=points).values
    except CommandError as error:
        raise CommandError(f"--init {error.message}") from None
    if values.shape != (k, d):
        raise CommandError(
            f"--init {path}: has shape {values.shape}; needed: {(k, d)}, one row a center and one "
            "column a coordinate of the points"
        )
    return rational_array(values)


def _scaled(X: Any, C: Any, scale: str) -> tuple[Any, Any]:
    """Move and scale points and centers alike.

    A common scale divides everything by the largest range of a coordinate, in rationals, so the
    k-means problem stays the same one. Scaling per dimension changes the problem; its values are
    rounded to float64 once (their denominators would have nothing in common, and exact sums of
    them grow without need), and from then on these are the stored values.
    """
    if scale == "none":
        return X, C
    low = X.min(axis=0)
    ranges = X.max(axis=0) - low
    if scale == "common":
        factor = ranges.max()
        divisor = np.array([factor if factor else fmpq(1)] * X.shape[1], dtype=object)
    else:
        divisor = np.array([r if r else fmpq(1) for r in ranges], dtype=object)

    def move(A: Any) -> Any:
        moved = (A - low) / divisor
        return moved if scale == "common" else rational_array(moved.astype(np.float64))

    return move(X), None if C is None else move(C)
