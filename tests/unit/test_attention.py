"""Distances and attention weights, at the places where floating point goes wrong."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from constructions import InputError, NotRationalError, rational_array
from constructions.arrays import checked
from constructions.attention import (
    attend,
    attend_linear,
    nearest,
    softmax_weights,
    squared_distances,
)
from constructions.rationals import as_fractions

COORDINATES = st.one_of(
    st.integers(-3, 3).map(Fraction), st.builds(Fraction, st.integers(-99, 99), st.integers(1, 9))
)


def rows(max_rows=5, width=2):
    row = st.lists(COORDINATES, min_size=width, max_size=width)
    return st.lists(row, min_size=1, max_size=max_rows)


def distances(x, c):
    system, (x, c) = checked(x=np.asarray(x), c=np.asarray(c))
    return squared_distances(x, c, system)


def squared(p, q):
    return sum((u - v) ** 2 for u, v in zip(p, q, strict=True))


@given(rows(), rows())
def test_distances_and_nearest_keys_are_exact(queries, keys):
    want = [[squared(q, k) for k in keys] for q in queries]
    marks = [[r == min(row) for r in row] for row in want]
    for kind in (None, Fraction):
        system, (q, k) = checked(q=rational_array(queries, kind), k=rational_array(keys, kind))
        assert as_fractions(squared_distances(q, k, system)) == want
        assert nearest(q, k, system).tolist() == marks


@given(rows(4), rows(4, width=3), st.integers(1, 3))
def test_hard_attention_averages_over_all_nearest_keys(queries, keys, width):
    keys = [row[:2] for row in keys]
    values = [[r[0] + i, r[1] * i, r[0]][:width] for i, r in enumerate(keys)]
    system, (q, k, v) = checked(
        **{n: rational_array(a) for n, a in (("q", queries), ("k", keys), ("v", values))}
    )
    want = []
    for query in queries:
        r = [squared(query, key) for key in keys]
        chosen = [values[i] for i in range(len(keys)) if r[i] == min(r)]
        want.append([sum(column) / Fraction(len(chosen)) for column in zip(*chosen, strict=True)])
    assert as_fractions(attend(q, k, v, math.inf, system)) == want


def test_far_from_the_origin():
    """Public cases 2, 3 and 4: the expanded form loses every digit there."""
    x, c = np.float32([[100000.0]]), np.float32([[100000.25], [99999.5]])
    assert distances(x, c).tolist() == [[0.0625, 0.25]]
    q, keys = np.float32([[1000.3], [1000.6]]), np.float32([[1000.31], [1000.62]])
    assert distances(q, keys).argmin(axis=1).tolist() == [0, 1]
    x, c = np.float32([[-2.0002], [-1.9998], [1.9998], [2.0002]]), np.float32([[-2], [2]])
    inertia = distances(x, c).min(axis=1).astype(float).sum()
    exact = sum(min((Fraction(float(u)) - v) ** 2 for v in (-2, 2)) for u in x[:, 0])
    # four squares of exact differences in float32: each is off by half a unit in the last place
    assert abs(Fraction(inertia) - exact) <= exact * Fraction(1, 2**24) * Fraction(11, 10)
    assert 1.600e-7 < inertia < 1.601e-7


def test_the_number_of_rows_does_not_change_a_distance():
    """Public case 1: a library switched formulas above 25 rows."""
    x = np.random.default_rng(0).uniform(2000, 2001, (60, 3)).astype("f4")
    whole = distances(x, x)
    assert (np.diagonal(whole) == 0).all()
    for m in (1, 25, 26):
        assert np.array_equal(distances(x[:m], x[:m]), whole[:m, :m])


def test_zero_padding_and_translation_change_nothing():
    """Public cases 2 and 24, for coordinates that leave room in the mantissa."""
    rng = np.random.default_rng(1)
    x, c = (rng.integers(-512, 512, (m, 3)).astype("f4") / 64 for m in (40, 7))
    want = distances(x, c)
    for width in (1, 5):
        zeros = [np.zeros((len(a), width), "f4") for a in (x, c)]
        assert np.array_equal(distances(np.hstack([x, zeros[0]]), np.hstack([c, zeros[1]])), want)
    for shift in (0.5, -96.0, 65536.0):  # 65536 + 8 + 1/64 needs 23 bits
        assert np.array_equal(distances(x + np.float32(shift), c + np.float32(shift)), want)


@pytest.mark.parametrize("make", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_overflow_and_underflow_are_loud(make):
    """Public case 7, and its opposite: distinct points must never pass for a tie."""
    for dtype, huge, small in ((np.float32, 3e19, 1e-20), (np.float64, 1e155, 1e-165)):
        for x in ([[huge], [0]], [[3e38 if dtype == np.float32 else 1.7e308], [0]]):
            system, (a, b) = checked(a=make(dtype(x)), b=make(dtype([[-x[0][0]], [1]])))
            with pytest.raises(InputError, match="overflows"):
                squared_distances(a, b, system)
        system, (a, b) = checked(a=make(dtype([[0], [small]])), b=make(dtype([[0], [1]])))
        with pytest.raises(InputError, match="distinct points underflows"):
            squared_distances(a, b, system)
        assert float(squared_distances(a, a * 0, system, 1.0)[1, 0]) < 1e-37  # no tie to decide
        system, (a,) = checked(a=make(dtype([[small]])))
        assert float(squared_distances(a, a, system)[0, 0]) == 0.0  # equal points are no underflow


def test_underflow_is_decided_by_what_the_softmax_can_see():
    """At inverse temperature 3e38, distances of 1e-40 are scores of order one."""
    system, (a,) = checked(a=np.float32([[0.0], [1e-20]]))
    assert np.array_equal(attend(a, a, a, 1.0, system), np.float32([[5e-21], [5e-21]]))
    with pytest.raises(InputError, match="underflows"):
        attend(a, a, a, 3e38, system)


def test_gradients_are_finite_on_a_center():
    """Public case 5: centers are drawn from the points, so distances of zero are the rule."""
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    c = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    system, (a, b) = checked(a=x, b=c)
    squared_distances(a, b, system).sum().backward()
    assert x.grad.tolist() == [[-4.0, -4.0]]


def test_the_limit_of_the_softmax():
    """Public cases 20, 21 and 22."""
    system, (r,) = checked(r=np.array([0.0, 1.0, 4.0]))
    assert nearest(np.zeros((1, 1)), np.array([[0.0], [1.0], [2.0]]), system).tolist() == [
        [True, False, False]
    ]
    single, (r,) = checked(r=np.float32([2.0, 2.5]))
    for sharpness in (3e38, 1e308, math.inf):
        assert softmax_weights(r, sharpness, single).tolist() == [1.0, 0.0]
    system, (r,) = checked(r=np.array([0.1, 0.1 + 1e-7, 0.3]))
    weights = softmax_weights(r, 1e4, system)
    np.testing.assert_allclose(weights, [0.50025, 0.49975, 0], atol=1e-8)
    gap = r[1] - r[0]
    assert 1 - weights[0] <= 2 * math.exp(-1e4 * gap)
    assert softmax_weights(r, 5e-324, system).tolist() == [1 / 3] * 3
    equal = np.zeros((1, 4), "f4")
    assert softmax_weights(equal, 3e38, single).tolist() == [[0.25] * 4]


def test_soft_attention_approaches_hard_attention():
    rng = np.random.default_rng(2)
    system, (q, k, v) = checked(q=rng.random((6, 3)), k=rng.random((8, 3)), v=rng.random((8, 2)))
    hard = attend(q, k, v, math.inf, system)
    r = np.sort(squared_distances(q, k, system), axis=-1)
    margin = float((r[:, 1] - r[:, 0]).min())
    for gamma in (1e3, 1e5, 1e7):
        leak = 7 * math.exp(-gamma / math.sqrt(3) * margin)
        off = np.abs(attend(q, k, v, gamma, system) - hard).max()
        assert off <= leak + 8 * 8 * system.eps  # values are below 1; 8 keys are summed


def test_soft_attention_is_not_rational():
    system, (a,) = checked(a=rational_array([[1, 2]]))
    with pytest.raises(NotRationalError, match="use inverse_temperature = inf"):
        attend(a, a, a, 2, system)


def test_linear_attention_reports_a_query_without_weight():
    """Public case 23: no key has weight. 0/0 is for the caller to see."""
    system, (q, k, v) = checked(
        q=rational_array([[1, 0], [0, 1]]), k=rational_array([[2, 0]]), v=rational_array([[5]])
    )
    sums, totals = attend_linear(q, k, v, system)
    assert (as_fractions(sums), as_fractions(totals)) == ([[10], [0]], [[2], [0]])
