"""The attack: deterministic, resumable, inside the ball, and it finds what is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from verify.bounds import theorem
from verify.bounds.attack import Attack, AttackError, Plan, Witness
from verify.bounds.evaluate import Setting, precise
from verify.claims.lipschitz._grid import TAUS, gradient_norms
from verify.claims.lipschitz._search import Searcher, gradient_norm, put_into
from verify.cli import leanlloyd

SMALL = Setting("none", 2, 2, 2, 1.0, 1.0, 1.0, "l2")
PLAN = Plan(seed=3, restarts=8, steps=12)


def finished(attack: Attack) -> Attack:
    for _ in attack.run():
        pass
    return attack


def test_the_same_seed_gives_the_same_witness() -> None:
    one, two = (finished(Attack(SMALL, PLAN)).best for _ in range(2))
    assert one == two
    assert finished(Attack(SMALL, replace(PLAN, seed=4))).state["X"].tolist() != one.X


def test_it_starts_at_the_exact_instances() -> None:
    for setting in (SMALL, Setting("binary", 4, 2, 2, 30.0), Setting("one_hot", 3, 2, 2, 0.1)):
        attack = Attack(setting, replace(PLAN, steps=3))
        for name, expression in theorem.lower_bounds(setting.code).items():
            if theorem.applies(name, setting.d, setting.k, setting.n, setting.B):
                assert attack.best_value >= float(precise(expression, setting)) * (1 - 1e-9)


def test_it_climbs_and_stays_below_the_bound() -> None:
    setting = Setting("binary", 2, 3, 2, 1.0)
    attack = finished(Attack(setting, Plan(0, 12, 60)))
    value = attack.best.gradient_norm()
    assert value == pytest.approx(attack.best_value, rel=1e-10)
    assert value > 1.001 * float(precise(theorem.lower_bounds("binary")["LB1"], setting))
    assert value <= float(precise(theorem.alpha("binary", "l2", "sharp"), setting))
    attack.best.require_admissible()


def test_all_states_are_in_the_ball_and_the_cube() -> None:
    attack = Attack(replace(SMALL, B=0.5), PLAN)
    for _ in attack.run(5):
        for name, a in attack.state.items():
            if name in ("X", "C"):
                assert bool(((a >= 0) & (a <= 1)).all())
            else:
                assert float(torch.linalg.matrix_norm(a, 2).max()) <= 0.5 * (1 + 1e-12)


def test_saved_and_resumed_is_the_same_as_not_interrupted(tmp_path: Path) -> None:
    whole = finished(Attack(SMALL, PLAN))
    half = Attack(SMALL, PLAN)
    for _ in half.run(7):
        pass
    half.save(tmp_path / "state.npz")
    resumed = finished(Attack.load(tmp_path / "state.npz"))
    assert resumed.best == whole.best
    assert all(torch.equal(resumed.state[name], a) for name, a in whole.state.items())


def test_a_witness_is_stored_and_judged_again(tmp_path: Path) -> None:
    witness = finished(Attack(SMALL, PLAN)).best
    witness.save(tmp_path / "witness.json")
    again = Witness.load(tmp_path / "witness.json")
    assert again == witness
    assert again.gradient_norm() == pytest.approx(witness.value, rel=1e-12)


@pytest.mark.parametrize("change", ["matrix", "cube", "shape", "format", "setting"])
def test_a_witness_outside_is_refused(change: str, tmp_path: Path) -> None:
    data: dict[str, Any] = Attack(SMALL, PLAN).best.to_json()
    if change == "matrix":
        data["parameters"]["points_from_points.value"] = [[2.0, 0.0], [0.0, 0.0]]
    elif change == "cube":
        data["X"][0][0] = 1.5
    elif change == "shape":
        data["C"] = [[0.0, 0.0]]
    elif change == "format":
        data["format"] = 0
    else:
        data["setting"]["k"] = 1
    path = tmp_path / "witness.json"
    path.write_text(json.dumps(data))
    with pytest.raises(AttackError):
        Witness.load(path)


def test_a_file_that_is_no_attack_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    for content in (b"", b"PK nothing", b"garbage"):
        path.write_bytes(content)
        with pytest.raises(AttackError, match="not a saved attack"):
            Attack.load(path)
    np.savez(path, about=np.array({"pickled": True}, dtype=object))
    with pytest.raises(AttackError, match="not a saved attack"):
        Attack.load(path)
    attack = Attack(SMALL, PLAN)
    attack.state["X"] = attack.state["X"][:, :1]
    attack.save(path)
    with pytest.raises(AttackError, match="state/X"):
        Attack.load(path)


def test_the_command_resumes_writes_and_refuses(tmp_path: Path) -> None:
    state, out = tmp_path / "s.npz", tmp_path / "w.json"
    options = ["--code", "none", "-d", "2", "-k", "2", "-n", "2", "--restarts", "4", "--steps", "4"]
    options += ["--state", str(state)]
    runner = CliRunner()

    def run(*arguments: str) -> Any:
        return runner.invoke(leanlloyd, [*arguments], standalone_mode=False)

    done = run("attack", "thm-3.1", *options, "--out", str(out), "--json")
    found = json.loads(done.stdout)
    assert 0 < found["ratio"] < 1
    assert found["gradient_norm"] == pytest.approx(Witness.load(out).gradient_norm())
    again = json.loads(run("attack", "thm-3.1", *options, "--json").stdout)
    assert again == found
    other = run("attack", "thm-3.1", *options, "--gamma", "2")
    assert "belongs to another search" in str(other.exception)
    shown = run("bound", "thm-3.1", *options[:6], "-n", "4", "--witness", str(out), "--json")
    rows = {row["label"]: row["value"] for row in json.loads(shown.stdout)["lower_bounds"]}
    assert rows[f"witness {out}"] == pytest.approx(2 * found["gradient_norm"])
    refused = run("bound", "thm-3.1", *options[:6], "-n", "3", "--witness", str(out))
    assert getattr(refused.exception, "code", None) == 2
    for bad in (("attack", "L1"), ("attack", "thm-3.1", "--gamma", "0")):
        assert getattr(run(*bad).exception, "code", None) == 2


# ---- searches of many settings at once -----------------------------------------------------


def test_small_problems_are_large_ones() -> None:
    """The gradient of a small problem, times d / 2, is at most that of the large one; equal where
    the whole code is kept."""
    settings = [
        Setting(code, d, 6, 4, gamma, tau, 1.0, "ne")
        for code, d, gamma, tau in (
            ("binary", 8, 1.0, 0.1),
            ("none", 2, 4.0, 10.0),
            ("scalar", 4, 0.1, 1.0),
            ("one_hot", 8, 1.0, 1.0),
        )
    ]
    searcher = Searcher(settings, 5)
    pool = searcher.best(0, 6)
    values = Searcher(settings, 1).values(pool).exp()
    for at, (setting, value) in enumerate(zip(settings, values.tolist(), strict=True)):
        made = put_into(setting, pool, at)
        large = gradient_norm(setting, made)
        low = value * setting.d / 2
        assert large >= low * (1 - 1e-9)
        if setting.code != "one_hot":  # it has six entries; five are kept
            assert large == pytest.approx(low, rel=1e-9)
        floor = float(precise(theorem.lower_bounds(setting.code)["LB1"], setting))
        if setting.code in ("none", "binary"):
            assert large >= floor * (1 - 1e-9)
        # at every temperature at once: the same as one by one
        together = gradient_norms(setting, [made])[:, 0]
        alone = [gradient_norm(replace(setting, tau=tau), made) for tau in TAUS]
        assert together == pytest.approx(alone, rel=1e-9)
