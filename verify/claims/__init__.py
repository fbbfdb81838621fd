"""The claims: one module a claim, one folder a section of the paper.

A module defines `CLAIM`. Its folder is its section. Nothing else has to be registered.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from verify.claim import Claim

SECTIONS = {
    "expressivity": "Expressivity",
    "surrogates": "Surrogates",
    "lipschitz": "Lipschitz constants",
    "convergence": "Convergence and generalization",
    "tasks": "Tasks",
    "learning": "Learning",
    "arithmetic": "Number systems",
}
"""Folder name and heading, in the order of the report."""


class UnknownClaimError(ValueError):
    """No claim of that name. The message lists near ones."""


@cache
def registry() -> dict[str, tuple[str, Claim, ModuleType]]:
    """All claims by id: section, claim, module. Ordered by section, then as named."""
    found: dict[str, tuple[str, Claim, ModuleType]] = {}
    for section in SECTIONS:
        try:
            package = importlib.import_module(f"{__name__}.{section}")
        except ModuleNotFoundError as error:
            if error.name == f"{__name__}.{section}":
                continue
            raise
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
            if info.name.startswith("_"):
                continue
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            claim = module.CLAIM
            if claim.id in found:
                raise ValueError(f"claim {claim.id} is defined twice")
            found[claim.id] = (section, claim, module)
    return found


def all_claims() -> list[Claim]:
    return [claim for _, claim, _ in registry().values()]


def get(claim_id: str) -> Claim:
    """The claim with this id; raises `UnknownClaimError`."""
    try:
        return registry()[claim_id][1]
    except KeyError:
        import difflib

        near = difflib.get_close_matches(claim_id, registry(), 3, 0.4)
        hint = f"; did you mean {', '.join(near)}?" if near else ";"
        raise UnknownClaimError(
            f"unknown claim {claim_id!r}{hint} `leanlloyd list` shows all"
        ) from None


def section_of(claim_id: str) -> str:
    return registry()[claim_id][0]
