"""Lloyd steps with planted errors, and a right one."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def squares(X: Array, C: Array) -> Array:
    return ((X[..., :, None, :] - C[..., None, :, :]) ** 2).sum(-1)


def updated(X: Array, C: Array, labels: Array, middle: Any = np.mean) -> Array:
    return np.array(
        [middle(X[labels == j], 0) if (labels == j).any() else C[j] for j in range(len(C))]
    )


def right(X: Array, C: Array) -> Array:
    return updated(X, C, squares(X, C).argmin(1))


def highest(X: Array, C: Array) -> Array:
    r = squares(X, C)
    return updated(X, C, r.shape[1] - 1 - r[:, ::-1].argmin(1))


def shared(X: Array, C: Array) -> Array:
    r = squares(X, C)
    w = (r == r.min(1, keepdims=True)) * 1.0
    w /= w.sum(1, keepdims=True)
    total = w.sum(0)[:, None]
    return np.where(total > 0, w.T @ X / np.where(total > 0, total, 1), C)


def expanded(X: Array, C: Array) -> Array:
    r = (X * X).sum(1)[:, None] - 2 * X @ C.T + (C * C).sum(1)
    return updated(X, C, r.argmin(1))


def expanded_single(X: Array, C: Array) -> Array:
    return expanded(X.astype(np.float32), C.astype(np.float32))


def narrow(X: Array, C: Array) -> Array:
    x, c = X.astype(np.float32), C.astype(np.float32)
    return updated(x, c, squares(X, C).argmin(1)).astype(X.dtype)


def shifted(X: Array, C: Array) -> Array:
    return np.roll(right(X, C), 1, axis=0)


def summed(X: Array, C: Array) -> Array:
    return updated(X, C, squares(X, C).argmin(1), np.sum)


def median(X: Array, C: Array) -> Array:
    return updated(X, C, squares(X, C).argmin(1), np.median)


def running(X: Array, C: Array) -> Array:
    labels = squares(X, C).argmin(1)
    return np.array([np.vstack([X[labels == j], C[j]]).mean(0) for j in range(len(C))])


def manhattan(X: Array, C: Array) -> Array:
    return updated(X, C, np.abs(X[:, None] - C).sum(-1).argmin(1))


def origin(X: Array, C: Array) -> Array:
    return updated(X, 0 * C, squares(X, C).argmin(1))


def twisted(X: Array, C: Array) -> Array:
    """Tasks of a batch meet the centers of another one."""
    if X.ndim == 2:
        return right(X, C)
    return np.stack([right(x, c) for x, c in zip(X, C[::-1], strict=True)])


def in_place(X: Array, C: Array) -> Array:
    C[:] = right(X, C)
    return C


def sorting(X: Array, C: Array) -> Array:
    """Centers come back in order of their first coordinate."""
    found = right(X, C)
    return found[np.argsort(found[:, 0], kind="stable")]


def blind(X: Array, C: Array) -> Array:
    return right(np.nan_to_num(X), C)


def stale(X: Array, C: Array, steps: int) -> Array:
    labels = squares(X, C).argmin(1)
    for _ in range(steps):
        C = updated(X, C, labels)
    return C


def one_short(X: Array, C: Array, steps: int) -> Array:
    for _ in range(max(1, steps - 1)):
        C = right(X, C)
    return C


PLANTED = (
    (highest, "ties", "other convention", "highest index"),
    (shared, "ties", "other convention", "equal parts"),
    (expanded, "translation", "rounding of a formula", "expanded square"),
    (expanded_single, "translation", "rounding of a formula", "expanded square"),
    (narrow, "many-points", "rounding of a formula", "float32"),
    (shifted, "centers", "bug", "shifted by one"),
    (summed, "centers", "bug", "sum of the points"),
    (median, "centers", "bug", "median"),
    (running, "centers", "bug", "old center"),
    (manhattan, "far-apart", "bug", "Manhattan"),
    (origin, "empty-clusters", "bug", "origin"),
    (twisted, "batch", "bug", ""),
    (in_place, "untouched", "bug", "memory"),
    (sorting, "order-of-centers", "bug", ""),
    (blind, "nan-points", "bug", "NaN"),
    (stale, "steps", "bug", "not renewed"),
    (one_short, "steps", "bug", ""),
)
"""The error, a property that it violates, what it is, and words of the explanation."""
