"""`leanlloyd bench`: well-formed output. No test is about speed."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from verify.bench import rationals, surrogate
from verify.cli import leanlloyd
from verify.console import CommandError


def test_bench_prints_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rationals, "N", 12)
    arguments = ["bench", "rationals", "--rounds", "1"]
    done = CliRunner().invoke(leanlloyd, arguments, standalone_mode=False)
    assert done.exit_code == 0
    assert "Fraction / fmpq" in done.stdout
    done = CliRunner().invoke(leanlloyd, [*arguments, "--json"], standalone_mode=False)
    (table,) = json.loads(done.stdout)["tables"]
    assert [row[0] for row in table["rows"]] == ["Lloyd step", "transformer"]
    assert all(row[3] == pytest.approx(row[1] / row[2]) for row in table["rows"])


def test_both_surrogates_have_the_same_gradient() -> None:
    table = surrogate.measure(sizes=(3, 40), rows=64, rounds=1)
    assert [row[:2] for row in table.rows] == [[3, 1.0], [3, 0.1], [40, 1.0], [40, 0.1]]
    assert all(row[-1] < 1e-4 for row in table.rows)


def test_bad_names_and_missing_packages_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(leanlloyd, ["bench", "nope"], standalone_mode=False)
    assert isinstance(done.exception, CommandError)
    assert "rationals, surrogate" in str(done.exception)
    monkeypatch.setitem(sys.modules, "entmax", None)
    done = CliRunner().invoke(leanlloyd, ["bench", "surrogate"], standalone_mode=False)
    assert isinstance(done.exception, CommandError)
    assert done.exception.code == 4
    assert "entmax" in str(done.exception)
