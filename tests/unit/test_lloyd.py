"""The Lloyd step against an oracle in fractions, scikit-learn, and the public reports of faults."""

from __future__ import annotations

from fractions import Fraction

import array_api_strict as strict
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from constructions import EmptyClusterError, InputError, lloyd_step, rational_array
from constructions.arrays import to_numpy
from constructions.rationals import as_fractions
from verify.claim import Case
from verify.oracles import clustering as oracle
from verify.strategies import SMALL, WIDE, instances

ANYTHING = st.one_of(
    instances(SMALL, max_d=2, max_n=9, free_centers=True),
    instances(SMALL, max_n=12),
    instances(WIDE, max_n=9, free_centers=True),
)


def column(*numbers, dtype=np.float64):
    return np.array(numbers, dtype=dtype)[:, None]


@given(ANYTHING, st.sampled_from([None, Fraction]))
@settings(max_examples=150)
@example(Case(X=[[0], [1], [2]], C=[[0], [2]], code="binary", steps=1), None)
def test_one_step_is_the_oracle_s_in_exact_rationals(case, kind):
    X, C = rational_array(case["X"], kind), rational_array(case["C"], kind)
    step = lloyd_step(X, C, empty="keep")
    rows = case["X"]
    assert as_fractions(step.centers) == oracle.lloyd(rows, case["C"])
    assert step.assignments.tolist() == [oracle.nearest(x, case["C"])[0] for x in rows]
    assert np.flatnonzero(step.tied_points).tolist() == oracle.tied_points(rows, case["C"])
    empty = oracle.empty_clusters(rows, case["C"])
    assert np.flatnonzero(step.empty_clusters).tolist() == empty
    if empty:
        with pytest.raises(EmptyClusterError) as caught:
            lloyd_step(X, C)
        assert caught.value.clusters == empty
    else:
        assert as_fractions(lloyd_step(X, C).centers) == as_fractions(step.centers)


@given(instances(SMALL, max_n=20, free_centers=True), st.sampled_from([np.float32, np.float64]))
def test_floats_are_exact_wherever_the_answer_is_representable(case, dtype):
    """Sums of small integers are exact and the one division rounds correctly, so the result is the
    float nearest to the exact answer."""
    X, C = (np.array(case[name], dtype=float).astype(dtype) for name in ("X", "C"))
    step = lloyd_step(X, C, empty="keep")
    want = [[dtype(float(u)) for u in row] for row in oracle.lloyd(case["X"], case["C"])]
    assert step.centers.tolist() == np.array(want).tolist()
    assert step.assignments.tolist() == [oracle.nearest(x, case["C"])[0] for x in case["X"]]


@pytest.mark.parametrize("seed", range(6))
def test_one_step_is_scikit_learn_s_away_from_ties(seed):
    rng = np.random.default_rng(seed)
    n, k, d = 200, int(rng.integers(2, 12)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d))
    C = X[rng.choice(n, k, replace=False)]
    step = lloyd_step(X, C)
    fitted = KMeans(k, init=C, n_init=1, max_iter=1, tol=0, algorithm="lloyd").fit(X)
    assert not step.tied_points.any()
    np.testing.assert_allclose(step.centers, fitted.cluster_centers_, atol=1e-13)


def test_the_tie_rule_is_the_lowest_index_everywhere():
    """Public case 33: libraries disagree about the index that argmin returns."""
    ties = [
        ([[0.0]], [[1], [-1], [2]], 0),
        ([[0.0]], [[3], [1], [-1]], 1),
        ([[5.0]], [[7]] * 16, 0),
        ([[0.0, 0.0]], [[9, 9], [3, 4], [5, 0], [0, -5]], 1),
    ]
    for make in (np.asarray, torch.tensor, strict.asarray, rational_array):
        for x, c, first in ties:
            X = make(np.array(x * 20))
            step = lloyd_step(X, make(np.array(c, dtype=float)), empty="keep")
            assert to_numpy(step.assignments).tolist() == [first] * 20
            assert to_numpy(step.tied_points).all()


def test_an_empty_cluster_is_named_or_kept():
    """Public cases 8 and 9: neither NaN, nor the origin, nor another number of centers."""
    X, C = column(0, 1, 6, 7), column(0, 6, 50)
    for make in (np.asarray, torch.tensor, strict.asarray, rational_array):
        with pytest.raises(EmptyClusterError, match=r"cluster 2 has no points.*empty='keep'") as e:
            lloyd_step(make(X), make(C))
        assert e.value.clusters == [2]
        kept = lloyd_step(make(X), make(C), empty="keep")
        assert as_fractions(kept.centers) == [[Fraction(1, 2)], [Fraction(13, 2)], [50]]
        assert to_numpy(kept.empty_clusters).tolist() == [False, False, True]
    kept = lloyd_step(column(10, 11, 20, 21), column(10, 20, 99), empty="keep")
    assert kept.centers.tolist() == [[10.5], [20.5], [99.0]]
    for policy in ("drop", None, ["keep"]):
        with pytest.raises(InputError, match="allowed: 'raise', 'keep'"):
            lloyd_step(X, C, empty=policy)


def test_fewer_distinct_points_than_clusters():
    """Public cases 10 and 19."""
    step = lloyd_step(column(2, 2, 2, 5), column(2, 2.5, 5), empty="keep")
    assert step.assignments.tolist() == [0, 0, 0, 2]
    assert step.centers.tolist() == [[2.0], [2.5], [5.0]]
    assert step.empty_clusters.tolist() == [False, True, False]
    points = np.arange(20.0)[:, None]
    drawn = np.random.default_rng(0).integers(0, 20, 16)
    assert len(set(drawn)) == 12
    step = lloyd_step(points, points[drawn], empty="keep")
    assert step.empty_clusters.sum() == 4  # every repeated center is reported, none is lost
    assert step.tied_points[drawn[4]] == (np.sum(drawn == drawn[4]) > 1)
    with pytest.raises(EmptyClusterError):
        lloyd_step(points, points[drawn])


def test_the_result_says_to_which_centers_its_labels_belong():
    """Public case 12: new centers beside the assignments to the old ones."""
    X = column(0, 1, 2, 10)
    step = lloyd_step(X, column(0, 1))
    assert step.centers.tolist() == [[0.0], [13 / 3]]
    assert step.assignments.tolist() == [0, 1, 1, 1]
    after = lloyd_step(X, step.centers)
    assert after.assignments.tolist() == [0, 0, 0, 1]
    loss = float(((X - step.centers[after.assignments]) ** 2).sum())
    assert abs(loss - 37 - 1 / 9) < 1e-13


def test_a_fixed_point_stays_fixed():
    """Public case 13, in every library, byte for byte."""
    X, C = column(0, 1, 10, 11), column(0.5, 10.5)
    for make in (np.array, torch.tensor, strict.asarray):
        points, centers = make(X), make(C)
        for _ in range(5):
            centers = lloyd_step(points, centers).centers
        assert to_numpy(centers).tobytes() == C.tobytes()
        assert to_numpy(points).tobytes() == X.tobytes()


def test_cancellation_and_permutation():
    """Public case 39: the float32 mean of this data is 0.25 or 0.5 by the order of summation."""
    for order in ([0, 1, 2, 3], [0, 2, 1, 3], [1, 0, 3, 2]):
        X = column(1e8, 1, -1e8, 1, dtype=np.float32)[order]
        for make in (np.asarray, torch.tensor, strict.asarray):
            center = lloyd_step(make(X), make(np.zeros((1, 1), "f4"))).centers
            assert float(center[0, 0]) == 0.5
    rng = np.random.default_rng(3)
    X = rng.standard_cauchy((300, 2))
    C, order = X[:5], rng.permutation(300)
    # n additions of numbers up to max |x|, and one division
    bound = 2 * 300 * 2.0**-53 * np.abs(X).max()
    gap = np.abs(lloyd_step(X, C).centers - lloyd_step(X[order], C).centers).max()
    assert gap <= bound


def test_labels_survive_translation_and_padding_far_away():
    """Public case 2."""
    X, C = np.float32([[100000.0]] * 2), np.float32([[100000.25], [99999.5]])
    for shift in (0, -100000, 4096):
        for pad in (0, 3):
            x, c = (np.pad(a + np.float32(shift), ((0, 0), (0, pad))) for a in (X, C))
            step = lloyd_step(x, c, empty="keep")
            assert step.assignments.tolist() == [0, 0]
            assert not step.tied_points.any()


def test_what_cannot_be_represented_is_refused_not_guessed():
    """Public case 7; the caller's own floating-point error handling does not matter."""
    top = np.finfo(np.float64).max
    cases = [
        (column(3e19, 0, dtype=np.float32), column(-1, 1, dtype=np.float32), "distance overflows"),
        (column(1, 3e20, 2, dtype=np.float32), column(1, 3e20, dtype=np.float32), "overflows"),
        (column(top, -top), column(-top, 1), "distance overflows"),
        (column(0, 1e-200), column(0, 1e-200), "distinct points underflows"),
        (column(0, 1e-25, dtype=np.float32), column(0, 1e-25, dtype=np.float32), "underflows"),
        (column(top, top), column(top), "sum of coordinates overflows"),
    ]
    for state in ("warn", "raise", "ignore"):
        with np.errstate(all=state):
            before = np.geterr()
            for X, C, says in cases:
                for make in (np.asarray, torch.tensor, strict.asarray):
                    with pytest.raises(InputError, match=f"{says}.*rescale all coordinates"):
                        lloyd_step(make(X), make(C), empty="keep")
            assert np.geterr() == before
    for X, C, _ in cases:  # exact rationals have no such limits
        step = lloyd_step(rational_array(X), rational_array(C), empty="keep")
        assert as_fractions(step.centers) == oracle.lloyd(as_fractions(X), as_fractions(C))
    big = column(3e38, 3e38, dtype=np.float32)
    assert (
        lloyd_step(big, big[:1]).centers.tolist() == big[:1].tolist()
    )  # the sum is beyond float32


@pytest.mark.parametrize("make", [np.asarray, torch.tensor, strict.asarray, rational_array])
def test_batches_in_front_are_a_loop(make):
    rng = np.random.default_rng(4)
    X, C = rng.integers(-3, 4, (2, 3, 9, 2)) * 0.5, rng.integers(-3, 4, (2, 3, 4, 2)) * 0.5
    step = lloyd_step(make(X), make(C), empty="keep")
    empty = []
    for place in np.ndindex(2, 3):
        alone = lloyd_step(make(X[place]), make(C[place]), empty="keep")
        for whole, part in zip(step, alone, strict=True):
            assert to_numpy(whole)[place].tolist() == to_numpy(part).tolist()
        empty += [(*place, int(j)) for j in np.flatnonzero(to_numpy(alone.empty_clusters))]
    assert empty
    with pytest.raises(EmptyClusterError) as caught:
        lloyd_step(make(X), make(C))
    assert caught.value.clusters == empty


def test_nothing_of_the_library_beyond_the_standard_is_used():
    """Without boolean indexing, shapes that depend on data, or the newest functions."""
    X, C = strict.asarray(column(0, 1, 6)), strict.asarray(column(0, 50))
    with strict.ArrayAPIStrictFlags(
        api_version="2022.12", boolean_indexing=False, data_dependent_shapes=False
    ):
        assert to_numpy(lloyd_step(X, C, empty="keep").assignments).tolist() == [0, 0, 0]
        with pytest.raises(EmptyClusterError, match="cluster 1"):
            lloyd_step(X, C)
        with pytest.raises(InputError, match=r"X\[1, 0\] is nan"):
            lloyd_step(strict.asarray([[0.0], [float("nan")]]), C)
