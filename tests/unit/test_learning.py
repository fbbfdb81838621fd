"""Learning claims: intervals, statements, tables, and that every row trains what it is about."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constructions import InputError
from verify import claims, ledger, runner
from verify.claim import Answer, Evidence, Method, Verdict, verdict_of
from verify.claims.learning import _cauchy
from verify.claims.learning._deciding import (
    ALIKE,
    NOT_ABOVE,
    Statement,
    judge,
    two_seeds,
)
from verify.claims.learning._shared import (
    curves,
    difference,
    final,
    iterations,
    label,
)
from verify.experiments import grids, results
from verify.experiments.estimates import elapsed
from verify.experiments.evaluate import OF_ROW, TESTS
from verify.experiments.results import Interval, Results, interval
from verify.experiments.runs import MODELS
from verify.experiments.sweep import collect

NAN, INF = math.nan, math.inf
MODULES = {
    row: _cauchy if row == "cauchy-gap" else claims.registry()[row][2]
    for row in grids.GRIDS
    if row != "loss-surface"  # its numbers are of another kind: test_surfaces
}
SMOKE = {row: grids.cells(row, "smoke") for row in grids.GRIDS}


def test_an_interval_covers_the_median_as_often_as_it_says() -> None:
    """Every set of signs about the true median is equally likely, so coverage is a count."""
    for n in range(1, 12):
        covered = 0
        for signs in product((-1.0, 1.0), repeat=n):
            values = [s * (i + 1) for i, s in enumerate(signs)]
            found = interval(values)
            covered += found.low <= 0 <= found.high
        assert covered / 2**n >= 0.9, n
        if n >= 5:  # and not for being without ends
            assert math.isfinite(found.low)
            assert math.isfinite(found.high)
    assert interval([3, 1, 2, 5, 4]) == Interval(3, 1, 5, 5)
    assert interval([1.0, 2.0])[:3] == (1.5, -INF, INF)
    assert interval([1, 2, 3, 4, NAN])[:3] == (3, 1, INF)  # a diverged model is the worst
    assert interval([]).seeds == 0


@pytest.mark.parametrize(
    ("side", "bound", "found", "answer"),
    [
        ("<", 1.0, Interval(0.8, 0.7, 0.9, 5), Answer.HOLDS),
        ("<", 1.0, Interval(0.8, 0.7, 1.1, 5), Answer.UNDECIDED),
        ("<", 1.0, Interval(1.3, 1.1, INF, 5), Answer.VIOLATED),
        (">", 1.0, Interval(1.3, 1.1, INF, 5), Answer.HOLDS),
        (">", 1.0, Interval(0.8, 0.7, 0.9, 5), Answer.VIOLATED),
        (">", 0.0, Interval(1.0, -INF, INF, 3), Answer.UNDECIDED),
        (ALIKE, 0.0, Interval(0.0, -0.05, 0.05, 5), Answer.HOLDS),
        (ALIKE, 0.0, Interval(0.05, 0.01, 0.2, 5), Answer.UNDECIDED),  # less than two seeds
        (ALIKE, 0.0, Interval(0.3, 0.2, 0.4, 5), Answer.VIOLATED),
        (ALIKE, 0.0, Interval(-0.3, -0.4, -0.2, 5), Answer.VIOLATED),
        (ALIKE, 0.0, Interval(NAN, -INF, INF, 4), Answer.UNDECIDED),
        (NOT_ABOVE, 0.0, Interval(-0.3, -0.4, -0.2, 5), Answer.HOLDS),
        (NOT_ABOVE, 0.0, Interval(0.3, 0.2, 0.4, 5), Answer.VIOLATED),
        (NOT_ABOVE, 0.0, Interval(0.05, 0.01, 0.2, 5), Answer.UNDECIDED),
        ("<", 0.0, Interval(NAN, -INF, INF, 0), Answer.UNDECIDED),
    ],
)
def test_a_statement_is_decided_by_the_whole_interval(
    side: str, bound: float, found: Interval, answer: Answer
) -> None:
    assert Statement("", side, bound, (), lambda _: []).decide(found, 0.1) is answer


class Fake(Results):
    """Results of cells that are looked up, not trained; remembers what was asked for."""

    def __init__(self, value: Any, absent: tuple[str, ...] = ()) -> None:
        self.value, self.absent = value, absent
        self.asked: set[tuple[str, str]] = set()

    def has(self, cell: Any) -> bool:
        return cell.name not in self.absent

    def curve(self, cell: Any, column: str = "relative") -> dict[int, list[float]]:
        at, n = self.value(cell), len(cell.seeds)
        return {
            step: [at * (1 + 0.001 * i) + 0.3 * (1 - step / cell.steps) for i in range(n)]
            for step in range(20, cell.steps + 1, 20)
        }

    def evaluation(self, cell: Any, test: str, method: str) -> dict[int, list[float]]:
        self.asked.add((cell.name, test))
        if method == "lloyd":
            return {t: [-1.0 - t / 100] for t in range(21)}
        seeds = range(len(cell.seeds))
        return {t: [self.value(cell) - 1 - t / 50 + i / 1e4 for i in seeds] for t in range(21)}


@pytest.mark.parametrize("row", list(MODULES))
def test_a_row_trains_and_tests_what_its_statements_are_about(row: str) -> None:
    for scale in grids.SCALES:
        trained = {cell.name for cell in grids.cells(row, scale)}
        fake = Fake(lambda cell: 0.9)
        module = MODULES[row]
        statements = module.statements(scale)
        for extra in ("remedies", "plusplus", "as_well", "many_steps"):
            statements = statements + getattr(module, extra, lambda _: [])(scale)
        others = grids.cells("cauchy-gap", scale) if row == "learn-families" else []
        trained |= {cell.name for cell in others}
        assert len({s.says for s in statements}) == len(statements) > 0
        for s in statements:
            assert {cell.name for cell in s.needs} <= trained, s.says
            assert len(s.values(fake)) == len(s.needs[0].seeds), s.says
            assert len(s.values(fake)) >= grids.SCALES[scale].seeds, s.says
        assert {test for _, test in fake.asked} <= set(OF_ROW.get(row, ())), row
        for table in getattr(module, "figures", lambda *_: [])(scale, fake):
            assert table.rows, table.name
            assert all(len(r) == len(table.columns) for r in table.rows), table.name
    assert set(OF_ROW.get(row, ())) <= {*TESTS, "gap"}


def test_the_verdict_follows_from_the_statements() -> None:
    claim = claims.get("learn-code-needed")
    module = MODULES[claim.id]

    def verdict(value: Any, absent: tuple[str, ...] = ()) -> tuple[Verdict, Evidence]:
        e = Evidence("smoke", Method.EXPERIMENT)
        judge(e, {"smoke": module.statements("smoke")}, Fake(value, absent))
        return verdict_of(claim, [e]), e

    def paper(cell: Any) -> float:
        return 1.2 if cell.settings.code == "none" else 0.9

    names = tuple(cell.name for cell in SMOKE[claim.id])
    found, e = verdict(paper)
    assert (found, e.cases, e.violated, e.undecided) == (Verdict.REPRODUCED, 3, 0, 0)
    assert [row[-1] for row in e.tables[0].rows] == ["holds"] * 3
    found, e = verdict(lambda cell: 0.9)
    assert (found, e.violated) == (Verdict.PARTLY, 1)
    assert (e.bound, round(e.measured, 2)) == (1.05, 0.9)  # the statement that is violated
    assert verdict(lambda cell: 3 - paper(cell) * 2)[0] is Verdict.NOT_REPRODUCED
    found, e = verdict(paper, names[:1])
    assert (found, e.cases, e.undecided) == (Verdict.PARTLY, 3, 1)
    assert "1 of 3 statements" in e.note
    assert e.tables[1].rows[0][-1] == "not run at any scale"
    assert "not run" in [row[-1] for row in e.tables[0].rows]
    found, e = verdict(paper, names[:2])  # too few to speak of the claim
    assert (found, e.cases, e.violated, e.undecided) == (Verdict.NOT_TESTABLE, 0, 0, 0)
    assert [row[-1] for row in e.tables[0].rows].count("holds") == 1
    found, e = verdict(paper, names)
    assert (found, e.cases, e.tables) == (Verdict.NOT_TESTABLE, 0, [])
    assert e.note == "not run at this scale"


@pytest.mark.parametrize(
    ("large", "small", "verdict", "reason"),
    [
        (0.9, 1.1, Verdict.REPRODUCED, ""),
        (1.1, 0.9, Verdict.NOT_REPRODUCED, "a matter of scale"),
        (1.1, 1.1, Verdict.NOT_REPRODUCED, "against the paper, at its own scale"),
        (None, 1.1, Verdict.NOT_REPRODUCED, "so it may be a matter of scale"),
        (None, 0.9, Verdict.REPRODUCED, ""),
        (0.98, 0.9, Verdict.OPEN, "the interval from 10 seeds holds the bound"),
    ],
)
def test_the_largest_scale_decides(
    large: float | None, small: float, verdict: Verdict, reason: str
) -> None:
    by_scale = {
        scale: [Statement("loss", "<", 1.0, (cell,), final(cell))]
        for scale in ("paper", "laptop")
        for cell in grids.cells("learn-code-needed", scale)[:1]
    }
    absent = (by_scale["paper"][0].needs[0].name,) if large is None else ()
    fake = Fake(lambda cell: large if cell.settings.n == 512 else small, absent)
    e = Evidence("trained", Method.EXPERIMENT)
    judge(e, by_scale, fake)
    assert verdict_of(claims.get("learn-code-needed"), [e]) is verdict
    scales = [row[1] for row in e.tables[0].rows]
    assert scales == (["laptop"] if large is None else ["paper", "laptop, does not count"])
    assert [row[-1].count(reason) for t in e.tables[1:] for row in t.rows] == [1] * bool(reason)
    both = large is not None and (large < 1) != (small < 1)
    assert ("scales disagree on loss" in e.note) == (both or large == 0.98)


def test_the_hours_of_cells_that_workers_share() -> None:
    assert elapsed([3, 1, 1, 1], 1) == 6
    assert elapsed([3, 1, 1, 1], 2) == 3
    assert elapsed([1, 1, 3], 2) == 4  # a cell is not split, and is taken when its turn comes
    assert elapsed([2.0], 9) == 2
    assert elapsed([], 2) == 0


def test_two_seeds_differ_by_the_median_over_pairs() -> None:
    assert two_seeds(lambda _: [0.0, 1.0, 3.0], lambda _: [5.0, 5.0])(Fake(None)) == 1.5


def test_differences_are_seed_by_seed_and_sizes_keep_spread() -> None:
    fake = Fake(lambda cell: 1.0 if cell.settings.code == "binary" else 1.5)
    cells = {cell.settings.code: cell for cell in SMOKE["multi-step"]}
    less = difference(final(cells["binary"]), final(cells["one_hot"]))
    found = interval(less(fake))
    assert found.high - found.low < 0.003 < 0.49 < -found.value
    assert label(cells["binary"], "temperature", "d") == "binary, L2, τ = 0.1, d = 4"


def test_tables_survive_the_way_to_disk_and_back(tmp_path: Path) -> None:
    cell = SMOKE["multi-step"][0]
    place = tmp_path / "cell"
    place.mkdir()
    rows = [
        (s, seed, 0.5, 1.0 - s / 1000 + seed / 100, 0.01)
        for s in (20, 40, 100)
        for seed in range(5)
    ]
    text = "step,seed,loss,relative,learning_rate\n" + "".join(
        ",".join(map(str, row)) + "\n" for row in rows
    )
    (place / "curve.csv").write_text(text.replace("20,1,0.5", "20,1,nan"))
    (place / "record.json").write_text('{"seconds": [1, 2, 5], "redraws": 3, "machine": "m"}')
    table = results.curve_table(cell, place)
    results.write(table, tmp_path / results.CURVES)
    evaluated = [
        {"cell": cell.name, "seed": s, "test": "same", "method": "naive", "step": 0, "value": 2.0}
        for s in range(5)
    ]
    results.write(results.evaluation_table(evaluated), tmp_path / results.EVALUATIONS)
    found = Results(tmp_path)
    assert found.has(cell)
    assert list(found.curve(cell)) == [20, 40, 100]
    assert found.final(cell) == [row[3] for row in rows[-5:]]
    assert found.curve(cell, "seconds")[40] == [2.0] * 5
    assert found.evaluation(cell, "same", "naive") == {0: [2.0] * 5}
    assert not Results(tmp_path / "nowhere").has(cell)
    # a table of an older version lacks a setting: it gets the default
    older = table.drop_columns(["qkv_multiplier"])
    results.write(older, tmp_path / results.CURVES)
    again = results.read(tmp_path / results.CURVES, results.CURVE_SCHEMA)
    assert again.column("qkv_multiplier").to_pylist() == [1] * 15
    # a sweep in the folder adds to the table, and replaces what it has made again
    other = SMOKE["multi-step"][1]
    again = tmp_path / "cells" / other.name
    again.mkdir(parents=True)
    for name in ("curve.csv", "record.json"):
        (again / name).write_bytes((place / name).read_bytes())
    (again / "settings.json").write_text(json.dumps(other.to_json()))
    (again / MODELS).touch()
    for _ in range(2):
        assert collect(tmp_path) == []
        both = Results(tmp_path)
        assert len(results.read(tmp_path / results.CURVES, results.CURVE_SCHEMA)) == 30
        assert both.final(cell) == both.final(other) == found.final(cell)
        assert both.evaluation(cell, "same", "naive") == {0: [2.0] * 5}
    (tmp_path / results.CURVES).write_bytes(b"PAR1 is not enough")
    with pytest.raises(InputError, match=r"curves.parquet is not a table of results"):
        Results(tmp_path)


def test_figures_are_drawn_with_bands() -> None:
    from dataclasses import asdict

    from verify.claim import to_json
    from verify.report.figures import svg_file

    cells = {label(cell): cell for cell in SMOKE["multi-step"]}
    fake = Fake(lambda cell: 0.9)
    for table in (
        curves("c", "Curves", cells, fake),
        iterations("i", "Steps", {n: (c, "same", "naive") for n, c in cells.items()}, fake),
    ):
        drawn = svg_file(to_json(asdict(table))).decode()
        assert drawn.count("PolyCollection") == len(cells)
        assert "one-hot, L2" in drawn


def test_learning_claims_depend_on_the_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "curves.parquet").write_bytes(b"1")
    monkeypatch.setattr(results, "reference", lambda: tmp_path)
    names = {row: {f.name for f in runner.sources(row)} for row in ("multi-step", "thm-2.1")}
    assert "curves.parquet" in names["multi-step"]
    assert "curves.parquet" not in names["thm-2.1"]


def test_finals_take_the_median_of_the_last_tenth() -> None:
    cell = SMOKE["multi-step"][0]
    found = Results(Path("/nowhere"))
    found._curves[cell.name] = [
        {"step": s, "relative": v} for s, v in ((80, 9.0), (92, 1.0), (96, 5.0), (100, 2.0))
    ]
    assert found.final(cell) == [2.0]
    assert np.isnan(interval([]).value)


def test_a_source_conflict_is_decided_by_the_scale_that_counts() -> None:
    def evidence(check: str, answers: tuple[str, ...]) -> dict[str, Any]:
        rows = [
            ["binary", "paper", 1.03, 1.02, 1.05, "", 10, answers[0]],
            ["binary", "laptop, does not count", 0.9, 0.8, 0.95, "", 10, answers[1]],
            ["one-hot", "paper", 0.99, 0.97, 1.01, "", 10, answers[2]],
        ]
        return {"check": check, "cases": 2, "tables": [{"rows": rows}]}

    found = ledger._sided(
        {
            "evidence": [
                evidence("review", ("violated", "holds", "undecided")),
                evidence("summary", ("holds", "violated", "undecided")),
            ]
        },
        ("summary", "review"),
    )
    assert found == [
        "binary: 1.03 (1.02 to 1.05), paper scale: the summary is right",
        "one-hot: 0.99 (0.97 to 1.01), paper scale: undecided between them",
    ]
