"""Claims that another package brings: the page about it, run; and what is wrong with a package."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "claims-for-another-paper.md").read_text("utf-8")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    assert words[0] == "leanlloyd"
    return subprocess.run(
        [sys.executable, "-m", "verify", *words[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def package(folder: Path) -> Path:
    """The example of the page, in the folder."""
    place = folder / "softmax_limit"
    place.mkdir()
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (place / "__init__.py").write_text(first)
    (place / "attention.py").write_text(second)
    return place


def test_the_page_says_what_happens(tmp_path: Path) -> None:
    place = package(tmp_path)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.MULTILINE)
    codes = {}
    for command, shown in steps:
        done = run(command, tmp_path)
        assert done.stdout.strip("\n") == shown.strip("\n"), command + done.stderr
        codes[command.split()[1]] = done.returncode
    assert codes == {"list": 0, "check": 1, "replay": 1, "show": 0, "report": 1}

    found = json.loads((tmp_path / "report" / "ledger.json").read_text())
    assert [row["id"] for row in found["claims"]] == ["hard-limit", "shift", "one-winner"]
    assert (found["packages"], found["speed"], found["conflicts"]) == (["softmax_limit"], [], [])
    html = (tmp_path / "report" / "report.html").read_text()
    assert "Attention at low temperature: what the note claims" in html
    assert "Leaner Transformers" not in html

    # with a reference: what is known to be refuted is no change; another verdict is one
    (place / "ledger.json").write_text(json.dumps(found))
    again = run("leanlloyd check --claims softmax_limit -j 2", tmp_path)
    assert again.returncode == 0, again.stderr
    command = re.search(r"again: (.*)", again.stdout)
    assert command is not None
    assert run(command[1], tmp_path).returncode == 1
    assert "(stale)" not in run("leanlloyd list --claims softmax_limit", tmp_path).stdout
    found["claims"][0]["verdict"] = "proved"
    (place / "ledger.json").write_text(json.dumps(found))
    changed = run("leanlloyd check hard-limit --claims softmax_limit -j 1", tmp_path)
    assert changed.returncode == 1
    assert "hard-limit: the verdict was 'proved', now it is 'confirmed'" in changed.stderr

    # evidence is stale when the package's own source changes
    module = place / "attention.py"
    module.write_text(module.read_text() + "\n# changed\n")
    assert "(stale)" in run("leanlloyd list --claims softmax_limit", tmp_path).stdout

    # one report never replaces another, and our claims come only if asked for
    other = run("leanlloyd report --claims leanlloyd --out report", tmp_path)
    assert (other.returncode, other.stdout) == (2, "")
    assert "holds the report of softmax_limit" in other.stderr
    both = run("leanlloyd list --claims leanlloyd --claims softmax_limit --json", tmp_path)
    ids = {row["id"] for row in json.loads(both.stdout)}
    assert {"thm-2.1", "one-winner"} <= ids


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, ("no package of that name", "leanlloyd")),
        ({"p.py": ""}, ("p is a module", "__init__.py")),
        ({"p/__init__.py": ""}, ("the package p has no claims",)),
        ({"p/__init__.py": "", "p/m.py": "x = 1"}, ("no claims", "p.m")),
        ({"p/__init__.py": "", "p/m.py": "CLAIM = 3"}, ("p.m.CLAIM is of type int",)),
        ({"p/__init__.py": "", "p/m.py": "CLAIMS = 3"}, ("p.m.CLAIMS must be a list",)),
        ({"p/__init__.py": "ABOUT = 3"}, ("p.ABOUT is of type int",)),
        ({"p/__init__.py": "import nowhere_at_all"}, ("cannot be imported", "nowhere_at_all")),
        ({"p/__init__.py": "", "p/m.py": "1/0"}, ("p.m cannot be", "ZeroDivisionError", "m.py")),
        ({"p/__init__.py": "", "p/m.py": "def"}, ("p.m cannot be imported", "SyntaxError")),
        ({"p/__init__.py": "raise SystemExit(0)"}, ("p cannot be imported", "SystemExit")),
        (
            {
                "p/__init__.py": "",
                "p/a.py": "from verify.claims.surrogates.sharp_gap_l2 import CLAIM",
                "p/b/__init__.py": "",
                "p/b/a.py": "from verify.claims.surrogates.sharp_gap_l2 import CLAIM",
            },
            ("claim sharp-gap-l2 is defined twice", "p.a", "p.b.a"),
        ),
    ],
)
def test_a_package_that_is_not_in_order_is_one_line(
    tmp_path: Path, files: dict[str, str], words: tuple[str, ...]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = run("leanlloyd list --claims p", tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr
