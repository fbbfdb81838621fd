"""Statements about trained cells, and how the data of several scales decide them.

A statement is about one number a seed and says where the median lies; an interval for the median
decides it (`Statement.decide`). It counts as it came out at the largest scale at which its cells
were trained; what smaller scales say of it stands beside, and never counts. A claim most of whose
statements were not run at any scale is not decided, unless one of them is violated.
docs/theory/learning.md says which rules were written after a look at results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

from verify.claim import Answer, Evidence, Table
from verify.experiments.cells import Cell
from verify.experiments.results import Interval, Results, interval

Values = Callable[[Results], Sequence[float]]  # one number a seed
ALIKE, NOT_ABOVE = "alike", "not above"  # sides that are about differences
FULL = "paper"  # the scale at which nothing can be a matter of scale any more
NAMED = 3  # statements on which scales disagree that the note names


@dataclass(frozen=True)
class Statement:
    """Where the median of `values` lies.

    Attributes
    ----------
    says : which quantity of which configurations; the same words at every scale
    side : "<" or ">" a bound; ALIKE or NOT_ABOVE for a difference that is none, or not positive,
        as far as the seeds can tell
    bound : the number it is compared with
    needs : the cells it is about
    values : one number a seed
    ours : the bound is this project's, not the paper's
    spread : the typical difference of two seeds of one configuration, for ALIKE and NOT_ABOVE
    """

    says: str
    side: str
    bound: float
    needs: tuple[Cell, ...]
    values: Values
    ours: bool = False
    spread: Callable[[Results], float] = lambda _: 0.0

    def missing(self, results: Results) -> bool:
        return not all(results.has(cell) for cell in self.needs)

    def stated(self, spread: float) -> str:
        if self.side in (ALIKE, NOT_ABOVE):
            return f"{self.side}; two seeds differ by {spread:.3g}"
        return f"{self.side} {self.bound:g}"

    def beyond(self, value: float, spread: float = 0.0) -> float:
        """How far a value is on the wrong side; negative on the right one."""
        if self.side == ">":
            return self.bound - value
        return (abs(value) if self.side == ALIKE else value) - self.bound - spread

    def decide(self, found: Interval, spread: float = 0.0) -> Answer:
        """It holds if the whole interval is where it should be, and is violated if nothing is.

        A difference is none if its interval holds 0. One that is there is a violation if it is
        larger than that of two seeds, and leaves the statement undecided else.
        """
        if not found.seeds or not math.isfinite(max(found.low, -found.high)):
            return Answer.UNDECIDED  # without ends
        if self.side in (ALIKE, NOT_ABOVE):
            if found.low <= 0 and (found.high >= 0 or self.side == NOT_ABOVE):
                return Answer.HOLDS
            wrong = self.beyond(found.value, spread) > 0
            return Answer.VIOLATED if wrong else Answer.UNDECIDED
        ends = [self.beyond(found.low), self.beyond(found.high)]
        if max(ends) < 0:
            return Answer.HOLDS
        return Answer.VIOLATED if min(ends) > 0 else Answer.UNDECIDED


def two_seeds(*each: Values) -> Callable[[Results], float]:
    """By how much two seeds of one configuration differ: the median over all pairs."""

    def spread(results: Results) -> float:
        pairs = [pair for values in each for pair in combinations(values(results), 2)]
        return median(abs(a - b) for a, b in pairs)

    return spread


@dataclass(frozen=True)
class Look:
    """A statement at one scale; `found` is None if it was not run there."""

    statement: Statement
    scale: str
    found: Interval | None
    spread: float = 0.0

    @property
    def answer(self) -> Answer:
        return self.statement.decide(self.found, self.spread) if self.found else Answer.UNDECIDED

    def row(self, counts: bool) -> list[Any]:
        s, scale = self.statement, self.scale if counts else f"{self.scale}, does not count"
        if self.found is None:
            stated = s.stated(math.nan).partition(";")[0]
            return [s.says, "none", None, None, None, stated, 0, "not run"]
        numbers = map(rounded, self.found[:3])
        stated = s.stated(self.spread)
        return [s.says, scale, *numbers, stated, self.found.seeds, str(self.answer)]


def look(statement: Statement, scale: str, results: Results) -> Look:
    try:
        if not statement.missing(results):
            found = interval(statement.values(results))
            return Look(statement, scale, found, statement.spread(results))
    except KeyError:  # trained, but not tested
        pass
    return Look(statement, scale, None)


def why(looks: Sequence[Look]) -> str:
    """Why a statement did not come out; its looks, the one that counts first."""
    first, *smaller = looks
    others = [f"{x.scale} scale: {x.answer}" for x in smaller]
    if first.found is None:
        return "not run at any scale"
    if first.answer is Answer.UNDECIDED:
        small = first.found.low > 0 or first.found.high < 0
        if first.statement.side in (ALIKE, NOT_ABOVE) and small:
            reason = "a difference that is there, but smaller than that of two seeds"
        else:
            reason = f"the interval from {first.found.seeds} seeds holds the bound"
        return "; ".join([reason, *others])
    reasons = [f"the {first.scale} scale says otherwise"]
    if first.scale != FULL:
        reasons.append(f"not run at the {FULL} scale, so it may be a matter of scale")
    elif any(x.answer is Answer.HOLDS for x in smaller):
        reasons.append("a matter of scale")
    elif not first.statement.ours:
        reasons.append("against the paper, at its own scale")
    if first.statement.ours:
        reasons.append("by a bound of ours, where the paper names none")
    return "; ".join([*reasons, *others])


def judge(e: Evidence, by_scale: Mapping[str, Sequence[Statement]], results: Results) -> None:
    """Decide the statements, each at the largest scale that has it, and fill in the evidence.

    `by_scale` names the scales from the largest to the smallest.
    """
    said: dict[str, list[Look]] = {}
    for scale, statements in by_scale.items():
        for s in statements:
            looks = said.setdefault(s.says, [])
            if all(x.statement.needs != s.needs for x in looks):  # scales share some cells
                looks.append(look(s, scale, results))
    run = {says: [x for x in each if x.found] or each[:1] for says, each in said.items()}
    absent = sum(looks[0].found is None for looks in run.values())
    if absent == len(run):
        e.note = "not run at this scale" if len(by_scale) == 1 else "not run at any scale"
        return
    worst = -math.inf
    for first, *_ in run.values():
        if first.found is None:
            continue
        e.violated += first.answer is Answer.VIOLATED
        e.undecided += first.answer is Answer.UNDECIDED
        beyond = first.statement.beyond(first.found.value, first.spread)
        if beyond > worst:
            worst = beyond
            e.bound, e.measured, e.ratio = first.statement.bound, rounded(first.found.value), None
    e.note = "; ".join(_notes(run, absent))
    if e.violated or len(run) >= 2 * absent:
        e.cases = len(run)
        e.undecided += absent
    else:  # too little to speak of the claim; the table shows what there is
        e.undecided = 0
        e.bound = e.measured = None
    columns = ("what", "scale", "median", "low", "high", "stated", "seeds", "answer")
    title = "Each statement: median over the seeds, with an interval for it"
    rows = [x.row(x is looks[0]) for looks in run.values() for x in looks]
    e.tables.append(Table(f"{e.check}-statements", title, columns, rows))
    failed = [
        [says, looks[0].scale if looks[0].found else "none", _told(looks[0]), why(looks)]
        for says, looks in run.items()
        if looks[0].answer is not Answer.HOLDS
    ]
    if failed:
        title = "What did not come out, and why"
        e.tables.append(Table(f"{e.check}-why", title, ("what", "scale", "answer", "why"), failed))


def _notes(run: Mapping[str, Sequence[Look]], absent: int) -> list[str]:
    """Which scales decided, where they disagree, and how much was not run."""
    found = []
    scales = [looks[0].scale for looks in run.values() if looks[0].found]
    if len(set(scales)) > 1:
        counts = (f"{scales.count(s)} at the {s} scale" for s in dict.fromkeys(scales))
        found.append(f"decided {', '.join(counts)}")
    elif scales[0] != FULL or any(len(looks) > 1 for looks in run.values()):
        found.append(f"decided at the {scales[0]} scale")
    differ = [
        f"{says} ({', '.join(f'{x.scale}: {x.answer}' for x in looks)})"
        for says, looks in run.items()
        if len({x.answer for x in looks}) > 1
    ]
    if differ:
        more = f" and {len(differ) - NAMED} more" if len(differ) > NAMED else ""
        found.append(f"scales disagree on {', '.join(differ[:NAMED])}{more}; the largest counts")
    if absent:
        found.append(f"{absent} of {len(run)} statements are about runs that were not made")
    return found


def _told(found: Look) -> str:
    return str(found.answer) if found.found else "not run"


def rounded(value: float) -> float | None:
    """Four digits are more than the seeds can tell."""
    return float(f"{value:.4g}") if math.isfinite(value) else None
