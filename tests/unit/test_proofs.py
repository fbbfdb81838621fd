"""The machine-checked core: the record, the check that reads it, and what Coq refuses."""

import json
import shutil

import pytest

from verify import claims
from verify.claim import Method, Run
from verify.proofs import build
from verify.proofs.record import FOLDER, MachineChecked, load, meaning

CHECKS = [
    (claim, check)
    for claim in claims.all_claims()
    for check in claim.checks
    if check.method is Method.MACHINE_CHECKED
]
needs_coq = pytest.mark.skipif(not build.available(), reason="there is no coqc here")


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "proofs")


def test_every_claim_agrees_with_the_record():
    assert {claim.id for claim, _ in CHECKS} >= {"thm-2.1", "any-code", "ties"}
    for claim, check in CHECKS:
        e = check.run(claim, Run())
        assert not e.problem
        assert e.cases == len(check.theorems)


def test_a_changed_file_an_axiom_or_another_statement_is_a_problem(copy):
    claim = claims.get("any-code")
    name = "stacked_is_lloyd"
    theorem = load()["theorems"][name]
    good = MachineChecked("coq", {name: theorem["meaning"]}, "all", folder=copy)
    assert not good.run(claim, Run()).problem
    other = MachineChecked("coq", {name: "0"}, "all", folder=copy)
    assert "no longer states" in other.run(claim, Run()).problem
    record = json.loads((copy / "record.json").read_text())
    record["theorems"][name]["axioms"] = ["exact.moved_is_lloyd_step"]
    (copy / "record.json").write_text(json.dumps(record))
    assert "is not proved" in good.run(claim, Run()).problem
    with (copy / "exact.v").open("a") as file:
        file.write("(* more *)")
    assert "not those of the record" in good.run(claim, Run()).problem
    (copy / "record.json").unlink()
    assert "cannot be read" in good.run(claim, Run()).problem


def test_meaning_follows_definitions():
    definitions = {"f": "f = g + 1", "g": "g = 2", "h": "h = 3"}
    changed = meaning("f = 3", definitions | {"g": "g = 1"})
    assert meaning("f = 3", definitions) != changed
    assert meaning("f = 3", definitions) == meaning("f = 3", definitions | {"h": "h = 4"})


@needs_coq
def test_coq_reports_what_is_admitted_and_refuses_a_dropped_hypothesis(copy):
    for file in copy.glob("*.v"):
        if file.name != "surrogate.v":
            file.unlink()
    surrogate = copy / "surrogate.v"
    text = surrogate.read_text()
    assert build.build(copy)["theorems"]["tau_monotone"]["axioms"] == []
    surrogate.write_text(text.replace("by rewrite ler_add2r.\nQed.", "Admitted."))
    assert build.build(copy)["theorems"]["tau_monotone"]["axioms"]
    surrogate.write_text(text.replace("0 < tau1 -> tau1 < tau2 ->", "0 < tau1 ->"))
    with pytest.raises(build.BuildError, match=r"surrogate\.v"):
        build.build(copy)
