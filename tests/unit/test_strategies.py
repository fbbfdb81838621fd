"""Tests of the strategies themselves: they must hit the hard cases, and seldom be rejected."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings

from verify.claims.expressivity.thm_2_1 import CLAIM
from verify.oracles import clustering as oracle
from verify.strategies import (
    SMALL,
    WIDE,
    distances,
    grid_instances,
    growing_grids,
    instances,
)

QUIET = settings(
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)


def sample(strategy, count):
    """The first draws, without shrinking or targeting."""
    drawn = []

    @seed(0)
    @settings(QUIET, max_examples=count)
    @given(strategy)
    def keep(value):
        drawn.append(value)

    keep()
    return drawn


def share(cases, predicate):
    return sum(map(predicate, cases)) / len(cases)


def distinct(rows):
    return len(set(map(tuple, rows)))


def size(case):
    return len(case["X"]), len(case["C"])


def tied(case):
    return bool(oracle.tied_points(case["X"], case["C"]))


def empty(case):
    return bool(oracle.empty_clusters(case["X"], case["C"]))


def power_of_two(k):
    return k & (k - 1) == 0


@pytest.fixture(scope="module")
def wide():
    return sample(instances(), 120)


@pytest.fixture(scope="module")
def small():
    return sample(instances(SMALL), 120)


@pytest.fixture(scope="module")
def free():
    return sample(instances(SMALL, free_centers=True), 120)


def test_instances_are_instances(wide, small, free):
    for case in wide + small + free:
        (n, k), d = size(case), len(case["X"][0])
        assert 1 <= k <= n <= 24
        assert k <= 9
        assert 1 <= d <= 5
        assert 1 <= case["steps"] <= 5
        assert {len(row) for row in case["X"] + case["C"]} == {d}
    for case in wide + small:
        assert all(c in case["X"] for c in case["C"])
        assert not empty(case) or distinct(case["C"]) < len(case["C"])
    for case in wide:
        assert distinct(case["C"]) == len(case["C"])


def test_both_regimes_of_the_public_report_on_fill_values_occur(wide):
    """Public case 60e: repeated rows and general position, each on purpose."""
    assert 0.3 < share(wide, lambda c: distinct(c["X"]) < len(c["X"])) < 0.95
    assert share(wide, lambda c: distinct(c["X"]) == 1 < len(c["X"])) < 0.1


def test_hard_cases_are_common(wide, small, free):
    assert share(small, tied) > 0.05
    assert share(free, tied) > 0.3
    assert share(free, empty) > 0.3
    assert share(free, lambda c: distinct(c["C"]) < len(c["C"])) > 0.1
    for cases in (wide, small, free):
        assert share(cases, lambda c: not power_of_two(len(c["C"]))) > 0.3
        assert share(cases, lambda c: len(c["X"][0]) == 1) > 0.03
        assert share(cases, lambda c: len(c["X"]) > 12) > 0.2


def test_trivial_cases_occur_but_are_rare(wide, small, free):
    for trivial in (lambda c: size(c)[0] == size(c)[1], lambda c: size(c)[1] == 1):
        assert share(wide + small + free, trivial) > 0
        assert share(wide, trivial) < 0.2
    moved = [oracle.lloyd(c["X"], c["C"]) for c in wide]
    assert share(zip_list(wide, moved), lambda pair: pair[0]["C"] != pair[1]) > 0.6
    relabeled = [
        [oracle.nearest(x, a)[0] for x in case["X"]] != [oracle.nearest(x, b)[0] for x in case["X"]]
        for case, a, b in zip(wide, [c["C"] for c in wide], moved, strict=True)
    ]
    assert share(relabeled, bool) > 0.3  # the second step differs from the first


def zip_list(*lists):
    return list(zip(*lists, strict=True))


def test_few_cases_fail_the_hypotheses_of_theorem_2_1(wide):
    admitted = share(wide, lambda case: all(h.holds(case) for h in CLAIM.hypotheses))
    assert admitted > 0.9


@pytest.mark.parametrize(
    "wanted",
    [
        tied,
        empty,
        lambda c: distinct(c["X"]) < len(c["X"]),
        lambda c: len(c["C"]) == 7,
        lambda c: size(c)[0] == size(c)[1] == 5,
        lambda c: len(oracle.nearest(c["X"][0], c["C"])) >= 3,
        lambda c: tied(c) and not empty(c),
        lambda c: c["steps"] == 5 and len(c["X"][0]) == 5,
    ],
    ids=["tie", "empty", "duplicates", "k=7", "n=k", "three-way tie", "tie, none empty", "largest"],
)
def test_find_any(wanted):
    found = find(
        instances(SMALL, free_centers=True),
        wanted,
        settings=settings(QUIET, max_examples=1500, derandomize=True),
    )
    assert wanted(found)


def test_options_are_respected():
    tight = instances(codes=("gray", "half"), max_d=1, max_k=2, max_n=3, max_steps=1)
    for case in sample(tight, 40):
        assert case["code"] in ("gray", "half")
        assert len(case["C"]) <= 2
        assert len(case["X"]) <= 3
        assert (len(case["X"][0]), case["steps"]) == (1, 1)
    assert {c["code"] for c in sample(instances(codes=("gray", "half")), 40)} == {"gray", "half"}


def test_distances_sit_on_thresholds_and_repeat():
    cases = sample(distances(), 300)
    on_threshold, repeated_minimum, supports = 0, 0, set()
    for case in cases:
        r, tau = sorted(case["r"]), case["tau"]
        assert tau > 0
        assert 1 <= len(r) <= 8
        m = r.count(r[0])
        repeated_minimum += m > 1
        on_threshold += any(u - r[0] == tau / m for u in r)
        # the support of sparsemax, from its definition
        sizes = [j for j in range(1, len(r) + 1) if sum(r[j - 1] - u for u in r[:j]) < tau]
        supports.add(max(sizes))
    assert on_threshold / len(cases) > 0.1
    assert repeated_minimum / len(cases) > 0.1
    assert supports >= set(range(1, 7))


def test_wide_coordinates_are_in_general_position():
    values = sample(WIDE, 200)
    assert len(set(values)) > 100
    assert any(v.denominator == 7 for v in values)
    assert any(v < 0 for v in values)


def test_grids_hold_every_instance_once():
    cases = list(grid_instances(1, 3, 2, 2))
    multisets = list(itertools.combinations_with_replacement(range(3), 3))
    assert len(cases) == len(set(cases)) == len(multisets) * 3 * 2
    assert {tuple(x for (x,) in case["X"]) for case in cases} == set(multisets)
    with_repeats = list(grid_instances(1, 3, 2, 2, codes=("gray", "half"), distinct_centers=False))
    assert len(with_repeats) == len(set(with_repeats)) == len(multisets) * 9 * 2
    far = list(grid_instances(1, 1, 1, 0, centers_from=3))
    assert [case["C"] for case in far] == [[[Fraction(c)]] for c in range(4)]
    plane = list(grid_instances(2, 1, 1, 1))
    assert len(plane) == 16


def test_growing_grids_start_with_the_smallest():
    sizes = [(len(c["X"][0]), *size(c)) for c in growing_grids(2, 3, 2, 1)]
    cost = [d * (n + k) for d, n, k in sizes]
    assert cost == sorted(cost)
    assert set(sizes) == {(d, n, k) for d in (1, 2) for n in (1, 2, 3) for k in (1, 2) if k <= n}
