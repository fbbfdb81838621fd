"""The vocabulary: cases survive JSON, comparators give three answers, verdicts follow evidence."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import fmpq, fmpz
from hypothesis import example, given
from hypothesis import strategies as st

from constructions import rational_array
from verify.claim import (
    PROFILES,
    Answer,
    Case,
    Claim,
    Evidence,
    Hypothesis,
    Kind,
    Measured,
    Method,
    Plot,
    Run,
    Table,
    Verdict,
    compare,
    from_json,
    show,
    to_json,
    verdict_of,
)

NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.fractions(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12).filter(
    lambda text: type(from_json(text)) is str
)
VALUES = st.recursive(st.one_of(NUMBERS, TEXTS), lambda v: st.lists(v, max_size=3), max_leaves=12)
NAMES = st.from_regex(r"[a-z]\w{0,6}", fullmatch=True)


def through_json(data):
    return json.loads(json.dumps(data, allow_nan=False))


@given(st.dictionaries(NAMES, VALUES, max_size=4))
@example({"X": [[Fraction(1, 3), 2], []], "tau": math.inf, "code": "binary", "n": 0.1})
def test_a_case_survives_json(fields):
    case = Case(**fields)
    back = Case.from_json(through_json(case.to_json()))
    assert back == case
    assert (hash(back), back.id, back.size) == (hash(case), case.id, case.size)
    for name, value in case.items():
        assert type(back[name]) is type(value), name
        assert back[name] == value


def test_cases_differ_when_they_are_written_differently():
    """Equal numbers of different kinds are different inputs; the order of names is none."""
    kinds = [Case(x=v) for v in (1, 1.0, True, Fraction(1), "one")]
    assert len(set(kinds)) == len({c.id for c in kinds}) == 5
    assert Case(x=1) != Case(y=1)
    assert Case(a=1, b=2) == Case(b=2, a=1)
    assert Case(x=1) != {"x": 1}


def test_a_case_takes_what_libraries_return():
    half = Fraction(1, 2)
    for table in (
        np.array([[0.5, 2.0]]),
        np.float32([[0.5, 2.0]]),
        torch.tensor([[0.5, 2.0]]),
    ):
        assert Case(t=table)["t"] == [[0.5, 2.0]]
    assert Case(t=rational_array([[half, 2]]))["t"] == [[half, Fraction(2)]]
    assert Case(t=(fmpq(1, 2), fmpz(3), np.int64(4), np.float64(0.5)))["t"] == [half, 3, 4, 0.5]
    taken = Case(t=[np.float64("inf"), np.str_("a"), Kind.UPPER, np.True_])
    assert [type(v) for v in taken["t"]] == [float, str, str, bool]
    assert taken.to_json() == {"t": ["inf", "a", "upper", True]}
    for bad in (1j, np.array([1j]), object(), {"a": 1}, {1, 2}, b"x"):
        with pytest.raises(TypeError, match="a case holds numbers, texts and lists"):
            Case(t=bad)


def test_only_what_was_written_as_a_number_is_read_as_one():
    for value in (Fraction(3), Fraction(-2, 7), math.inf, -math.inf):
        back = from_json(to_json(value))
        assert back == value
        assert type(back) is type(value)
    assert math.isnan(from_json(to_json(math.nan)))
    for text in (
        "2/4",
        "007",
        "1/0",
        "-0",
        "1 / 2",
        "Infinity",
        "٣",
        "binary",
        "",
        "3 of 10 seeds",
    ):
        assert from_json(text) == text
        assert type(from_json(text)) is str


def test_numbers_for_people():
    assert show([Fraction(1, 3), 0.123456789, (1, "a")]) == "(1/3, 0.123457, (1, a))"
    assert repr(Case(X=[[Fraction(1, 2)]], steps=1)) == "X = ((1/2)), steps = 1"


F = Fraction
HOLDS, VIOLATED, UNDECIDED = Answer.HOLDS, Answer.VIOLATED, Answer.UNDECIDED
UPWARD, DOWNWARD = (Kind.UPPER, Kind.TIGHT, Kind.SCALING), (Kind.LOWER, Kind.TREND, Kind.LIMITATION)


def test_exact_comparisons_know_no_tolerance():
    tiny = F(1, 10**40)
    for value, equal, below, above in (
        (F(1), HOLDS, HOLDS, HOLDS),
        (1 + tiny, VIOLATED, VIOLATED, HOLDS),
        (1 - tiny, VIOLATED, HOLDS, VIOLATED),
    ):
        assert compare(Kind.EQUALITY, Measured(value, F(1))) is equal
        assert [compare(kind, Measured(value, F(1))) for kind in UPWARD] == [below] * 3
        assert [compare(kind, Measured(value, F(1))) for kind in DOWNWARD] == [above] * 3


def test_rounding_makes_three_answers():
    """Within the error on either side of the bound nothing is decided, not even "holds"."""
    for value, upward in (
        (0.8, HOLDS),
        (0.9, HOLDS),
        (0.95, UNDECIDED),
        (1.0, UNDECIDED),
        (1.05, UNDECIDED),
        (1.2, VIOLATED),
    ):
        m = Measured(value, 1.0, error=0.1 if value != 0.9 else 0.1 - 1e-9)
        mirrored = Measured(-value, -1.0, error=m.error)
        assert [compare(kind, m) for kind in UPWARD] == [upward] * 3, value
        assert [compare(kind, mirrored) for kind in DOWNWARD] == [upward] * 3, value
    for value, equal in ((1.0, HOLDS), (1.05, UNDECIDED), (0.95, UNDECIDED), (1.2, VIOLATED)):
        assert compare(Kind.EQUALITY, Measured(value, 1.0, error=0.1)) is equal


def test_truth_values_and_infinities():
    for value in (True, False):
        for bound in (True, False):
            want = HOLDS if value == bound else VIOLATED
            assert compare(Kind.IFF, Measured(value, bound)) is want
    assert compare(Kind.UPPER, Measured(5.0, math.inf, error=1e-9)) is HOLDS
    assert compare(Kind.UPPER, Measured(math.inf, math.inf, error=1e-9)) is HOLDS
    assert compare(Kind.UPPER, Measured(math.inf, 5.0, error=1e-9)) is VIOLATED
    assert compare(Kind.LOWER, Measured(math.inf, 5.0)) is HOLDS


@pytest.mark.parametrize("kind", list(Kind))
def test_what_is_not_a_number_is_no_answer(kind):
    for m in (
        Measured(math.nan, 1.0),
        Measured(1.0, math.nan),
        Measured(1.0, 1.0, error=math.nan),
        Measured(1.0, 1.0, error=-1e-9),
    ):
        with pytest.raises(ValueError, match="measured"):
            compare(kind, m)


def test_ratios_only_where_they_say_something():
    assert Measured(F(1), F(4)).ratio == F(1, 4)
    assert Measured(1.0, 4).ratio == 0.25
    for bound in (0, F(0), True, math.inf):
        assert Measured(F(1), bound).ratio is None


STATED = Hypothesis("stated", "of the paper", lambda case: True)
EXTRA = Hypothesis("extra", "of ours", lambda case: True, extra=True)


def claim(*hypotheses):
    return Claim("toy", "", "", "", (), Kind.UPPER, "", (), "", "", hypotheses=hypotheses)


PLAIN, REPAIRABLE = claim(STATED), claim(STATED, EXTRA)
EXPERIMENT = Method.EXPERIMENT


def found(*assuming, method=Method.EXACT, cases=10, **found):
    return Evidence("check", method, assuming=assuming, cases=cases, **found)


def stated(**options):
    return found("stated", **options)


def repaired(**options):
    return found("stated", "extra", **options)


def trial(**options):
    return stated(method=EXPERIMENT, **options)


VERDICTS = {
    # the statement itself
    "nothing": (PLAIN, [], Verdict.OPEN),
    "checked": (PLAIN, [stated()], Verdict.CONFIRMED),
    "proved": (PLAIN, [stated(decides_all=True)], Verdict.PROVED),
    "proved beside checked": (PLAIN, [stated(), stated(decides_all=True, cases=1)], Verdict.PROVED),
    "sharper": (PLAIN, [stated(), stated(sharper="1/2")], Verdict.SHARPENED),
    "sharper than proved": (
        PLAIN,
        [stated(decides_all=True), stated(sharper="1/2", variant="better")],
        Verdict.SHARPENED,
    ),
    "violated": (PLAIN, [stated(violated=1)], Verdict.REFUTED),
    "violated once among proofs": (
        PLAIN,
        [stated(decides_all=True), stated(violated=1)],
        Verdict.REFUTED,
    ),
    # what decides nothing
    "problem": (PLAIN, [stated(), stated(problem="crashed")], Verdict.OPEN),
    "problem beside a violation": (
        PLAIN,
        [stated(violated=1), stated(problem="crashed")],
        Verdict.OPEN,
    ),
    "no cases": (PLAIN, [stated(cases=0)], Verdict.OPEN),
    "all undecided": (PLAIN, [stated(undecided=10)], Verdict.OPEN),
    "some undecided": (PLAIN, [stated(undecided=9)], Verdict.CONFIRMED),
    "sharper but undecided": (
        PLAIN,
        [stated(), stated(sharper="1/2", undecided=10)],
        Verdict.CONFIRMED,
    ),
    "sharper but violated": (
        PLAIN,
        [stated(), stated(sharper="1/2", variant="better", violated=1)],
        Verdict.CONFIRMED,
    ),
    # neighbors of the statement
    "variant violated": (
        PLAIN,
        [stated(), stated(variant="for max", violated=5)],
        Verdict.CONFIRMED,
    ),
    "variant only": (PLAIN, [stated(variant="for max")], Verdict.OPEN),
    "hypothesis dropped": (PLAIN, [stated(), found(violated=5)], Verdict.CONFIRMED),
    "only with a hypothesis dropped": (PLAIN, [found()], Verdict.OPEN),
    # with a hypothesis of our own
    "repaired": (REPAIRABLE, [stated(violated=1), repaired()], Verdict.QUALIFIED),
    "repair proved": (
        REPAIRABLE,
        [stated(violated=1), repaired(decides_all=True)],
        Verdict.QUALIFIED,
    ),
    "repair violated": (REPAIRABLE, [stated(violated=1), repaired(violated=1)], Verdict.REFUTED),
    "repair violated elsewhere": (
        REPAIRABLE,
        [stated(violated=1), repaired(), repaired(violated=1)],
        Verdict.REFUTED,
    ),
    "repair not checked": (REPAIRABLE, [stated(violated=1)], Verdict.REFUTED),
    "repair undecided": (REPAIRABLE, [stated(violated=1), repaired(undecided=10)], Verdict.REFUTED),
    "repair as variant": (
        REPAIRABLE,
        [stated(violated=1), repaired(variant="for max")],
        Verdict.REFUTED,
    ),
    "not needed": (REPAIRABLE, [stated(), repaired()], Verdict.CONFIRMED),
    "only the repair": (REPAIRABLE, [repaired()], Verdict.OPEN),
    "only the repair, proved": (REPAIRABLE, [repaired(decides_all=True)], Verdict.OPEN),
    "the repair proved, the statement checked": (
        REPAIRABLE,
        [stated(), repaired(decides_all=True)],
        Verdict.CONFIRMED,
    ),
    # experiments
    "came out": (PLAIN, [trial()], Verdict.REPRODUCED),
    "did not": (PLAIN, [trial(violated=10)], Verdict.NOT_REPRODUCED),
    "some settings came out": (PLAIN, [trial(violated=3)], Verdict.PARTLY),
    "some experiments came out": (PLAIN, [trial(), trial(violated=10)], Verdict.PARTLY),
    "the rest was undecided": (PLAIN, [trial(violated=3, undecided=7)], Verdict.NOT_REPRODUCED),
    "repaired experiment": (
        REPAIRABLE,
        [trial(violated=10), repaired(method=EXPERIMENT)],
        Verdict.QUALIFIED,
    ),
    "could not run": (PLAIN, [trial(cases=0, note="needs a GPU")], Verdict.NOT_TESTABLE),
    "could not run, without a reason": (PLAIN, [trial(cases=0)], Verdict.OPEN),
    "experiment beside a check": (PLAIN, [trial(), stated()], Verdict.CONFIRMED),
}


@pytest.mark.parametrize("name", list(VERDICTS))
def test_the_verdict_follows_from_the_evidence(name):
    about, evidence, verdict = VERDICTS[name]
    assert verdict_of(about, evidence) is verdict
    assert verdict_of(about, evidence[::-1]) is verdict


def test_every_verdict_is_reachable_and_explained():
    assert {verdict for _, _, verdict in VERDICTS.values()} == set(Verdict)
    assert len({v.meaning for v in Verdict}) == len(Verdict)


def test_evidence_survives_json():
    case = Case(X=[[F(1, 3)]], tau=math.inf)
    plot = Plot("k", lines=("bound",), points=("measured",), cells=("bound",), log_x=True)
    evidence = Evidence(
        "check",
        Method.SMT,
        scope="k <= 5",
        assuming=("a", "b"),
        cases=3,
        bound=F(1, 2),
        measured=0.25,
        ratio=math.inf,
        witness=case,
        counterexample=case,
        card={"answers": {"Lloyd": [[F(1, 2)]]}, "note": "12"},
        tables=[
            Table("t", "Title", ("k", "bound"), [[1, F(1, 2)], ["2/4", 0.5]], plot),
            Table("u", "Title", ("k",), []),
        ],
        seed=2**63,
    )
    assert type(evidence.to_json()["method"]) is str  # xdist carries nothing but plain types
    back = Evidence.from_json(through_json(evidence.to_json()))
    assert back.to_json() == evidence.to_json()
    assert (back.bound, back.measured, back.ratio) == (F(1, 2), 0.25, math.inf)
    assert (back.witness, back.method, back.assuming) == (case, Method.SMT, ("a", "b"))
    assert back.tables[0].plot == plot
    assert back.tables[0].rows == [[1, F(1, 2)], ["2/4", 0.5]]


def test_runs_scale_counts_and_derive_streams():
    assert [Run(PROFILES[p]).count(25) for p in ("smoke", "default", "deep")] == [2, 25, 250]
    assert Run(PROFILES["smoke"]).count(3) == 1
    assert Run(PROFILES["smoke"]).count(3, least=2) == 2
    streams = [
        Run().stream("a", "b"),
        Run().stream("a", "c"),
        Run(seed=1).stream("a", "b"),
        Run(PROFILES["deep"]).stream("a"),
    ]
    assert len(set(streams)) == 4
    assert Run().stream("a", "b") == Run(PROFILES["deep"]).stream("a", "b") == 12259829841918961670


def test_a_claim_guards_its_own_definition():
    class Named:
        name = "twice"

    with pytest.raises(ValueError, match="check names repeat"):
        Claim("toy", "", "", "", (), Kind.UPPER, "", (Named(), Named()), "", "")
    with pytest.raises(ValueError, match="not about single cases"):
        PLAIN.judge(Case(x=1))
    assert (REPAIRABLE.stated, REPAIRABLE.needed) == (("stated",), ("stated", "extra"))
    assert REPAIRABLE.assumed(["extra"]) == [EXTRA]
