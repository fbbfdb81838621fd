"""Trained models put to use: as scikit-learn clusterers and by leanlloyd apply."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from constructions import InputError
from constructions.objective import inertia, lloyd_step
from verify.cli import leanlloyd
from verify.clusterer import (
    SHIPPED,
    LearnedClusterer,
    LloydClusterer,
    apply_steps,
    find_model,
    shipped,
    warnings_for,
)
from verify.console import CommandError, Exit

ONE_D = "the check brings points of another d, and a trained model serves that of its training only"
EXPECTED = dict.fromkeys(
    (
        "check_fit_score_takes_y",
        "check_dont_overwrite_parameters",
        "check_n_features_in_after_fitting",
        "check_positive_only_tag_during_fit",
        "check_estimators_dtypes",
        "check_dtype_object",
        "check_pipeline_consistency",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_non_transformer_estimators_n_iter",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_fit2d_1feature",
        "check_dict_unchanged",
        "check_fit2d_predict1d",
    ),
    ONE_D,
)


def points(seed: int = 0, n: int = 128, d: int = 2, k: int = 3) -> Any:
    rng = np.random.default_rng(seed)
    return rng.random((k, d))[rng.integers(0, k, n)] + 0.1 * rng.standard_normal((n, d))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [(LloydClusterer(3, random_state=0), {}), (LearnedClusterer(), EXPECTED)],
    ids=["exact", "learned"],
)
def test_the_checks_of_scikit_learn(estimator: Any, expected: dict[str, str]) -> None:
    found = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert [r["check_name"] for r in found if r["status"] == "failed"] == []
    # an expected failure that does not happen is a reason that no longer holds
    assert {r["check_name"] for r in found if r["status"] == "xfail"} == set(expected)
    assert sum(r["status"] == "passed" for r in found) >= 25


def test_what_a_learned_clusterer_does_on_points_of_its_own_d() -> None:
    """What the checks above cannot see, as they bring other points."""
    X = points()
    model = LearnedClusterer.load("d2-k3-one_hot", seed=1, random_state=4)
    assert model.get_params()["seed"] == 1
    fitted = clone(model).set_params(max_iter=3).fit(np.asfortranarray(X), y=range(128))
    again = clone(fitted).fit(X.tolist())
    assert (again.cluster_centers_ == fitted.cluster_centers_).all()
    assert fitted.n_iter_ == 3
    assert (fitted.predict(X) == fitted.labels_).all()
    assert (fitted.predict(X[::-1]) == fitted.labels_[::-1]).all()
    assert (pickle.loads(pickle.dumps(fitted)).predict(X) == fitted.labels_).all()
    r = ((X - fitted.cluster_centers_[fitted.labels_]) ** 2).sum()
    assert fitted.inertia_ == pytest.approx(r)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 0.9, np.nan, X))
    with pytest.raises(InputError, match="has no model of seed 9"):
        LearnedClusterer.load("d2-k3-one_hot", seed=9)
    with pytest.raises(InputError, match="d = 3 coordinates, but d2-k3-one_hot is for d = 2"):
        model.fit(points(d=3))
    with pytest.raises(InputError, match="init = 'worst' is not known"):
        LearnedClusterer(init="worst").fit(X)


def test_the_exact_clusterer_is_k_means_and_fits_into_a_pipeline() -> None:
    X = points(3, 200, 4, 5)
    C = X[:5]
    ours = LloydClusterer(5, init=C).fit(X)
    theirs = KMeans(5, init=C, n_init=1, tol=0).fit(X)
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, atol=1e-12)
    assert (ours.labels_ == theirs.labels_).all()
    labels = make_pipeline(StandardScaler(), LloydClusterer(5, random_state=0)).fit_predict(X)
    assert len(set(labels.tolist())) == 5


@settings(max_examples=30)
@given(
    power=st.integers(-300, 300), shift=st.sampled_from([0.0, 5.0]), seed=st.integers(0, 9),
    name=st.sampled_from(shipped()),
)  # fmt: skip
def test_units_do_not_matter(power: int, shift: float, seed: int, name: str) -> None:
    """Case: a model that saw the unit cube only, on data in other units."""
    trained = find_model(name)
    s = trained.cell.settings
    X = points(seed, 64, s.d, s.k)
    plain = apply_steps(trained, 0, X, X[: s.k], 3)[-1]
    other = (X + shift) * 2.0**power
    moved = apply_steps(trained, 0, other, other[: s.k], 3)[-1]
    # points moved by 5 have lost three bits
    np.testing.assert_allclose(moved * 2.0**-power - shift, plain, atol=1e-10)


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_model_beats_one_lloyd_step_on_its_own_tasks(name: str) -> None:
    trained = find_model(name)
    s = trained.cell.settings
    tasks = s.distribution.sample(np.random.default_rng(5), 60)
    total = np.zeros(2)
    for X, C in zip(tasks.X, tasks.C, strict=True):
        x, c = (torch.tensor(a).mT[None, None] for a in (X, C))
        stepped, _ = lloyd_step(x, c)
        ours = torch.tensor(apply_steps(trained, 0, X, C, 1)[-1]).mT[None, None]
        total += [float(inertia(x, centers)) for centers in (ours, stepped)]
    assert total[0] < total[1]
    record = json.loads((SHIPPED / name / "record.json").read_text())
    for setting in (f"--d {s.d} ", f"--k {s.k} ", f"--n {s.n} ", f"--code {s.code} "):
        assert setting in record["command"]


def test_data_unlike_the_training_are_told() -> None:
    trained = find_model("d2-k3-one_hot")
    X = points()
    assert warnings_for(trained, X) == []
    assert (
        "n = 2000 points; the model was trained on n = 128"
        in warnings_for(trained, points(0, 2000))[0]
    )
    far = X.copy()
    far[0] = 1000.0
    assert "from their mean" in warnings_for(trained, far)[0]
    with pytest.warns(UserWarning, match="from their mean"):
        LearnedClusterer().fit(far)


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(leanlloyd, ["apply", *map(str, arguments)], standalone_mode=False)


def test_apply_from_the_command_line(tmp_path: Path) -> None:
    X = points() * [10, 1000] + 7
    np.savetxt(tmp_path / "points.csv", X, delimiter=",", header="a,b", comments="")
    done = run("d2-k3-one_hot", tmp_path / "points.csv", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    for loss in found["loss"].values():
        assert loss["best_of_ten"] <= loss["lloyd"] * (1 + 1e-9) <= loss["start"] * (1 + 1e-9)
    low, extent = X.min(axis=0), np.ptp(X, axis=0)
    inside = ((np.array(a) - low) / extent for a in (X[:, None], found["centers"]))
    r = (np.subtract(*inside) ** 2).sum(-1)
    assert found["loss"]["unit cube"]["model"] == pytest.approx(r.min(axis=1).sum())
    assert found["assignments"] == r.argmin(axis=1).tolist()
    np.testing.assert_array_equal(
        found["assignments"],
        LearnedClusterer(init=np.array(found["start"])).fit(X).labels_,
    )
    for ending in ("csv", "json", "npz"):
        out, figure = tmp_path / f"r.{ending}", tmp_path / "r.svg"
        done = run("d2-k3-one_hot", tmp_path / "points.csv", "--out", out, "--figure", figure)
        assert done.exit_code == 0, done.output
        assert "scaled into the unit cube (per-dimension), as in the training" in done.stdout
    assert np.load(tmp_path / "r.npz")["centers"].tolist() == found["centers"]
    assert json.loads((tmp_path / "r.json").read_text()) == found
    rows = (tmp_path / "r.csv").read_text().splitlines()
    assert rows[0] == "kind,cluster,x1,x2"
    assert len(rows) == 1 + 3 + len(X)
    assert "Lloyd" in (tmp_path / "r.svg").read_text()
    listed = run("--list").stdout.splitlines()
    assert [line.split(":")[0] for line in listed] == shipped()


def test_the_python_example_of_the_docs_runs() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "apply.md").read_text("utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        space: dict[str, Any] = {}
        exec(block, space)
        assert space["learned"].n_iter_ == 5
        assert len(set(space["labels"].tolist())) == 3


def test_what_apply_refuses(tmp_path: Path) -> None:
    good = tmp_path / "points.csv"
    good.write_text("x,y\n1,2\n3,5\n4,4\n9,1\n")
    broken = tmp_path / "broken"
    shutil.copytree(SHIPPED / "d2-k3-binary", broken)
    (broken / "models.safetensors").write_bytes(b"1234567890")
    for name, text in (("nan", "x,y\n1,nan\n2,3\n4,5\n"), ("wide", "a,b,c\n1,2,3\n4,5,6\n7,8,8\n"),
                       ("few", "x,y\n1,2\n3,4\n"), ("one", "x,y\n1,2\n1,2\n1,2\n")):  # fmt: skip
        (tmp_path / f"{name}.csv").write_text(text)
    for arguments, words in (
        (("nope", good), "shipped are d2-k3-binary"),
        ((tmp_path, good), "no models.safetensors in it"),
        ((broken, good), "is not a safetensors file"),
        (("d2-k3-binary", tmp_path / "nan.csv"), "nan"),
        (("d2-k3-binary", tmp_path / "wide.csv"), "is for d = 2"),
        (("d2-k3-binary", tmp_path / "few.csv"), "2 points for the k = 3 centers"),
        (("d2-k3-binary", tmp_path / "one.csv"), "distinct"),
        (("d2-k3-binary", tmp_path / "none.csv"), "no such file"),
        (("d2-k3-binary", good, "--which", 9), "no model of seed 9"),
        (("d2-k3-binary", good, "--out", "r.xls"), "allowed endings: .csv, .json, .npz"),
        (("d2-k3-binary",), "give a model and a file of points"),
    ):
        error = run(*arguments).exception
        assert isinstance(error, CommandError), (arguments, error)
        assert error.code == Exit.USAGE
        assert words in error.message
