"""Implementations under test: three ways in, one engine, one clear record of what goes wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch

from constructions import InputError
from verify.conformance import conformance, declare

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "implementations.md"


def step(X, C):
    nearest = ((X[:, None] - C) ** 2).sum(-1).argmin(1)
    return np.array([X[nearest == j].mean(0) for j in range(len(C))])


def torch_step(points, centers):
    labels = (points[..., :, None, :] - centers[..., None, :, :]).square().sum(-1).argmin(-1)
    members = torch.nn.functional.one_hot(labels, centers.shape[-2]).to(points.dtype)
    return (members.mT @ points) / members.sum(-2)[..., None], labels


def list_step(points, init):
    groups = [[] for _ in init]
    for p in points:
        r = [sum((a - b) ** 2 for a, b in zip(p, c, strict=True)) for c in init]
        groups[r.index(min(r))].append(p)
    return [
        [sum(column) / len(g) for column in zip(*g, strict=True)] if g else list(c)
        for g, c in zip(groups, init, strict=True)
    ]


def by_name(*, data, centroids):
    return {"labels": None, "centroids": step(data, centroids)}


RIGHT = (
    (step, {"assignments", "batch"}),
    (torch_step, {"read-only"}),
    (list_step, {"assignments", "batch", "float32", "memory-layout", "read-only"}),
    (by_name, {"assignments", "batch"}),
)


@pytest.mark.parametrize(("found", "lacks"), RIGHT, ids=lambda v: getattr(v, "__name__", ""))
def test_a_right_step_passes_and_nothing_is_skipped_in_silence(found, lacks) -> None:
    records = conformance(found, cases=12)
    assert [r for r in records if r.outcome == "violated"] == []
    assert {r.property for r in records if r.outcome == "unsupported"} == lacks
    assert all(r.message for r in records if r.outcome == "unsupported")
    assert records.declaration.role == "lloyd_step"


def _none(X, C):
    return None


def _points(X, C):
    return X


def _nan(X, C):
    return C * np.nan


def _raises(X, C):
    raise RuntimeError("no\nway")


def _exits(X, C):
    os._exit(3)


def _hangs(X, C):
    time.sleep(60)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (_none, "None"),
        (_points, "shape (5, 2)"),
        (_nan, "not finite"),
        (_raises, "RuntimeError: no way"),
        (_exits, "exit code 3"),
        (_hangs, "no answer within 1 seconds"),
    ],
)
def test_what_gives_no_answer_gets_one_record(found, words) -> None:
    records = conformance(found, timeout=1.0 if found is _hangs else 60.0)
    (record,) = records
    assert (record.property, record.outcome) == ("answers", "violated")
    assert words in record.message
    assert not records.ok


def test_one_that_prints_or_answers_otherwise_each_time_gets_one_record() -> None:
    def prints(X, C):
        print("hello")
        return step(X, C)

    def random(X, C):
        return step(X, C) + np.random.default_rng().random()

    (record,) = conformance(prints, only="silent")
    assert record.outcome == "violated"
    assert "hello" in record.message
    records = conformance(random, cases=5)
    assert [r.property for r in records if r.outcome == "violated"] == ["repeatable"]
    assert sum(r.message.startswith("not judged") for r in records) > 10


def test_what_an_object_declares_is_taken() -> None:
    @declare(ties="highest")
    def last(X, C):
        r = ((X[:, None] - C) ** 2).sum(-1)
        nearest = len(C) - 1 - r[:, ::-1].argmin(1)
        return np.array([X[nearest == j].mean(0) for j in range(len(C))])

    records = conformance(last, only="ties")
    assert records.ok
    assert records.declaration.ties == "highest"
    with pytest.raises(InputError, match="ties = 'odd' is not known"):
        declare(ties="odd")


def test_expected_failures_are_strict() -> None:
    wanted = {"nan-points": "fills gaps", "ties": "its own rule"}

    def filling(X, C):
        return step(np.nan_to_num(X), C)

    with pytest.raises(InputError, match="'tie' is no property"):
        conformance(filling, expect={"tie": "a slip"}, only="ties")
    records = conformance(filling, expect=wanted, cases=8)
    found = {r.property: records.status(r) for r in records}
    assert (found["nan-points"], found["ties"]) == ("expected", "unexpectedly holds")
    assert not records.ok
    assert conformance(filling, expect={"nan-points": "fills gaps"}, cases=8).ok


def leanlloyd(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    """Its first example: a right step in five lines, with the output as printed."""
    (tmp_path / "mine.py").write_text(blocks("python")[0])
    done = leanlloyd("verify", "conform", "mine.py:step", folder=tmp_path)
    assert done.stdout == blocks("text")[0]
    assert done.returncode == 0


def test_the_page_shows_a_violation_that_can_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(blocks("python")[1])
    options = ("--only", "translation", "--out", "found")
    done = leanlloyd("verify", "conform", "mine.py:step", *options, folder=tmp_path)
    assert done.stdout == blocks("text")[1]
    assert done.returncode == 1
    again = leanlloyd("verify", "replay", "mine.py:step", "found/translation.json", folder=tmp_path)
    assert again.returncode == 1
    assert "translation: violated" in again.stdout
    program = tmp_path / "found" / "translation.py"
    assert "verify" not in program.read_text()
    script = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert script.returncode == 0
    assert "implementation:" in script.stdout
    assert json.loads((tmp_path / "found" / "records.json").read_text())["counts"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.at.all:x",), "no module 'nowhere.at.all'"),
        (("mine.py:nothing",), "mine.py has no nothing"),
        (("mine.py:number",), "int is not callable"),
        (("mine.py:unclear",), "--as ROLE"),
        (("mine.py",), "names no object"),
        (("broken.py:x",), "broken.py cannot be imported: ValueError: oh"),
        (("mine.py:step", "--as", "sorter"), "role = 'sorter' is not known"),
        (("mine.py:step", "--expect", "absent.toml"), "absent.toml: no such file"),
    ],
)
def test_wrong_usage_is_one_line(arguments, words, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "number = 3\ndef unclear(alpha, beta): return 1\ndef step(X, C): return C\n"
    )
    (tmp_path / "broken.py").write_text("raise ValueError('oh')\n")
    done = leanlloyd("verify", "conform", *arguments, folder=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert words in line


def test_pytest_takes_an_implementation_and_a_test_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(blocks("python")[1])
    (tmp_path / "test_mine.py").write_text(
        "from verify.conformance import parametrize_with_properties\n"
        "from mine import step\n\n"
        "@parametrize_with_properties([step], expect={'translation': 'expanded square'})\n"
        "def test_step(implementation, check):\n"
        "    check(implementation)\n"
    )
    installed = {e.name for e in metadata.entry_points(group="pytest11")}
    plugin = () if "leanlloyd" in installed else ("-p", "verify.pytest_plugin")
    chosen = "ties or translation or batch"
    command = ("pytest", *plugin, "-p", "no:cacheprovider", "-q", "-rA", "-k", chosen)
    own = leanlloyd(*command, "test_mine.py", folder=tmp_path)
    assert "1 passed, 1 skipped" in own.stdout
    assert "1 xfailed" in own.stdout
    assert "step-translation" in own.stdout
    there = leanlloyd(*command, "--leanlloyd", "mine.py:step", folder=tmp_path)
    assert there.returncode == 1
    assert "1 failed, 1 passed" in there.stdout.replace(", 1 skipped", "")
    assert "expanded square" in there.stdout
    wrong = leanlloyd(*command, "--leanlloyd", "mine.py:nothing", folder=tmp_path)
    assert wrong.returncode == 4
    assert "mine.py has no nothing" in wrong.stderr
