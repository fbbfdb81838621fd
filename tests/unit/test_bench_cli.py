"""`leanlloyd bench`: well-formed output. No test is about speed."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from verify.bench import rationals, surrogate
from verify.bench._measure import by_round, compared
from verify.cli import leanlloyd
from verify.console import CommandError


def test_bench_prints_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rationals, "N", 12)
    arguments = ["bench", "rationals", "--rounds", "1"]
    done = CliRunner().invoke(leanlloyd, arguments, standalone_mode=False)
    assert done.exit_code == 0
    assert "one by one" in done.stdout
    done = CliRunner().invoke(leanlloyd, [*arguments, "--json"], standalone_mode=False)
    (table,) = json.loads(done.stdout)["tables"]
    assert [row[0] for row in table["rows"]] == ["Lloyd step", "transformer"]
    for _, slow, fast, ratio, least, largest, _ in table["rows"]:
        assert ratio == pytest.approx(slow / fast)
        assert 0 < least == pytest.approx(ratio) == largest  # one round


def test_both_surrogates_have_the_same_gradient() -> None:
    table = surrogate.measure(sizes=(3, 40), rows=64, rounds=1)
    assert [row[:2] for row in table.rows] == [[3, 1.0], [3, 0.1], [40, 1.0], [40, 0.1]]
    assert all(row[-1] < 1e-4 for row in table.rows)


def test_bad_names_and_missing_packages_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(leanlloyd, ["bench", "nope"], standalone_mode=False)
    assert isinstance(done.exception, CommandError)
    assert "rationals, surrogate" in str(done.exception)
    monkeypatch.setitem(sys.modules, "entmax", None)
    monkeypatch.setattr(rationals, "N", 12)
    arguments = ["bench", "surrogate", "rationals", "--rounds", "1", "--json"]
    done = CliRunner().invoke(leanlloyd, arguments, standalone_mode=False)
    assert isinstance(done.exception, CommandError)
    assert done.exception.code == 4
    assert "bench surrogate not run: entmax is not installed" in str(done.exception)
    assert [t["name"] for t in json.loads(done.stdout)["tables"]] == ["bench-rationals"]


def test_a_contest_has_medians_and_the_range_of_its_rounds() -> None:
    assert compared([4.0, 9.0, 1.0], [2.0, 2.0, 1.0]) == [4.0, 2.0, 2.0, 1.0, 4.5]
    rounds = by_round({"one": lambda: None, "two": lambda: sum(range(1000))}, 3)
    assert {name: len(times) for name, times in rounds.items()} == {"one": 3, "two": 3}
