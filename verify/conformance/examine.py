"""Judge one subject by the properties of a role: search, shrink, explain."""

from __future__ import annotations

import contextlib
import inspect
import io
import math
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import Flaky, FlakyFailure, NoSuchExample

from verify.claim import Answer, Case, Measured, compare, from_json, show, to_json
from verify.conformance.property import Excluded, Property, Role, Sort
from verify.conformance.subject import Subject, WrongAnswer, flat
from verify.draws import by_seed_alone

CASES = 60
"""Cases a property is tried on."""

HOLDS, VIOLATED, UNSUPPORTED = "holds", "violated", "unsupported"


@dataclass(frozen=True)
class Record:
    """What was found about one property.

    Attributes
    ----------
    property, says : of the property
    outcome : "holds", "violated" or "unsupported"
    cases : how many were judged
    excluded : how many the property says nothing about, or rounding leaves undecided
    case : the smallest that violates it, or None
    measured, bound : both sides there
    answers : results by name, there
    sort : what the violation is, by evidence (`Sort`), or ""
    message : what explains it, what was raised, or why it is unsupported
    asked : what the implementation was asked there, or None
    """

    property: str
    says: str
    outcome: str
    cases: int = 0
    excluded: int = 0
    case: Case | None = None
    measured: Any = None
    bound: Any = None
    answers: dict[str, Any] = field(default_factory=dict)
    sort: str = ""
    message: str = ""
    asked: Case | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: to_json(value) for name, value in self.__dict__.items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        exact = ("measured", "bound", "answers")
        fields = {n: from_json(v) if n in exact else v for n, v in data.items()}
        for name in ("case", "asked"):
            fields[name] = None if data[name] is None else Case.from_json(data[name])
        return cls(**fields)


def abilities(subject: Subject, kind: Any, batches: bool) -> dict[str, str]:
    """What a property can need: why this subject has it not, "" if it has."""
    library = subject.library
    lacks = f"the library is {library}"
    masks = {"mask", "attn_mask", "attention_mask", "key_mask"} & parameters(subject.function)
    return {
        "": "",
        "family": "" if str(kind).count(", ") == 2 else "no family is declared, such as normal",
        "mask": "" if masks else "has no parameter mask or attn_mask",
        "gradient": "" if subject.differentiates else f"{library} has no automatic derivatives",
        "batches": "" if batches else "takes no batches: one more leading axis is refused",
        "labels": "" if getattr(kind, "labels", False) else "returns no assignments",
        "strides": "" if library in ("numpy", "torch") else lacks,
        "two types": ""
        if library != "lists" and subject.dtype == "float64"
        else f"it computes in {subject.dtype} {'lists' * (library == 'lists')}".rstrip(),
        "numpy": "" if library == "numpy" else lacks,
    }


def parameters(function: Callable[..., Any]) -> set[str]:
    """Names of the parameters of a function, as far as they can be known."""
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def examine(
    role: Role, subject: Subject, kind: Any = None, batches: bool = True, cases: int = CASES
) -> Iterator[Record]:
    """One record for each property of the role, in its order.

    `kind` is which regularizer, form of scores or rules it is; found by probing if None.
    """
    if kind is None:
        with quiet():
            kind = role.recognize(subject)
    able = abilities(subject, kind, batches)
    for p in role.properties:
        if able[p.needs]:
            yield Record(p.name, p.says, UNSUPPORTED, message=able[p.needs])
        else:
            yield judged(role, p, subject, kind, cases)


def judged(
    role: Role,
    p: Property,
    subject: Subject,
    kind: Any,
    cases: int = CASES,
    on_case: Callable[[Case], object] = lambda case: None,
) -> Record:
    """Search for a violation, shrink it, and say what it is.

    `on_case` is called before each case, for whoever wants to know at which one it hangs.
    """
    seen = {"judged": 0, "excluded": 0}
    worst: list[Case] = []

    def violated(case: Case) -> bool:
        on_case(case)
        answer, *_ = _judge(p, subject, case, kind)
        seen["excluded" if answer is None else "judged"] += 1
        if answer is Answer.VIOLATED:
            worst.append(case)
        return answer is Answer.VIOLATED

    record = Record(p.name, p.says, HOLDS)
    try:
        with by_seed_alone():
            smallest = find(
                p.cases,
                violated,
                settings=settings(
                    max_examples=cases,
                    database=None,
                    deadline=None,
                    phases=(Phase.generate, Phase.shrink),
                    suppress_health_check=list(HealthCheck),
                ),
                random=random.Random(p.name),  # the same cases whatever ran before
            )
    except NoSuchExample:
        if not seen["judged"]:
            record = replace(record, outcome=UNSUPPORTED, message="no case could be judged")
        return replace(record, cases=seen["judged"], excluded=seen["excluded"])
    except (Flaky, FlakyFailure):
        return replace(
            record,
            outcome=VIOLATED,
            cases=seen["judged"],
            case=min(worst, key=lambda case: case.size, default=None),
            sort=Sort.BUG,
            message="another answer each time",
        )
    record = replace(
        record, outcome=VIOLATED, cases=seen["judged"], excluded=seen["excluded"], case=smallest
    )
    return _explained_at(record, role, p, subject, kind)


def _explained_at(record: Record, role: Role, p: Property, subject: Subject, kind: Any) -> Record:
    """The record of a violation with both answers at its case, and what explains it."""
    case = record.case
    assert case is not None
    _, measured, message = _judge(p, subject, case, kind)
    if measured is None:
        message = message or "another answer each time"
        return replace(record, sort=Sort.CRASH, message=message)
    asked = p.asked(subject, case)
    with quiet():
        own = p.explain(subject, case, kind)
    sort, explanation = own or _explained(role, subject, kind, asked)
    return replace(
        record,
        measured=measured.value,
        bound=measured.bound,
        answers=dict(measured.answers),
        sort=sort,
        message=explanation or measured.note,
        asked=asked,
    )


def replayed(p: Property, subject: Subject, case: Case, kind: Any) -> Record:
    """One case again."""
    answer, measured, message = _judge(p, subject, case, kind)
    outcome = VIOLATED if answer is Answer.VIOLATED else HOLDS
    if measured is None:
        return Record(p.name, p.says, outcome, 1, case=case, message=message)
    value, bound, answers = measured.value, measured.bound, dict(measured.answers)
    return Record(p.name, p.says, outcome, 1, 0, case, value, bound, answers, message=measured.note)


def _judge(
    p: Property, subject: Subject, case: Case, kind: Any
) -> tuple[Answer | None, Measured | None, str]:
    """The answer, None where the property says nothing; what was measured; what was raised."""
    try:
        with quiet():
            measured = p.measure(subject, case, kind)
            return compare(p.kind, measured), measured, ""
    except Excluded:
        return None, None, ""
    except WrongAnswer as error:
        return Answer.VIOLATED, None, str(error)
    except Exception as error:
        first = " ".join(str(error).split())[:200]
        return Answer.VIOLATED, None, f"raised {type(error).__name__}: {first}"


def _explained(role: Role, subject: Subject, kind: Any, smallest: Case) -> tuple[str, str]:
    """The first wrong formula that the answers equal, at the smallest case and at every probe, and
    that is not the right one at one of them at least."""
    for e in role.explanations:
        told_apart = 0
        for case in (smallest, *role.probes):
            found, other = _answers(role, e, subject, case, kind)
            if other is None or found is None:
                continue
            error = _allowed(role, subject, case, kind)
            if not _close(found, other, error):
                break
            told_apart += not _close(other, role.right(subject, case, kind), error / 2)
        else:
            if told_apart:
                return e.sort, e.name
    return Sort.BUG, ""


def _answers(role: Role, e: Any, subject: Subject, case: Case, kind: Any) -> tuple[Any, Any]:
    try:
        with quiet():
            found = role.main(subject, case, kind)
            return found, None if found is None else e.answer(subject, case, kind)
    except Exception:
        return None, None


def _allowed(role: Role, subject: Subject, case: Case, kind: Any) -> float:
    try:
        return role.error(subject, case, kind)
    except Excluded:
        return 0.0


def _close(a: Any, b: Any, error: float) -> bool:
    a, b = flat(a), flat(b)
    return len(a) == len(b) and all(
        (not math.isfinite(x) and not math.isfinite(y)) or abs(x - y) <= 2 * error
        for x, y in zip(a, b, strict=True)
    )


@contextlib.contextmanager
def quiet() -> Iterator[io.StringIO]:
    """What the implementation prints and warns of is kept from the screen; gives what it printed
    to standard output."""
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        yield said


def told(record: Record) -> list[str]:
    """Lines about a violation: what it is, the case, and both answers."""
    lines = [record.sort + (f": {record.message}" if record.message else "")]
    if record.case is not None:
        lines.append(f"smallest case: {record.case!r}")
    if record.asked is not None and record.asked != record.case:
        lines.append(f"asked: {record.asked!r}")
    lines += [f"{name}: {_digits(value)}" for name, value in record.answers.items()]
    if isinstance(record.bound, float) and record.bound > 0:
        off, most = (_digits(v) for v in (record.measured, record.bound))
        lines.append(f"off by {off}; rounding explains {most}")
    return lines


def _digits(value: Any) -> str:
    """Nine digits, enough to tell two float32 apart; exact numbers as they are."""
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(_digits, value)) + ")"
    return f"{value:.9g}" if isinstance(value, float) else show(value)
