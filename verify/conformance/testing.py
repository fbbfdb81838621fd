"""Properties as tests of somebody's project: three lines in a test file.

@parametrize_with_properties([my_step])
def test_my_step(implementation, check):
    check(implementation)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from constructions.errors import InputError
from verify.conformance import examine as look
from verify.conformance.declaration import Declaration, NoAnswerError, declared, probe
from verify.conformance.engine import ANSWERS, SILENT, conformance
from verify.conformance.loading import load
from verify.conformance.roles import roles

Check = Callable[[Any], None]


def property_names(implementation: Any, declaration: Declaration) -> list[str]:
    """The properties of the role of an implementation, `answers` first.

    Raises
    ------
    InputError
        no such object, or its role is not clear.
    """
    target = load(implementation) if isinstance(implementation, str) else implementation
    said = declared(target, declaration)
    if said.role:
        return [ANSWERS, SILENT, *(p.name for p in roles()[said.role].properties)]
    try:
        role = probe(target, said).role
    except NoAnswerError:
        return [ANSWERS]
    return [ANSWERS, SILENT, *(p.name for p in role.properties)]


def make_check(
    name: str, declaration: Declaration, expect: Mapping[str, str], timeout: float
) -> Check:
    """A function that judges one property of an implementation and raises if it is violated."""

    def check(implementation: Any) -> None:
        import pytest

        own = {name: expect[name]} if name in expect else {}
        records = conformance(
            implementation, declaration=declaration, expect=own, timeout=timeout, only=name
        )
        record = next(r for r in records if r.property == name)
        status = records.status(record)
        if status == look.UNSUPPORTED:
            pytest.skip(record.message)
        if status == look.VIOLATED:
            pytest.fail(f"{name}: {record.says}\n" + "\n".join(look.told(record)), pytrace=False)
        if name in own:
            if record.outcome == look.VIOLATED:
                pytest.xfail(own[name])
            pytest.fail(f"{name} holds, and was expected to fail: {own[name]}", pytrace=False)

    return check


def parametrize_with_properties(
    implementations: Sequence[Any],
    role: str = "",
    declaration: Declaration | None = None,
    expect: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> Any:
    """A decorator for a test with the parameters `implementation` and `check`: one test a property.

    Parameters
    ----------
    implementations : objects, or names "PACKAGE.MODULE:OBJECT"
    role, declaration, expect, timeout : as for `conformance`

    Raises
    ------
    InputError
        an object is not callable, its role is not clear, or `expect` names no property.
    """
    import pytest

    given = Declaration(
        **(declaration or Declaration()).to_json() | ({"role": role} if role else {})
    )
    wanted = dict(expect or {})
    items = []
    seen: set[str] = set()
    for found in implementations:
        label = (
            found if isinstance(found, str) else getattr(found, "__name__", type(found).__name__)
        )
        for name in property_names(found, given):
            seen.add(name)
            items.append(
                pytest.param(found, make_check(name, given, wanted, timeout), id=f"{label}-{name}")
            )
    unknown = sorted(set(wanted) - seen)
    if unknown:
        raise InputError(
            f"expected failure {unknown[0]!r} is no property; known: {', '.join(sorted(seen))}"
        )
    return pytest.mark.parametrize(("implementation", "check"), items)
