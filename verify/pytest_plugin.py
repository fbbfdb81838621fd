"""`pytest --leanlloyd PACKAGE.MODULE:OBJECT`: one test for each property of an implementation.

Registered as a plugin of pytest. It imports nothing of the project until the option is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("leanlloyd", "implementations under test")
    group.addoption(
        "--leanlloyd",
        action="append",
        default=[],
        metavar="PACKAGE.MODULE:OBJECT",
        help="judge this implementation, one test a property; may be repeated",
    )
    group.addoption("--leanlloyd-as", default="", metavar="ROLE", help="its role, if not clear")
    group.addoption(
        "--leanlloyd-expect", default="", metavar="FILE", help='TOML file: property = "reason"'
    )


def pytest_collection_modifyitems(session: Any, config: Any, items: list[Any]) -> None:
    targets = config.getoption("leanlloyd")
    if not targets:
        return
    from constructions.errors import InputError
    from verify.conformance.declaration import Declaration
    from verify.conformance.engine import read_expected
    from verify.conformance.testing import make_check, property_names

    try:
        given = Declaration(role=config.getoption("leanlloyd_as"))
        file = config.getoption("leanlloyd_expect")
        expect = read_expected(Path(file)) if file else {}
        new = []
        for target in targets:
            group = Group.from_parent(session, name=target)
            for name in property_names(target, given):
                check = make_check(name, given, expect, 60.0)
                new.append(Item.from_parent(group, name=name, check=check, target=target))
        unknown = sorted(set(expect) - {item.name for item in new})
        if unknown:
            raise InputError(f"expected failure {unknown[0]!r} is no property")
    except InputError as error:
        raise pytest.UsageError(f"--leanlloyd: {error}") from None
    named = [a for a in config.invocation_params.args if not str(a).startswith("-")]
    own = {str(t) for t in targets} | {file, config.getoption("leanlloyd_as")}
    if not [a for a in named if str(a) not in own and Path(str(a).partition("::")[0]).exists()]:
        items.clear()
    items.extend(new)


class Group(pytest.Collector):
    """An implementation."""

    def collect(self) -> Iterator[Any]:
        yield from ()


class Item(pytest.Item):
    """One property of it."""

    def __init__(self, *, check: Any, target: str, **options: Any) -> None:
        super().__init__(**options)
        self.check, self.target = check, target

    def runtest(self) -> None:
        self.check(self.target)

    def reportinfo(self) -> tuple[str, None, str]:
        return self.target, None, f"{self.target} {self.name}"
