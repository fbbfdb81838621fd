"""The ledger: derived from evidence, the same bytes for the same run, and readable again."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from types import SimpleNamespace

import pytest

from verify import claims, ledger, runner
from verify.claim import Case, Claim, Evidence, Hypothesis, Kind, Measured, Method, Run, Source
from verify.claims.expressivity.thm_2_1 import CLAIM as THEOREM
from verify.collection import OWN, Collection, Entry
from verify.runner import Done

TIE = Case(X=[[0], [1], [2]], C=[[0], [Fraction(2)]], code="binary", steps=1)
STATED = Hypothesis("stated", "of the paper", lambda case: True)


class Named:
    def __init__(self, name):
        self.name = name


def toy(name, kind=Kind.UPPER, checks=("a", "b", "c")):
    return Claim(
        name,
        "Title",
        "What it says.",
        r"x \leq 1",
        (Source("summary", "p. 1"),),
        kind,
        "1",
        tuple(map(Named, checks)),
        "a counterexample",
        "notes.md",
        hypotheses=(STATED,),
        measure=lambda case: Measured(case["x"], 1),
    )


def done(claim_id, check, *, ratio=None, **found):
    e = Evidence(check, Method.EXACT, assuming=("stated",), **({"cases": 4} | found))
    if ratio is not None:
        e.bound, e.measured, e.ratio, e.witness = Fraction(1), ratio, ratio, Case(x=ratio)
    return Done(claim_id, e, 0.25)


@pytest.fixture
def registered(monkeypatch):
    """Makes the given claims the only ones there are."""

    def register(*toys):
        module = SimpleNamespace(__file__=claims.__file__)
        table = {c.id: Entry("expressivity", c, module) for c in toys}
        made = Collection((OWN,), claims.ABOUT, table)
        monkeypatch.setattr(claims, "collection", lambda: made)
        runner.fingerprint.cache_clear()

    yield register
    runner.fingerprint.cache_clear()


def test_the_order_in_which_results_arrive_does_not_matter(registered):
    registered(toy("first"), toy("second"))
    results = [
        done("second", "b", ratio=Fraction(1, 3)),
        done("first", "c", undecided=1),
        done("first", "a", ratio=Fraction(1, 2)),
        done("first", "b", excluded=2),
    ]
    one = ledger.dumps(ledger.build(results, Run()))
    assert one == ledger.dumps(ledger.build(results[::-1], Run()))
    data = json.loads(one)
    assert [row["id"] for row in data["claims"]] == ["first", "second"]
    assert [e["check"] for e in data["claims"][0]["evidence"]] == ["a", "b", "c"]
    assert data["claims"][0]["counts"] == {
        "cases": 12,
        "violated": 0,
        "undecided": 1,
        "excluded": 2,
    }
    assert data["summary"] == {
        "claims": 2,
        "verdicts": {"confirmed": 2},
        "cases": 16,
        "undecided": 1,
    }
    assert (data["schema"], data["profile"], data["seed"]) == (1, "default", 0)


def test_nothing_that_changes_from_run_to_run_is_in_the_ledger(registered):
    registered(toy("first"))
    quick, slow = done("first", "a"), Done("first", done("first", "a").evidence, 99.0)
    assert ledger.build([quick], Run()) == ledger.build([slow], Run())
    volatile = ledger.volatile([slow, quick], Run(), 3.14159)
    assert [row["seconds"] for row in volatile["checks"]] == [99.0, 0.25]
    assert volatile["seconds"] == 3.14
    assert volatile["libraries"]["numpy"]


@pytest.mark.parametrize(
    ("kind", "ratios", "headline"),
    [
        (Kind.UPPER, (Fraction(1, 2), Fraction(9, 10), Fraction(1, 3)), "b"),
        (Kind.LOWER, (Fraction(3), Fraction(11, 10), Fraction(2)), "b"),
        (Kind.EQUALITY, (None, None, None), "c"),
    ],
)
def test_the_headline_is_the_case_nearest_to_the_bound(registered, kind, ratios, headline):
    registered(toy("first", kind))
    results = [
        done("first", name, ratio=r, measured=Fraction(1), bound=Fraction(0))
        for name, r in zip("abc", ratios, strict=True)
    ]
    if kind is Kind.EQUALITY:
        results[2].evidence.violated = 1
    (row,) = ledger.build(results, Run())["claims"]
    assert row["result"]["check"] == headline


def test_a_variant_never_stands_for_the_claim(registered):
    registered(toy("first"))
    (row,) = ledger.build(
        [
            done("first", "a", ratio=Fraction(1, 2)),
            done("first", "b", ratio=Fraction(3), variant="for max", violated=1),
        ],
        Run(),
    )["claims"]
    assert (row["verdict"], row["result"]["ratio"]) == ("confirmed", "1/2")
    assert row["replay"] == f"leanlloyd replay first {Case(x=Fraction(1, 2)).id}"


def test_exact_numbers_survive_and_cases_are_found_again(registered):
    registered(toy("first"))
    half, third = Case(x=Fraction(1, 2)), Case(x=Fraction(1, 3))
    data = json.loads(
        ledger.dumps(
            ledger.build(
                [
                    done("first", "a", ratio=Fraction(1, 2)),
                    done("first", "b", counterexample=third),
                ],
                Run(),
            )
        )
    )
    for case in (half, third):
        assert ledger.find_case(data, "first", case.id) == case
        assert ledger.find_case(data, "first", case.id[:6]) == case
    assert ledger.find_case(data, "first", "zzzz") is None
    assert ledger.find_case(data, "second", half.id) is None
    assert data["claims"][0]["counterexample"]["id"] == third.id


def test_problems_changes_and_stale_rows(registered):
    registered(toy("first"), toy("second"))
    old = ledger.build([done("first", "a"), done("second", "a")], Run())
    new = ledger.build([done("first", "a", violated=1), done("second", "a", problem="slow")], Run())
    assert ledger.problems(old) == []
    assert ledger.problems(new) == ["second, check a: slow"]
    assert ledger.changes(old, old) == []
    assert ledger.changes(old, new) == [
        "first: the verdict was 'confirmed', now it is 'refuted'",
        "second: the verdict was 'confirmed', now it is 'open'",
    ]
    assert ledger.stale(old) == []
    old["claims"][0]["fingerprint"] = "0" * 16
    old["claims"][1]["id"] = "gone"
    assert ledger.stale(old) == ["first", "gone"]


def test_loading_says_which_file_and_why(tmp_path):
    path = tmp_path / "ledger.json"
    with pytest.raises(ledger.LedgerError, match=r"ledger.json: no ledger there"):
        ledger.load(path)
    for content, says in (
        ("{", "cannot be read as a ledger"),
        ("\x00", "cannot be read as a ledger"),
        ("[]", "not a leanlloyd ledger of schema 1"),
        ('{"schema": 99}', "not a leanlloyd ledger of schema 1"),
    ):
        path.write_text(content)
        with pytest.raises(ledger.LedgerError, match=says):
            ledger.load(path)
    with pytest.raises(ledger.LedgerError, match="cannot be read as a ledger"):
        ledger.load(tmp_path)
    path.write_text(ledger.dumps({"schema": 1}))
    assert ledger.load(path) == {"schema": 1}


def test_infinities_are_written_as_text_and_nothing_else_slips_through():
    with pytest.raises(ValueError, match="not JSON compliant"):
        ledger.dumps({"x": float("nan")})
    assert Evidence("a", Method.EXACT, ratio=float("inf")).to_json()["ratio"] == "inf"


def test_a_counterexample_is_a_program_for_python_alone(tmp_path):
    program = ledger.script_for(THEOREM, TIE)
    place = tmp_path / "counterexample.py"
    place.write_text(program)
    shown = subprocess.run(
        [sys.executable, "-I", "-S", str(place)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert shown[-2].split() == ["Lloyd", "('1/2',)", "('2',)"]
    assert shown[-1].split() == ["transformer", "('0',)", "('2',)"]
    assert TIE.id in program
    for name in ("constructions", "verify", "numpy"):
        assert f"import {name}" not in program
        assert f"from {name}" not in program
