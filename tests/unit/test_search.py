"""The checks on toy claims whose truth is known: what must be found, counted, and admitted."""

from __future__ import annotations

import json
import sys
from fractions import Fraction

import hypothesis
import pytest
from hypothesis import strategies as st

from verify.claim import (
    PROFILES,
    Case,
    Claim,
    Evidence,
    Hypothesis,
    Kind,
    Measured,
    Method,
    Run,
    Verdict,
    verdict_of,
)
from verify.search import Adversarial, Exhaustive, Proof, Property, Step, Study, Tally, describe

F = Fraction
EVEN = Hypothesis("even", "x is even", lambda case: case["x"] % 2 == 0)
NUMBERS = st.integers(0, 1000).map(lambda x: Case(x=x))


def toy(*checks, kind=Kind.UPPER, hypotheses=(), measure=lambda c: Measured(F(c["x"]), F(100))):
    return Claim(
        "toy", "", "", "", (), kind, "", checks, "", "", hypotheses=hypotheses, measure=measure
    )


def run(check, profile="default", seed=0, **options):
    claim = toy(check, **options)
    return check.run(claim, Run(PROFILES[profile], seed))


def counting(limit):
    return lambda run: (Case(x=x) for x in range(limit))


def test_exhaustive_judges_every_case_and_keeps_the_worst():
    e = run(Exhaustive("all", scope="x < 100", cases=counting(100)))
    assert (e.cases, e.violated, e.undecided, e.excluded) == (100, 0, 0, 0)
    assert (e.witness, e.measured, e.bound, e.ratio) == (Case(x=99), 99, 100, F(99, 100))
    assert (e.check, e.method, e.scope, e.problem) == ("all", Method.EXHAUSTIVE, "x < 100", "")
    assert describe(e) == "decided for all 100 cases (x < 100); none violated"


def test_exhaustive_counts_violations_and_shows_the_smallest():
    e = run(Exhaustive("all", cases=counting(103)))
    assert (e.violated, e.counterexample) == (2, Case(x=101))
    assert e.card["measured"] == 101
    assert (e.witness, e.ratio) == (Case(x=102), F(102, 100))
    early = run(Exhaustive("all", cases=counting(10**9), until_violation=True))
    assert (early.cases, early.violated, early.counterexample) == (102, 1, Case(x=101))
    assert describe(early).startswith("looked at 102 cases in order of size; 1 violated; smallest:")


def test_excluded_cases_are_counted_and_are_not_cases():
    e = run(Exhaustive("all", cases=counting(100)), hypotheses=(EVEN,))
    assert (e.cases, e.excluded, e.witness, e.assuming) == (50, 50, Case(x=98), ("even",))
    assert "50 excluded by a hypothesis" in describe(e)
    dropped = run(Exhaustive("all", cases=counting(100), assuming=()), hypotheses=(EVEN,))
    assert (dropped.cases, dropped.excluded, dropped.assuming) == (100, 0, ())
    with pytest.raises(ValueError, match=r"no hypothesis \['odd'\]"):
        run(Exhaustive("all", cases=counting(1), assuming=("odd",)), hypotheses=(EVEN,))


def test_a_check_that_looked_at_nothing_has_a_problem():
    for check in (
        Exhaustive("none", cases=lambda run: [Case(x=1)]),
        Property("none", strategy=st.just(Case(x=1)), count=20),
        Adversarial("none", search=lambda run, seed: [(1, Case(x=1))]),
    ):
        e = run(check, hypotheses=(EVEN,))
        assert e.cases == 0
        assert e.excluded >= 1
        assert e.problem.startswith("no case met the hypotheses")
        assert describe(e).startswith("failed: ")
        assert verdict_of(toy(check, hypotheses=(EVEN,)), [e]) is Verdict.OPEN


def test_a_brief_profile_says_that_it_did_not_see_everything():
    check = Exhaustive("all", scope="x < 5000", cases=counting(5000))
    brief = run(check, "smoke", measure=lambda c: Measured(F(0), F(1)))
    assert brief.cases < 5000
    assert "decided for all" not in describe(brief)
    assert run(check, measure=lambda c: Measured(F(0), F(1))).cases == 5000


def test_the_worst_case_is_a_violation_if_there_is_one():
    """Whatever the scales: here what holds has a ratio near 1 and what fails has none."""

    def measure(case):
        return Measured(F(1, 10**6), F(0)) if case["x"] == 7 else Measured(F(99), F(100))

    e = run(Exhaustive("all", cases=counting(20)), measure=measure)
    assert (e.violated, e.witness, e.measured) == (1, Case(x=7), F(1, 10**6))


def test_undecided_is_neither_holding_nor_violated():
    e = run(
        Exhaustive("all", cases=counting(10)),
        measure=lambda c: Measured(c["x"] / 10, 0.9, error=0.05),
    )
    assert (e.cases, e.violated, e.undecided) == (10, 0, 1)
    assert "1 undecided" in describe(e)


def test_property_finds_and_shrinks():
    check = Property("drawn", strategy=NUMBERS, count=300)
    e = run(check)
    assert e.violated >= 1
    assert e.counterexample == Case(x=101)  # the smallest there is
    assert (e.method, e.seed) == (Method.PROPERTY, Run().stream("toy", "drawn"))
    rows = st.lists(st.integers(0, 50), max_size=9).map(lambda x: Case(x=x))
    e = run(
        Property("drawn", strategy=rows, count=300),
        measure=lambda c: Measured(F(sum(c["x"])), F(100)),
    )
    assert sum(e.counterexample["x"]) == 101
    assert len(e.counterexample["x"]) <= 4


def test_property_finds_nothing_where_there_is_nothing():
    e = run(Property("drawn", strategy=NUMBERS, count=50), measure=lambda c: Measured(F(0), F(1)))
    assert (e.violated, e.problem) == (0, "")
    assert 1 <= e.cases <= 60
    assert describe(e).startswith(f"checked on {e.cases} cases")


def test_property_is_driven_towards_the_bound():
    """The worst of 200 undirected draws from a million would miss it by a hundredth."""
    wide = st.integers(0, 10**6).map(lambda x: Case(x=x))
    e = run(
        Property("drawn", strategy=wide, count=400),
        measure=lambda c: Measured(F(c["x"]), F(10**6)),
    )
    assert e.violated == 0
    assert e.ratio > F(999, 1000)


def test_property_judges_its_examples_first():
    known = Case(x=500)
    check = Property("drawn", strategy=NUMBERS, count=50, examples=(Case(x=1), known))
    e = run(check)
    assert (e.cases, e.violated, e.counterexample) == (2, 1, known)
    e = run(check, hypotheses=(Hypothesis("small", "x < 50", lambda case: case["x"] < 50),))
    assert (e.violated, e.excluded >= 1) == (0, True)


def drawn_cases(seed=0, profile="default", strategy=NUMBERS):
    seen = []

    def measure(case):
        seen.append(case)
        return Measured(F(0), F(1))

    e = run(Property("drawn", strategy=strategy, count=60), profile, seed, measure=measure)
    return seen, json.dumps(e.to_json())


def test_the_seed_decides_what_is_drawn():
    """Not the Hypothesis profile in force, not an earlier run, and not the modules that happen to
    be imported (Hypothesis collects constants from the source of local ones)."""
    first = drawn_cases()
    assert drawn_cases() == first
    assert drawn_cases(seed=1)[0] != first[0]
    assert len(drawn_cases(profile="deep")[0]) > len(first[0])
    current = hypothesis.settings.get_current_profile_name()
    try:
        hypothesis.settings.load_profile("default")
        assert drawn_cases() == first
    finally:
        hypothesis.settings.load_profile(current)


def test_the_source_of_other_modules_does_not_decide_what_is_drawn(tmp_path, monkeypatch):
    strategy = st.integers(-(10**12), 10**12).map(lambda x: Case(x=x))
    first = drawn_cases(strategy=strategy)
    numbers = [123_456_789_012 + i for i in range(500)]
    (tmp_path / "planted_constants.py").write_text(f"A = {numbers}\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("planted_constants")
    try:
        assert drawn_cases(strategy=strategy) == first
    finally:
        del sys.modules["planted_constants"]


def climbing(top):
    """A search that gets to `top` of the bound in groups 2 and 3."""

    def search(run, seed):
        for k in (2, 3):
            for x in range(top + 1):
                yield k, Case(x=x, k=k)

    return search


def test_adversarial_tables_the_best_of_each_group():
    e = run(Adversarial("climb", search=climbing(97), reach=0.9))
    assert (e.cases, e.problem) == (196, "")
    assert e.tables[0].rows == [[2, 100.0, 97.0, 0.97], [3, 100.0, 97.0, 0.97]]
    assert e.tables[0].columns == ("k", "bound", "measured", "ratio")
    assert "0.970000" in e.note


def test_adversarial_that_does_not_reach_the_bound_has_a_problem():
    for search, says in (
        (climbing(80), "k = 2 reached 0.8000; k = 3 reached 0.8000"),
        (lambda run, seed: [(1, Case(x=99)), (2, Case(x=5))], "k = 2 reached 0.0500"),
    ):
        check = Adversarial("climb", search=search, reach=0.9)
        e = run(check)
        assert says in e.problem
        assert verdict_of(toy(check), [e]) is Verdict.OPEN
    e = run(Adversarial("climb", search=climbing(80)))
    assert e.problem == ""
    nothing = Adversarial("climb", search=climbing(1), reach=0.9)
    e = run(nothing, measure=lambda c: Measured(F(0), F(0)))
    assert e.problem == "no group has a share of the bound to reach"


def test_adversarial_gets_a_seed_of_its_own_and_finds_violations():
    seen = []

    def search(run, seed):
        seen.append(seed)
        yield 1, Case(x=150)

    e = run(Adversarial("climb", search=search), seed=3)
    assert seen == [Run(seed=3).stream("toy", "climb")] == [e.seed]
    assert (e.violated, e.counterexample) == (1, Case(x=150))


def proof(*results, **options):
    steps = [
        Step(f"k = {i}", r, Case(x=i) if r == "refuted" else None) for i, r in enumerate(results)
    ]
    check = Proof("proof", Method.SMT, lambda run: steps, **options)
    e = check.run(toy(check), Run())
    return e, verdict_of(toy(check), [e])


def test_a_proof_proves_only_what_it_proved():
    e, verdict = proof("proved", "proved", decides_all=True, sharper="1/2")
    assert (e.decides_all, e.sharper, verdict) == (True, "1/2", Verdict.SHARPENED)
    assert proof("proved", "proved", decides_all=True)[1] is Verdict.PROVED
    e, verdict = proof("proved", "proved")  # for some k only
    assert (e.decides_all, verdict) == (False, Verdict.CONFIRMED)


def test_unknown_is_not_proved():
    e, verdict = proof("proved", "unknown", decides_all=True, sharper="1/2")
    assert (e.decides_all, e.sharper, e.undecided) == (False, "", 1)
    assert verdict is Verdict.CONFIRMED
    assert "not decided: k = 1" in describe(e)
    for results in ((), ("unknown",), ("unknown", "unknown")):
        e, verdict = proof(*results, decides_all=True)
        assert (e.problem, verdict) == ("nothing was decided", Verdict.OPEN)


def test_a_refuted_step_is_a_counterexample():
    e, verdict = proof("proved", "refuted", "unknown", decides_all=True)
    assert (e.violated, e.counterexample, e.decides_all) == (1, Case(x=1), False)
    assert verdict is Verdict.REFUTED
    with pytest.raises(ValueError, match="not 'prooved'"):
        Step("k = 1", "prooved")


def test_a_study_fills_in_its_own_evidence():
    def examine(claim, run, e):
        e.cases, e.note = 3, f"{claim.id} with {len(e.assuming)} hypothesis"

    check = Study("study", Method.EXACT, examine, scope="all", arithmetic="fractions")
    e = check.run(toy(check, hypotheses=(EVEN,)), Run())
    assert (e.cases, e.note, e.assuming) == (3, "toy with 1 hypothesis", ("even",))
    assert describe(e) == "checked on 3 cases (all); none violated; toy with 1 hypothesis"


@pytest.mark.parametrize("kind", list(Kind))
def test_badness_orders_cases_from_safe_to_violated(kind):
    claim = toy(kind=kind)
    tally = Tally(claim, (), None)
    if kind is Kind.IFF:
        good, bad = Measured(True, True), Measured(True, False)
    elif kind is Kind.EQUALITY:
        good, bad = Measured(F(1), F(1)), Measured(F(0), F(1))
    else:
        sign = 1 if kind in (Kind.UPPER, Kind.TIGHT, Kind.SCALING) else -1
        good, bad = Measured(F(100 - sign), F(100)), Measured(F(100 + sign), F(100))
    assert tally.badness(good) < tally.badness(bad)


def test_measures_that_crash_are_not_swallowed():
    def measure(case):
        raise ZeroDivisionError("in the measure")

    for check in (
        Exhaustive("all", cases=counting(3)),
        Property("drawn", strategy=NUMBERS, count=10),
        Adversarial("climb", search=climbing(3)),
    ):
        with pytest.raises(ZeroDivisionError):
            run(check, measure=measure)
        with pytest.raises(ValueError, match="needs a measure"):
            run(check, measure=None)


def test_evidence_of_nothing_is_described_by_its_note():
    assert describe(Evidence("a", Method.EXACT, scope="k <= 5", note="counted")) == (
        "counted (k <= 5)"
    )
