"""The roles that an implementation can have, one module each with a `ROLE`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from verify.conformance.property import Role


@cache
def roles() -> dict[str, Role]:
    """All roles by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    found = [importlib.import_module(f"{__name__}.{name}").ROLE for name in names]
    return {role.name: role for role in found}
