"""leanlloyd reproduce, as its users see it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from verify.experiments import grids

TINY = grids.Scale(
    "smoke", 12, 20, 5, (12, 24), (("validate_every", 10), ("validation_batches", 1), ("batch", 4))
)


def run_main(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    from verify.cli import main

    monkeypatch.setattr(sys, "argv", ["leanlloyd", "reproduce", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_it_trains_decides_draws_and_does_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(grids.SCALES, "smoke", TINY)
    rows = ["learn-code-needed", "learn-tau-0.1", "--scale", "smoke", "--out", str(tmp_path)]
    assert run_main([*rows, "-j", "1"], monkeypatch) == 0
    out = capsys.readouterr().out
    assert "6 of 6 cells finished" in out  # the rows share three of them
    # nothing is learned in 20 steps: what needs a code fails, what needs none holds
    assert "learn-code-needed: reproduced in part" in out
    assert "violated  final loss, one-hot, L2 < 0.95" in out
    assert "holds     final loss, no code, L2 > 1.05" in out
    figures = list((tmp_path / "figures").iterdir())
    assert len(figures) == 2
    assert all(f"drawn: {figure}" in out for figure in figures)
    assert all("one Lloyd step" in figure.read_text() for figure in figures)
    before = {f: f.stat().st_mtime_ns for f in (tmp_path / "cells").glob("*/models.safetensors")}
    assert len(before) == 6
    assert run_main(rows, monkeypatch) == 0
    assert "6 of them finished before" in capsys.readouterr().err
    assert {f: f.stat().st_mtime_ns for f in before} == before
    assert run_main([*rows, "--estimate"], monkeypatch) == 0
    assert "6 cells, 30 models, 6 cells finished" in capsys.readouterr().out


def test_the_reference_results_decide_without_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(["multi-step", "--reference", "--out", str(tmp_path)], monkeypatch) == 0
    out = capsys.readouterr().out
    assert "re-embedding less Lloyd after 20 steps, binary, L2 < 0" in out
    assert len(list((tmp_path / "figures").iterdir())) == 3
    assert not (tmp_path / "cells").exists()
    few = ["multi-step", "--reference", "--scale", "smoke", "--out", str(tmp_path)]
    assert run_main(few, monkeypatch) == 0
    assert "not testable here (not run at this scale)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["learn-everything"], 2, "no row 'learn-everything'; expected learn-tau-0.1, "),
        (["--scale", "huge"], 2, "Invalid value for '--scale': 'huge' is not one of"),
        (["multi-step", "-j", "0"], 2, "--jobs 0 is out of range"),
        (["multi-step", "--out", "/dev/null/x"], 4, "cannot write the sweep"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert run_main(arguments, monkeypatch) == code
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith(f"leanlloyd: {says}")
    assert "Traceback" not in error


def test_the_list_counts_cells(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(["--list", "--scale", "paper"], monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(grids.GRIDS)
    assert "multi-step: 3 cells" in lines
