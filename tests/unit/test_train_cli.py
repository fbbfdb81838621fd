"""leanlloyd train, as its users see it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

INTERRUPTIBLE = [
    sys.executable,
    "-c",
    # a test run in the background of a shell ignores Ctrl-C, and children inherit that
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from verify.cli import main; main()",
]

SMALL = ["--d=2", "--k=3", "--n=32", "--batch=4", "--seeds=5", "--steps=100", "--workers=1"]
SMALL += ["--validate-every=10", "--validation-batches=1"]


OFTEN = """
import verify.experiments.runs as runs
runs.CHECKPOINT_EVERY = -1.0
from verify.cli import main
main()
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "verify", "train", *arguments]


def finished(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), check=False, capture_output=True, text=True)


def test_a_killed_run_continues_to_the_same_numbers(tmp_path: Path) -> None:
    whole = finished(*SMALL, "--out", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    assert "step 100: " in whole.stdout
    assert "of one Lloyd step" in whole.stdout
    folder = tmp_path / "killed"
    # checkpoint at every validation, then die in the middle of what follows the third
    process = subprocess.Popen(
        [sys.executable, "-c", OFTEN, "train", *SMALL, "--out", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[3/"):
            break
    time.sleep(0.02)
    process.kill()
    process.wait()
    process.stderr.close()
    assert not (folder / "models.safetensors").exists()
    again = finished(*SMALL, "--out", str(folder), "--resume")
    assert again.returncode == 0, again.stderr
    assert "continued from step " in again.stderr
    for name in ("curve.csv", "models.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    steps = ["--steps", "100000"]
    process = subprocess.Popen(
        [*INTERRUPTIBLE, *command(*SMALL, *steps, "--out", str(tmp_path))[3:]],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[1/"):
            break
    os.kill(process.pid, signal.SIGINT)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 130
    assert rest.splitlines()[-1] == "leanlloyd: interrupted"
    assert "Traceback" not in rest


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--tau", "0"], 2, "temperature = 0.0 is out of range"),
        (["--family", "uniform"], 2, "family = 'uniform' is not known"),
        (["--k", "600"], 2, "n = 512 is out of range"),
        (["--code", "unary"], 2, "unknown code 'unary'"),
        (["--regularizer", "l3"], 2, "regularizer = 'l3' is not known"),
        (["--seeds", "0"], 2, "--seeds 0 is out of range"),
        (["--seed", "-1"], 2, "seed = -1 is out of range"),
        (["--steps", "0"], 2, "--steps 0 is out of range"),
        (["--workers", "0"], 2, "--workers 0 is out of range"),
        (["--device", "tpu"], 2, "--device tpu is not known"),
        (["--out", "/dev/null/run"], 4, "cannot write the run"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert run_main(["train", *arguments], monkeypatch) == code
    error = capsys.readouterr().err
    assert error.startswith(f"leanlloyd: {says}")
    assert error.count("\n") == 1


def test_a_folder_with_a_run_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [*SMALL, "--out", str(tmp_path), "--steps", "10", "--seeds", "1"]
    assert run_main(["train", *small], monkeypatch) == 0
    capsys.readouterr()
    assert run_main(["train", *small], monkeypatch) == 2
    assert "holds a run; --resume continues it" in capsys.readouterr().err
    assert run_main(["train", *small, "--resume", "--tau", "0.7"], monkeypatch) == 2
    assert "has temperature = 0.1, not 0.7" in capsys.readouterr().err
    # a finished run has nothing left to do, and says how it ended
    assert run_main(["train", "--out", str(tmp_path), "--resume"], monkeypatch) == 0
    assert "step 10: " in capsys.readouterr().out
    (tmp_path / "settings.json").unlink()
    assert run_main(["train", *small, "--resume"], monkeypatch) == 2
    assert "holds no training run" in capsys.readouterr().err


def run_main(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    from verify.cli import main

    monkeypatch.setattr(sys, "argv", ["leanlloyd", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)
