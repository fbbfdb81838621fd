"""Public libraries: the adapters, their records, and where these are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from verify.cli import leanlloyd
from verify.conformance import conformance, recorded
from verify.conformance.examine import HOLDS, VIOLATED
from verify.conformance.wild import Adapter, adapters
from verify.report import tested

BY_ID = {a.id: a for a in adapters()}


def outcome(which: str, only: str) -> dict[str, Any]:
    adapter = BY_ID[which]
    if adapter.version is None:
        pytest.skip(f"{adapter.package} is not installed")
    (record,) = [r for r in conformance(adapter.target, only=only, cases=15) if r.property == only]
    return record.to_json()


def test_every_adapter_is_found_and_says_what_it_is() -> None:
    assert len(BY_ID) == len(adapters()) >= 20
    packages = {a.package for a in adapters()}
    assert {"scikit-learn", "scipy", "torch", "faiss-cpu", "entmax", "jax"} <= packages
    assert all(a.title and a.target.endswith(a.id.rpartition(".")[2]) for a in adapters())


@pytest.mark.parametrize(
    ("which", "only"),
    [
        ("scikit_learn.kmeans_lloyd", "centers"),
        ("scipy_.kmeans2", "centers"),
        ("torch_.cdist", "translation"),
        ("faiss_.flat_index", "centers"),
        ("entmax_.sparsemax", "value"),
        ("paper_model.step", "centers"),
    ],
)
def test_a_property_that_holds(which: str, only: str) -> None:
    assert outcome(which, only)["outcome"] == HOLDS


@pytest.mark.parametrize(
    ("which", "only", "cause"),
    [
        ("torch_.cdist_matrix_product", "translation", "rounding of a formula"),
        ("fast_torch", "translation", "rounding of a formula"),
        ("kmeans_pytorch_one", "one-cluster", "crash"),
        ("paper_model.step", "empty-clusters", "bug"),
    ],
)
def test_a_property_that_does_not(which: str, only: str, cause: str) -> None:
    names = {
        "fast_torch": "torch_kmeans_packages.fast_pytorch_kmeans",
        "kmeans_pytorch_one": "torch_kmeans_packages.kmeans_pytorch_one",
    }
    found = outcome(names.get(which, which), only)
    assert (found["outcome"], found["sort"]) == (VIOLATED, cause)
    assert found["case"] is not None


def test_a_documented_limit_is_called_that() -> None:
    row = recorded.judge(BY_ID["paper_model.step"], cases=5)
    (empty,) = [r for r in row["records"] if r["property"] == "empty-clusters"]
    assert empty["cause"] == recorded.DOCUMENTED
    assert "empty-clusters" in empty["message"]


def test_what_is_not_installed_is_one_line() -> None:
    row = recorded.judge(Adapter("nowhere:step", "A step", "no-such-package-anywhere"))
    assert (row["version"], row["counts"], row["records"]) == (None, {}, [])


def test_the_records_that_are_kept_are_complete() -> None:
    record = recorded.recorded()
    assert record is not None
    assert [i["id"] for i in record["implementations"]] == [a.id for a in adapters()]
    for found in recorded.findings(record):
        assert found["cause"]
        assert found["property"]


def test_the_report_shows_them() -> None:
    view = tested.tested(recorded.recorded())
    assert view is not None
    assert len(view["table"]["cells"]) == len(adapters())
    assert view["findings"]
    assert tested.tested(None) is None


def test_the_command_shows_what_is_kept(tmp_path: Path) -> None:
    run = CliRunner().invoke(leanlloyd, ["conform", "--recorded"], standalone_mode=False)
    assert run.exit_code == 0
    assert "scikit_learn.kmeans_lloyd" in run.output
    run = CliRunner().invoke(leanlloyd, ["conform", "--recorded", "--json"], standalone_mode=False)
    assert json.loads(run.stdout) == recorded.recorded()
    both = ["conform", "x:y", "--recorded"]
    run = CliRunner().invoke(leanlloyd, both, standalone_mode=False)
    assert "name one implementation" in str(run.exception)
