"""Slices of the training loss: valleys of known functions, directions, and tables of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from constructions.errors import InputError
from constructions.streams import stream
from constructions.training import Settings, Trainer
from verify.claim import Run
from verify.claims.learning import loss_surface
from verify.claims.learning._shared import study
from verify.experiments import results, surfaces
from verify.experiments.cells import Cell
from verify.experiments.grids import cells
from verify.experiments.results import Results
from verify.experiments.runs import TrainingRun
from verify.experiments.surfaces import Loss, Valleys, direction, profile

SMALL = {"d": 2, "k": 3, "n": 16, "validate_every": 5, "validation_batches": 1, "batch": 4}
T = np.linspace(-1, 1, 25)
A, B = np.meshgrid(T, T, indexing="ij")
BOWL = (A - 0.25) ** 2 + 3 * (B + 0.1) ** 2
WELLS = np.minimum((A + 0.5) ** 2, 0.1 + (A - 0.5) ** 2) + B**2


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PLANES": 1, "GRID": 3, "LINES": 2, "POINTS": 5}.items():
        monkeypatch.setattr(surfaces, name, value)


def model(**options: Any) -> dict[str, Any]:
    settings = Settings(**SMALL, **options)
    return settings.model.initial(torch.Generator().manual_seed(0))


def test_a_bowl_has_one_valley_and_a_double_well_has_two():
    bowl = Valleys.of(BOWL)
    assert (bowl.count, bowl.others, bowl.share) == (1, 0, 1.0)
    wells = Valleys.of(WELLS)
    assert (wells.count, wells.others) == (2, 1)
    # along A the ridge is where both are equal, at 0.05; steps are 1/12
    assert wells.share == np.mean(A < 0.05)
    assert np.array_equal(wells.end == 0, A < 0.05)
    line = Valleys.of(WELLS[:, 12])
    assert (line.count, line.others) == (2, 1)
    assert line.share == np.mean(T < 0.05)


def test_minima_on_the_border_are_no_other_minima():
    saddle = Valleys.of(-(A**2) + (B - 0.3) ** 2)
    assert (saddle.count, saddle.others) == (2, 0)
    assert saddle.share < 0.6
    assert Valleys.of(T).count == 1
    assert Valleys.of(T).share == 1


def test_plateaus_count_once():
    flat = Valleys.of(np.maximum(BOWL, 0.2))
    assert (flat.count, flat.others, flat.share) == (1, 0, 1.0)
    assert Valleys.of(np.zeros((4, 5))).count == 1
    # a shelf on the way down is no minimum; one with a rim is
    shelf = np.array([5.0, 3, 3, 3, 1, 4, 2, 2, 6])
    found = Valleys.of(shelf)
    assert found.count == 2
    assert found.end.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert found.others == 1  # the middle descends to the 1
    diagonal = np.where(np.eye(5, dtype=bool), 0.0, 1.0)  # neighbors touch at corners
    assert Valleys.of(diagonal).count == 1
    with_holes = BOWL.copy()
    with_holes[3:5, 3:5] = np.inf
    assert Valleys.of(with_holes).count == 1
    assert Valleys.of(np.full(5, np.inf)).count == 1


def test_rounding_makes_no_minima():
    rough = WELLS + 1e-9 * np.sin(np.arange(625)).reshape(25, 25)
    assert Valleys.of(rough.astype(np.float32)).count <= Valleys.of(rough).count


def test_profiles_and_their_distance():
    t = np.linspace(-1, 1, surfaces.POINTS)
    rise = profile([2 * (1 + t**2), 1 + t**2])
    assert np.allclose(rise, t[surfaces.POINTS // 2 :] ** 2)
    assert surfaces.difference(rise, rise) == 0
    assert surfaces.difference(rise, 3 * rise) == pytest.approx(1)
    assert surfaces.difference(rise, 0 * rise) == 2


@pytest.mark.parametrize("bias", [True, False])
def test_a_direction_has_the_length_of_each_filter(bias):
    base = model(code="one_hot", bias=bias)
    u = direction(base, stream("cpu", 7))
    assert set(u) == set(base)
    for name in (n for n in base if not n.endswith("_bias")):
        both = [[p[name]] + ([p[f"{name}_bias"][:, None]] if bias else []) for p in (base, u)]
        lengths = [torch.cat(parts, dim=1).norm(dim=1) for parts in both]
        torch.testing.assert_close(*lengths)
    # scale a filter, and its direction scales along; the others do not change
    name = "centers_from_points.key"
    scaled = {n: p.clone() for n, p in base.items()}
    for n in (name, *([f"{name}_bias"] if bias else [])):
        scaled[n][1] *= 64
    v = direction(scaled, stream("cpu", 7))
    for n in base:
        factor = torch.ones(len(u[n]), dtype=torch.float64)
        factor[1] = 64 if n.startswith(name) else 1
        assert torch.equal(v[n], u[n] * factor.view(-1, *[1] * (u[n].ndim - 1)))
    zero = direction({n: torch.zeros_like(p) for n, p in base.items()}, stream("cpu", 7))
    assert all(not p.any() for p in zero.values())


@pytest.mark.parametrize(
    "options", [{}, {"regularizer": "ne", "log_loss": True}, {"relative_temperature": True}]
)
def test_the_loss_is_that_of_the_training(options):
    settings = Settings(**SMALL, **options)
    loss = Loss(settings)
    models = [model(), {name: 1.5 * p for name, p in model().items()}]
    values = loss(models * 14)  # more than a stack
    assert values.shape == (28,)
    assert np.array_equal(values[:2], values[26:])
    trainer = Trainer([settings], [0], dtype=torch.float64)
    X, C = (a[:1] for a in loss._tasks)
    for m, value in zip(models, values, strict=False):
        flat = torch.cat([m[name].flatten() for name in settings.model.names])[None]
        assert trainer.losses(flat, X, C).item() == pytest.approx(value, rel=1e-12)
    broken = {name: torch.full_like(p, torch.nan) for name, p in model().items()}
    assert loss([broken]).tolist() == [np.inf]


def test_from_a_training_to_a_table_and_back(tmp_path: Path, quick: None):
    cell = Cell(Settings(**SMALL), (0, 5), 5)
    with pytest.raises(InputError, match="no models"):
        list(surfaces.surfaces(cell, tmp_path))
    for _ in TrainingRun(cell, tmp_path).proceed():
        pass
    rows = list(surfaces.surfaces(cell, tmp_path))
    assert rows == list(surfaces.surfaces(cell, tmp_path))
    assert len(rows) == 2 * (9 + 2 * 5)
    results.write(results.surface_table(rows), tmp_path / results.SURFACES)
    found = Results(tmp_path).surfaces(cell)
    assert list(found) == [0, 5]
    assert list(found[5]) == ["plane 0", "line 0", "line 1"]
    plane, line = found[5]["plane 0"], found[5]["line 0"]
    assert (plane.shape, line.shape) == ((3, 3), (5,))
    assert plane[1, 1] == line[2]  # the model itself
    assert plane[1, 1] != found[0]["plane 0"][1, 1]
    with pytest.raises(KeyError):
        Results(tmp_path).surfaces(Cell(Settings(**SMALL), (0,), 5))
    with pytest.raises(KeyError):
        Results(tmp_path / "nothing").surfaces(cell)


def planted(tmp_path: Path, second_valley: bool) -> Results:
    """Results with made-up surfaces for all cells of the smoke scale."""
    rows: list[dict[str, Any]] = []
    t = np.linspace(-1, 1, surfaces.POINTS)
    trained = cells("loss-surface", "smoke")
    for cell in trained:
        s = cell.settings
        for seed in cell.seeds:
            steep = 1 + 0.01 * seed + (s.d == 4) * (s.code == "binary")
            plane = 1 + (WELLS if second_valley and s.d == 4 else steep * (A**2 + B**2))
            for name, values in (("plane 0", plane), ("line 0", 1 + steep * t**2)):
                for place, value in np.ndenumerate(values):
                    i, j = (*place, 0)[:2]
                    row = {"slice": name, "i": i, "j": j, "value": float(value)}
                    rows.append({"cell": cell.name, "seed": seed} | row)
    results.write(results.surface_table(rows), tmp_path / results.SURFACES)
    found = Results(tmp_path)
    found.has = lambda cell: cell in trained  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("second_valley", [False, True])
def test_the_claim_sees_what_was_planted(tmp_path: Path, second_valley: bool, monkeypatch):
    # three seeds decide nothing at the usual level
    monkeypatch.setattr("verify.claims.learning._deciding.interval", _range)
    found = planted(tmp_path, second_valley)
    monkeypatch.setattr("verify.claims.learning._shared.reference_results", lambda: found)
    check = study(loss_surface.statements, loss_surface.figures, scales=("smoke",))
    e = check.run(loss_surface.CLAIM, Run())
    wrong = [row[0] for row in e.tables[0].rows if row[-1] != "holds"]
    if second_valley:
        assert len(wrong) == e.violated == 4
        assert all("d = 4" in what and "plane" in what for what in wrong)
    else:
        assert (wrong, e.violated, e.undecided) == ([], 0, 0)
    drawn = [t.name for t in e.tables if t.name.endswith("-smoke")]
    assert drawn == [
        "plane-one_hot-d4-smoke",
        "plane-one_hot-d32-smoke",
        "plane-binary-d4-smoke",
        "plane-binary-d32-smoke",
        "profiles-smoke",
    ]


def _range(values: Any) -> results.Interval:
    ordered = sorted(values)
    return results.Interval(float(np.median(ordered)), ordered[0], ordered[-1], len(ordered))
