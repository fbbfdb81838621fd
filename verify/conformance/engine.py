"""The engine behind the three ways in: judge an implementation in a process of its own.

Somebody's code may hang, exit, crash the interpreter or print. So it runs in a forked process that
reports one record after another; one that is silent for too long is stopped, the property is
recorded as such, and the next ones go on in a new process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from constructions.errors import InputError
from verify.claim import Case
from verify.conformance import examine as look
from verify.conformance.declaration import Declaration, NoAnswerError, Probed, declared, probe
from verify.conformance.examine import Record
from verify.conformance.loading import load
from verify.conformance.property import Sort

TIMEOUT = 20.0
"""Seconds that one property, or the import, may take."""
ANSWERS = "answers"
ANSWERS_SAY = "The simplest question of the role gets an answer of the right shape."
REPEATABLE = "repeatable"  # a role's property of this name comes first, and the rest needs it
SILENT = "silent"
SILENT_SAYS = "It prints nothing."
EXPECTED, UNEXPECTED = "expected", "unexpectedly holds"
_GIVEN_UP = 3  # properties that hang before the rest is left alone


@dataclass(frozen=True)
class Records:
    """What was found about an implementation.

    Attributes
    ----------
    name : of the implementation
    declaration : what it is, declared or found
    records : one a property
    expected : reasons of the properties that are expected to fail
    """

    name: str
    declaration: Declaration
    records: tuple[Record, ...]
    expected: Mapping[str, str] = field(default_factory=dict)

    def status(self, record: Record) -> str:
        """The outcome, with what the caller expects taken into account."""
        if record.property in self.expected:
            return EXPECTED if record.outcome == look.VIOLATED else UNEXPECTED
        return record.outcome

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(self.status(r) for r in self.records))

    @property
    def ok(self) -> bool:
        """Whether all properties hold, or fail as expected."""
        return not {look.VIOLATED, UNEXPECTED} & set(self.counts)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def to_json(self) -> dict[str, Any]:
        return {
            "implementation": self.name,
            "declaration": self.declaration.to_json(),
            "counts": self.counts,
            "records": [
                r.to_json() | {"status": self.status(r), "reason": self.expected.get(r.property)}
                for r in self.records
            ],
        }


def conformance(
    implementation: Any,
    role: str = "",
    declaration: Declaration | None = None,
    expect: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    only: str = "",
    cases: int = look.CASES,
    on_record: Callable[[Record], object] = lambda record: None,
) -> Records:
    """Judge an implementation by the properties of its role.

    Parameters
    ----------
    implementation : the object, or its name "PACKAGE.MODULE:OBJECT" or "FILE.py:OBJECT"
    role : lloyd_step, transformer, attention, weights, surrogate, sampler; found if ""
    declaration : what it can do; what is left out is found by probing
    expect : reasons by property of what is expected to fail
    timeout : seconds that a property may take
    only : judge this property alone
    cases : how many cases a property is tried on
    on_record : called with each record as it comes

    Raises
    ------
    InputError
        no such object, not callable, its role is not clear, or `expect` names no property.
    """
    given = declaration or Declaration()
    given = replace(given, role=role or given.role)
    name = implementation if isinstance(implementation, str) else _name(implementation)
    records: list[Record] = []
    found: dict[str, Any] = {"declaration": given.to_json(), "properties": []}
    hung = 0
    done: set[str] = set()
    while True:
        at, case = "", None
        for kind, data in _from_process(implementation, given, only, cases, done, timeout):
            if kind == "input error":
                raise InputError(data)
            if kind == "probed":
                found = data
            elif kind == "start":
                at, case = data, None
            elif kind == "case":
                case = Case.from_json(data)
            elif kind == "record":
                record = Record.from_json(data)
                done.add(record.property)
                records.append(record)
                on_record(record)
            elif kind == "lost":
                says = next((s for n, s in found["properties"] if n == at), ANSWERS_SAY)
                sort = Sort.HANG if data.startswith("no answer") else Sort.CRASH
                record = Record(
                    at or ANSWERS, says, look.VIOLATED, case=case, sort=sort, message=data
                )
                hung += 1
                done.add(record.property)
                records.append(record)
                on_record(record)
                break
        else:
            break
        if at in ("", ANSWERS):
            break
        if hung >= _GIVEN_UP:
            reason = f"not judged: {hung} properties got no answer before it"
            left = [(n, s) for n, s in found["properties"] if n not in done]
            records += [Record(n, s, look.UNSUPPORTED, message=reason) for n, s in left]
            break
    if only and not any(r.property == only for r in records):
        names = ", ".join(n for n, _ in found["properties"])
        raise InputError(f"no property {only!r}; this role has {names or ANSWERS}")
    expected = dict(expect or {})
    known = {r.property for r in records} | {n for n, _ in found["properties"]}
    for row in expected:
        if row not in known:
            raise InputError(
                f"expected failure {row!r} is no property; known: {', '.join(sorted(known))}"
            )
    return Records(name, Declaration(**found["declaration"]), tuple(records), expected)


def replay(implementation: Any, property_name: str, case: Case, given: Declaration) -> Record:
    """Judge one case of a property again, in this process.

    Raises
    ------
    InputError
        no such object or property.
    NoAnswerError
        it does not answer the simplest question.
    """
    target = load(implementation) if isinstance(implementation, str) else implementation
    probed = probe(target, declared(target, given))
    for p in probed.role.properties:
        if p.name == property_name:
            return look.replayed(p, probed.subject, case, probed.kind)
    names = ", ".join(p.name for p in probed.role.properties)
    raise InputError(f"no property {property_name!r}; {probed.role.name} has {names}")


def read_expected(path: Path) -> dict[str, str]:
    """The expected failures of a TOML file: `property = "reason"`.

    Raises
    ------
    InputError
        it cannot be read, or a reason is not a text.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}") from None
    for name, reason in data.items():
        if not isinstance(reason, str) or not reason.strip():
            raise InputError(f'{path}: {name} = {reason!r}; expected {name} = "a reason"')
    return data


def _name(found: Any) -> str:
    module, name = getattr(found, "__module__", ""), getattr(found, "__qualname__", "")
    return f"{module}:{name}" if name else f"{type(found).__module__}:{type(found).__qualname__}"


# The process


def _from_process(
    implementation: Any, given: Declaration, only: str, cases: int, done: set[str], timeout: float
) -> Iterator[tuple[str, Any]]:
    """The messages of a process that judges what is left; ("lost", why) if it is no more."""
    if not hasattr(os, "fork") or "jax" in sys.modules:
        # nothing can be forked: on Windows at all, and beside the threads of JAX
        yield from _messages(implementation, given, only, cases, done)
        return
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    arguments = (there, implementation, given, only, cases, frozenset(done))
    process = context.Process(target=_work, args=arguments, daemon=True)
    process.start()
    there.close()
    try:
        while True:
            if not here.poll(timeout):
                yield "lost", f"no answer within {timeout:g} seconds"
                return
            try:
                message = here.recv()
            except EOFError:
                process.join(5)
                code = process.exitcode or 0
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                yield "lost", f"the process ended with {how}"
                return
            if message[0] == "end":
                return
            yield message
    finally:
        with suppress(OSError):
            process.kill()
        process.join(5)
        here.close()


def _work(
    there: Connection, implementation: Any, given: Declaration, only: str, cases: int, done: Any
) -> None:
    null = os.open(os.devnull, os.O_WRONLY)  # what is printed past Python's own streams
    os.dup2(null, 1)
    os.dup2(null, 2)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)

    def on_case(case: Case) -> None:
        there.send(("case", case.to_json()))

    for message in _messages(implementation, given, only, cases, done, on_case):
        there.send(message)
    there.send(("end", None))


def _messages(
    implementation: Any,
    given: Declaration,
    only: str,
    cases: int,
    done: Any,
    on_case: Callable[[Case], object] = lambda case: None,
) -> Iterator[tuple[str, Any]]:
    yield "start", ANSWERS
    try:
        target = load(implementation) if isinstance(implementation, str) else implementation
        probed = probe(target, declared(target, given))
    except InputError as error:
        yield "input error", str(error)
        return
    except NoAnswerError as error:
        record = Record(ANSWERS, ANSWERS_SAY, look.VIOLATED, 1, sort=Sort.CRASH, message=str(error))
        yield "record", record.to_json()
        return
    properties = [(ANSWERS, ANSWERS_SAY), (SILENT, SILENT_SAYS)]
    properties += [(p.name, p.says) for p in probed.role.properties]
    yield "probed", {"declaration": probed.declaration.to_json(), "properties": properties}
    if ANSWERS not in done and only in ("", ANSWERS):
        yield "record", Record(ANSWERS, ANSWERS_SAY, look.HOLDS, 1).to_json()
    if SILENT not in done and only in ("", SILENT):
        yield "start", SILENT
        yield "record", _silent(probed).to_json()
    able = look.abilities(probed.subject, probed.kind, bool(probed.declaration.batches))
    steady = True
    for p in probed.role.properties:
        if p.name in done or only not in ("", p.name):
            continue
        yield "start", p.name
        if able[p.needs] or not steady:
            reason = able[p.needs] or "not judged: it answers otherwise each time"
            record = Record(p.name, p.says, look.UNSUPPORTED, message=reason)
        else:
            record = look.judged(probed.role, p, probed.subject, probed.kind, cases, on_case)
            if p.name == REPEATABLE:
                steady = record.outcome != look.VIOLATED
        yield "record", record.to_json()


def _silent(probed: Probed) -> Record:
    with look.quiet() as said:
        probed.role.ask(probed.subject)
    printed = said.getvalue()
    if not printed:
        return Record(SILENT, SILENT_SAYS, look.HOLDS, 1)
    first = printed.strip().splitlines()[0][:80] if printed.strip() else repr(printed)
    return Record(
        SILENT, SILENT_SAYS, look.VIOLATED, 1, sort=Sort.SIDE_EFFECT, message=f"printed {first!r}"
    )
