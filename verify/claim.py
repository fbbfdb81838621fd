"""Claim, Case, Measured, Evidence, Verdict: the vocabulary of the project.

A *claim* says something about every *case* that meets its *hypotheses*. A *check* looks at cases
(or proves something about all of them) and returns *evidence*. The *verdict* follows from the
evidence of a claim by the rules of `verdict_of` and is written nowhere else.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Protocol

from verify.case import Case as Case
from verify.case import from_json as from_json
from verify.case import show as show
from verify.case import to_json as to_json
from verify.table import Plot as Plot
from verify.table import Table as Table


class Kind(StrEnum):
    """How a measured value is held against its bound; it chooses the comparator."""

    EQUALITY = "equality"  # measured = bound
    UPPER = "upper"  # measured <= bound
    LOWER = "lower"  # measured >= bound
    TIGHT = "tight"  # measured <= bound, and the bound is reached
    IFF = "iff"  # two truth values agree
    SCALING = "scaling"  # a measured exponent is at most the stated one
    TREND = "trend"  # a measured difference has the stated sign
    LIMITATION = "limitation"  # something is impossible


class Method(StrEnum):
    SYMBOLIC = "symbolic"
    SMT = "smt"
    EXACT = "exact"
    EXHAUSTIVE = "exhaustive"
    PROPERTY = "property"
    ADVERSARIAL = "adversarial"
    EXPERIMENT = "experiment"
    MACHINE_CHECKED = "machine-checked"


class Answer(StrEnum):
    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


class Verdict(StrEnum):
    PROVED = "proved"
    CONFIRMED = "confirmed"
    SHARPENED = "sharpened"
    QUALIFIED = "qualified"
    REFUTED = "refuted"
    REPRODUCED = "reproduced"
    PARTLY = "reproduced in part"
    NOT_REPRODUCED = "not reproduced"
    NOT_TESTABLE = "not testable here"
    OPEN = "open"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Verdict.PROVED: "proved by symbols, a solver or a proof assistant for all inputs in scope",
    Verdict.CONFIRMED: "checked and never violated; the bound is shown beside the worst case",
    Verdict.SHARPENED: "true, and a better bound is shown",
    Verdict.QUALIFIED: "false as stated; true under the extra hypothesis shown",
    Verdict.REFUTED: "false: a counterexample, and no repair",
    Verdict.REPRODUCED: "the experiment came out as the paper says",
    Verdict.PARTLY: "the experiment came out as the paper says in part",
    Verdict.NOT_REPRODUCED: "the experiment did not come out as the paper says",
    Verdict.NOT_TESTABLE: "cannot be tested here, for the reason given",
    Verdict.OPEN: "not decided by the evidence at hand",
}


@dataclass(frozen=True)
class Measured:
    """What a claim's `measure` found for one case.

    Attributes
    ----------
    value, bound : the two sides of the claim, numbers (or truth values for an IFF claim)
    error : how much rounding can have moved value - bound; 0 in exact arithmetic
    answers : named results to show side by side, for a counterexample card
    note : one clause that says what happened, for a counterexample card
    """

    value: Any
    bound: Any
    error: Any = 0
    answers: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def ratio(self) -> Any:
        """value / bound, or None where that says nothing: it grows with the violation only if
        the bound is positive."""
        if isinstance(self.bound, bool) or not self.bound > 0 or not _is_finite(self.bound):
            return None
        return self.value / self.bound


def compare(kind: Kind, m: Measured) -> Answer:
    """Three answers. UNDECIDED: the two sides are closer than rounding can tell.

    Raises
    ------
    ValueError
        a side is not a number, or the error is not one >= 0: no answer would mean anything.
    """
    if m.value != m.value or m.bound != m.bound or not m.error >= 0:
        raise ValueError(
            f"measured {show(m.value)} against {show(m.bound)} with error {show(m.error)}"
        )
    if kind is Kind.IFF:
        return Answer.HOLDS if bool(m.value) == bool(m.bound) else Answer.VIOLATED
    if m.value == m.bound and (m.error == 0 or not _is_finite(m.bound)):
        return Answer.HOLDS
    if kind is Kind.EQUALITY:
        if m.value == m.bound:
            return Answer.HOLDS
        return Answer.UNDECIDED if abs(m.value - m.bound) <= m.error else Answer.VIOLATED
    over = (
        m.value - m.bound if kind in (Kind.UPPER, Kind.TIGHT, Kind.SCALING) else m.bound - m.value
    )
    if m.error == 0:
        return Answer.HOLDS if over <= 0 else Answer.VIOLATED
    if over <= -m.error:
        return Answer.HOLDS
    return Answer.VIOLATED if over > m.error else Answer.UNDECIDED


@dataclass(frozen=True)
class Hypothesis:
    """A named predicate on a case.

    `extra` marks a hypothesis that the paper does not state and that the claim needs.
    """

    name: str
    says: str
    holds: Callable[[Case], bool]
    extra: bool = False


@dataclass(frozen=True)
class Source:
    """Where the claim stands: `document` is a key of `About.documents`."""

    document: str
    place: str


@dataclass
class Evidence:
    """What one check found.

    Attributes
    ----------
    check : the check's name within its claim
    method : how it looked
    scope : what was looked at, in words ("k = 2 ... 8", "d <= 5, k <= 9")
    assuming : names of the hypotheses in force
    variant : "" for the statement itself, else the neighboring statement this is about
    cases, violated, undecided, excluded : counts; excluded cases failed a hypothesis
    decides_all : the check settles every input in scope of the claim (a proof)
    sharper : what better bound it shows, or ""
    bound, measured, ratio : of the worst case; exact numbers stay exact
    witness : the worst case
    counterexample, card : the smallest violating case, and what to show about it
    problem : "" or why the check failed to do its job
    note : one sentence of findings
    tables : measured rows
    arithmetic : number system and device that really ran
    seed : of the random stream, or None
    """

    check: str
    method: Method
    scope: str = ""
    assuming: tuple[str, ...] = ()
    variant: str = ""
    cases: int = 0
    violated: int = 0
    undecided: int = 0
    excluded: int = 0
    decides_all: bool = False
    sharper: str = ""
    bound: Any = None
    measured: Any = None
    ratio: Any = None
    witness: Case | None = None
    counterexample: Case | None = None
    card: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    note: str = ""
    tables: list[Table] = field(default_factory=list)
    arithmetic: str = ""
    seed: int | None = None

    def count(self, answer: Answer) -> None:
        """One more case, with this answer."""
        self.cases += 1
        self.violated += answer is Answer.VIOLATED
        self.undecided += answer is Answer.UNDECIDED

    def to_json(self) -> dict[str, Any]:
        data = {f.name: to_json(getattr(self, f.name)) for f in fields(self) if f.name != "tables"}
        return data | {"tables": [to_json(asdict(t)) for t in self.tables]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evidence:
        e = cls(**{f.name: data[f.name] for f in fields(cls)})
        e.method, e.assuming = Method(e.method), tuple(e.assuming)
        for name in ("bound", "measured", "ratio", "card"):
            setattr(e, name, from_json(getattr(e, name)))
        for name in ("witness", "counterexample"):
            case = getattr(e, name)
            setattr(e, name, case and Case.from_json(case))
        e.tables = [Table.from_json(t) for t in data["tables"]]
        return e


class Check(Protocol):
    """One way to look at a claim. `verify.search` has the usual ones."""

    @property
    def name(self) -> str: ...

    @property
    def method(self) -> Method: ...

    def run(self, claim: Claim, run: Run) -> Evidence: ...


@dataclass(frozen=True)
class Profile:
    """How much to do: a factor on every count."""

    name: str
    factor: float


PROFILES = {
    p.name: p for p in (Profile("smoke", 0.1), Profile("default", 1.0), Profile("deep", 10.0))
}


@dataclass(frozen=True)
class Run:
    """The settings of one run, and where its randomness comes from."""

    profile: Profile = PROFILES["default"]
    seed: int = 0
    arithmetics: tuple[str, ...] = ()  # names of `verify.arithmetic`; empty for all

    def count(self, default: int, least: int = 1) -> int:
        """`default` cases in the default profile, in proportion in the others."""
        return max(least, round(default * self.profile.factor))

    def stream(self, *purpose: str) -> int:
        """A seed for one purpose: the same for the same run seed, on every machine."""
        text = "/".join((str(self.seed), *purpose))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Script:
    """A module of `verify.oracles` that needs the standard library only and has a `main`, and the
    arguments of `main` for a case."""

    module: str
    arguments: Callable[[Case], Mapping[str, Any]]


@dataclass(frozen=True)
class Claim:
    """One claim: what it says, under which hypotheses, its bound, and how to look for the worst.

    Attributes
    ----------
    id : fixed name, as in the report
    title : a few words
    says : the claim in one plain sentence
    statement : in TeX
    sources : where it stands
    kind : chooses the comparator
    bound : the theoretical bound in TeX
    hypotheses : of the paper, and (`extra`) those it needs besides
    measure : one case -> Measured; for checks that look at cases
    checks : how evidence is found
    falsify : what would refute the claim
    theory : place of the derivation, below `About.theory`; "" if there is none
    conflict : what two sources say differently about it, or ""
    script : how to make a program that shows a counterexample outside the project, or None
    """

    id: str
    title: str
    says: str
    statement: str
    sources: tuple[Source, ...]
    kind: Kind
    bound: str
    checks: tuple[Check, ...]
    falsify: str
    theory: str = ""
    hypotheses: tuple[Hypothesis, ...] = ()
    measure: Callable[[Case], Measured] | None = None
    conflict: str = ""
    script: Script | None = None

    def __post_init__(self) -> None:
        names = [c.name for c in self.checks]
        if len(set(names)) != len(names):
            raise ValueError(f"claim {self.id}: check names repeat: {names}")

    @property
    def stated(self) -> tuple[str, ...]:
        return tuple(h.name for h in self.hypotheses if not h.extra)

    @property
    def needed(self) -> tuple[str, ...]:
        return tuple(h.name for h in self.hypotheses)

    def assumed(self, names: Sequence[str]) -> list[Hypothesis]:
        return [h for h in self.hypotheses if h.name in names]

    def judge(self, case: Case) -> tuple[Answer, Measured]:
        if self.measure is None:
            raise ValueError(f"claim {self.id} is not about single cases")
        measured = self.measure(case)
        return compare(self.kind, measured), measured


def verdict_of(claim: Claim, evidence: Sequence[Evidence]) -> Verdict:
    """The verdict that the evidence supports.

    Evidence about a variant of the statement, or with a hypothesis of the paper dropped, does not
    count for or against the statement itself. What holds only with a hypothesis of our own counts
    as a repair, not as the statement. With no hypothesis of our own, evidence under the paper's
    hypotheses is both.

    When experiments are all there is, the words are those for experiments; with anything left
    undecided they came out "in part". An experiment without cases is one that cannot be run here,
    and its note says why.
    """
    if any(e.problem for e in evidence):
        return Verdict.OPEN
    own = [e for e in evidence if not e.variant and set(claim.stated) <= set(e.assuming)]
    broken = [e for e in own if e.violated]
    sound = [e for e in own if not e.violated and (e.decides_all or e.cases > e.undecided)]
    as_stated = [e for e in sound if set(e.assuming) == set(claim.stated)]
    experimental = bool(own) and all(e.method is Method.EXPERIMENT for e in own)
    if broken:
        repaired = set(claim.needed) > set(claim.stated) and all(
            set(e.assuming) < set(claim.needed) for e in broken
        )
        if repaired and any(set(e.assuming) == set(claim.needed) for e in sound):
            return Verdict.QUALIFIED
        if experimental:
            some = as_stated or any(e.cases > e.violated + e.undecided for e in broken)
            return Verdict.PARTLY if some else Verdict.NOT_REPRODUCED
        return Verdict.REFUTED
    if not as_stated:
        idle = experimental and all(e.cases == 0 and e.note for e in own)
        return Verdict.NOT_TESTABLE if idle else Verdict.OPEN
    if experimental:
        return Verdict.PARTLY if any(e.undecided for e in own) else Verdict.REPRODUCED
    if any(e.sharper and not e.violated and _decided(e) for e in evidence):
        return Verdict.SHARPENED
    if any(e.decides_all for e in as_stated):
        return Verdict.PROVED
    return Verdict.CONFIRMED


def _decided(e: Evidence) -> bool:
    """Whether anything was settled; evidence without cases (a computation) settles what it says."""
    return e.cases == 0 or e.cases > e.undecided


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
