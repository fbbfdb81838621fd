"""The equality matrix: which cells turn red, what is undecidable, and what a cell says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from constructions import attention
from verify import arithmetic, claims, ledger
from verify.claim import PROFILES, Case, Evidence, Run, Verdict, verdict_of
from verify.claims.arithmetic import _matrix
from verify.claims.arithmetic._matrix import OPERATIONS, WRONG
from verify.report import render
from verify.runner import Done, run_check

NAMES = ("fmpq", "numpy64", "numpy32", "strict-device32", "torch-cpu64", "torch-cpu32")
RUN = Run(PROFILES["smoke"], 0, NAMES)
BY_DISTANCE = ("softmax attention", "hardmax attention", "Lloyd step", "exact transformer")


@pytest.fixture
def forget() -> Any:
    """True values stay true; nothing else is kept between runs of the matrix."""
    yield
    _matrix._truth.cache_clear()
    _matrix._bounds.cache_clear()


def evidence(claim_id: str, run: Run = RUN) -> Evidence:
    found = run_check(claim_id, "matrix", run).evidence
    assert len(found.tables[0].rows) == len(run.arithmetics)
    return found


def red(e: Evidence) -> set[tuple[str, str]]:
    (table,) = e.tables
    return {
        (row[0], column)
        for row in table.rows
        for column, cell in zip(table.columns, row, strict=True)
        if cell.startswith(WRONG)
    }


@pytest.mark.parametrize("name", ["torch-cpu32", "numpy64", "strict-device32"])
def test_a_fault_in_one_arithmetic_turns_exactly_its_cells_red(
    name: str, monkeypatch: pytest.MonkeyPatch, forget: Any
) -> None:
    """Public cases 1 to 4: squared distances in the expanded form."""
    assert red(evidence("same-bits")) == set()
    original, used = attention.squared_distances, arithmetic.get(name)

    def expanded(queries: Any, keys: Any, system: Any, *rest: Any, **named: Any) -> Any:
        library = system.xp.__name__.rsplit(".", 1)[-1]
        if (library, str(system.dtype).rsplit(".", 1)[-1]) != (used.library, used.element):
            return original(queries, keys, system, *rest, **named)
        xp = system.xp
        squares = [xp.sum(a * a, axis=-1) for a in (queries, keys)]
        cross = queries @ xp.matrix_transpose(keys)
        return squares[0][..., :, None] + squares[1][..., None, :] - 2 * cross

    monkeypatch.setattr(attention, "squared_distances", expanded)
    found = evidence("same-bits")
    assert red(found) == {(name, operation) for operation in BY_DISTANCE}
    assert found.violated
    assert found.counterexample is not None
    assert found.counterexample["arithmetic"] == name
    assert verdict_of(claims.get("same-bits"), [found]) == Verdict.REFUTED


def test_a_crash_is_a_wrong_answer_and_nothing_else_is_lost(
    monkeypatch: pytest.MonkeyPatch, forget: Any
) -> None:
    def crash(*_: Any) -> Any:
        raise ZeroDivisionError("planted")

    operations = tuple(replace(o, compute=crash) if o.name == "tasks" else o for o in OPERATIONS)
    monkeypatch.setattr(_matrix, "OPERATIONS", operations)
    found = evidence("rounding-bounds")
    assert red(found) == {(name, "tasks") for name in NAMES if name != "fmpq"}
    assert "ZeroDivisionError: planted" in str(found.card)


def test_a_bound_that_says_nothing_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, forget: Any
) -> None:
    def useless(operation: Any) -> Any:
        def bound(*given: Any) -> Any:
            return {name: 1e5 * np.asarray(b) for name, b in operation.bound(*given).items()}

        return replace(operation, bound=bound) if operation.name == "L2 surrogate" else operation

    monkeypatch.setattr(_matrix, "OPERATIONS", tuple(map(useless, OPERATIONS)))
    found = evidence("rounding-bounds")
    assert found.problem.startswith("bounds looser than they may be: L2 surrogate in numpy64")
    assert "tasks" not in found.problem
    assert verdict_of(claims.get("rounding-bounds"), [found]) == Verdict.OPEN


def test_a_decision_that_float32_cannot_make() -> None:
    """Public case 35: nearly tied centers. Undecidable is neither right nor wrong."""
    X, C = [[0.0], [1.0], [-1.0 - 2.0**-23]], [[1.0], [-1.0 - 2.0**-23]]
    claim = claims.get("rounding-bounds")
    said = {
        name: claim.judge(Case(operation="Lloyd step", X=X, C=C, arithmetic=name))[0]
        for name in ("fmpq", "numpy64", "numpy32", "torch-cpu64", "torch-cpu32")
    }
    assert said == {
        "fmpq": "holds",
        "numpy64": "holds",
        "numpy32": "undecided",
        "torch-cpu64": "holds",
        "torch-cpu32": "undecided",
    }


def test_what_a_cell_says_and_how_the_report_shows_it(forget: Any) -> None:
    run = Run(PROFILES["smoke"], 0, ("fmpq", "torch-cpu32", "torch-cpubf16"))
    done = [run_check(name, "matrix", run) for name in ("same-bits", "rounding-bounds")]
    tables = [
        dict(zip(t.columns, zip(*t.rows, strict=True), strict=True))
        for d in done
        for t in d.evidence.tables
    ]
    assert tables[0]["Lloyd step"] == ("bit-equal", "bit-equal", "not run: no half precision")
    assert tables[0]["softmax attention"][0] == "not run: not rational"
    assert tables[1]["exact transformer"][0] == "equal"
    assert "of the bound" in tables[1]["trainable forward pass"][2]
    assert done[0].settings["torch-cpu32"]["threads"] == 1
    again = run_check("rounding-bounds", "matrix", run).evidence
    assert again.to_json() == done[1].evidence.to_json()

    done[0].evidence.tables[0].rows[1][3] = f"{WRONG} wrong in 1 of 6"
    files = render(ledger.build(done, run), ledger.volatile(done, run, 1.0))
    page, text = str(files["report.html"]), str(files["report.md"])
    assert '<td class="bad">✗ wrong in 1 of 6</td>' in page
    assert page.count('class="bad"') == 1
    assert "| fmpq | not run: not rational |" in text
    assert "torch-cpubf16 | library: torch, version: " in text
    assert "Number systems" in text


def test_a_pending_result_keeps_its_settings(tmp_path: Any) -> None:
    from verify.runner import _load, _store

    done = Done(
        "same-bits",
        Evidence("matrix", claims.get("same-bits").checks[0].method),
        1.0,
        {"numpy64": {"threads": 1}},
    )
    _store(tmp_path, done, RUN)
    found = _load(tmp_path, "same-bits", claims.get("same-bits").checks[0], RUN)
    assert found is not None
    assert found.settings == done.settings
