"""The localizer names the operation, tensor and row in which a fault was planted."""

from __future__ import annotations

import json
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_api_compat import is_torch_array
from click.testing import CliRunner, Result

from constructions import InputError, attention, exact, lloyd, lloyd_step, surrogates
from constructions.arrays import NumberSystem
from constructions.recording import noted, recording, section
from verify import arithmetic
from verify.claim import Case
from verify.claims.arithmetic._matrix import OPERATIONS
from verify.cli import leanlloyd
from verify.console import CommandError
from verify.trace import LARGEST, Trace, trace

X = [[0.0, 0.0], [1.0, 0.0], [4.0, 4.0], [5.0, 4.0]]
CLUSTERS = Case(X=X, C=[[0.0, 0.0], [5.0, 5.0]], code="binary", steps=2)
BY_NAME = {operation.name: operation for operation in OPERATIONS}


def traced(case: Case, one: str, two: str, operation: str = "exact transformer") -> Trace:
    return trace(BY_NAME[operation].compute, case, arithmetic.get(one), arithmetic.get(two))


def in_torch(right: Any, spoil: Any) -> Any:
    """A function that is wrong on torch tensors only."""

    def wrong(*arguments: Any, **options: Any) -> Any:
        result = right(*arguments, **options)
        if any(map(is_torch_array, arguments)):
            result = result.clone()
            with suppress(IndexError):  # a smaller array than the one that is meant
                spoil(result)
        return result

    return wrong


def up(row: int, column: int) -> Any:
    """Raise one entry by one unit in the last place."""

    def spoil(result: Any) -> None:
        entry = result[..., row, column]
        result[..., row, column] = entry.nextafter(entry + 1)

    return spoil


def turn(row: int, column: int) -> Any:
    def spoil(result: Any) -> None:
        result[..., row, column] = ~result[..., row, column]

    return spoil


FAULTS = {
    "distances": (
        attention, "squared_distances", up(2, 1), "exact transformer",
        ("closed form", "squared distances", (2,)), 1, Fraction(30),
    ),
    "decision": (
        attention, "nearest", turn(3, 0), "exact transformer",
        ("closed form", "nearest", (3,)), None, Fraction(40),
    ),
    "mean": (
        NumberSystem, "mean", up(1, 0), "Lloyd step",
        ("Lloyd step", "means", (1,)), 1, None,
    ),
    "assignment": (
        lloyd, "nearest", turn(0, 0), "Lloyd step",
        ("Lloyd step", "nearest", (0,)), None, Fraction(50),
    ),
    "weights": (
        surrogates, "weights", up(0, 1), "L2 surrogate",
        ("operation", "weights", (0,)), 1, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, spoil, operation, where, ulps, margin = FAULTS[name]
    case = CLUSTERS
    if operation == "L2 surrogate":
        case = Case(r=[[0.25, 0.5, 1.0]], tau=1.0, regularizer="l2")
    healthy = traced(case, "numpy64", "torch-cpu64", operation)
    assert (healthy.first, healthy.same, healthy.rounded) == (None, True, 0)
    monkeypatch.setattr(module, attribute, in_torch(getattr(module, attribute), spoil))
    found = traced(case, "numpy64", "torch-cpu64", operation)
    assert found.first is not None
    assert not found.same
    assert (found.first.section, found.first.name, found.first.row) == where
    assert (found.first.ulps, found.first.margin) == (ulps, margin)
    assert found.first.differing == 1
    if ulps is None:
        assert found.decision == found.first
    # in an arithmetic of the same library there is nothing to see
    assert traced(case, "torch-cpu64", "torch-cpu64", operation).first is None


def test_a_fault_of_one_module_of_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where centers read points, and from the second layer on: its section and its time."""
    right, seen = exact.attend, []

    def wrong(queries: Any, keys: Any, *rest: Any) -> Any:
        result = right(queries, keys, *rest)
        if is_torch_array(queries) and (queries.shape[-2], keys.shape[-2]) == (2, 4):
            seen.append(1)
            if len(seen) == 4:  # two steps of the closed form, then two layers
                result = result.clone()
                result[0, 1] += 0.5
        return result

    monkeypatch.setattr(exact, "attend", wrong)
    found = traced(CLUSTERS, "fmpq", "torch-cpu32").first
    assert found is not None
    assert (found.section, found.name, found.time) == ("centers_from_points", "output", 2)
    assert (found.row, found.index) == ((0,), (0, 1))
    assert (found.values, found.margin) == ((0, 0.5), 1)  # the two codes are 0 and 1


@pytest.mark.parametrize("operation", BY_NAME)
def test_every_operation_can_be_traced(operation: str) -> None:
    """Some torch operations have one arithmetic in which to compare float64 only: with float32."""
    used = BY_NAME[operation]
    case = used.exact(np.random.default_rng(0))
    ones = [a for a in arithmetic.ARITHMETICS if not used.refuses(a) and not a.why_not]
    for one, two in pairwise(ones):
        found = trace(used.compute, case, one, two)
        assert found.same, (one.name, two.name, found)
        assert found.compared >= 1


def test_types_are_compared_in_the_narrower_one() -> None:
    """A third is not a float; the rational result converted is what the float should be."""
    thirds = Case(X=[[0.0], [1.0], [1.0], [9.0]], C=[[0.0], [9.0]])
    for one, two in (("fmpq", "numpy32"), ("numpy64", "torch-cpu32"), ("fraction", "fmpq")):
        assert traced(thirds, one, two, "Lloyd step").same
    # 0.1 is no float32: both start from the float32 next to it
    assert traced(Case(X=[[0.1], [1.0]], C=[[0.1]]), "fmpq", "numpy32", "Lloyd step").rounded == 2


def test_a_decision_that_float32_cannot_make() -> None:
    """1 + 2^-25 is 1 there, so two distances tie that do not."""
    near = Case(X=[[1.0], [2.0]], C=[[2.0], [-(2.0**-25)]])
    found = traced(near, "fmpq", "numpy32", "Lloyd step")
    assert found.first is not None
    assert found.decision is not None
    assert (found.first.name, found.first.ulps) == ("squared distances", 1)
    assert (found.decision.name, found.decision.index) == ("nearest", (0, 1))
    assert found.decision.margin == (1 + Fraction(1, 2**25)) ** 2 - 1


def test_an_arithmetic_that_stops_is_quoted() -> None:
    far = Case(q=[[0.0]], k=[[0.0], [1e20]], v=[[1.0], [2.0]])
    found = traced(far, "fmpq", "numpy32", "hardmax attention")
    assert list(found.stopped) == ["numpy32"]
    assert "overflows in numpy float32" in found.stopped["numpy32"]
    assert "after operation, keys" in found.stopped["numpy32"]
    assert not found.same


def test_another_shape_is_a_difference_and_sizes_are_limited() -> None:
    def compute(used: Any, case: Case) -> Any:
        return {"value": used.put([1.0] if used.library == "numpy" else [1.0, 1.0])}

    one, two = arithmetic.get("numpy64"), arithmetic.get("torch-cpu64")
    found = trace(compute, Case(), one, two)
    assert found.shape_of == "result: value, (1,) and (2,)"
    assert not found.same
    many = Case(X=[[0.0]] * (1 + int(LARGEST**0.5)), C=[[0.0]])
    with pytest.raises(InputError, match="too many for a trace"):
        trace(compute, many, one, two)


def test_a_recorder_sees_only_what_is_computed_inside() -> None:
    points, centers = np.array([[0.0], [4.0]]), np.array([[1.0]])
    assert noted("outside", points) is points
    section("outside")
    with recording() as outer:
        with recording() as inner:
            lloyd_step(points, centers)
        noted("after", points)
    assert [n.name for n in outer.found] == ["after"]
    assert {n.section for n in inner.found} == {"Lloyd step"}
    assert inner.found[-1].name == "centers"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(leanlloyd, ["trace", *arguments], standalone_mode=False)


def test_the_command_shows_the_difference(tmp_path: Path) -> None:
    pair = ("--arithmetic", "numpy64", "--arithmetic", "torch-cpu32")
    points, centers = tmp_path / "points.csv", tmp_path / "centers.csv"
    points.write_text("0,0.3\n2.7,1\n3,5\n")
    centers.write_text("0,0.3\n3,5\n")
    done = run(str(points), "--centers", str(centers), "--steps", "2", *pair)
    assert done.exception is None
    assert "rounded for the narrower" in done.stdout
    assert "first difference: closed form, squared distances, row 0" in done.stdout
    assert "1 ulp" in done.stdout
    assert "margin of the row's decision" in done.stdout
    assert "no decision differs" in done.stdout
    done = run(json.dumps(CLUSTERS.to_json()), *pair, "--json")
    found = json.loads(done.stdout)
    assert (found["same"], found["first"], found["operation"]) == (True, None, "exact transformer")
    assert "no difference in" in run(json.dumps(CLUSTERS.to_json()), *pair).stdout
    case = tmp_path / "case.json"
    case.write_text(json.dumps(Case(X=X, C=X[:1]).to_json()))
    done = run(str(case), *pair, "--operation", "Lloyd iteration", "--json")
    assert json.loads(done.stdout)["tensors"] > 5
    shown = run("--help").stdout
    assert "Examples:" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ffff",), "name two arithmetics"),
        (("ffff", "--arithmetic", "fmpq", "--arithmetic", "fmpq"), "name two arithmetics"),
        (("ffff", "--arithmetic", "fmpq", "--arithmetic", "x64"), "unknown arithmetic 'x64'"),
        (("ffff",), "no case 'ffff'"),
        (("{",), "not a case"),
        (("{}",), "it needs X and C"),
        (('{"X": 3, "C": 4}',), "does not fit the operation"),
        (('{"X": [[0]], "C": [[0], [1]]}',), "k = 2 centers for n = 1 points"),
        (('{"operation": "magic"}',), "unknown operation 'magic'"),
        (('{"r": [1, 2], "tau": 1}', "--operation", "trainable forward pass"), "torch only"),
        (("no.csv",), "--centers FILE"),
        (("no.csv", "--centers", "no.csv"), "no such file"),
        (("{}", "--centers", "no.csv"), "holds its own centers"),
    ],
)
def test_bad_usage_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    if "two arithmetics" not in words and "--arithmetic" not in arguments:
        arguments = (*arguments, "--arithmetic", "fmpq", "--arithmetic", "numpy64")
    done = run(*arguments)
    assert isinstance(done.exception, CommandError)
    assert words in str(done.exception)
    assert done.exception.code == 2
