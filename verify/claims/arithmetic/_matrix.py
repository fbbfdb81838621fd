"""Operations times arithmetics: runs every cell, and says in each what came out or why nothing.

A case is an operation, an arithmetic and an input, so that every cell can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from verify import arithmetic as arithmetics
from verify.arithmetic import Arithmetic, UnavailableError
from verify.claim import Answer, Case, Claim, Evidence, Measured, Method, Run, Table
from verify.claims.arithmetic._bounds import Unit
from verify.claims.arithmetic._core import CORE
from verify.claims.arithmetic._operation import Operation, errors
from verify.claims.arithmetic._tasks import TASKS
from verify.claims.arithmetic._trained import TRAINED
from verify.search import Study, Tally

OPERATIONS = (*CORE, *TASKS, *TRAINED)
WRONG = "✗"
"""How a cell begins in which something is wrong; the report shows it in red."""


@lru_cache(maxsize=4096)
def _truth(case: Case) -> dict[str, Any]:
    return dict(_operation(case).truth(case))


@lru_cache(maxsize=4096)
def _bounds(case: Case, eps: float) -> dict[str, Any]:
    truth = _truth(case)
    if not eps:
        return {name: np.zeros(np.shape(want)) for name, want in truth.items()}
    with np.errstate(all="ignore"):  # a bound that is not a number is none
        found = _operation(case).bound(case, truth, Unit.of(eps))
    return {name: np.nan_to_num(b, nan=np.inf, posinf=np.inf) for name, b in found.items()}


def _operation(case: Case) -> Operation:
    for operation in OPERATIONS:
        if operation.name == case["operation"]:
            return operation
    raise ValueError(f"unknown operation {case['operation']!r}")


def _input(case: Case) -> Case:
    return Case(**{name: value for name, value in case.items() if name != "arithmetic"})


def results(case: Case) -> tuple[Arithmetic, dict[str, Any], dict[str, str]]:
    """The arithmetic of a case, the outputs as numpy arrays, and what is wrong with the kind of
    array that came back: a result lives where its input lives, in the type it has.

    Raises
    ------
    UnavailableError
        the arithmetic cannot be used here.
    """
    used = arithmetics.get(case["arithmetic"])
    if used.why_not:
        raise UnavailableError(f"{used.name} is not available here: {used.why_not}")
    like = used.put([1])
    outputs = _operation(case).compute(used, case)
    wrong = {}
    for name, value in outputs.items():
        if used.exact:
            array = np.asarray(value)
            kinds = {type(v) for v in array.ravel()} if array.dtype == object else set()
            fits = kinds <= {type(like[0]), bool} and "float" not in str(array.dtype)
        else:
            decision = "float" not in str(value.dtype)
            fits = type(value) is type(like) and str(device_of(value)) == str(device_of(like))
            fits = fits and (decision or value.dtype == like.dtype)
        if not fits:
            wrong[name] = "another library, device or element type"
    return used, {name: used.get(value) for name, value in outputs.items()}, wrong


def differing(case: Case) -> Measured:
    """How many entries are not, bit for bit, the rational result converted."""
    used, found, wrong = results(case)
    answers: dict[str, Any] = {}
    count = 0
    for name, want in _truth(_input(case)).items():
        got, right = found[name], np.asarray(want, dtype=object)
        if got.dtype.kind in "bi":
            same = got.astype(np.int64) == right.astype(np.int64)
        else:
            right = used.rounded(want)
            same = np.asarray(got == right)  # a rational zero has no sign, so either zero will do
        bad = got.size if name in wrong or got.shape != right.shape else int(np.sum(~same))
        count += bad
        if bad:
            answers[f"{name}, {used.name}"] = wrong.get(name) or got.tolist()
            answers[f"{name}, exact"] = right.tolist()
    return Measured(count, 0, answers=answers, note=f"{used.name}, {case['operation']}")


def beyond_rounding(case: Case) -> Measured:
    """The entry that comes nearest to its error bound, or goes furthest beyond it. Where rounding
    may turn a decision, the entries that hang on it have no bound, and the case is undecided."""
    used, found, wrong = results(case)
    given = _input(case)
    truth, bounds = _truth(given), _bounds(given, used.eps)
    worst, undecided = (0.0, 0.0), False
    for name, want in truth.items():
        got, right = found[name], np.asarray(want, dtype=object)
        if name in wrong or got.shape != right.shape:
            return Measured(np.inf, 0.0, note=f"{name}: {wrong.get(name, 'another shape')}")
        error, bound = errors(got, right), np.broadcast_to(bounds[name], right.shape)
        undecided |= bool(np.any(np.isinf(bound)))
        pairs = zip(error.ravel().tolist(), bound.ravel().tolist(), strict=True)
        worst = max((worst, *(p for p in pairs if p[1] < np.inf)), key=_nearness)
    note = f"{used.name}, {case['operation']}"
    return Measured(*worst, error=np.inf if undecided and _nearness(worst) <= 1 else 0, note=note)


def _nearness(pair: tuple[float, float]) -> float:
    error, bound = pair
    return error / bound if bound else (np.inf if error else 0.0)


@dataclass(frozen=True)
class Matrix:
    """The check: every operation in every arithmetic of the run.

    Attributes
    ----------
    name : of the check
    draw : a case of an operation
    cell : what to write into a cell whose cases all hold, given the worst ratio
    title : of the table; the number of inputs is added
    count : cases of each operation
    looseness : how far below its bound the worst case of a cell may stay; 0 for no limit
    """

    name: str
    draw: Callable[[Operation, Any], Case]
    cell: Callable[[float], str]
    title: str
    count: int
    looseness: float = 0.0
    in_arithmetics: bool = True

    method = Method.PROPERTY

    def run(self, claim: Claim, run: Run) -> Evidence:
        tally = Tally(claim, (), None)
        e = tally.evidence
        e.check, e.method, e.seed = self.name, self.method, run.stream(claim.id, self.name)
        chosen = arithmetics.selected(run.arithmetics)
        inputs = {op.name: self._cases(op, claim, run) for op in OPERATIONS}
        rows, loose = [], []
        for used in chosen:
            row = [used.name]
            for operation in OPERATIONS:
                why = operation.refuses(used) or used.why_not
                if why:
                    row.append(f"not run: {why}")
                    continue
                cases = [
                    Case(**c, arithmetic=used.name)
                    for c in inputs[operation.name]
                    if used.exact or 2.0 ** (1 - c.get("digits", 1)) >= used.eps
                ]
                text, ratio = self._fill(tally, cases)
                row.append(text)
                if not text.startswith(WRONG) and 0 < ratio < self.looseness:
                    loose.append(f"{operation.name} in {used.name} reaches {ratio:.1e}")
            rows.append(row)
        columns = ("arithmetic", *(op.name for op in OPERATIONS))
        title = f"{self.title} ({self._count(run)} inputs an operation)"
        e.tables.append(Table("matrix", title, columns, rows))
        self._summarize(e, chosen)
        if loose:
            e.problem = f"bounds looser than they may be: {'; '.join(loose)}"
        return e

    def _count(self, run: Run) -> int:
        return run.count(self.count, 8)

    def _cases(self, operation: Operation, claim: Claim, run: Run) -> list[Case]:
        rng = np.random.default_rng(run.stream(claim.id, self.name, operation.name))
        drawn: Iterator[Case] = (self.draw(operation, rng) for _ in range(self._count(run)))
        return [Case(operation=operation.name, **case) for case in drawn]

    def _fill(self, tally: Tally, cases: list[Case]) -> tuple[str, float]:
        """The text of a cell, and the worst ratio in it. A crash is a wrong answer."""
        wrong = undecided = 0
        worst = 0.0
        for case in cases:
            answer, measured = tally.judge(case)
            wrong += answer is Answer.VIOLATED
            undecided += answer is Answer.UNDECIDED
            if measured.ratio is not None:
                worst = max(worst, float(measured.ratio))
        if wrong:
            return f"{WRONG} wrong in {wrong} of {len(cases)}", worst
        text = self.cell(worst)
        return (f"{text}, {undecided} undecidable" if undecided else text), worst

    def _summarize(self, e: Evidence, chosen: list[Arithmetic]) -> None:
        ran = [a.name for a in chosen if not a.why_not]
        e.arithmetic = ", ".join(ran)
        e.scope = f"{len(OPERATIONS)} operations in {len(ran)} arithmetics"
        reasons: dict[str, list[str]] = {}
        for a in chosen:
            if a.why_not:
                reasons.setdefault(a.why_not, []).append(a.name)
        e.note = "; ".join(f"not run: {', '.join(v)} ({why})" for why, v in reasons.items())
        if not e.cases:
            e.problem = f"nothing ran; {e.note or 'no operation takes these arithmetics'}"
        if arithmetics.gpu_required() and arithmetics.missing(tuple(a.name for a in chosen)):
            e.problem = "; ".join(arithmetics.missing(tuple(a.name for a in chosen)))


@dataclass(frozen=True)
class StudyOfArithmetics(Study):
    """A study that computes in the arithmetics of the run."""

    in_arithmetics: bool = True


def guarded(measure: Callable[[Case], Measured]) -> Callable[[Case], Measured]:
    """A measure that takes a crash of an operation for a wrong answer, not for the end of a run."""

    def measured(case: Case) -> Measured:
        try:
            return measure(case)
        except UnavailableError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            return Measured(1, 0, answers={case["arithmetic"]: said}, note="it crashed")

    return measured
