"""The local bound: above every gradient that is found, and the command that prints it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from constructions.trainable import TrainableTransformer
from verify.bounds import theorem
from verify.bounds.evaluate import Setting, precise
from verify.bounds.geometry import scene
from verify.bounds.local import Local, largest_norm, local
from verify.cli import leanlloyd


def gradients(
    model: TrainableTransformer, parameters: dict[str, Any], X: Any, C: Any, tau: float, omega: Any
) -> dict[str, Any]:
    """By automatic differentiation."""
    leaves = {name: a.detach().clone().requires_grad_() for name, a in parameters.items()}
    loss = model.loss(leaves, X, C, tau, omega)
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def arrays(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: a.numpy() for name, a in parameters.items()}


@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(2, 5), st.integers(1, 12)),
    code=st.sampled_from(("binary", "one_hot", "none", "scalar")),
    omega=st.sampled_from(("ne", "l2", 1.5)),
    tau=st.sampled_from((0.01, 1.0, 100.0)),
    gamma=st.sampled_from((0.1, 1.0, 8.0)),
    bias=st.booleans(),
    wide=st.sampled_from((1, 2)),
    spread=st.sampled_from((0.1, 1.0, 5.0)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_it_is_above_the_gradient_of_every_parameter(
    sizes: tuple[int, int, int], code: str, omega: Any, tau: float, gamma: float, bias: bool,
    wide: int, spread: float, seed: int,
) -> None:  # fmt: skip
    d, k, n = sizes
    model = TrainableTransformer(d, k, code, gamma, bias=bias, qkv_multiplier=wide)
    generator = torch.Generator().manual_seed(seed)
    parameters = {name: spread * a for name, a in model.initial(generator).items()}
    X, C = (torch.rand(m, d, generator=generator, dtype=torch.float64) for m in (n, k))
    found = local(model, arrays(parameters), X.numpy(), C.numpy(), tau, omega)
    other = gradients(model, parameters, X, C, tau, omega)
    whole = float(torch.stack([(g * g).sum() for g in other.values()]).sum().sqrt())
    # weights are those of r / tau: they repeat the rounding of distances, magnified by 1 / tau
    accuracy = 1e-9 * whole * (1 + spread**4 / tau)
    for name, g in other.items():
        assert abs(float(found.gradients[name]) - float(g.norm())) <= accuracy
        assert found.gradients[name] <= found.bounds[name] * (1 + 1e-9) + 1e-12 * whole
    assert whole <= float(found.bound) + accuracy


def test_an_ascent_does_not_get_above_it_and_the_theorem_is_above_both() -> None:
    model = TrainableTransformer(2, 3, "binary", 1.0)
    generator = torch.Generator().manual_seed(0)
    state = model.initial(generator)
    X = torch.rand(6, 2, generator=generator, dtype=torch.float64)
    C = X[:3].clone()
    ratios = []
    for _ in range(60):
        found = local(model, arrays(state), X.numpy(), C.numpy(), 0.5, "ne")
        ratios.append(float(found.gradient / found.bound))
        leaves = {name: a.clone().requires_grad_() for name, a in state.items()}
        loss = model.loss(leaves, X, C, 0.5, "ne")
        first = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
        goal = torch.stack([(g * g).sum() for g in first]).sum().log()
        slopes = torch.autograd.grad(goal, list(leaves.values()))
        for (name, a), slope in zip(leaves.items(), slopes, strict=True):
            state[name] = (a + 0.05 * slope / (slope.norm() + 1e-12)).detach()
    assert max(ratios) <= 1 + 1e-9
    assert max(ratios) > 0.8
    norm = largest_norm(arrays(state))
    setting = Setting("binary", 2, 3, 6, 1.0, 0.5, norm, "ne")
    at_most = precise(theorem.chain(scene("binary", bias=True), "ne", "sharp"), setting)
    assert found.gradient <= at_most
    # biases of norm B on tokens of norm 0 still act
    assert at_most > precise(theorem.alpha("binary", "ne", "sharp"), setting)


def test_one_query_is_bounded_tightly() -> None:
    """One center and one point: nothing is summed, so values and biases are exact."""
    model = TrainableTransformer(2, 1, "none", 1.0)
    parameters = model.initial(torch.Generator().manual_seed(1))
    found = local(model, arrays(parameters), np.array([[0.2, 0.9]]), np.ones((1, 2)), 1.0, "l2")
    for name, bound in found.bounds.items():
        assert bound == pytest.approx(found.gradients[name], rel=1e-9)
    assert found.gradient > 0


def test_what_overflows_in_float64_is_still_a_number() -> None:
    model = TrainableTransformer(2, 3, "one_hot", 1.0)
    parameters = arrays(model.initial(torch.Generator().manual_seed(2)))
    X = np.random.default_rng(0).uniform(size=(7, 2))
    found = local(model, {name: 1e150 * a for name, a in parameters.items()}, X, X[:3], 0.1, "l2")
    assert isinstance(found, Local)
    assert found.gradient <= found.bound < mpmath.inf
    assert found.bound > mpmath.mpf(10) ** 400


# ---- the command ---------------------------------------------------------------------------

SMALL = ["--d=2", "--k=3", "--n=16", "--batch=2", "--seeds=2", "--steps=2", "--workers=1"]
SMALL += ["--validation-batches=1", "--seed=5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training run, points.csv and models that are none."""
    where = tmp_path_factory.mktemp("run")
    done = CliRunner().invoke(leanlloyd, ["train", *SMALL, "--out", str(where)])
    assert done.exit_code == 0, done.output
    rng = np.random.default_rng(0)
    np.savetxt(where / "points.csv", rng.normal(size=(20, 2)) * [1, 50], delimiter=",")
    np.savetxt(where / "wide.csv", rng.normal(size=(20, 3)), delimiter=",")
    np.savetxt(where / "few.csv", rng.normal(size=(2, 2)), delimiter=",")
    (where / "model.pkl").write_bytes(pickle.dumps({"points_from_centers.query": [1.0]}))
    (where / "lone").mkdir()
    stacks = load_file(where / "models.safetensors")
    save_file(stacks, where / "lone" / "models.safetensors")
    changed = {name: a[..., :1].contiguous() for name, a in stacks.items()}
    save_file(changed, where / "shape.safetensors")
    save_file({name: a * torch.inf for name, a in stacks.items()}, where / "inf.safetensors")
    save_file(stacks | {"more": torch.zeros(1)}, where / "more.safetensors")
    return where


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(leanlloyd, ["bound", *map(str, arguments)], standalone_mode=False)


def test_the_command_agrees_with_autograd(folder: Path) -> None:
    points = folder / "points.csv"
    done = run("--model", folder, "--data", points, "--seed", 3, "--json")
    assert done.exception is None
    found = json.loads(done.output)
    assert [row["seed"] for row in found["models"]] == [5, 6]
    X = np.loadtxt(points, delimiter=",")
    X = (X - X.min(0)) / (X.max(0) - X.min(0))
    C = X[np.random.default_rng(3).choice(20, 3, replace=False)]
    stacks = load_file(folder / "models.safetensors")
    model = TrainableTransformer(2, 3)
    for at, row in enumerate(found["models"]):
        parameters = {name: a[at].double() for name, a in stacks.items()}
        grads = gradients(model, parameters, torch.tensor(X), torch.tensor(C), 0.1, "l2")
        norm = float(torch.stack([(g * g).sum() for g in grads.values()]).sum().sqrt())
        assert row["gradient"]["value"] == pytest.approx(norm, rel=1e-9)
        assert row["gradient"]["value"] <= row["local_bound"]["value"] < row["theorem"]["value"]
        assert row["ratio"] == pytest.approx(norm / row["local_bound"]["value"])
    single = run("--model", folder / "models.safetensors", "--data", points, "--which", 6)
    table = [line.split() for line in single.output.splitlines()[4:]]
    assert [row[0] for row in table[:2]] == ["seed", "6"]
    assert table[2] == []


@pytest.mark.parametrize(
    ("model", "data", "more", "says"),
    [
        ("nowhere", "points.csv", (), "no such file"),
        ("lone/..", "nowhere.csv", (), "no such file"),
        ("points.csv", "points.csv", (), "is not a safetensors file"),
        ("model.pkl", "points.csv", (), "a pickle can run code"),
        ("state.safetensors", "points.csv", (), "has no points_from_centers.query"),
        ("more.safetensors", "points.csv", (), "has a more too many"),
        ("shape.safetensors", "points.csv", (), "has shape"),
        ("inf.safetensors", "points.csv", (), "not finite"),
        ("lone", "points.csv", (), "no settings.json in it"),
        (".", "wide.csv", (), "has 3 coordinates"),
        (".", "few.csv", (), "has 2 points"),
        (".", "model.pkl", (), "nor any of .csv"),
        (".", "points.csv", ("--which", "7"), "has no model of seed 7; it has 5, 6"),
        (".", "points.csv", ("-k", "3"), "-k does not go with --model"),
        (".", "points.csv", ("thm-3.1",), "NAME thm-3.1 does not go with --model"),
        (".", None, (), "--model needs --data"),
        (None, "points.csv", (), "--data needs --model"),
        (None, None, ("L1", "--which", "1"), "--which goes with --model"),
        (None, None, (), "say which bound"),
    ],
)
def test_bad_input_is_one_line(
    folder: Path, model: str | None, data: str | None, more: tuple[str, ...], says: str
) -> None:
    arguments = [*more]
    arguments += ["--model", str(folder / model)] if model else []
    arguments += ["--data", str(folder / data)] if data else []
    done = run(*arguments)
    assert getattr(done.exception, "code", None) == 2
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)


def test_settings_that_are_none(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "models.safetensors"
    file.write_bytes((folder / "models.safetensors").read_bytes())
    good = json.loads((folder / "settings.json").read_text())
    bad = [
        "",
        "[]",
        '{"format": 1}',
        json.dumps(good | {"format": 99}),
        json.dumps(good | {"settings": good["settings"] | {"d": 3}}),
        json.dumps(good | {"settings": good["settings"] | {"colour": 3}}),
        json.dumps(good | {"settings": good["settings"] | {"attention": "sparsemax"}}),
    ]
    for text in bad:
        (tmp_path / "settings.json").write_text(text)
        done = run("--model", file, "--data", folder / "points.csv")
        assert getattr(done.exception, "code", None) == 2, text
        assert "\n" not in str(done.exception)
