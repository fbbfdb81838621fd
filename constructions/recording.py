"""Intermediate results, shown to whoever asks.

A computation names what it has just computed, `noted("squared distances", r)`, and goes on with
it. Nobody looks, unless a `Recorder` is in force: it keeps every array under its name and the
section of the computation it belongs to. That is how two arithmetics are compared step by step
without a second implementation of the steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Array = Any


class Noted(NamedTuple):
    """One intermediate result: the part of the computation, the name, the array itself."""

    section: str
    name: str
    array: Array


@dataclass
class Recorder:
    """What was noted while it was in force, in order.

    >>> from constructions import lloyd_step
    >>> import numpy as np
    >>> with recording() as recorder:
    ...     _ = lloyd_step(np.array([[0.0], [4.0]]), np.array([[0.0]]))
    >>> [noted.name for noted in recorder.found]
    ['queries', 'keys', 'squared distances', 'nearest', 'assignments', 'means', 'centers']
    """

    found: list[Noted] = field(default_factory=list)
    section: str = ""


_IN_FORCE: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder, in force inside the `with` block."""
    recorder = Recorder()
    token = _IN_FORCE.set(recorder)
    try:
        yield recorder
    finally:
        _IN_FORCE.reset(token)


def noted(name: str, array: Array) -> Array:
    """The array, unchanged, after showing it to the recorder if there is one."""
    recorder = _IN_FORCE.get()
    if recorder is not None:
        recorder.found.append(Noted(recorder.section, name, array))
    return array


def watched() -> bool:
    """Whether a recorder is in force, so that something is worth computing for it."""
    return _IN_FORCE.get() is not None


def section(name: str) -> None:
    """From here on, what is noted belongs to the part `name` of the computation."""
    recorder = _IN_FORCE.get()
    if recorder is not None:
        recorder.section = name
