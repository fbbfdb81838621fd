"""Adapters: public libraries in the form that the roles ask for, a few lines each.

One module a library; its functions that carry `@adapter(...)` are found by `adapters()`. A library
is imported when its adapter is called, so that one that is missing is "not installed" and no more.
An adapter chooses options and shapes; what is computed is the library's own. It raises `Excluded`
for input that the library documents as outside of its scope, and says where in `documented`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any, TypeVar

from verify.conformance.declaration import declare

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "adapter"


@dataclass(frozen=True)
class Adapter:
    """One function of a public library under test.

    Attributes
    ----------
    target : "MODULE:FUNCTION", what `leanlloyd conform` takes
    title : the call as its users know it
    package : the distribution on PyPI
    documented : by property, where the library's documentation states this limit
    note : what else a reader has to know, such as what the adapter adds
    only : the one property that it is for, "" for all
    """

    target: str
    title: str
    package: str
    documented: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    only: str = ""

    @property
    def id(self) -> str:
        """Short and unique: module and function."""
        return self.target.removeprefix(f"{__name__}.").replace(":", ".")

    @property
    def version(self) -> str | None:
        """Of the installed package, None if it is not installed."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None


def adapter(
    title: str,
    package: str,
    *,
    documented: Mapping[str, str] | None = None,
    note: str = "",
    only: str = "",
    **declaration: Any,
) -> Callable[[F], F]:
    """A decorator that makes a function an adapter. The rest is a `Declaration`."""

    def mark(function: F) -> F:
        target = f"{function.__module__}:{function.__name__}"
        setattr(function, _MARK, Adapter(target, title, package, documented or {}, note, only))
        return declare(**declaration)(function)

    return mark


@cache
def adapters() -> tuple[Adapter, ...]:
    """All adapters, by module and in the order of the file."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found = (getattr(value, _MARK, None) for m in modules for value in vars(m).values())
    return tuple(a for a in found if isinstance(a, Adapter))


def means(X: Any, labels: Any, C: Any) -> Any:
    """What a package that only assigns leaves to its user: the mean of each cluster in float64, in
    the element type of X (n, d); an empty one keeps its center. numpy arrays."""
    import numpy as np

    rows = [X[labels == j].mean(0, dtype=np.float64) if (labels == j).any() else c
            for j, c in enumerate(C)]  # fmt: skip
    return np.asarray(rows).astype(X.dtype if X.dtype.kind == "f" else np.float64)
