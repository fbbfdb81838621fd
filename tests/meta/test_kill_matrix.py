"""Does the suite notice? Plant a fault in the constructions and see which claims object.

A check notices when its evidence changes in kind: something is violated that was not, a planned
counterexample disappears, or the check fails to do its job. Everything runs in the smoke profile.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from verify import claims
from verify.claim import PROFILES, Answer, Case, Kind, Run
from verify.runner import run_check
from verify.search import Tally


class Mutant(NamedTuple):
    """A fault to plant.

    Attributes
    ----------
    name : what is wrong
    place : module and attribute, "constructions.exact._matrices"
    make : from the right object to the wrong one
    killers : "claim/check" that have to notice
    """

    name: str
    place: str
    make: Callable[[Any], Any]
    killers: tuple[str, ...]


def load(name: str) -> list[Mutant]:
    """The faults of a file beside this one."""
    rows = runpy.run_path(str(Path(__file__).with_name(name)))["MUTANTS"]
    return [Mutant(*row) for row in rows]


ALL = [
    mutant
    for name in ("transformers", "surrogates", "arithmetic")
    for mutant in load(f"faults_of_{name}.py")
]
MUTANTS = {m.name: m for m in ALL}
PAIRS = [(m.name, killer) for m in ALL for killer in m.killers]
RUN = Run(PROFILES["smoke"])


def forget() -> None:
    """Empty the caches of claims and constructions: they may hold what a fault has produced, or
    hide it."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("verify.claims.", "constructions")):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


class Noticed(BaseException):
    """A violation where there should be none. No `Exception`, so that nobody holds it up: neither
    Hypothesis, to shrink it, nor the runner, to file it."""


def outcome(killer: str) -> tuple[bool, bool, bool]:
    """What kind of evidence a check gives: violated, failed, decides all."""
    claim_id, _, check = killer.partition("/")
    forget()
    e = run_check(claim_id, check, RUN).evidence
    return e.violated > 0, bool(e.problem), e.decides_all


def notices(killer: str, healthy: tuple[bool, bool, bool], patch: pytest.MonkeyPatch) -> bool:
    judge = Tally.judge

    def judge_once(self: Tally, case: Case) -> Any:
        answer, measured = judge(self, case)
        if answer is Answer.VIOLATED and not healthy[0]:
            raise Noticed
        return answer, measured

    patch.setattr(Tally, "judge", judge_once)
    try:
        return outcome(killer) != healthy
    except Noticed:
        return True


@cache
def healthy_outcome(killer: str) -> tuple[bool, bool, bool]:
    return outcome(killer)


def resolve(place: str) -> tuple[Any, str]:
    """The object that holds the attribute, a module or a class."""
    *path, attribute = place.split(".")
    owner = importlib.import_module(".".join(path[:2]))
    for name in path[2:]:
        owner = getattr(owner, name)
    return owner, attribute


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Plants a fault, also where the attribute was imported by name."""

    def plant(mutant: Any) -> None:
        owner, attribute = resolve(mutant.place)
        right = vars(owner)[attribute]
        wrong = mutant.make(right)
        monkeypatch.setattr(owner, attribute, wrong)
        for name, module in list(sys.modules.items()):
            if name.startswith("constructions"):
                for key, value in list(vars(module).items()):
                    if value is right:
                        monkeypatch.setattr(module, key, wrong)

    yield plant
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(("name", "killer"), PAIRS, ids=[f"{n}-{k}" for n, k in PAIRS])
def test_the_fault_is_noticed(
    name: str, killer: str, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = healthy_outcome(killer)
    assert not healthy[1], f"{killer} has a problem without any fault"
    plant(MUTANTS[name])
    assert notices(killer, healthy, monkeypatch), f"{killer} does not notice that {name}"


def test_every_fault_is_noticed_by_some_claim() -> None:
    assert [m.name for m in MUTANTS.values() if not m.killers] == []
    assert len(MUTANTS) == len(ALL)


def test_every_equality_claim_notices_some_fault() -> None:
    """An equality that no fault in the constructions can break would be a test that cannot fail."""
    noticing = {killer.partition("/")[0] for _, killer in PAIRS}
    equalities = {c.id for c in claims.all_claims() if c.kind is Kind.EQUALITY}
    assert equalities - noticing == set()


def test_a_fault_does_not_outlive_its_test(plant: Any) -> None:
    """The test above would pass for every check if an earlier fault stayed planted."""
    mutant = MUTANTS["hard attention sums"]
    owner, attribute = resolve(mutant.place)
    right = vars(owner)[attribute]
    healthy = healthy_outcome("thm-2.1/small-grids")
    assert healthy == (False, False, False)
    plant(mutant)
    assert vars(owner)[attribute] is not right
    assert outcome("thm-2.1/small-grids") == (True, False, False)
