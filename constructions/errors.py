"""What can go wrong, as far as the caller can do something about it."""

from __future__ import annotations

from typing import Any


class InputError(ValueError):
    """The caller's input is outside the domain. The message says what, where, and what to do."""


class NotRationalError(InputError):
    """An operation whose result is not rational was asked for in exact rationals."""


class EmptyClusterError(ValueError):
    """A cluster has no points, so its mean is undefined.

    Attributes
    ----------
    clusters : list of int, or of tuples (batch..., cluster) when the input has batches
    """

    def __init__(self, clusters: list[Any], what: str) -> None:
        self.clusters = clusters
        super().__init__(what)
