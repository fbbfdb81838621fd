"""Who may know whom, and how the tests themselves have to behave."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import matplotlib as mpl
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def imports(file: Path) -> Iterator[str]:
    """Full names of everything that a file imports, wherever in it."""
    package = file.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def offenders(folder: str, *forbidden: str) -> list[str]:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files, f"no files in {folder}"
    return [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        for name in imports(file)
        if any(name == f or name.startswith(f"{f}.") for f in forbidden)
    ]


def test_imports_go_one_way() -> None:
    """tests -> verify -> constructions. What makes tests for others knows pytest, nothing else."""
    assert offenders("constructions", "verify", "tests", "pytest", "hypothesis") == []
    assert offenders("verify", "tests") == []
    assert offenders("verify", "pytest") == [
        "verify/conformance/testing.py imports pytest",
        "verify/conformance/testing.py imports pytest",
        "verify/pytest_plugin.py imports pytest",
    ]


def test_oracles_are_second_answers() -> None:
    """Nothing that they import, however far away, knows the constructions."""
    todo, seen = sorted((ROOT / "verify" / "oracles").glob("*.py")), set()
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            paths = [ROOT / name.replace(".", "/") for name in imports(file)]
            candidates = [p.with_suffix(".py") for p in paths] + [p / "__init__.py" for p in paths]
            todo += [p for p in candidates if p.exists()]
    assert ROOT / "verify" / "oracles" / "clustering.py" in seen
    inside = {file.relative_to(ROOT).parts[0] for file in seen}
    assert inside == {"verify"}


def test_a_report_runs_nothing() -> None:
    """It reads a ledger, and knows no claims."""
    assert offenders("verify/report", "constructions", "verify.search", "verify.runner") == []
    known = {
        name
        for file in (ROOT / "verify" / "report").glob("*.py")
        for name in imports(file)
        if name.startswith("verify.claims")
    }
    assert known == set()


def test_a_claim_formats_no_report() -> None:
    assert offenders("verify/claims", "verify.report", "verify.ledger", "matplotlib") == []


def test_the_checks_for_imports_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "pack" / "sub").mkdir(parents=True)
    (tmp_path / "pack" / "sub" / "a.py").write_text(
        "def f():\n    from ..core import x\n    import verify.claims as c\n"
    )
    assert offenders("pack", "pack.core", "verify") == [
        "pack/sub/a.py imports pack.core",
        "pack/sub/a.py imports pack.core.x",
        "pack/sub/a.py imports verify.claims",
    ]
    assert offenders("pack", "ver", "core") == []


def test_the_state_that_tests_rely_on() -> None:
    """Public cases 60b, 60c, 60i and 60m: threads, deadlines, a shared database, a display."""
    settings = hypothesis.settings()
    assert (settings.deadline, settings.database, settings.derandomize) == (None, None, True)
    assert settings.print_blob
    assert torch.get_num_threads() == 1
    assert os.environ["OMP_NUM_THREADS"] == os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert mpl.get_backend().lower() == "agg"
    assert torch.get_default_dtype() is torch.float32


PLANTED = """
import numpy as np, torch

def test_dtype(): torch.set_default_dtype(torch.float64)
def test_threads(): torch.set_num_threads(2)
def test_errors(): np.seterr(all="ignore")
def test_fine(): pass
"""


def test_a_leak_is_noticed_where_it_happens(tmp_path: Path) -> None:
    """Public case 47: one test sets the default dtype, and later ones run in another precision."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_planted.py").write_text(PLANTED)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ".", "."],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    ).stdout
    assert "4 passed, 3 errors" in ran
    for name in ("test_dtype", "test_threads", "test_errors"):
        assert f"ERROR at teardown of {name}" in ran
    assert "hypothesis profile in force: leanlloyd (deadline None, database None" in ran


def test_every_worker_collects_the_same_tests(request: pytest.FixtureRequest) -> None:
    """Public case 60a: parameters from a set come in another order in another process, and ids
    made of an address differ."""
    names = [item.nodeid for item in request.session.items]
    assert len(set(names)) == len(names)
    assert [name for name in names if " at 0x" in name or "0x7f" in name] == []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("parametrize"):
                values = node.args[1] if len(node.args) > 1 else ast.Constant(None)
                made = ast.unparse(values.func) if isinstance(values, ast.Call) else ""
                unordered = isinstance(values, (ast.Set, ast.SetComp)) or made in (
                    "set",
                    "frozenset",
                )
                assert not unordered, f"{file}, line {node.lineno}"
