"""Hypothesis draws that depend on the seed alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants


@contextlib.contextmanager
def by_seed_alone() -> Iterator[None]:
    """Keep Hypothesis from drawing the constants that it finds in the source of whatever local
    modules happen to be imported.

    With them, a seed gives other cases when a module is imported earlier or later, in a worker
    process, or from an installed package. There is no public switch; where a release has no such
    search, there is nothing to switch off.
    """
    search = getattr(providers, "_get_local_constants", None)
    cached = getattr(providers, "CONSTANTS_CACHE", None)
    if search is None or cached is None:
        yield
        return
    nothing = Constants()
    cached.cache.clear()
    providers._get_local_constants = lambda: nothing
    try:
        yield
    finally:
        providers._get_local_constants = search
        cached.cache.clear()
