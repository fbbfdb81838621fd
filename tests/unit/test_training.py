"""Task streams, the trainer, and runs on disk."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from constructions import InputError, TaskDistribution, surrogate
from constructions.streams import sample, stream
from constructions.tasks import FAMILIES
from constructions.training import Settings, Trainer
from verify.experiments import runs
from verify.experiments.cells import Cell
from verify.experiments.runs import TrainingRun, quartiles

SMALL = Settings(d=2, k=3, n=24, batch=4, validate_every=5, validation_batches=2, patience=1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scaling", ["per-dimension", "common"])
def test_streams_sample_tasks_in_the_unit_cube_and_independently(family: str, scaling: str) -> None:
    distribution = TaskDistribution(
        family, n=20, d=3, k=4, equal_weights=False, isotropic=False, scaling=scaling
    )
    both = sample(distribution, [stream("cpu", 1), stream("cpu", 2)], 5)
    alone = sample(distribution, [stream("cpu", 2)], 5)
    assert both.X.shape == (2, 5, 20, 3)
    assert torch.equal(both.X[1:], alone.X)
    assert not torch.equal(both.X[0], both.X[1])
    assert torch.equal(both.C, both.X[:, :, :4])
    assert float(both.X.min()) == 0
    assert float(both.X.max()) == 1


def test_streams_sample_the_distribution_that_numpy_samples() -> None:
    """Means and variances of the points of 800 tasks, against those of another generator."""
    distribution = TaskDistribution("laplace", n=16, d=2, k=3)
    found = sample(distribution, [stream("cpu", 0)], 800, torch.float64).X[0].numpy()
    other = distribution.sample(np.random.default_rng(0), 800).X
    for statistic in (lambda X: X.mean(axis=(1, 2)), lambda X: X.var(axis=1).mean(axis=1)):
        a, b = statistic(found), statistic(other)
        error = math.sqrt((a.var() + b.var()) / 800)
        assert abs(a.mean() - b.mean()) < 4 * error


def test_values_that_are_not_finite_are_drawn_again_and_counted() -> None:
    distribution = TaskDistribution("lognormal", n=20, d=2, k=2, scale=500.0)
    tasks = sample(distribution, [stream("cpu", 0), stream("cpu", 1)], 3, torch.float64)
    assert bool(torch.isfinite(tasks.X).all())
    assert bool((tasks.redraws.sum(dim=1) > 0).all())


def test_a_constant_coordinate_does_no_harm() -> None:
    trainer = Trainer([replace(SMALL, family="normal", scale=1e-30, k=1)], [0])
    trainer.advance()  # every coordinate is constant in float32
    assert bool(torch.isfinite(trainer.flat).all())
    assert not bool(trainer.diverged.any())


def test_models_trained_together_are_the_models_trained_alone() -> None:
    """In float64, after 20 steps of Adam: what rounding in another order can do."""
    ways = [
        SMALL,
        replace(SMALL, regularizer="ne", temperature=1.0),
        replace(SMALL, regularizer=1.5, learning_rate=0.1),
        replace(SMALL, log_loss=True),
    ]
    together = Trainer(ways, [3, 4, 5, 6], dtype=torch.float64)
    alone = [
        Trainer([way], [seed], dtype=torch.float64)
        for way, seed in zip(ways, (3, 4, 5, 6), strict=True)
    ]
    for trainer in (together, *alone):
        for _ in range(4):
            for _ in range(5):
                trainer.advance()
            look = trainer.validate()
    assert len(look.loss) == 1
    flat = torch.cat([t.flat for t in alone])
    assert float((together.flat - flat).abs().max()) < 1e-9
    rates = torch.cat([t.learning_rate for t in alone])
    assert torch.equal(together.learning_rate, rates)


@pytest.mark.parametrize(
    "option", [{"attention": "sparsemax", "qkv_multiplier": 2}, {"dropout": 0.2}]
)
def test_options_of_the_model_are_trained_and_resumed(option: Any) -> None:
    way = replace(SMALL, **option)
    together = Trainer([way, way], [3, 4], dtype=torch.float64)
    alone = Trainer([way], [4], dtype=torch.float64)
    default = Trainer([SMALL], [4], dtype=torch.float64)
    for trainer in (together, alone, default):
        for _ in range(5):
            trainer.advance()
    assert float((together.flat[1:] - alone.flat).abs().max()) < 1e-10
    assert alone.flat.shape != default.flat.shape or not torch.allclose(alone.flat, default.flat)
    again = Trainer([way], [4], dtype=torch.float64)
    again.restore(alone.state())
    for trainer in (alone, again):
        trainer.advance()
    assert torch.equal(again.flat, alone.flat)  # what is dropped next belongs to the state
    assert torch.equal(again.relative(), alone.relative())  # and validation drops nothing


def test_a_folder_from_before_an_option_can_be_resumed(tmp_path: Path) -> None:
    cell = Cell(SMALL, (0,), 5)
    list(TrainingRun(cell, tmp_path).proceed())
    file = tmp_path / "settings.json"
    data = json.loads(file.read_text())
    for name in ("attention", "qkv_multiplier", "dropout"):
        del data["settings"][name]
    file.write_text(json.dumps(data))
    assert TrainingRun(Cell.load(tmp_path), tmp_path).resumed == 5


def test_subnormal_numbers_do_not_slow_training_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are 0 in its threads, and what they are elsewhere."""

    def tiny() -> float:
        return float((torch.full((64,), 1e-30) * torch.full((64,), 1e-9)).max())

    seen, validate = [], Trainer.validate
    monkeypatch.setattr(Trainer, "validate", lambda self: seen.append(tiny()) or validate(self))
    settings = Settings(d=2, k=2, n=8, batch=2, validate_every=1, validation_batches=1)
    list(TrainingRun(Cell(settings, (0,), 2), tmp_path).proceed())
    assert seen == [0.0, 0.0]
    assert 0 < tiny() < 1e-38


def test_sixty_steps_are_those_of_torch_with_the_plain_model() -> None:
    trainer = Trainer([SMALL], [0], dtype=torch.float64)
    model, draw = SMALL.model, stream("cpu", 0, 1)
    parameters = {n: p[0].clone().requires_grad_() for n, p in trainer.parameters().items()}
    adam = torch.optim.Adam(parameters.values(), lr=SMALL.learning_rate)
    for _ in range(60):
        tasks = sample(SMALL.distribution, [draw], SMALL.batch, torch.float64)
        new = model(parameters, tasks.X[0], tasks.C[0])
        r = (tasks.X[0][:, :, None] - new[:, None]).square().sum(dim=-1)
        adam.zero_grad()
        surrogate(r, SMALL.temperature, SMALL.regularizer).mean().backward()
        adam.step()
        trainer.advance()
    for name, found in trainer.parameters().items():
        assert float((found[0] - parameters[name].detach()).abs().max()) < 1e-9, name


def test_a_model_that_diverges_is_recorded_and_the_others_go_on() -> None:
    both = Trainer([SMALL, SMALL], [0, 1])
    alone = Trainer([SMALL], [0])
    for trainer in (both, alone):
        trainer.advance()
    both.flat[1] = math.inf
    for trainer in (both, alone):
        trainer.advance()
        look = trainer.validate()
    assert both.diverged.tolist() == [0, 2]
    torch.testing.assert_close(both.flat[0], alone.flat[0], rtol=1e-4, atol=1e-5)
    look = both.validate()
    assert math.isnan(look.relative[1])
    assert math.isfinite(look.relative[0])


def test_the_learning_rate_is_halved_on_a_plateau() -> None:
    trainer = Trainer([replace(SMALL, learning_rate=1e-12)], [0])
    rates = []
    for _ in range(6):
        trainer.advance()
        rates.append(trainer.validate().learning_rate[0])
    # the first look is an improvement; then every second one without is too many
    assert rates == [1e-12, 1e-12, 1e-12, 5e-13, 5e-13, 2.5e-13]


def test_training_makes_models_better() -> None:
    settings = replace(SMALL, n=64, batch=16, code="one_hot", validate_every=50, patience=5)
    trainer = Trainer([settings], [0])
    before = float(trainer.relative())
    for _ in range(150):
        trainer.advance()
    assert float(trainer.relative()) < 0.8 * before


@pytest.mark.parametrize(
    ("settings", "seeds", "match"),
    [
        ([], [], "at least one"),
        ([SMALL], [0, 1], "expected one for each"),
        ([SMALL, replace(SMALL, k=2)], [0, 1], "share k"),
        ([SMALL], [-1], "seed"),
    ],
)
def test_what_cannot_be_trained_together(settings: Any, seeds: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Trainer(settings, seeds)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0),
        ("family", "uniform"),
        ("k", 600),
        ("code", "unary"),
        ("regularizer", "l3"),
        ("learning_rate", math.inf),
        ("batch", 0),
        ("patience", -1),
        ("inverse_temperature", math.inf),
        ("attention", "hard"),
        ("qkv_multiplier", 0),
        ("dropout", 1.0),
    ],
)
def test_settings_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(InputError):
        Settings(**{name: value})


def test_a_run_left_at_any_validation_continues_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CHECKPOINT_EVERY", -1.0)
    monkeypatch.setattr(runs, "STACK", 2)
    cell = Cell(SMALL, (0, 1, 2), 18)
    whole = TrainingRun(cell, tmp_path / "whole")
    list(whole.proceed(workers=2))
    for stop in (1, 3):
        folder = tmp_path / f"left-{stop}"
        left = TrainingRun(cell, folder).proceed()
        for _ in range(stop):
            next(left)
        left.close()
        again = TrainingRun(Cell.load(folder), folder)
        assert again.resumed == 5 * stop
        list(again.proceed())
        for name in ("curve.csv", "models.safetensors", "settings.json"):
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert len((tmp_path / "whole" / "curve.csv").read_text().splitlines()) == 1 + 4 * 3


def test_checkpoints_of_something_else_are_refused(tmp_path: Path) -> None:
    cell = Cell(SMALL, (0,), 5)
    list(TrainingRun(cell, tmp_path).proceed())
    other = Cell(replace(SMALL, temperature=0.2), (0,), 5)
    with pytest.raises(InputError, match="another temperature"):
        TrainingRun(other, tmp_path)
    assert Cell.load(tmp_path) == cell  # untouched
    (tmp_path / "state.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="not a checkpoint"):
        TrainingRun(cell, tmp_path)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        Cell.load(tmp_path)
    with pytest.raises(InputError, match="holds no training run"):
        Cell.load(tmp_path / "nowhere")


def test_quartiles_leave_out_what_is_not_finite() -> None:
    assert quartiles([1.0, 2.0, math.nan, 3.0]) == (2.0, 1.5, 2.5)
    assert all(map(math.isnan, quartiles([math.nan])))
