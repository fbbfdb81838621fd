"""How somebody's code is called: by position, by the names of its parameters, or as an estimator.

An estimator (a class, or an object, with `fit`) is made anew for each task, with the parameters
that say where it starts and how long it runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

COUNTS = ("n_clusters", "num_clusters", "nclusters", "k")
STARTS = ("init", "centers", "centroids", "initial_centers", "init_centers", "cluster_centers")
STEPS = ("max_iter", "n_iter", "iterations", "steps", "num_iters", "niter")
FIXED = {"n_init": 1, "tol": 0.0}
POINTS = ("x", "points", "data", "samples")
ANSWERS = ("centers", "centres", "cluster_centers_", "centroids", "means", "new_centers")


def is_estimator(found: Any) -> bool:
    return hasattr(found, "fit") and (isinstance(found, type) or not hasattr(found, "forward"))


def function(found: Any) -> Callable[..., Any]:
    """The object as a function of positional arguments."""
    return _estimator(found) if is_estimator(found) else _positional(found)


def parts(answer: Any) -> list[Any]:
    """What an answer may hold: the items of a tuple or dictionary, attributes of an object."""
    if isinstance(answer, Mapping):
        return [answer[n] for n in ANSWERS if n in answer] + list(answer.values())
    if isinstance(answer, tuple):
        return list(answer)
    named = [getattr(answer, n) for n in ANSWERS if hasattr(answer, n)]
    labels = [answer.labels_] if hasattr(answer, "labels_") else []
    return [*named, *labels] if named else [answer]


def _positional(found: Any) -> Callable[..., Any]:
    """Parameters that can only be given by name are given in their order."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return found
    named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if not named:
        return found
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    first = sum(p.kind in places for p in parameters)

    def call(*arguments: Any) -> Any:
        return found(*arguments[:first], **dict(zip(named, arguments[first:], strict=True)))

    return call


def _estimator(found: Any) -> Callable[..., Any]:
    kind = found if isinstance(found, type) else type(found)

    def call(X: Any, C: Any, steps: int = 1) -> Any:
        options = {} if isinstance(found, type) else dict(found.get_params())
        options |= _known(kind, C, steps)
        made = kind(**options)
        done = made.fit(X, **{n: v for n, v in _known(made.fit, C, steps).items() if n in STARTS})
        return made if done is None else done

    return call


def _known(called: Any, C: Any, steps: int) -> dict[str, Any]:
    """Values for the parameters whose names tell what they are."""
    names: Any = ()
    with suppress(TypeError, ValueError):
        names = inspect.signature(called).parameters
    values = [(COUNTS, len(C)), (STARTS, C), (STEPS, steps)]
    found = {n: value for group, value in values for n in names if n.lower() in group}
    return found | {n: v for n, v in FIXED.items() if n in names}
