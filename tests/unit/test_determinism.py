"""The claim about repeats: it sees one bit, and leaves the threads as they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from verify import arithmetic
from verify.claim import PROFILES, Case, Evidence, Run, Verdict, verdict_of
from verify.claims.arithmetic import determinism


def counts() -> Any:
    return torch.get_num_threads(), [p["num_threads"] for p in threadpool_info()]


@pytest.mark.parametrize("operation", determinism.OPERATIONS, ids=lambda o: o.name)
def test_cases_are_large_enough_to_be_shared_and_can_be_computed(operation: Any) -> None:
    case = determinism.enlarged(operation, 3)
    sizes = {name: np.shape(case[name]) for name in case if isinstance(case[name], list)}
    assert max(shape[0] for shape in sizes.values()) >= determinism.ALL_PAIRS
    name = next(
        a.name for a in arithmetic.ARITHMETICS if not (a.exact or operation.refuses(a) or a.why_not)
    )
    before = counts()
    settings = {"operation": operation.name, "arithmetic": name, "threads": 2, "seed": 3}
    assert determinism.differing(Case(**settings)).value == 0
    assert counts() == before


def test_one_bit_in_one_run_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = next(o for o in determinism.OPERATIONS if o.name == "Lloyd step")
    runs = []

    def wrong(used: Any, case: Any) -> Any:
        outputs = dict(operation.compute(used, case))
        runs.append(used.name)
        if used.name == "torch-cpu32" and len(runs) % 4 == 3:
            outputs["centers"] = outputs["centers"].clone()
            outputs["centers"].view(torch.int32)[0, 0] ^= 1
        return outputs

    monkeypatch.setattr(determinism, "OPERATIONS", (replace(operation, compute=wrong),))
    run = Run(PROFILES["smoke"], arithmetics=("fmpq", "numpy32", "torch-cpu32"))
    (check,) = determinism.CLAIM.checks
    e = check.run(determinism.CLAIM, run)
    (table,) = e.tables
    assert [row[0] for row in table.rows] == ["fmpq", "numpy32", "torch-cpu32"]
    assert [row[1] for row in table.rows[:2]] == [
        "same bits",
        "same bits with 1 and with 2 threads",
    ]
    assert table.rows[2][1].startswith(determinism.WRONG)
    assert (e.violated, e.cases, e.counterexample["arithmetic"]) == (2, 5, "torch-cpu32")
    assert verdict_of(determinism.CLAIM, [e]) is Verdict.REFUTED
    assert Evidence.from_json(e.to_json()).to_json() == e.to_json()


def test_threads_that_are_not_given_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    with pytest.raises(RuntimeError, match="does not run on 7 threads"), determinism.threads(7):
        pass
