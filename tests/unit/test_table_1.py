"""The claim `table-1` judges a recorded measurement, whatever it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from verify.bench import recorded as records
from verify.bench.attention import CLUSTERS, CODES_TABLE, PAPER, QUANTITIES
from verify.claim import Run, Table, Verdict, to_json, verdict_of
from verify.claims.expressivity import table_1
from verify.cli import leanlloyd
from verify.console import CommandError

COLUMNS = ("batch", "k", "narrower code", "quantity", "plain", "plain, least", "plain, largest",
           "fast", "fast, least", "fast, largest", "paper")  # fmt: skip


def record(factor: float, spread: float = 1.01) -> list[Table]:
    """A measurement that finds the paper's ratios times a factor at k = 1000, up to a spread."""
    rows: list[list[Any]] = []
    for batch in (1, table_1.BATCH):
        for k in CLUSTERS:
            for code in ("binary", "scalar"):
                for i, quantity in enumerate(QUANTITIES):
                    ratio = PAPER[k][i] * (factor if k == 1000 else 1.0)
                    found = [ratio, ratio / spread, ratio * spread]
                    rows.append([batch, k, code, quantity, *found, *found, PAPER[k][i]])
    return [Table(CODES_TABLE, "", COLUMNS, rows)]


def judged(folder: Path, tables: list[Table] | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(records, "reference", lambda: folder)
    if tables is not None:
        text = json.dumps(records.to_record(tables, 5))
        (folder / f"{table_1.FILE}.json").write_text(text, "utf-8")
    claim = table_1.CLAIM
    evidence = [check.run(claim, Run()) for check in claim.checks]
    return verdict_of(claim, evidence), evidence


def test_the_verdict_follows_from_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, (plain, fast, gpu) = judged(tmp_path, None, monkeypatch)
    assert verdict is Verdict.NOT_TESTABLE
    assert plain.note == f"not measured; `{table_1.COMMAND}` does"
    verdict, (plain, fast, gpu) = judged(tmp_path, record(1.2), monkeypatch)
    assert verdict is Verdict.REPRODUCED
    assert plain.cases == fast.cases == 18
    assert "measured on 20" in plain.note
    assert "--device cuda" in gpu.note
    verdict, (plain, *_) = judged(tmp_path, record(0.9), monkeypatch)
    assert verdict is Verdict.PARTLY
    assert plain.violated == 3
    # rounds on both sides of the stated value leave it open
    _, (plain, *_) = judged(tmp_path, record(0.9, spread=1.3), monkeypatch)
    assert plain.violated == 0
    assert plain.undecided >= 3
    figures = [t for t in plain.tables if t.plot]
    assert [t.name for t in figures] == [f"plain-{q}" for q in QUANTITIES]
    assert figures[0].rows[-1][:3] == [1000, 12.14, 10.93]


def test_multiply_adds_are_those_of_the_twelve_products() -> None:
    def one_by_one(width: int, k: int) -> int:
        n, total = table_1.N, 0
        for queries, keys in ((n, k), (n, n), (k, n), (k, k)):
            total += (queries + 2 * keys) * width**2 + 2 * queries * keys * width
        return total

    for k, width in ((6, 3), (1000, 10)):
        expected = one_by_one(table_1.D + k, k) / one_by_one(table_1.D + width, k)
        assert table_1.counted(k) == pytest.approx(expected, rel=1e-12)


def test_bench_writes_what_claims_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from verify.bench import rationals

    monkeypatch.setattr(rationals, "N", 12)
    monkeypatch.setattr(records, "reference", lambda: tmp_path)
    arguments = ["bench", "rationals", "--rounds", "1", "--out", str(tmp_path / "some.json")]
    done = CliRunner().invoke(leanlloyd, arguments, standalone_mode=False)
    assert done.exit_code == 0
    found = records.recorded("some")
    assert found is not None
    assert list(found["tables"]) == ["bench-rationals"]
    assert found["tables"]["bench-rationals"].columns[0] == "work"
    assert "torch" in records.where(found)
    assert records.recorded("other") is None
    (kept,) = records.kept()
    assert kept["where"] == records.where(found)
    assert kept["tables"][0]["rows"] == to_json(found["tables"]["bench-rationals"].rows)
    arguments[-1] = "/dev/null/some.json"
    done = CliRunner().invoke(leanlloyd, arguments, standalone_mode=False)
    assert isinstance(done.exception, CommandError)
    assert done.exception.code == 4


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--device", "tpu"], 2, "--device tpu is not known"),
        (["--device", "cuda"], 4, "torch finds no CUDA device here"),
        (["rationals", "--device", "cuda"], 2, "bench rationals has no --device cuda"),
    ],
)
def test_devices(
    arguments: list[str], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: code == 2)
    done = CliRunner().invoke(leanlloyd, ["bench", *arguments], standalone_mode=False)
    assert isinstance(done.exception, CommandError)
    assert done.exception.code == code
    assert says in str(done.exception)
