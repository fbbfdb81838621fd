"""Every planted error of a Lloyd step is caught, at a case of a few points, and explained."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from verify.conformance import conformance


def _faults():
    path = Path(__file__).with_name("faulty_steps.py")
    spec = importlib.util.spec_from_file_location("faulty_steps", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


faults = _faults()


@pytest.mark.parametrize(
    ("planted", "name", "sort", "words"), faults.PLANTED, ids=lambda v: getattr(v, "__name__", "")
)
def test_it_is_caught_and_explained(planted, name, sort, words) -> None:
    (record,) = [r for r in conformance(planted, only=name) if r.property == name]
    assert record.outcome == "violated"
    assert (record.sort, words in record.message) == (sort, True), record.message
    assert len(record.case["X"]) <= 6


def test_a_convention_that_is_declared_is_held_against_it() -> None:
    from verify.conformance import Declaration

    for rule, step in (("highest", faults.highest), ("average", faults.shared)):
        assert conformance(step, declaration=Declaration(ties=rule), only="ties").ok
        assert not conformance(faults.right, declaration=Declaration(ties=rule), only="ties").ok
    assert conformance(faults.right, declaration=Declaration(ties="any"), only="ties").ok
    keeps = Declaration(empty="keep")
    assert conformance(faults.right, declaration=keeps, only="empty-clusters").ok
    refuses = Declaration(empty="raise")
    assert not conformance(faults.right, declaration=refuses, only="empty-clusters").ok
