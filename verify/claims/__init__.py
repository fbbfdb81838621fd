"""The project's own claims: one module a claim, one folder a section of the paper.

A module defines `CLAIM`. Its folder is its section. Nothing else has to be registered: this is a
collection like those of other papers, see `verify.collection`.
"""

from __future__ import annotations

from collections.abc import Mapping

from verify.claim import Claim
from verify.collection import OWN, About, Collection, Entry, load
from verify.collection import UnknownClaimError as UnknownClaimError
from verify.sources import CONFLICTS, DOCUMENTS, PAPER

ABOUT = About(
    paper=PAPER,
    title="What the paper claims, and what was measured",
    note="The paper’s text was not at hand; the claims were taken from two documents about it.",
    documents=DOCUMENTS,
    sections={
        "expressivity": "Expressivity",
        "surrogates": "Surrogates",
        "lipschitz": "Lipschitz constants",
        "convergence": "Convergence and generalization",
        "tasks": "Tasks",
        "learning": "Learning",
        "arithmetic": "Number systems",
    },
    conflicts=CONFLICTS,
    theory="docs/theory/",
    # beside the checkout, else the copy inside the installed package
    reference=("../../reports/ledger.json", "../report/reference.json"),
    sources=("constructions",),
)


def collection() -> Collection:
    """The project's own claims."""
    return load(OWN)


def registry() -> Mapping[str, Entry]:
    """All of them by id: section, claim, module. Ordered by section, then as named."""
    return collection().entries


def all_claims() -> list[Claim]:
    return collection().all_claims()


def get(claim_id: str) -> Claim:
    """The claim with this id; raises `UnknownClaimError`."""
    return collection().get(claim_id)


def section_of(claim_id: str) -> str:
    return collection().section_of(claim_id)
