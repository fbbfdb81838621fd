"""An implementation by its name: PACKAGE.MODULE:OBJECT, or FILE.py:OBJECT."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from constructions.errors import InputError
from verify.conformance.examine import quiet


def load(target: str) -> Any:
    """The object that `target` names. The working directory is importable.

    Raises
    ------
    InputError
        there is no such module, file or object, or its import fails; says which and why.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise InputError(
            f"{target!r} names no object; expected PACKAGE.MODULE:OBJECT or FILE.py:OBJECT"
        )
    found = _module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            known = (
                [n for n in vars(found) if not n.startswith("_")]
                if hasattr(found, "__dict__")
                else []
            )
            raise InputError(
                f"{place} has no {name}; it has {', '.join(sorted(known)[:12]) or 'nothing'}"
            )
        found = getattr(found, part)
    return found


def _module(place: str) -> Any:
    try:
        with quiet():
            if place.endswith(".py"):
                return _from_file(Path(place))
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            return importlib.import_module(place)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise InputError(f"no module {place!r} here or among what is installed") from None
        raise InputError(f"{place} cannot be imported: {error}") from None
    except BaseException as error:  # a module may do anything, even exit
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InputError(
            f"{place} cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from None


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module
