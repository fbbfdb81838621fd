"""What an implementation can do: declared by its author, found by probing otherwise."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from constructions.errors import InputError
from verify.conformance import calling
from verify.conformance.examine import quiet
from verify.conformance.property import Role
from verify.conformance.roles import _clustering as clustering
from verify.conformance.roles import roles
from verify.conformance.subject import DTYPES, LIBRARIES, Subject, WrongAnswer

T = TypeVar("T")
_MARK = "leanlloyd"


@dataclass(frozen=True)
class Declaration:
    """What an implementation is and can do; what is empty is found by probing.

    Attributes
    ----------
    role : a name of `verify.conformance.roles`
    library : of the arrays it takes: numpy, torch, jax, or lists
    dtype : widest element type that it computes in: float64 or float32
    ties : where tied points go: lowest, highest, average, any
    empty : what an empty cluster does: raise, keep, nan, relocate, any
    kind : for weights and surrogates: softmax, sparsemax, entmax 1.5
    batches : whether it takes tasks stacked along a leading axis

    Raises
    ------
    InputError
        a value that is not one of these.
    """

    role: str = ""
    library: str = ""
    dtype: str = ""
    ties: str = ""
    empty: str = ""
    kind: str = ""
    batches: bool | None = None

    def __post_init__(self) -> None:
        allowed = {
            "role": tuple(roles()),
            "library": LIBRARIES,
            "dtype": DTYPES,
            "ties": clustering.TIES,
            "empty": clustering.EMPTY,
        }
        for name, values in allowed.items():
            value = getattr(self, name)
            if value and value not in values:
                raise InputError(f"{name} = {value!r} is not known; allowed: {', '.join(values)}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def declare(**options: Any) -> Callable[[T], T]:
    """A decorator that tells what an implementation is; `Declaration` has the options."""
    declaration = Declaration(**options)

    def mark(found: T) -> T:
        setattr(found, _MARK, declaration)
        return found

    return mark


def declared(found: Any, given: Declaration) -> Declaration:
    """What the caller says, and where that is silent, what the object says."""
    own = getattr(found, _MARK, None)
    if not isinstance(own, Declaration):
        return given
    said = {name: value for name, value in given.to_json().items() if value not in ("", None)}
    return replace(own, **said)


@dataclass(frozen=True)
class Probed:
    """An implementation that is ready to be judged: its role, subject and kind."""

    declaration: Declaration
    role: Role
    subject: Subject
    kind: Any


class NoAnswerError(Exception):
    """The simplest question got no answer that can be judged; the message says what came."""


def probe(found: Any, declaration: Declaration) -> Probed:
    """Find out what was not declared, by asking.

    Raises
    ------
    InputError
        it is not callable, or its role is not clear.
    NoAnswerError
        it answers nothing that fits the role.
    """
    if not callable(found) and not calling.is_estimator(found):
        raise InputError(
            f"{type(found).__name__} is not callable; give a function or an object with __call__"
        )
    role = _role(found, declaration)
    subject = _subject(found, role, declaration)
    kind = _kind(role, subject, declaration)
    said = replace(declaration, role=role.name, library=subject.library, dtype=subject.dtype)
    if isinstance(kind, clustering.Rules):
        said = replace(said, ties=kind.ties, empty=kind.empty)
    elif role.kinds:
        said = replace(said, kind=next((n for n, v in role.kinds.items() if v == kind), str(kind)))
    if said.batches is None:
        said = replace(said, batches=_takes_batches(role, subject, kind))
    return Probed(said, role, subject, kind)


def _role(found: Any, declaration: Declaration) -> Role:
    known = roles()
    if declaration.role:
        return known[declaration.role]
    if calling.is_estimator(found):
        return known["lloyd_step"]
    names = _parameters(found)
    fits = {
        name: sum(n.lower() in allowed for n, allowed in zip(names, role.parameters, strict=False))
        for name, role in known.items()
        if len(names) == len(role.parameters)
    }
    best = [name for name, hits in fits.items() if hits and hits == max(fits.values())]
    if len(best) > 1:
        best = [name for name in best if _answers(found, known[name], declaration)]
    if len(best) == 1:
        return known[best[0]]
    signature = f"({', '.join(names)})" if names else "a signature that cannot be read"
    choice = ", ".join(best or known)
    raise InputError(f"its role is not clear from {signature}; say --as ROLE, one of {choice}")


def _answers(found: Any, role: Role, declaration: Declaration) -> bool:
    try:
        _subject(found, role, declaration)
    except NoAnswerError:
        return False
    return True


def _parameters(found: Any) -> list[str]:
    """Names of the parameters that have no default."""
    called = found.forward if hasattr(found, "forward") and hasattr(found, "parameters") else found
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    skip = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in skip]


def _libraries(found: Any, declaration: Declaration) -> Iterator[str]:
    if declaration.library:
        yield declaration.library
        return
    if hasattr(found, "forward") and hasattr(found, "parameters"):
        yield "torch"
        return
    yield "numpy"
    yield from (name for name in ("torch", "jax") if name in sys.modules)
    yield "lists"


def _subject(found: Any, role: Role, declaration: Declaration) -> Subject:
    """The first library and element type in which it answers the role's question; the library
    that the answer comes in, if it answers in that as well."""
    problems: list[str] = []
    called = calling.function(found)
    for library in _libraries(found, declaration):
        for dtype in [declaration.dtype] if declaration.dtype else DTYPES:
            subject = Subject(called, library, dtype)
            try:
                with quiet():
                    answer = role.ask(subject)
            except WrongAnswer as error:
                problems.append(str(error))
                continue
            except Exception as error:
                said = " ".join(str(error).split())[:200]
                problems.append(f"raised {type(error).__name__}: {said}")
                continue
            return subject if declaration.library else _own(subject, answer, role)
    raise NoAnswerError(problems[0] if problems else "no library to ask in")


def _own(subject: Subject, answer: Any, role: Role) -> Subject:
    """The subject in the library that its answers come in, and in their element type."""
    first = calling.parts(answer)[0]
    package = type(first).__module__.partition(".")[0]
    library = {"torch": "torch", "jax": "jax", "jaxlib": "jax", "builtins": "lists"}.get(package)
    dtype = str(getattr(first, "dtype", subject.dtype)).removeprefix("torch.")
    choices = [(library or subject.library, dtype if dtype in DTYPES else subject.dtype)]
    for name, kind in choices:
        other = Subject(subject.function, name, kind)
        try:
            with quiet():
                role.ask(other)
        except Exception:
            continue
        return other
    return subject


def _kind(role: Role, subject: Subject, declaration: Declaration) -> Any:
    with quiet():
        kind = role.recognize(subject)
    if isinstance(kind, clustering.Rules):
        ties, empty = declaration.ties or kind.ties, declaration.empty or kind.empty
        return replace(kind, ties=ties, empty=empty, declared_ties=declaration.ties)
    if declaration.kind:
        if not role.kinds or declaration.kind not in role.kinds:
            known = ", ".join(role.kinds or ["none"])
            raise InputError(f"kind = {declaration.kind!r} is not known; allowed: {known}")
        return role.kinds[declaration.kind]
    return kind


def _takes_batches(role: Role, subject: Subject, kind: Any) -> bool:
    """Whether a stack of two tasks is answered with a stack of two answers."""
    batch = next((p for p in role.properties if p.needs == "batches"), None)
    if batch is None or role.batch is None:
        return False
    try:
        with quiet():
            return role.batch(subject)
    except Exception:
        return False
