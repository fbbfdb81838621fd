"""The command line, as a user meets it: output, exit codes, one-line errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

INTERRUPTIBLE = [
    sys.executable,
    "-c",
    # a test run in the background of a shell ignores Ctrl-C, and children inherit that
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from verify.cli import main; main()",
]


def leanlloyd(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "verify", *arguments],
        cwd=cwd or ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "100"}


@pytest.mark.parametrize(
    "command",
    [(), ("list",), ("show",), ("check",), ("report",), ("replay",), ("audit",), ("bench",)],
)
def test_help_has_examples(command: tuple[str, ...]) -> None:
    done = leanlloyd(*command, "--help")
    assert done.returncode == 0
    assert "leanlloyd" in done.stdout
    assert "Examples:" in done.stdout


def test_list_show_check_and_replay_speak_json() -> None:
    rows = json.loads(leanlloyd("list", "--json").stdout)
    assert "thm-2.1" in {row["id"] for row in rows}
    shown = json.loads(leanlloyd("show", "thm-2.1", "--json").stdout)
    case = shown["counterexample"]["id"]

    checked = leanlloyd("check", "thm-2.1", "--profile", "smoke", "-j", "1", "--json")
    assert checked.returncode == 0, checked.stderr
    ledger = json.loads(checked.stdout)
    assert [row["id"] for row in ledger["claims"]] == ["thm-2.1"]
    assert ledger["claims"][0]["verdict"] == "qualified"
    assert "[1/" in checked.stderr  # plain progress lines when not on a terminal

    replayed = json.loads(leanlloyd("replay", "thm-2.1", case, "--json").stdout)
    assert replayed["answer"] == "violated"
    assert replayed["hypotheses"] == {"no empty cluster": True, "no ties": False}


def test_the_same_seed_gives_the_same_ledger_bytes() -> None:
    first, second = (
        leanlloyd(
            "check",
            "sharp-gap-l2",
            "l2-zero-gap",
            "--profile",
            "smoke",
            "--seed",
            "5",
            "-j",
            jobs,
            "--json",
        ).stdout
        for jobs in ("1", "2")
    )
    assert first == second
    assert '"seed": 5' in first


def test_replay_runs_the_stand_alone_script(tmp_path: Path) -> None:
    case = '{"X": [["0"], ["1"], ["2"]], "C": [["0"], ["2"]], "code": "binary", "steps": 1}'
    script = tmp_path / "case.py"
    script.write_text(leanlloyd("replay", "thm-2.1", case, "--script").stdout)
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(script)], capture_output=True, text=True, check=True
    )
    assert "Lloyd           ('1/2',) ('2',)" in done.stdout
    assert "transformer     ('0',) ('2',)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "thm-2.2"), ("unknown claim 'thm-2.2'", "thm-2.1", "leanlloyd list")),
        (("check", "nonsense"), ("unknown claim", "leanlloyd list")),
        (("check", "--profile", "huge"), ("huge", "smoke")),
        (("check", "--seed", "-1"), ("-1",)),
        (("check", "-j", "0"), ("0",)),
        (("replay", "thm-2.1", "ffff"), ("no case 'ffff'", "leanlloyd show thm-2.1")),
        (("replay", "thm-2.1", "{"), ("not a case",)),
        (("replay", "thm-2.1", '{"X": 3}'), ("allowed: a list of lists",)),
        (("report", "--out", "pyproject.toml"), ("pyproject.toml",)),
        (
            ("report", "--render", "--out", "no/such/folder"),
            ("no ledger there", "leanlloyd report"),
        ),
        (("frobnicate",), ("frobnicate",)),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = leanlloyd(*arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_a_changed_verdict_is_exit_code_1(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _write_ledger(out, verdict="proved")
    code = (
        "from verify import claims;"
        "from verify.collection import Collection;"
        "wanted = [claims.get('sharp-gap-l2')];"
        "Collection.all_claims = lambda self: wanted;"
        "import sys;"
        f"sys.argv = ['leanlloyd', 'report', '--profile', 'smoke', '--out', {str(out)!r}];"
        "from verify.cli import main; main()"
    )
    run = [sys.executable, "-c", code]
    options = {"cwd": ROOT, "env": _environment(), "capture_output": True, "text": True}
    same = subprocess.run(run, check=False, **options)  # type: ignore[call-overload]
    assert same.returncode == 0, same.stderr
    _write_ledger(out, verdict="refuted")
    changed = subprocess.run(run, check=False, **options)  # type: ignore[call-overload]
    assert changed.returncode == 1
    assert "the verdict was 'refuted', now it is 'proved'" in changed.stderr

    # evidence made by other sources is not drawn again
    data = json.loads((out / "ledger.json").read_text())
    data["claims"][0]["fingerprint"] = "0"
    (out / "ledger.json").write_text(json.dumps(data))
    stale = leanlloyd("report", "--render", "--out", str(out))
    assert stale.returncode == 3
    assert "sharp-gap-l2" in stale.stderr


def test_a_killed_report_keeps_the_old_one_and_resumes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    old = _write_ledger(out, verdict="proved")
    arguments = [
        sys.executable,
        "-m",
        "verify",
        "report",
        "--profile",
        "smoke",
        "-j",
        "1",
        "--out",
        str(out),
    ]
    with subprocess.Popen(
        arguments, cwd=ROOT, env=_environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("[2/"):
                process.send_signal(signal.SIGKILL)
                break
    assert (out / "ledger.json").read_text() == old
    assert not (out / "report.html").exists()
    stored = list((out / ".pending").rglob("*.json"))
    assert len(stored) >= 2

    with subprocess.Popen(
        [*INTERRUPTIBLE, *arguments[3:]],
        cwd=ROOT,
        env=_environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert "taken over from an interrupted run" in first
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    assert process.returncode == 130
    assert (out / "ledger.json").read_text() == old


def _write_ledger(out: Path, verdict: str) -> str:
    out.mkdir(exist_ok=True)
    text = json.dumps(
        {
            "schema": 1,
            "claims": [
                {"id": "sharp-gap-l2", "verdict": verdict, "evidence": [], "fingerprint": ""}
            ],
        }
    )
    (out / "ledger.json").write_text(text)
    return text
