"""JSON handed in by a person: which field holds what, and nothing else is ever raised."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify import ledger
from verify.bounds.attack import AttackError, Witness
from verify.cli import main
from verify.handed import HandedError, parse, require_shapes

CASE = '{"X": [["0"],["1"],["2"]], "C": [["0"],["2"]], "code": "binary", "steps": 1}'
DEEP = '{"X": ' + "[" * 100_000 + "]" * 100_000 + "}"
WRONG = {
    DEEP: "nested too deeply",
    CASE.replace('"1"', '"1e9999999"'): "'X[1][0]' holds \"1e9999999\"; allowed: numbers",
    CASE.replace('"1"', '"1/0"'): "'X[1][0]' holds \"1/0\"",
    CASE.replace('"1"', "NaN"): "NaN is no JSON number",
    CASE.replace('"1"', "1e999"): "'X[1][0]' is beyond the range",
    CASE.replace('"1"', "true"): "'X[1][0]' holds true or false",
    CASE.replace('"1"', "null"): "'X[1][0]' holds null",
    CASE.replace('"1"', '"one"'): "'X[1][0]' holds \"one\"",
    CASE.replace('["1"]', '["1", 2]'): "'X': entry 1 (from 0) has length 2, entry 0 has length 1",
    CASE.replace('["1"]', "1"): "entry 1 (from 0) has a single value",
    CASE.replace('"steps": 1', '"steps": true'): "'steps' holds true or false; allowed: a number",
    CASE.replace('"steps": 1', '"steps": "1/0"'): "'steps' holds \"1/0\"",
    CASE.replace('"binary"', "3"): "'code' holds a number; allowed: a text",
    CASE.replace('"steps": 1', '"steps": 1, "steps": 2'): "'steps' is given twice",
    CASE.replace('[["0"],["2"]]', '["0","2"]'): "'C' holds a list; allowed: a list of lists",
    CASE[:-1]: "no JSON",
    "[1]": "holds a list; expected an object",
    "9" * 5000: "no JSON",
    CASE.replace('"1"', '"' + "9" * 5000 + '"'): "'X[1][0]' holds 5000 characters",
}


def run(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["leanlloyd", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0), capsys.readouterr().err


def test_cases_that_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "case.json"
    for text, message in WRONG.items():
        file.write_text(text)
        code, err = run(["replay", "thm-2.1", str(file)], monkeypatch, capsys)
        assert code == 2, text[:99]
        assert err.startswith(f"leanlloyd: {file}: not a case: ")
        assert err.count("\n") == 1
        assert message in err
        with pytest.raises(AttackError):
            Witness.load(file)
        with pytest.raises(ledger.LedgerError):
            ledger.load(file)
    assert require_shapes(parse('{"a": ["2/4", 3], "b": "0"}')) == {"a": ["1/2", 3], "b": "0"}
    for encoding in ("utf-8-sig", "utf-16"):
        file.write_bytes(CASE.encode(encoding))
        assert run(["replay", "thm-2.1", str(file)], monkeypatch, capsys)[0] == 0


def test_every_case_of_the_reference_report_is_accepted() -> None:
    rows = ledger.load(ledger.reference_path())["claims"]
    for row in rows:
        found = [e[n] for e in row["evidence"] for n in ("witness", "counterexample") if e[n]]
        for case in found:
            assert require_shapes(parse(json.dumps(case)), found) == case


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=9,
)


@given(VALUES.map(json.dumps) | st.text() | st.binary(), VALUES)
def test_nothing_else_is_raised(data: str | bytes, known: Any) -> None:
    try:
        require_shapes(parse(data), [known] if isinstance(known, dict) else [])
    except HandedError as error:
        message = str(error)
    else:
        message = "accepted"
    assert message
