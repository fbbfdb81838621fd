"""One Lloyd step, with everything that its definition leaves open reported instead of hidden."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from constructions.arrays import (
    Array,
    EmptyClusterError,
    InputError,
    NumberSystem,
    checked_task,
    quiet,
)
from constructions.attention import nearest
from constructions.recording import noted, section


class LloydStep(NamedTuple):
    """What one step did.

    Attributes
    ----------
    centers : (..., k, d) the new centers, in the number system of the input
    assignments : (..., n) integers: the cluster of each point under the *old* centers
    tied_points : (..., n) booleans: points with two or more nearest old centers
    empty_clusters : (..., k) booleans: clusters without a point
    """

    centers: Array
    assignments: Array
    tied_points: Array
    empty_clusters: Array


@quiet
def lloyd_step(X: Array, C: Array, empty: str = "raise") -> LloydStep:
    """Assign each point to its nearest center, then move each center to the mean of its points.

    A point with several nearest centers goes to the one of lowest index. Ties are decided in the
    arithmetic of the input: exactly in rationals, up to rounding in floats. Means are accumulated
    in float64, also for float32. The result holds the new centers beside the assignments to the
    old ones.

    Parameters
    ----------
    X : (..., n, d) points; numpy, torch, CuPy, array_api_strict, or an object array of rationals
    C : (..., k, d) centers, 1 <= k <= n
    empty : "raise" (default) or "keep"
        what to do with a cluster that has no points: raise, or leave its center where it is.

    Returns
    -------
    LloydStep

    Raises
    ------
    EmptyClusterError
        a cluster is empty and `empty` is "raise"; its `clusters` attribute names them.
    InputError
        NaN, infinity, wrong shapes, k > n, unknown `empty`, squared distances or sums that are
        not representable (overflow, or underflow that would pass for a tie).

    Source: the paper's Appendix B; docs/theory/expressivity.md, "The Lloyd step".
    """
    if empty not in ("raise", "keep"):
        raise InputError(f"empty = {empty!r} is not known; allowed: 'raise', 'keep'")
    system, X, C = checked_task(X, C)
    return step(X, C, empty, system)


def step(X: Array, C: Array, empty: str, system: NumberSystem) -> LloydStep:
    """`lloyd_step` for arrays that have been checked."""
    xp = system.xp
    section("Lloyd step")
    near = noted("nearest", nearest(X, C, system))
    indices = system.indices(C.shape[-2])
    beyond = indices[-1:] + 1
    # the first of equals, written out: libraries disagree about the index argmin returns
    assignments = noted("assignments", xp.min(xp.where(near, indices, beyond), axis=-1))
    members = assignments[..., None, :] == indices[:, None]
    vacant = ~xp.any(members, axis=-1)
    if empty == "raise" and bool(xp.any(vacant)):
        raise empty_cluster_error(vacant)
    means = noted("means", system.mean(members, X))
    centers = noted("centers", xp.where(vacant[..., :, None], C, means))
    tied = xp.sum(xp.astype(near, xp.int64), axis=-1) > 1
    return LloydStep(centers, assignments, tied, vacant)


def empty_cluster_error(
    vacant: Array,
    because: str = "has no points, so its mean is undefined; choose other centers, or "
    "lloyd_step(..., empty='keep')",
) -> EmptyClusterError:
    """The error that names the clusters of the mask `vacant` (..., k)."""
    places = [place for place in np.ndindex(tuple(vacant.shape)) if bool(vacant[place])]
    clusters: list[Any] = [p[0] for p in places] if vacant.ndim == 1 else places
    named = ", ".join(map(str, clusters[:8])) + (", ..." if len(clusters) > 8 else "")
    return EmptyClusterError(clusters, f"cluster {named} {because}")
