"""`leanlloyd audit`: input, exactness against the oracle, certificates, temperatures, output."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import fmpq

from constructions import codes, lloyd_step, rational_array, surrogate_gap
from constructions.arrays import as_fractions
from constructions.certificate import error_bound, geometry, sufficient_inverse_temperature
from verify.audit import finite, gaps
from verify.audit.beside import run
from verify.audit.conclusion import reason_text
from verify.audit.figure import draw
from verify.audit.reading import DATASETS, Table, read_dataset, read_table
from verify.audit.report import Options, audit
from verify.audit.starting import start
from verify.audit.survey import TYPES, decide, points_in, survey
from verify.audit.text import render
from verify.cli import main
from verify.console import CommandError
from verify.oracles import clustering as oracle

SEEDS = range(40)


def small_task(seed: int) -> tuple[Any, Any]:
    """Few integer points, so that ties, duplicates and empty clusters are common."""
    draw = np.random.default_rng(seed)
    n, d = int(draw.integers(2, 8)), int(draw.integers(1, 3))
    k = int(draw.integers(1, min(n, 5) + 1))
    X = draw.integers(-3, 4, size=(n, d))
    C = X[draw.choice(n, k, replace=False)] if seed % 2 else draw.integers(-3, 4, size=(k, d))
    return rational_array(X), rational_array(C)


def blobs(seed: int, n: int = 60, d: int = 3, k: int = 4, spread: float = 0.1) -> tuple[Any, Any]:
    """Separated clusters; the centers are one point of each."""
    draw = np.random.default_rng(seed)
    middles = 4 * draw.normal(size=(k, d))
    X = np.concatenate([middles, middles[draw.integers(0, k, n - k)]])
    return rational_array(X + spread * draw.normal(size=X.shape)), rational_array(
        X[:k] + spread * draw.normal(size=(k, d))
    )


def run_main(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["leanlloyd", "audit", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def saved(folder: Path, values: Any, name: str = "x.npy") -> Path:
    np.save(folder / name, values)
    return folder / name


def written(folder: Path, text: str, name: str = "x.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


# What is exact ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_survey_agrees_with_brute_force(seed: int) -> None:
    X, C = small_task(seed)
    found = survey(X, C)
    points, centers = as_fractions(X), as_fractions(C)
    near = [oracle.nearest(x, centers) for x in points]
    r = [[oracle.squared_distance(x, c) for c in centers] for x in points]
    assert found.assignments.tolist() == [js[0] for js in near]
    assert found.ties == {i: tuple(js) for i, js in enumerate(near) if len(js) > 1}
    assert sorted(found.ties) == oracle.tied_points(points, centers)
    assert str(found.objective) == str(sum(map(min, r)))
    margins = [sorted(row)[1] - min(row) for row in r if len(row) > 1]
    assert str(found.margin) == str(min(margins, default=None))
    stars = [
        len(js) * (min(v for v in row if v > min(row)) - min(row))
        for js, row in zip(near, r, strict=True)
        if len(js) < len(row)
    ]
    assert str(found.tau_star) == str(min(stars, default=None))
    assert np.array_equal(found.excess, [[float(v - min(row)) for v in row] for row in r])


@pytest.mark.parametrize("seed", SEEDS)
def test_tau_star_is_the_largest_temperature_without_a_gap(seed: int) -> None:
    X, C = small_task(seed)
    star = survey(X, C).tau_star
    points, centers = as_fractions(X), as_fractions(C)
    r = rational_array(
        np.array([[oracle.squared_distance(x, c) for c in centers] for x in points], dtype=object)
    )
    if star is None:
        assert surrogate_gap(r, fmpq(10**9), "l2").sum() == 0
    else:
        assert surrogate_gap(r, star, "l2").sum() == 0
        assert surrogate_gap(r, star * fmpq(10**9 + 1, 10**9), "l2").sum() > 0


@pytest.mark.parametrize("name", ["binary", "one_hot", "scalar", "powers", "gray", "half"])
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_agree_with_the_oracle(seed: int, name: str) -> None:
    X, C = small_task(seed)
    points, centers = as_fractions(X), as_fractions(C)
    table = as_fractions(codes.code(name, len(C)).table)
    tracks, steps = run(X, C, [name], 3)
    done = list(steps)
    parted = None
    for t, step in enumerate(done, 1):
        lloyd = oracle.lloyd(points, centers, t)
        layer = oracle.transformer(points, centers, table, t)
        before = oracle.lloyd(points, centers, t - 1)
        assert as_fractions(step.after) == lloyd
        assert step.empty == oracle.empty_clusters(points, before)
        assert {i for g in step.duplicates for i in g} == {
            i for i, c in enumerate(before) if before.count(c) > 1
        }
        if parted is None and layer != lloyd:
            parted = t
            assert [j for j, *_ in tracks[0].differing] == [
                j for j in range(len(C)) if layer[j] != lloyd[j]
            ]
    assert tracks[0].parted == parted
    assert as_fractions(tracks[0].centers) == layer


@pytest.mark.parametrize("name", ["binary", "scalar"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_difference_has_a_reason_with_the_right_indices(seed: int, name: str) -> None:
    X, C = small_task(seed)
    (track,), steps = run(X, C, [name], 3)
    done = list(steps)
    if track.parted is None:
        assert track.reasons == []
        return
    step = done[track.parted - 1]
    differing = {j for j, *_ in track.differing}
    explained = {j for r in track.reasons for j in ({r["lloyd"]} ^ set(r["read_by"]))}
    explained |= {r["lloyd"] for r in track.reasons if r["kind"] in ("empty", "all_tied")}
    assert differing <= explained
    table = as_fractions(codes.code(name, len(C)).table)
    points, before = as_fractions(X), as_fractions(step.before)
    near = [oracle.nearest(x, before) for x in points]
    carried = [oracle.mean([table[j] for j in js]) for js in near]
    readers = [oracle.nearest(code, carried) for code in table]
    for reason in track.reasons:
        assert reason_text(reason).endswith(".")
        if reason["kind"] in ("empty", "all_tied"):
            assert reason["points"] == readers[reason["lloyd"]][: len(reason["points"])]
            assert (reason["lloyd"] in step.empty) == (reason["kind"] == "empty")
            assert [reason["lloyd"]] not in near
            continue
        same = [i for i, js in enumerate(near) if js == reason["centers"]]
        assert reason["points"] == same[:10]
        assert reason["count"] == len(same)
        assert reason["read_by"] == [j for j, read in enumerate(readers) if same[0] in read]
        equal = len({tuple(before[j]) for j in reason["centers"]}) == 1
        assert reason["kind"] == ("duplicate" if equal else "tie")


def test_the_smallest_counterexample_is_explained() -> None:
    table = Table(np.array([[0.0], [2.0], [1.0]]), "three points")
    found = audit(table, Options(k=2))
    (track,) = found["exact"]["codes"]
    assert (track["equal"], track["parts_at_step"], track["final_distance"]) == (False, 1, 0.5)
    (reason,) = track["reasons"]
    assert (reason["kind"], reason["points"], reason["centers"]) == ("tie", [2], [0, 1])
    assert (reason["lloyd"], reason["read_by"]) == (0, [])
    (row,) = track["differing_centers"]
    assert row == {"center": 0, "distance": 0.5, "lloyd": [0.5], "transformer": [0.0]}


def test_the_scalar_code_hands_a_tied_point_to_another_cluster() -> None:
    X = rational_array(np.array([[0, 0], [2, 0], [-2, 0], [0, 9]]))
    C = rational_array(np.array([[2, 0], [0, 10], [-2, 0]]))
    (track,), steps = run(X, C, ["scalar"], 1)
    list(steps)
    (reason,) = track.reasons
    assert (reason["points"], reason["centers"], reason["read_by"]) == ([0], [0, 2], [1])
    assert reason_text(reason).endswith("which center 1 reads.")


def test_integers_beyond_2_to_the_53_are_exact(tmp_path: Path) -> None:
    big = 2**53
    table = read_table(written(tmp_path, f"a\n{big + 1}\n{big}\n{big + 3}\n"))
    found = audit(table, Options(k=2, steps=1))
    assert found["exact"]["steps"][0]["margin"] == {"exact": "1", "value": 1.0}
    assert found["exact"]["steps"][0]["float64"]["undecided"] == 3


def test_decimals_are_the_stored_float64(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "0.1,-.5e1\n2,3\n"))
    assert table.values.dtype == np.float64
    assert Fraction(table.values[0, 0]) == Fraction(0.1) != Fraction("0.1")
    assert table.values[0, 1] == -5


# Floating point ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TYPES))
@pytest.mark.parametrize("seed", range(20))
def test_what_floats_get_wrong_was_announced(seed: int, name: str) -> None:
    """Points a few roundings away from the plane between two centers."""
    draw = np.random.default_rng(seed)
    unit = float(np.finfo(TYPES[name]).eps)
    C = draw.normal(size=(2, 3)) + 10 ** draw.uniform(0, 3)
    along = draw.normal(size=(300, 3))
    axis = (C[1] - C[0]) / np.linalg.norm(C[1] - C[0])
    flat = along - (along @ axis)[:, None] * axis
    X = C.mean(axis=0) + flat + axis * unit * draw.normal(size=(300, 1)) * np.abs(C).max()
    exact_x, exact_c = rational_array(X), rational_array(C)
    found = survey(exact_x, exact_c)
    seen = decide(points_in(exact_x, name), exact_c, found)
    assert seen.problem is None
    assert set(seen.wrong) <= set(seen.undecided)
    assert len(seen.undecided) > 0
    labels = lloyd_step(X.astype(TYPES[name]), C.astype(TYPES[name]), "keep").assignments
    exact = [oracle.nearest(x, as_fractions(exact_c)) for x in as_fractions(exact_x)]
    wrong = [i for i, js in enumerate(exact) if len(js) == 1 and labels[i] != js[0]]
    assert seen.wrong == wrong


def test_some_assignments_really_go_wrong_in_float32() -> None:
    X = np.array([[1e4 + 1e-4], [1e4 - 1.0], [1e4 + 1.0]])
    C = np.array([[1e4 - 1.0], [1e4 + 1.0]])
    exact_x, exact_c = rational_array(X), rational_array(C)
    seen = decide(points_in(exact_x, "float32"), exact_c, survey(exact_x, exact_c))
    assert seen.undecided == seen.wrong == [0]


@pytest.mark.parametrize("name", finite.CODES)
@pytest.mark.parametrize("seed", range(6))
def test_certificates_hold_for_the_layer_as_computed(seed: int, name: str) -> None:
    X, C = blobs(seed)
    _, steps = run(X, C, [], 1)
    step = next(steps)
    points = {kind: points_in(X, kind) for kind in TYPES}
    decided = {kind: decide(points[kind], C, step.found) for kind in TYPES}
    ready = finite.certifiable(step, points, decided)
    assert isinstance(ready, finite.Certifiable)
    for epsilon in (0.5, 1e-2):
        result = finite.certify(name, [ready], epsilon, None, points, True)
        assert math.isfinite(result.gamma)
        for kind in TYPES:
            gamma = result.sure[kind]
            assert math.isfinite(gamma)
            assert gamma >= result.gamma * (1 - 1e-6)
            measured = finite.measure(result.code, step, gamma, points[kind])
            assert isinstance(measured, float)
            assert measured <= epsilon
        for factor in (1.0, 1.1, 2.0, 10.0, 1e3):
            assert error_bound(ready.geometry, result.code, factor * result.gamma) <= epsilon


def test_a_certificate_is_monotone_from_where_it_is_given() -> None:
    """Tight clusters in wide data: the bound is small, rises, and falls for good."""
    X = np.array([[0.0], [1e-9], [1e-3], [1e-3 + 1e-9]])
    g = geometry(X, X[[0, 2]])
    code = codes.binary(2)
    for epsilon in (2e-3, 1e-4, 1e-12):
        gamma = sufficient_inverse_temperature(g, code, epsilon)
        bounds = [error_bound(g, code, gamma * 1.2**i) for i in range(60)]
        assert max(bounds) <= epsilon


def test_no_certificate_at_ties_and_empty_clusters() -> None:
    tied = np.array([[0.0], [1.0], [2.0]])
    assert geometry(tied, tied[[0, 2]]).margin <= 0
    assert sufficient_inverse_temperature(geometry(tied, tied[[0, 2]]), codes.binary(2), 1) == (
        math.inf
    )
    empty = geometry(tied[:2], np.array([[0.0], [9.0]]))
    assert error_bound(empty, codes.binary(2), 1e6) == math.inf


def test_a_rounded_tie_is_no_margin() -> None:
    X = np.array([[0.1], [0.2], [0.3]])  # 0.2 is as far from 0.1 as from 0.3, but for rounding
    assert geometry(X, X[[0, 2]]).margin <= 0


def test_a_given_inverse_temperature_is_evaluated_at_its_worst_step() -> None:
    found = audit(read_dataset("wine"), Options(k=3, gamma=1e-3))
    row = found["finite"]["codes"][0]
    assert row["at_gamma"] == 1e-3
    assert row["float64"]["measured"] <= row["bound"] or row["bound"] == "infinity"
    assert row["float64"]["certified_at"] == "infinity"


# Temperatures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1e-6, 0.01, 0.3, 1.0, 7.0, 1e5])
def test_the_sorted_entmax_is_the_entmax_of_the_core(temperature: float) -> None:
    draw = np.random.default_rng(0)
    excess = np.sort(draw.exponential(size=(200, 6)) * draw.integers(0, 2, size=(200, 6)), axis=1)
    excess -= excess[:, :1]
    ours = gaps.entmax15_gap(excess, temperature)
    core = surrogate_gap(excess, temperature, 1.5)
    assert np.allclose(ours, core, rtol=1e-9, atol=1e-12 * temperature)


@pytest.mark.parametrize(
    ("name", "k", "value"),
    [
        ("NE", 6, 0.81455),
        ("L2", 6, 0.20833),
        ("1.5-entmax", 2, 0.18330),
        ("1.5-entmax", 25, 0.57191),
        ("1.5-entmax", 100, 0.66627),
        ("NE", 1, 0.0),
    ],
)
def test_worst_gaps(name: str, k: int, value: float) -> None:
    assert gaps.worst_gap(name, k) == pytest.approx(value, abs=6e-6)


@pytest.mark.parametrize("name", list(gaps.REGULARIZERS))
def test_gaps_are_those_of_the_core_and_below_their_cap(name: str) -> None:
    draw = np.random.default_rng(1)
    r = draw.exponential(size=(500, 7))
    data = gaps.gaps(r - r.min(axis=1, keepdims=True), float(r.min(axis=1).sum()))
    for tau in (1e-3, 0.05, 1.0, 50.0):
        core = float(surrogate_gap(r, tau, gaps.REGULARIZERS[name]).sum())
        assert data.total(tau, name) == pytest.approx(core, rel=1e-9, abs=1e-12)
        assert data.total(tau, name) <= data.cap(tau, name) * (1 + 1e-12)
        assert data.total(tau, name) <= data.largest * (1 + 1e-12)


@pytest.mark.parametrize("name", list(gaps.REGULARIZERS))
@pytest.mark.parametrize("share", [1e-6, 0.01, 0.5])
def test_the_safe_temperature_is_safe_and_nearly_the_largest(name: str, share: float) -> None:
    draw = np.random.default_rng(2)
    r = draw.exponential(size=(300, 5))
    data = gaps.gaps(r - r.min(axis=1, keepdims=True), float(r.min(axis=1).sum()))
    safe = gaps.safe_temperature(data, name, share)
    assert 0 < data.total(safe, name) <= share * data.objective < data.total(1.02 * safe, name)
    assert gaps.safe_temperature(data, name, 1e9) == math.inf


def test_no_objective_no_relative_gap() -> None:
    found = audit(Table(np.array([[0.0], [1.0]]), "two"), Options(k=2))
    part = found["temperature"]["final"]
    assert part["objective"] == 0
    assert {row["relative"] for row in part["gaps"]} == {None}
    assert {row["tau"] for row in part["safe"]} == {None}


# Starting ---------------------------------------------------------------------------------------


def test_a_common_scale_keeps_every_assignment_and_per_dimension_does_not() -> None:
    table = Table(np.array([[0.0, 0.0], [1.0, 10.0], [1.0, 1.0]]), "three points")
    labels = {}
    for scale in ("none", "common", "per-dimension"):
        task = start(table, 2, "first-k", 0, scale)
        labels[scale] = survey(task.X, task.C).assignments.tolist()
        if scale != "none":
            assert (task.X.min(), task.X.max()) == (0, 1)
    assert labels["none"] == labels["common"] == [0, 1, 0]
    assert labels["per-dimension"] == [0, 1, 1]


@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_drawn_centers_are_points_and_follow_the_seed(init: str) -> None:
    table = read_dataset("iris")
    tasks = [start(table, 5, init, seed, "none") for seed in (0, 0, 1)]
    assert tasks[0].indices == tasks[1].indices != tasks[2].indices
    assert (tasks[0].X[tasks[0].indices] == tasks[0].C).all()
    assert len({tuple(row) for row in tasks[0].C.tolist()}) == 5


def test_centers_from_a_file_move_with_the_scale(tmp_path: Path) -> None:
    table = Table(np.array([[0.0], [4.0], [8.0]]), "three points")
    task = start(table, 2, str(written(tmp_path, "4\n8\n")), 0, "common")
    assert [str(v) for v in task.C[:, 0]] == ["1/2", "1"]


# Bad input --------------------------------------------------------------------------------------

ARRAYS: dict[str, tuple[Any, str]] = {
    "nan": (np.array([[1, np.nan], [2, 3]]), "row 0, column 1"),
    "inf": (np.array([[1, 2], [-np.inf, 3]]), "-inf"),
    "complex": (np.array([[1j, 2]]), "complex numbers"),
    "text": (np.array([["a", "b"]]), "text"),
    "boolean": (np.array([[True, False]]), "booleans"),
    "flat": (np.arange(5.0), "shape (5,)"),
    "cube": (np.zeros((2, 2, 2)), "shape (2, 2, 2)"),
    "no rows": (np.zeros((0, 3)), "empty"),
    "no columns": (np.zeros((3, 0)), "empty"),
    "objects": (np.array([[1, "a"]], dtype=object), "pickle"),
    "structured": (np.zeros(3, dtype=[("a", float)]), "structured"),
    "dates": (np.zeros((3, 1), dtype="datetime64[s]"), "datetime64"),
    "few distinct": (np.array([[1.0], [1.0], [1.0]]), "1 distinct"),
    "too few": (np.array([[1.0]]), "-k 2 is more than the n = 1"),
}
TEXTS = {
    "x,y\n1,2\n3\n": "line 3",
    "x,y\n1,2\n\n3,4,5\n": "line 4",
    "1,2\n3,abc\n": "line 2, column 2: 'abc'",
    "1,a\n2,3\n": "line 1, column 2: 'a'",
    "4,2\n3,nan\n": "line 2, column 2",
    "1,2\n3,-Infinity\n": "line 2, column 2: -Infinity",
    "4,2\n3,\n": "1 value is missing, in line 2, column 2",
    "4,2\n,\n": "2 values are missing, the first in line 2, column 1",
    "1,5\n2,5\n": "--delimiter , or --decimal ,",
    "0\t1\n5\t3\n4\t2\n": "Say --header or --no-header",
    "a,b\n": "no line of numbers",
    "\n\n": "no line of numbers",
    "1e400,1\n2,3\n": "beyond the range of float64",
    "1e-400,1\n2,3\n": "float64 would make it",
    '"1,2\n3,4\n': "not a CSV file",
    "1_000,2\n1,2.5\n": "'1_000' is not a number",
    "٣,2\n1,2.5\n": "is not a number",
    "1" * 5000 + ",1.5\n1,2\n": "4300 digits",
    "": "is empty",
}


@pytest.mark.parametrize("name", list(ARRAYS))
def test_bad_arrays(
    name: str, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    values, message = ARRAYS[name]
    refused([saved(tmp_path, values), "-k", "2"], message, monkeypatch, capsys)


@pytest.mark.parametrize("text", list(TEXTS), ids=lambda t: repr(t[:12]))
def test_bad_csv(
    text: str, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    refused([written(tmp_path, text), "-k", "2"], TEXTS[text], monkeypatch, capsys)


def test_bad_files(tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "two.npz", a=np.eye(3), b=np.eye(4))
    np.savez(tmp_path / "none.npz")
    (tmp_path / "latin.csv").write_bytes(b"\xe9,b\n1,2\n")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 broken")
    (tmp_path / "zero.npy").write_bytes(b"")
    whole = saved(tmp_path, np.eye(9)).read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-8])
    ok = written(tmp_path, "x,y\n1,2\n3,4\n5,6\n", "ok.csv")
    for arguments, message in (
        ([tmp_path / "two.npz"], "several arrays; choose one with --array: a, b"),
        ([tmp_path / "two.npz", "--array", "c"], "no array 'c'"),
        ([tmp_path / "none.npz"], "no array"),
        ([ok, "--array", "a"], "is for .npz"),
        ([tmp_path / "latin.csv"], "not UTF-8"),
        ([tmp_path / "broken.npz"], "damaged"),
        ([tmp_path / "cut.npy"], "damaged"),
        ([tmp_path / "zero.npy"], "is empty"),
        ([tmp_path / "missing.csv"], "no such file"),
        ([tmp_path], "is a folder"),
    ):
        refused([*arguments, "-k", "2"], message, monkeypatch, capsys)


def test_unreadable_file(
    tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "1,2\n3,4\n")

    def forbidden(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)
    refused([path, "-k", "2"], "cannot be read: Permission denied", monkeypatch, capsys)


def test_bad_options(tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ok = written(tmp_path, "x,y\n1,2\n3,4\n5,6\n", "ok.csv")
    wide = written(tmp_path, "1,2,3\n4,5,6\n", "wide.csv")
    huge = saved(tmp_path, np.array([[1e300], [-2e300], [0.0]]), "huge.npy")
    two = ["-k", "2"]
    for arguments, message in (
        ([ok], "say how many clusters"),
        (two, "nothing to audit"),
        ([ok, *two, "--dataset", "iris"], "exclude each other"),
        (["--dataset", "flowers", *two], "unknown data set 'flowers'; allowed: iris"),
        (["--dataset", "iris", "--array", "a", *two], "--array"),
        ([ok, "-k", "0"], "allowed: 1 <= k <= n = 3"),
        ([ok, "-k", "-2"], "allowed: 1 <= k <= n = 3"),
        ([ok, "-k", "4"], "more than the n = 3"),
        ([ok, *two, "--init", wide], "has shape (2, 3); needed: (2, 2)"),
        ([ok, *two, "--init", ok], "has shape (3, 2); needed: (2, 2)"),
        ([ok, *two, "--init", "best"], "allowed: first-k, random, k-means++"),
        ([ok, *two, "--init", "best.csv"], "--init best.csv: no such file"),
        ([huge, *two, "--init", "k-means++"], "float64"),
        ([ok, *two, "--code", "hot"], "--code hot: unknown; allowed: binary"),
        ([ok, *two, "--code", "circle"], "not rational"),
        ([ok, *two, "--code", "none"], "unknown"),
        ([ok, *two, "--tau", "0"], "--tau 0"),
        ([ok, *two, "--tau", "-1"], "--tau -1"),
        ([ok, *two, "--tau", "inf"], "--tau inf"),
        ([ok, *two, "--gamma", "0"], "--gamma 0"),
        ([ok, *two, "--gamma", "nan"], "--gamma nan"),
        ([ok, *two, "--epsilon", "-0.1"], "--epsilon -0.1"),
        ([ok, *two, "--steps", "0"], "--steps 0"),
        ([ok, *two, "--seed", "-1"], "--seed -1"),
        ([ok, *two, "--scale", "minmax"], "allowed: none, common, per-dimension"),
        ([ok, *two, "--figure", tmp_path / "x.pdf"], ".svg, .png"),
        ([ok, *two, "--figure", tmp_path / "no" / "x.svg"], "there is no folder"),
        ([ok, *two, "--out", tmp_path / "no" / "x.json"], "there is no folder"),
        ([ok, *two, "--out", tmp_path], "is a folder"),
    ):
        refused(arguments, message, monkeypatch, capsys)
    assert {p.name for p in tmp_path.iterdir()} == {"ok.csv", "wide.csv", "huge.npy"}


def refused(
    arguments: list[Any], message: str, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error, nothing on standard output, exit code 2."""
    code, out, err = run_main(arguments, monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert err.startswith("leanlloyd: ")
    assert err.count("\n") == 1
    assert message in err


def test_all_reading_errors_are_command_errors(tmp_path: Path) -> None:
    with pytest.raises(CommandError):
        read_table(tmp_path)


# Output -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (np.array([[1e300], [2e300], [-1e300], [-2.5e300]]), Options(k=2)),
        (np.array([[1e-200], [2e-200], [-1e-200]]), Options(k=2)),
        (np.array([[1e30], [2e30], [-1e30]]), Options(k=2)),
        (np.array([[1.0, 1], [1, 1], [2, 2], [2, 2]]), Options(k=2)),
        (np.array([[1.0, 5], [2, 5], [9, 5]]), Options(k=1)),
        (np.array([[1.0, 5], [2, 5], [9, 5]]), Options(k=3, codes=("powers", "half"))),
        (np.array([[2**60, 1], [2**60 + 1, 1], [7, 1]]), Options(k=2, scale="per-dimension")),
        (np.array([[3, 1], [4, 1], [70, 1]], dtype=np.uint8), Options(k=2, gamma=1e9)),
        (np.arange(12, dtype=np.float16).reshape(6, 2) ** 2, Options(k=3, scale="common")),
        (np.array([[0, 0], [1, 1], [7, 7], [0, 9]]) + 0.1, Options(k=2, gamma=1e-9)),
    ],
    ids=["huge", "tiny", "large", "repeated", "one", "all", "wide", "bytes", "half", "soft"],
)
def test_odd_data_give_complete_reports(values: Any, options: Options, tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, values))
    found = audit(table, options)
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    assert found["conclusion"]
    assert all(len(line) <= 80 for line in render(found, 60).splitlines())
    assert draw(found, Path("x.svg")).startswith(b"<?xml")


def test_a_code_beyond_float64_has_no_certificate() -> None:
    X = np.arange(1030.0)[:, None]
    assert sufficient_inverse_temperature(geometry(X, X), codes.powers(1030), 1) == math.inf


def test_output_is_deterministic_and_the_same_everywhere(
    tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["--dataset", "iris", "-k", "3", "--init", "random", "--seed", "3", "--json"]
    seen = []
    for run_number in (1, 2):
        out, svg = tmp_path / f"{run_number}.json", tmp_path / f"{run_number}.svg"
        code, printed, err = run_main([*base, "--out", out, "--figure", svg], monkeypatch, capsys)
        assert (code, err) == (0, "")
        assert json.loads(printed) == json.loads(out.read_text(encoding="utf-8"))
        seen.append((printed, out.read_bytes(), svg.read_bytes()))
    assert seen[0] == seen[1]
    found = json.loads(seen[0][0])
    assert found["format"] == "leanlloyd-audit/1"
    assert list(found) == ["format", "conclusion", "data", "exact", "finite", "temperature"]
    assert len(found["exact"]["steps"]) == 5
    assert {row["code"] for row in found["finite"]["codes"]} == set(finite.CODES)
    assert len(found["temperature"]["final"]["gaps"]) == 9


def test_documented_fields_are_the_fields() -> None:
    """Every field of the JSON is named in docs/audit.md."""
    text = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    found = audit(Table(np.array([[0.0], [2.0], [1.0], [9.0]]), "x"), Options(k=2))

    def names(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*map(names, value.values()))
        return set().union(*map(names, value)) if isinstance(value, list) else set()

    missing = {name for name in names(found) if f"`{name}`" not in text}
    assert not missing


@pytest.mark.parametrize("name", DATASETS[:2])
@pytest.mark.parametrize("width", [80, 120])
def test_text_fits_and_starts_with_the_conclusion(name: str, width: int) -> None:
    found = audit(read_dataset(name), Options(k=3))
    lines = render(found, width).splitlines()
    assert max(map(len, lines)) <= width
    assert "Conclusion" in lines[:7]


def test_iris_from_its_first_points() -> None:
    """The decimals of one flower tie exactly; the stored float64 numbers do not."""
    found = audit(read_dataset("iris"), Options(k=3))
    first = found["exact"]["steps"][0]
    assert 0 < first["margin"]["value"] < 1e-15
    assert first["float64"]["first_undecided"] == [first["margin_point"]]
    X = [[Fraction(str(v)) for v in row] for row in read_dataset("iris").values.tolist()]
    assert oracle.tied_points(X, X[:3]) == [first["margin_point"]]
    assert found["exact"]["codes"][0]["equal"]
