"""What the documents promise is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from verify import claims, ledger
from verify.claim import PROFILES, Run, Verdict
from verify.collection import load
from verify.report import update_readme
from verify.runner import run_check

ROOT = Path(__file__).resolve().parents[2]


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def test_the_example_of_contributing_is_a_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One new file, and the claim is found, checked and written into a ledger."""
    import verify.claims.surrogates as section

    (tmp_path / "mean_bound.py").write_text(python_blocks("CONTRIBUTING.md")[0])
    monkeypatch.setattr(section, "__path__", [*section.__path__, str(tmp_path)])
    load.cache_clear()
    try:
        run = Run(PROFILES["smoke"])
        claim = claims.get("mean-bound")
        done = [run_check(claim.id, check.name, run) for check in claim.checks]
        (row,) = ledger.build(done, run)["claims"]
    finally:
        load.cache_clear()
    assert row["section"] == "surrogates"
    assert row["verdict"] == Verdict.CONFIRMED
    assert row["counts"]["cases"] >= 10


def test_the_python_example_of_the_readme_runs() -> None:
    space: dict[str, object] = {}
    for block in python_blocks("README.md"):
        exec(block, space)
    assert [
        str(c) for c in space["LloydTransformer"](1, 2)(space["X"], space["C"], steps=2).ravel()
    ] == ["1/2", "6"]  # type: ignore[operator]


def test_the_status_table_of_the_readme_is_generated() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    found = ledger.load(ROOT / "reports" / "ledger.json")
    assert update_readme(text, found) == text, "run `leanlloyd report`"


def test_set_up_commands_stand_in_the_readme_once() -> None:
    """Exactly two, one line each, as the continuous checks run them."""
    text = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^python3 -m venv .*$", text, re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")),
    ],
)
def test_links_inside_the_project_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
