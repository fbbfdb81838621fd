"""Task distributions, the scaling into the unit cube, and what the claims about them rest on.

Statistical tests look at quantiles and distribution functions, never at moments: a sample mean of
Cauchy numbers does not settle. Seeds are fixed, so a test passes or fails for good; with a fresh
seed, each comparison would raise a false alarm with probability `ALARM`.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from fractions import Fraction

import array_api_strict
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from constructions import TaskDistribution, rational_array, scale_to_unit_cube
from constructions.errors import InputError
from constructions.rationals import as_fractions
from constructions.tasks import FAMILIES, SCALINGS, Draws, open_uniform, standard
from verify import claims, ledger
from verify.claim import PROFILES, Answer, Run
from verify.claims.surrogates import _task_gaps
from verify.claims.tasks import kmeans_invariance, tasks_unit_cube
from verify.oracles import partitions
from verify.search import Exhaustive

ALARM = 1e-4
STANDARD = {
    "normal": stats.norm,
    "cauchy": stats.cauchy,
    "gumbel": stats.gumbel_r,
    "laplace": stats.laplace,
    "lognormal": stats.norm,  # of the logarithm
}
LOWEST, HIGHEST = 2.0**-53, 1 - 2.0**-53
SUBNORMAL = 5e-324


# Sampling


@pytest.mark.parametrize("family", FAMILIES)
def test_the_noise_has_the_distribution_of_its_family(
    family: str, rng: np.random.Generator
) -> None:
    distribution = TaskDistribution(family, n=2000, d=2, k=4, scale=0.3, isotropic=False)
    draws = distribution.draw(rng, 5)
    X = distribution.assemble(draws)
    if family == "lognormal":
        X = np.log(X)
    task, component = np.indices(X.shape[:2])[0], distribution.components(draws)
    z = (X - draws.places[task, component]) / (0.3 * draws.widths[task, component])
    assert stats.kstest(z.ravel(), STANDARD[family].cdf).pvalue > ALARM


def test_uniform_draws_are_uniform(rng: np.random.Generator) -> None:
    draws = TaskDistribution("laplace", k=6, isotropic=False, equal_weights=False).draw(rng, 400)
    for name in ("places", "members", "noise", "widths", "shares"):
        assert stats.kstest(getattr(draws, name).ravel(), "uniform").pvalue > ALARM, name


@pytest.mark.parametrize("equal", [True, False])
def test_components_come_in_the_shares_that_were_drawn(
    equal: bool, rng: np.random.Generator
) -> None:
    distribution = TaskDistribution(n=5000, k=5, equal_weights=equal)
    draws = distribution.draw(rng, 4)
    components = distribution.components(draws)
    assert set(np.unique(components)) <= set(range(5))
    for b in range(4):
        shares = np.ones(5) if equal else draws.shares[b]
        counts = np.bincount(components[b], minlength=5)
        assert stats.chisquare(counts, 5000 * shares / shares.sum()).pvalue > ALARM


def test_a_single_component_takes_all_points(rng: np.random.Generator) -> None:
    distribution = TaskDistribution(n=7, k=1)
    assert not distribution.components(distribution.draw(rng, 3)).any()


@pytest.mark.parametrize("family", ["cauchy", "gumbel", "laplace"])
@pytest.mark.parametrize("u", [LOWEST, 1e-10, 0.3, 0.5 - 2**-53, 0.7, 1 - 2.0**-40, HIGHEST])
def test_quantiles_keep_their_digits_in_both_tails(family: str, u: float) -> None:
    with mpmath.workdps(60):
        p = mpmath.mpf(u)
        exact = {
            "cauchy": lambda: -mpmath.cot(mpmath.pi * p),
            "gumbel": lambda: -mpmath.log(-mpmath.log(p)),
            "laplace": lambda: mpmath.log(2 * p) if p < 0.5 else -mpmath.log(2 * (1 - p)),
        }[family]()
        got = float(standard(family, np.array([u]))[0])
        # near its zero a quantile has the absolute precision of its argument
        assert abs(got - exact) <= 8 * 2**-53 * max(abs(exact), 1)


def test_uniform_draws_cannot_reach_an_end() -> None:
    class Ends:
        def integers(self, high: int, size: tuple[int, ...]) -> np.ndarray:
            return np.array([0, high - 1])

    assert open_uniform(Ends(), (2,)).tolist() == [LOWEST, HIGHEST]
    for family in FAMILIES:
        assert np.all(np.isfinite(standard(family, np.array([LOWEST, 0.5, HIGHEST]))))


def test_sampling_is_a_function_of_the_seed() -> None:
    for family, scaling in itertools.product(FAMILIES, SCALINGS):
        distribution = TaskDistribution(family, n=40, d=3, k=5, scaling=scaling)
        first, again, other = (
            distribution.sample(np.random.default_rng(seed), 3) for seed in (1, 1, 2)
        )
        assert np.array_equal(first.X, again.X)
        assert np.array_equal(first.C, again.C)
        assert not np.array_equal(first.X, other.X)
        assert first.X.shape == (3, 40, 3)
        assert first.C.shape == (3, 5, 3)
        assert first.X.dtype == first.C.dtype == np.float64
        assert first.redraws.tolist() == [0, 0, 0]
        assert np.array_equal(first.C, first.X[:, :5])


def test_centers_can_be_changed_without_changing_points() -> None:
    tasks = TaskDistribution(n=10, k=3).sample(np.random.default_rng(0))
    before = tasks.X.copy()
    tasks.C[...] = 9
    assert np.array_equal(tasks.X, before)


def test_overflow_is_drawn_again_and_counted(rng: np.random.Generator) -> None:
    """exp(m + s z) overflows when s z > log(largest float) - m."""
    distribution = TaskDistribution("lognormal", n=1000, d=2, k=3, scale=1000.0)
    X, redraws = distribution.points(rng, 20)
    assert np.all(np.isfinite(X))
    kept, limit = X.size, math.log(sys.float_info.max)
    low, high = (stats.norm.sf((limit - m) / 1000) for m in (0.0, 1.0))
    count = int(redraws.sum())
    # each of the kept + count draws overflowed with a probability between low and high
    assert stats.binom.sf(count - 1, kept + count, high) > ALARM
    assert stats.binom.cdf(count, kept + count, low) > ALARM
    assert np.all(redraws > 0)


def test_other_libraries_assemble_the_same_points(rng: np.random.Generator) -> None:
    for family in FAMILIES:
        distribution = TaskDistribution(family, n=50, d=3, k=4, isotropic=False)
        draws = distribution.draw(rng, 2)
        fields = {name: value for name, value in vars(draws).items() if value is not None}
        X = distribution.assemble(draws)
        for convert in (torch.asarray, array_api_strict.asarray):
            moved = Draws(**{name: convert(value) for name, value in fields.items()})
            other = np.asarray(distribution.assemble(moved))
            if family == "normal":
                assert np.array_equal(other, X)
            else:  # a log, tan or exp of another library, and what it is added to
                assert np.all(np.abs(other - X) <= 8 * 2**-52 * np.maximum(np.abs(X), 1))


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"family": "student"}, "family"),
        ({"scaling": "global"}, "scaling"),
        ({"n": 5, "k": 6}, "n = 5"),
        ({"d": 0}, "d = 0"),
        ({"k": 0}, "k = 0"),
        ({"k": 2.0}, "k must be an integer"),
        ({"scale": 0.0}, "scale = 0"),
        ({"scale": math.nan}, "scale"),
        ({"scale": math.inf}, "scale"),
    ],
)
def test_parameters_are_checked_at_the_door(parameters: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        TaskDistribution(**parameters)


def test_sample_checks_its_arguments() -> None:
    with pytest.raises(InputError, match="numpy Generator"):
        TaskDistribution().sample(np.random.RandomState(0))
    with pytest.raises(InputError, match="batch = 0"):
        TaskDistribution().sample(np.random.default_rng(0), 0)


# Scaling


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([0.41, 3.63], [0, 1]),
        ([-4.72, -3.76], [0, 1]),
        ([7.0, 7.0, 7.0], [0, 0, 0]),
        ([0.0, 1e-15, 2e-15], [0, 0.5, 1]),
        ([0.0, SUBNORMAL, 2 * SUBNORMAL], [0, 0.5, 1]),
        ([-1.5e308, 1.5e308], [0, 1]),
        ([-1.5e308, 0.0, 1.5e308], [0, 0.5, 1]),
        ([1e16, 1e16 + 2], [0, 1]),
    ],
)
def test_one_coordinate_is_scaled_exactly(
    scaling: str, column: list[float], expected: list[float]
) -> None:
    assert (
        scale_to_unit_cube(np.array(column)[:, None], scaling=scaling).ravel().tolist() == expected
    )


def test_the_two_scalings_differ() -> None:
    X = np.array([[0.0, 5.0], [2.0, 5.0], [0.0, 9.0]])
    assert scale_to_unit_cube(X).tolist() == [[0, 0], [1, 0], [0, 1]]
    assert scale_to_unit_cube(X, scaling="common").tolist() == [[0, 0], [0.5, 0], [0, 1]]


def test_an_enormous_coordinate_leaves_the_others_alone() -> None:
    X = np.array([[-1.5e308, 3 * SUBNORMAL], [1.5e308, 0.0], [0.0, SUBNORMAL]])
    assert scale_to_unit_cube(X)[:, 1].tolist() == [1, 0, 1 / 3]
    assert scale_to_unit_cube(X, scaling="common")[:, 1].tolist() == [0, 0, 0]


def test_centers_outside_the_points_count() -> None:
    X, C = np.array([[0.0], [1.0]]), np.array([[4.0]])
    points, centers = scale_to_unit_cube(X, C)
    assert points.ravel().tolist() == [0, 0.25]
    assert centers.ravel().tolist() == [1]


def test_tasks_of_a_batch_do_not_touch_each_other(rng: np.random.Generator) -> None:
    X = rng.uniform(-1.7, 1.7, (3, 6, 2)) * np.array([1, 1e308, 1e-300])[:, None, None]
    for scaling in SCALINGS:
        batch = scale_to_unit_cube(X, scaling=scaling)
        for b in range(3):
            assert np.array_equal(batch[b], scale_to_unit_cube(X[b], scaling=scaling))


@given(
    st.lists(st.lists(st.integers(-6, 6), min_size=2, max_size=2), min_size=2, max_size=6),
    st.sampled_from(SCALINGS),
)
def test_rationals_agree_with_the_second_implementation(
    table: list[list[int]], scaling: str
) -> None:
    rows = [[Fraction(u, 3) for u in row] for row in table]
    got = scale_to_unit_cube(rational_array(rows), rational_array(rows[:1]), scaling)
    assert tuple(map(as_fractions, got)) == partitions.scaled(rows, rows[:1], scaling)


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), min_size=1, max_size=6),
    st.sampled_from(SCALINGS),
)
def test_floats_are_within_three_roundings_of_the_exact_result(
    table: list[list[float]], scaling: str
) -> None:
    """Two differences and a quotient: (1 + u)^2 / (1 - u) - 1 < 3.01 u, u = 2^-53, and half a unit
    of the smallest subnormal where the quotient underflows."""
    X = np.array(table)
    exact = as_fractions(scale_to_unit_cube(rational_array(X), scaling=scaling))
    got = as_fractions(scale_to_unit_cube(X, scaling=scaling))
    for a, b in zip(itertools.chain(*got), itertools.chain(*exact), strict=True):
        assert abs(a - b) <= Fraction(301, 100) * b / 2**53 + Fraction(1, 2**1075)


@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(SCALINGS),
)
def test_scaling_twice_is_scaling_once(table: list[list[float]], scaling: str) -> None:
    once = scale_to_unit_cube(np.array(table), scaling=scaling)
    assert np.array_equal(scale_to_unit_cube(once, scaling=scaling), once)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_libraries_agree_bit_for_bit(dtype: str, scaling: str, rng: np.random.Generator) -> None:
    X = (rng.standard_cauchy((4, 30, 3)) * 1e30).astype(dtype)
    X[0, 0, 0], X[0, 1, 0] = np.finfo(dtype).max, -np.finfo(dtype).max
    before = X.copy()
    want = scale_to_unit_cube(X, scaling=scaling)
    assert want.dtype == dtype
    assert want.min() == 0
    assert want.max() == 1
    for convert in (torch.asarray, array_api_strict.asarray):
        got = scale_to_unit_cube(convert(X), scaling=scaling)
        assert type(got) is type(convert(X))
        assert np.array_equal(np.asarray(got), want)
    assert np.array_equal(X, before)


@pytest.mark.parametrize(
    ("X", "word"),
    [
        (np.array([[1.0], [np.nan]]), "only finite"),
        (np.array([[1.0], [-np.inf]]), "only finite"),
        (np.array([1.0, 2.0]), "shape"),
        (np.zeros((0, 2)), "shape"),
        ([[1.0]], "array"),
    ],
)
def test_scaling_checks_its_arguments(X: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        scale_to_unit_cube(X)


# The claims: do they see a fault, and do they rest on sound helpers?


def _faults() -> dict[str, object]:
    def multiply_and_shift(X, C, scaling):
        low, high = X.min(axis=0), X.max(axis=0)
        with np.errstate(all="ignore"):
            factor = 1 / np.where(high > low, high - low, 1)
            return X * factor - low * factor, C * factor - low * factor

    def divide_by_zero(X, C, scaling):
        low = X.min(axis=0)
        with np.errstate(all="ignore"):
            return (X - low) / (X.max(axis=0) - low), (C - low) / (X.max(axis=0) - low)

    def other_centers(X, C, scaling):
        X, C = scale_to_unit_cube(X, C, scaling)
        return X, C / 2 + 0.25

    return {f.__name__: f for f in (multiply_and_shift, divide_by_zero, other_centers)}


@pytest.mark.parametrize("name", _faults())
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = claims.get("tasks-unit-cube")
    cases = list(tasks_unit_cube.degenerate(Run()))
    assert all(claim.judge(case)[0] is Answer.HOLDS for case in cases)
    monkeypatch.setattr(tasks_unit_cube, "scale_to_unit_cube", _faults()[name])
    assert any(claim.judge(case)[0] is Answer.VIOLATED for case in cases)


def test_the_smallest_counterexample_to_invariance_has_three_points() -> None:
    claim = claims.get("kmeans-invariance")
    found = {}
    for check in claim.checks:
        if isinstance(check, Exhaustive) and check.name in ("partition", "assignment"):
            found[check.name] = check.run(claim, Run()).counterexample
    assert found["partition"]["X"] == [[0, 0], [0, 2], [1, 1]]
    assert found["assignment"]["X"] == [[0, 0], [0, 1], [2, 0]]


def test_a_common_factor_is_not_mistaken_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the common factor fails when coordinates are stretched by different ones."""
    case = next(kmeans_invariance.known_example(Run()))
    stretched = type(case)(**{**case, "scaling": "per-dimension"})
    assert kmeans_invariance.equivariance(stretched).value > 0
    assert kmeans_invariance.equivariance(type(case)(**{**case, "scaling": "common"})).value == 0


@pytest.mark.parametrize(("n", "k", "count"), [(1, 1, 1), (3, 2, 4), (4, 4, 15), (6, 3, 122)])
def test_partitions_are_counted_by_stirling_numbers(n: int, k: int, count: int) -> None:
    found = partitions.partitions(n, k)
    assert len(set(found)) == len(found) == count
    as_sets = {frozenset(map(frozenset, _blocks(p))) for p in found}
    assert len(as_sets) == count


def _blocks(labels: tuple[int, ...]) -> list[list[int]]:
    return [[i for i, j in enumerate(labels) if j == label] for label in set(labels)]


def test_the_script_of_a_counterexample_runs_on_its_own() -> None:
    claim = claims.get("kmeans-invariance")
    case = next(kmeans_invariance.known_example(Run()))
    script = ledger.script_for(claim, case)
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    sections = done.stdout.split("scaling\n")
    assert "optimal partitions (0, 1, 0)" in sections[0]
    assert "optimal partitions (0, 1, 1)" in sections[1]
    assert "optimal partitions (0, 1, 0)" in sections[2]


@pytest.mark.parametrize("n", [15, 16, 50, 150, 1500])
def test_the_interval_of_a_median_has_its_level(n: int) -> None:
    """With values 1 ... n, the ends are ranks; the count below the median is binomial."""
    value, low, high = _task_gaps.median(np.arange(1, n + 1))
    assert value == (n + 1) / 2
    assert low + high == n + 1
    missed = 2 * stats.binom.cdf(low - 1, n, 0.5)
    assert missed <= (1 - _task_gaps.LEVEL) / 2
    assert 2 * stats.binom.cdf(low, n, 0.5) > (1 - _task_gaps.LEVEL) / 2


def test_too_few_tasks_have_no_interval() -> None:
    with pytest.raises(ValueError, match="too few"):
        _task_gaps.median(np.arange(5))


def test_gaps_are_those_of_a_plain_loop() -> None:
    found = _task_gaps.gaps("laplace", "common", 3, 11)
    rng = np.random.default_rng([11, FAMILIES.index("laplace")])
    X, C, _ = TaskDistribution("laplace", scaling="common").sample(rng, 3)
    for b in range(3):
        centers = C[b]
        for place in (_task_gaps.INITIAL, _task_gaps.GOOD):
            r = ((X[b][:, None] - centers) ** 2).sum(axis=-1)
            weights = np.exp(-r / 0.25)
            weights /= weights.sum(axis=-1, keepdims=True)
            at = found[place]
            least = np.sort(r.min(axis=-1))
            assert at.objective[b] == pytest.approx(least.sum(), rel=1e-12)
            assert at.outliers[b] == pytest.approx(least[-6:].sum() / least.sum(), rel=1e-12)
            gap = (weights * r).sum() - least.sum()
            assert at.gap["ne", 0.25][b] == pytest.approx(gap, rel=1e-10)
            assert at.limit[b] == pytest.approx((r.mean(axis=-1)).sum() - least.sum(), rel=1e-10)
            for _ in range(20):
                labels = ((X[b][:, None] - centers) ** 2).sum(axis=-1).argmin(axis=-1)
                centers = np.array([X[b][labels == j].mean(axis=0) for j in range(6)])


def test_the_cauchy_claim_is_decided_by_its_intervals() -> None:
    """A ratio counts as below 10 only when its whole interval is."""
    run = Run(PROFILES["smoke"])
    claim = claims.get("cauchy-gap")
    check = next(c for c in claim.checks if c.name == "as-stated")
    e = check.run(claim, run)
    (table,) = e.tables
    for row in table.rows:
        record = dict(zip(table.columns, row, strict=True))
        if record["at least 10"] is Answer.VIOLATED:
            assert record["high"] < 10
        assert record["low"] <= record["ratio"] <= record["high"]
    assert e.cases == len(table.rows) == 24
