"""A property of an implementation under test, and what may explain that it does not have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hypothesis import strategies as st

from verify.claim import Case, Kind, Measured
from verify.conformance.subject import Subject


class Excluded(Exception):  # noqa: N818 - a signal, not an error
    """The property says nothing about this case; it is counted."""


class Sort(StrEnum):
    """What a violation turned out to be, by evidence."""

    BUG = "bug"
    CONVENTION = "other convention"
    ROUNDING = "rounding of a formula"
    CRASH = "crash"
    HANG = "hang"
    SIDE_EFFECT = "side effect"


@dataclass(frozen=True)
class Property:
    """One statement about every case, judged on one implementation.

    Attributes
    ----------
    name, says : fixed name, and one plain sentence
    cases : where to look
    measure : (subject, case) -> both sides; for a role with a kind (which regularizer, which form
        of scores), that kind is the third argument
    kind : the comparator
    asked : what the implementation is asked for a case, where that is another one (moved, scaled)
    explain : (subject, case, kind) -> what its own violations may be, where the formulas of the
        role do not speak of it
    needs : what only some implementations have, see `verify.conformance.examine`; "" for nothing
    """

    name: str
    says: str
    cases: st.SearchStrategy[Case]
    measure: Callable[[Subject, Case, Any], Measured]
    kind: Kind = Kind.UPPER
    needs: str = ""
    asked: Callable[[Subject, Case], Case] = lambda subject, case: case
    explain: Callable[[Subject, Case, Any], tuple[Sort, str] | None] = lambda *_: None


@dataclass(frozen=True)
class Explanation:
    """A formula that is not the right one: (subject, case, kind) -> what it would answer, in plain
    floats. An answer that equals it, and not the right one, is explained by it."""

    name: str
    sort: Sort
    answer: Callable[[Subject, Case, Any], Any]


@dataclass(frozen=True)
class Role:
    """What an implementation is for.

    Attributes
    ----------
    parameters : names that its parameters may have, in order; for recognizing the role
    recognize : finds the kind by probing
    kinds : kinds that may be declared, by name
    main : (subject, case, kind) -> the answer that explanations are held against, None for
        cases that they say nothing about
    right, error : (subject, case, kind) -> the right answer, and what rounding may add
    probes : cases at which an explanation has to fit as well
    ask : the simplest question; the answer as it comes, raises if it does not fit the role
    batch : whether a stack of two tasks is answered by a stack of two answers
    """

    name: str
    signature: str
    properties: tuple[Property, ...]
    parameters: tuple[frozenset[str], ...]
    explanations: tuple[Explanation, ...] = ()
    recognize: Callable[[Subject], Any] = lambda subject: None
    kinds: Mapping[str, Any] | None = None
    main: Callable[[Subject, Case, Any], Any] = lambda subject, case, kind: None
    right: Callable[[Subject, Case, Any], Any] = lambda subject, case, kind: None
    error: Callable[[Subject, Case, Any], float] = lambda subject, case, kind: 0.0
    probes: tuple[Case, ...] = ()
    ask: Callable[[Subject], Any] = lambda subject: None
    batch: Callable[[Subject], bool] | None = None
