"""The usual checks: proofs, exhaustive enumeration, property search, adversarial search."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import SearchStrategy

from verify.claim import Answer, Case, Claim, Evidence, Kind, Measured, Method, Run, Table, compare
from verify.draws import by_seed_alone

Measure = Callable[[Case], Measured]


class Tally:
    """Judges cases one by one and keeps the worst, the smallest counterexample and the counts."""

    def __init__(
        self,
        claim: Claim,
        assuming: Sequence[str],
        measure: Measure | None,
        kind: Kind | None = None,
    ) -> None:
        self.claim = claim
        self.kind = kind or claim.kind
        self.assumed = claim.assumed(assuming)
        self.measure = measure or claim.measure
        self.evidence = Evidence("", Method.PROPERTY, assuming=tuple(h.name for h in self.assumed))
        self._worst: Any = None
        self._smallest: Any = None

    def admits(self, case: Case) -> bool:
        """Whether the hypotheses in force hold; a case that fails one is counted as excluded."""
        if all(h.holds(case) for h in self.assumed):
            return True
        self.evidence.excluded += 1
        return False

    def judge(self, case: Case) -> tuple[Answer, Measured]:
        if self.measure is None:
            raise ValueError(f"claim {self.claim.id}: this check needs a measure")
        measured = self.measure(case)
        answer = compare(self.kind, measured)
        e = self.evidence
        e.count(answer)
        badness = self.badness(measured)
        # a violation is worse than everything that holds, whatever the scale it is measured on
        rank = (answer is Answer.VIOLATED, badness)
        if self._worst is None or rank > self._worst:
            self._worst = rank
            e.bound, e.measured, e.ratio, e.witness = (
                measured.bound,
                measured.value,
                measured.ratio,
                case,
            )
        if answer is Answer.VIOLATED and (self._smallest is None or case.size < self._smallest):
            self._smallest = case.size
            e.counterexample, e.card = case, card(measured)
        return answer, measured

    def badness(self, m: Measured) -> Any:
        """Larger is nearer to a violation, or further into one."""
        if self.kind is Kind.IFF:
            return float(bool(m.value) != bool(m.bound))
        if self.kind is Kind.EQUALITY:
            return abs(m.value - m.bound)
        upward = self.kind in (Kind.UPPER, Kind.TIGHT, Kind.SCALING)
        if upward and m.ratio is not None and m.bound > 0:
            return m.ratio
        return m.value - m.bound if upward else m.bound - m.value


def card(measured: Measured) -> dict[str, Any]:
    return {
        "measured": measured.value,
        "bound": measured.bound,
        "answers": dict(measured.answers),
        "note": measured.note,
    }


@dataclass(frozen=True)
class _Looking:
    """What all checks that look at cases share.

    `assuming` names the hypotheses in force (None: all of the claim's). Leaving one out asks
    whether it is needed. `variant` marks evidence about a neighboring statement.
    """

    name: str
    scope: str = ""
    assuming: tuple[str, ...] | None = None
    variant: str = ""
    measure: Measure | None = None
    kind: Kind | None = None
    sharper: str = ""
    arithmetic: str = "exact rationals (fmpq)"

    def tally(self, claim: Claim) -> Tally:
        names = claim.needed if self.assuming is None else self.assuming
        unknown = set(names) - set(claim.needed)
        if unknown:
            raise ValueError(
                f"claim {claim.id}, check {self.name}: no hypothesis {sorted(unknown)}"
            )
        return Tally(claim, names, self.measure, self.kind)

    def finish(self, tally: Tally, method: Method, seed: int | None = None) -> Evidence:
        e = tally.evidence
        e.check, e.method, e.scope, e.variant = self.name, method, self.scope, self.variant
        e.sharper, e.arithmetic, e.seed = self.sharper, self.arithmetic, seed
        if e.cases == 0:
            e.problem = f"no case met the hypotheses ({e.excluded} were excluded)"
        elif e.variant and e.violated and not self.expects_violation:
            # it does not touch the verdict on the statement, but it must not pass unnoticed
            e.problem = f"{e.violated} cases violate the variant; smallest: {e.counterexample!r}"
        if tally.kind is Kind.IFF:
            e.measured, e.bound = e.violated, 0  # cases in which the two sides disagree
        return e

    @property
    def expects_violation(self) -> bool:
        """Whether the check is there to show that a variant fails."""
        return False


_CASES_IN_BRIEF = 3000  # times the profile's factor


@dataclass(frozen=True)
class Exhaustive(_Looking):
    """Every case of a finite family.

    `until_violation` stops at the first violation, which is the smallest when the family is
    ordered by size. `cases` gets the run, so that a deeper profile can look at more. A profile
    below the default one looks at the first few hundred cases only, and the evidence says so.
    """

    cases: Callable[[Run], Iterable[Case]] = field(kw_only=True)
    until_violation: bool = False

    method = Method.EXHAUSTIVE

    @property
    def expects_violation(self) -> bool:
        return self.until_violation

    def run(self, claim: Claim, run: Run) -> Evidence:
        tally = self.tally(claim)
        limit = run.count(_CASES_IN_BRIEF) if run.profile.factor < 1 else None
        for case in self.cases(run):
            if not tally.admits(case):
                continue
            answer, _ = tally.judge(case)
            if self.until_violation and answer is Answer.VIOLATED:
                tally.evidence.note = "stopped at the first violation"
                break
            if not self.until_violation and tally.evidence.cases == limit:
                tally.evidence.note = f"stopped there in the {run.profile.name} profile"
                break
        return self.finish(tally, self.method)


@dataclass(frozen=True)
class Property(_Looking):
    """Hypothesis draws cases, drives them towards the bound, and shrinks a violation."""

    strategy: SearchStrategy[Case] = field(kw_only=True)
    count: int = field(kw_only=True)
    examples: tuple[Case, ...] = ()

    method = Method.PROPERTY

    def run(self, claim: Claim, run: Run) -> Evidence:
        tally = self.tally(claim)
        seed = run.stream(claim.id, self.name)

        def one(case: Case) -> None:
            if not tally.admits(case):
                return
            answer, measured = tally.judge(case)
            badness = tally.badness(measured)
            if answer is Answer.VIOLATED:
                raise _Violation
            aimed = tally.kind in (Kind.UPPER, Kind.TIGHT) and measured.ratio is not None
            if aimed and math.isfinite(badness):
                hypothesis.target(float(badness))

        for example in self.examples:
            if tally.admits(example):
                tally.judge(example)
        search = hypothesis.given(self.strategy)(one)
        search = hypothesis.seed(seed)(search)
        search = hypothesis.settings(
            max_examples=run.count(self.count, 10),
            database=None,
            deadline=None,
            derandomize=False,  # the seed decides, also under a profile that says otherwise
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.target, Phase.shrink),
            report_multiple_bugs=False,
            print_blob=False,
        )(search)
        if not tally.evidence.violated:
            with by_seed_alone(), contextlib.suppress(_Violation):
                search()
        return self.finish(tally, self.method, seed)


class _Violation(Exception):  # noqa: N818 - a signal to the shrinker, not an error
    pass


@dataclass(frozen=True)
class Adversarial(_Looking):
    """Optimizes for the worst case, group by group, and must reach a share of the bound.

    `search` yields (group, case) pairs; the best of each group is tabled. `reach` is the share of
    the bound that every group has to attain for the bound to be called sharp; 0 asks for none.
    """

    search: Callable[[Run, int], Iterable[tuple[Any, Case]]] = field(kw_only=True)
    reach: float = 0.0
    group: str = "k"

    method = Method.ADVERSARIAL

    def run(self, claim: Claim, run: Run) -> Evidence:
        tally = self.tally(claim)
        seed = run.stream(claim.id, self.name)
        best: dict[Any, Measured] = {}
        for group, case in self.search(run, seed):
            if not tally.admits(case):
                continue
            _, measured = tally.judge(case)
            if group not in best or tally.badness(measured) > tally.badness(best[group]):
                best[group] = measured
        e = self.finish(tally, self.method, seed)
        rows = [
            [g, float(m.bound), float(m.value), float(m.ratio)]
            for g, m in best.items()
            if m.ratio is not None
        ]
        e.tables.append(
            Table(
                self.name,
                "Worst value found by the adversarial search",
                (self.group, "bound", "measured", "ratio"),
                rows,
            )
        )
        short = [f"{self.group} = {r[0]} reached {r[3]:.4f}" for r in rows if r[3] < self.reach]
        if self.reach and not rows:
            e.problem = "no group has a share of the bound to reach"
        elif short:
            e.problem = f"the bound was to be reached to {self.reach}: " + "; ".join(short)
        elif self.reach:
            e.note = f"reaches at least {min(r[3] for r in rows):.6f} of the bound in every group"
        return e


@dataclass(frozen=True)
class Study:
    """A check of its own kind: `examine` fills in an `Evidence` that starts with all hypotheses.

    For what the other checks cannot express: counting identities, limits, tables of values.
    """

    name: str
    method: Method
    examine: Callable[[Claim, Run, Evidence], None]
    scope: str = ""
    variant: str = ""
    sharper: str = ""
    assuming: tuple[str, ...] | None = None
    arithmetic: str = ""

    def run(self, claim: Claim, run: Run) -> Evidence:
        e = Evidence(self.name, self.method, scope=self.scope, variant=self.variant)
        e.assuming = claim.needed if self.assuming is None else self.assuming
        e.arithmetic, e.sharper = self.arithmetic, self.sharper
        e.seed = run.stream(claim.id, self.name)
        self.examine(claim, run, e)
        return e


_RESULTS = {"proved": "proved", "unknown": "not decided", "refuted": "refuted"}


@dataclass(frozen=True)
class Step:
    """One statement put to a prover: proved, refuted (with a case) or unknown."""

    scope: str
    result: str
    case: Case | None = None

    def __post_init__(self) -> None:
        if self.result not in _RESULTS:
            raise ValueError(f"a step is proved, refuted or unknown, not {self.result!r}")


def proved(scope: str, condition: bool) -> Step:
    """A symbolic step; one that does not come out is not a refutation."""
    return Step(scope, "proved" if condition else "unknown")


@dataclass(frozen=True)
class Proof:
    """A proof by symbols or by a solver. `prove` yields one `Step` after another.

    `decides_all` says that the steps together settle every input of the claim. An `unknown` step
    is not proved; it is counted as undecided and never as success.
    """

    name: str
    method: Method
    prove: Callable[[Run], Iterable[Step]]
    scope: str = ""
    decides_all: bool = False
    variant: str = ""
    sharper: str = ""
    assuming: tuple[str, ...] | None = None

    def run(self, claim: Claim, run: Run) -> Evidence:
        steps = list(self.prove(run))
        of = {result: [s for s in steps if s.result == result] for result in _RESULTS}
        complete = bool(steps) and len(of["proved"]) == len(steps)
        e = Evidence(self.name, self.method, scope=self.scope, variant=self.variant)
        e.assuming = claim.needed if self.assuming is None else self.assuming
        e.cases = len(steps)
        e.undecided, e.violated = len(of["unknown"]), len(of["refuted"])
        e.decides_all = self.decides_all and complete
        e.sharper = self.sharper if complete else ""
        e.arithmetic = "sympy" if self.method is Method.SYMBOLIC else "z3"
        e.note = "; ".join(
            f"{word}: {_listed([s.scope for s in of[result]])}"
            for result, word in _RESULTS.items()
            if of[result]
        )
        e.counterexample = next((s.case for s in of["refuted"] if s.case), None)
        if not of["proved"] and not of["refuted"]:
            e.problem = "nothing was decided"
        return e


def _listed(scopes: list[str]) -> str:
    shown = scopes if len(scopes) <= 6 else [*scopes[:2], "...", scopes[-1]]
    return f"{len(scopes)} statements ({'; '.join(shown)})" if len(scopes) > 1 else scopes[0]


_PROVERS = (Method.SYMBOLIC, Method.SMT, Method.MACHINE_CHECKED)


def describe(e: Evidence) -> str:
    """One sentence that says what a piece of evidence amounts to, in honest words."""
    where = f" ({e.scope})" if e.scope else ""
    if e.problem:
        return f"failed: {e.problem}{where}"
    if e.method in _PROVERS or e.cases == 0:
        return e.note + where if e.note else where.strip(" ()")
    stopped = e.method is Method.EXHAUSTIVE and e.note.startswith("stopped")
    found = {
        Method.EXHAUSTIVE: "looked at {n} cases in order of size"
        if stopped
        else "decided for all {n} cases",
        Method.ADVERSARIAL: "searched, {n} candidates judged",
    }.get(e.method, "checked on {n} cases").format(n=f"{e.cases:,}")
    if e.cases == 1:
        found = found.replace("all 1 cases", "the one case").replace("1 cases", "1 case")
    parts = [found + where]
    if e.violated:
        parts.append(f"{e.violated:,} violated")
        if e.counterexample is not None:
            parts.append(f"smallest: {e.counterexample!r}")
    elif e.cases:
        parts.append("none violated")
    if e.undecided:
        parts.append(f"{e.undecided:,} undecided")
    if e.excluded:
        parts.append(f"{e.excluded:,} excluded by a hypothesis")
    if e.note and not stopped:
        parts.append(e.note)
    return "; ".join(parts)
