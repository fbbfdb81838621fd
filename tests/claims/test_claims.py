"""Every claim as one test: its checks in the smoke profile, and its verdict."""

from __future__ import annotations

from typing import Any

import pytest

from verify import claims, ledger
from verify.claim import PROFILES, Run, verdict_of
from verify.runner import run_check

RUN = Run(PROFILES["smoke"])


@pytest.fixture(scope="module")
def reference() -> dict[str, dict[str, Any]]:
    """The committed ledger, by claim id."""
    rows = ledger.load(ledger.reference_path())["claims"]
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize("claim_id", sorted(claims.registry()))
def test_claim(
    claim_id: str, reference: dict[str, dict[str, Any]], request: pytest.FixtureRequest
) -> None:
    claim = claims.get(claim_id)
    evidence = [run_check(claim_id, check.name, RUN).evidence for check in claim.checks]
    request.node.user_properties.append((claim_id, [e.to_json() for e in evidence]))

    assert [e.problem for e in evidence if e.problem] == []
    assert claim_id in reference, "not in reports/ledger.json: run `leanlloyd report`"
    assert verdict_of(claim, evidence) == reference[claim_id]["verdict"]


def test_the_ledger_has_every_claim(reference: dict[str, dict[str, Any]]) -> None:
    assert set(reference) == set(claims.registry())


@pytest.mark.parametrize("claim_id", sorted(claims.registry()))
def test_claim_is_complete(claim_id: str) -> None:
    """What the report needs, and what a reader may expect of every claim."""
    claim = claims.get(claim_id)
    for name in ("title", "says", "statement", "bound", "falsify", "theory", "sources", "checks"):
        assert getattr(claim, name), f"{name} is empty"
    assert claim.says[0].isupper()
    assert claim.says.endswith(".")
    page, _, anchor = claim.theory.partition("#")
    assert anchor in _anchors(page)


def _anchors(page: str) -> set[str]:
    """The anchors that a code host makes of the headings of a page of docs/theory."""
    text = (ledger.reference_path().parents[1] / "docs" / "theory" / page).read_text("utf-8")
    headings = [line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")]
    return {
        "".join(c for c in h.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        for h in headings
    }
