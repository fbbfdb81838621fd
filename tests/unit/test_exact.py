"""The constructed transformer: three ways to compute it, and an oracle that knows none of them."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import array_api_strict as strict
import mpmath
import numpy as np
import pytest
import torch
from flint import fmpq
from hypothesis import example, given, settings
from hypothesis import strategies as st

from constructions import (
    EmptyClusterError,
    InputError,
    LloydTransformer,
    NotRationalError,
    codes,
    lloyd_step,
    rational_array,
)
from constructions.arrays import to_numpy
from constructions.rationals import as_fractions
from verify.claim import Case
from verify.oracles import clustering as oracle
from verify.strategies import SMALL, WIDE, instances

RATIONAL = ("binary", "one_hot", "scalar", "powers", "gray", "half")
EVERY = st.one_of(
    instances(SMALL, codes=RATIONAL, max_d=2, max_k=6, max_n=8, max_steps=3, free_centers=True),
    instances(WIDE, codes=RATIONAL, max_d=3, max_n=10, max_steps=3),
)
TIE = Case(X=[[0], [1], [2]], C=[[0], [2]], code="binary", steps=1)
EMPTY = Case(X=[[0], [1], [8], [9]], C=[[0], [8], [100]], code="scalar", steps=2)
DUPLICATES = Case(X=[[0], [1], [1], [5]], C=[[1], [1], [5]], code="one_hot", steps=3)


def table(name, k):
    return [[Fraction(u) for u in row] for row in codes.code(name, k).table.tolist()]


def model_of(case, **options):
    return LloydTransformer(len(case["X"][0]), len(case["C"]), case["code"], **options)


@given(EVERY)
@settings(max_examples=150)
@example(TIE)
@example(EMPTY)
@example(DUPLICATES)
def test_shortcut_literal_layer_and_oracle_agree_on_every_input(case):
    """Ties, duplicates and empty clusters included; iterated both ways."""
    X, C = rational_array(case["X"]), rational_array(case["C"])
    model, steps = model_of(case), case["steps"]
    want = oracle.transformer(case["X"], case["C"], table(case["code"], len(case["C"])), steps)
    assert as_fractions(model(X, C, steps=steps)) == want
    for reembed in (False, True):
        assert as_fractions(model(X, C, steps=steps, literal=True, reembed=reembed)) == want


@given(
    instances(SMALL, max_d=2, max_k=4, max_n=7, max_steps=3, free_centers=True),
    st.lists(st.sampled_from([0, 1, Fraction(1, 2)]), min_size=4, max_size=4),
)
def test_codes_that_repeat_are_computed_literally(case, entries):
    """The shortcut's proof needs distinct codes, so it must not be taken without them."""
    own = [[Fraction(entries[j])] for j in range(len(case["C"]))]
    X, C = rational_array(case["X"]), rational_array(case["C"])
    model = LloydTransformer(X.shape[1], C.shape[0], own)
    want = oracle.transformer(case["X"], case["C"], own, case["steps"])
    assert as_fractions(model(X, C, steps=case["steps"])) == want


@given(instances(SMALL, max_d=2, max_k=4, max_n=8, max_steps=3, free_centers=True))
@example(EMPTY)
def test_linear_one_hot_shares_tied_points_and_reports_zero_over_zero(case):
    X, C = rational_array(case["X"]), rational_array(case["C"])
    model = LloydTransformer(X.shape[1], C.shape[0], "one_hot", center_update="linear")
    want = oracle.linear_one_hot(case["X"], case["C"], case["steps"])
    for literal in (False, True):
        if want is None:
            with pytest.raises(EmptyClusterError, match="0/0"):
                model(X, C, steps=case["steps"], literal=literal)
        else:
            assert as_fractions(model(X, C, steps=case["steps"], literal=literal)) == want


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("code", ["binary", "one_hot", "circle", "powers"])
def test_without_ties_the_float_transformer_is_the_float_lloyd_step(code, dtype, rng):
    """Bit for bit: both average the same points in the same way. The literal layer erases exactly,
    but it multiplies wider matrices, so its sums may be made in another order."""
    for n, k, d in ((40, 6, 3), (30, 9, 1)):
        X = (rng.normal(size=(n, d)) + 1000).astype(dtype)
        model, want = LloydTransformer(d, k, code), X[:k]
        for _ in range(3):
            step = lloyd_step(X, want)
            assert not step.tied_points.any()
            want = step.centers
        assert np.array_equal(model(X, X[:k], steps=3), want)
        bound = 2 * n * 2.0**-53 * np.abs(X).max() + (
            np.spacing(want) if dtype == np.float32 else 0
        )
        for reembed in (False, True):
            literal = model(X, X[:k], steps=3, literal=True, reembed=reembed)
            assert (np.abs(literal - want) <= bound).all()


def soft_layer(X, C, code, gamma):
    """One layer at a finite inverse temperature from the formula, in 40 digits."""
    with mpmath.workdps(40):
        d, p = len(X[0]), len(code[0])
        sharpness = mpmath.mpf(gamma) / mpmath.sqrt(d + p)

        def attend(queries, keys, values):
            out = []
            for q in queries:
                scores = [
                    -sharpness * sum((a - b) ** 2 for a, b in zip(q, key, strict=True))
                    for key in keys
                ]
                w = [mpmath.exp(s - max(scores)) for s in scores]
                out.append(
                    [
                        sum(a * v[i] for a, v in zip(w, values, strict=True)) / sum(w)
                        for i in range(len(values[0]))
                    ]
                )
            return out

        X, C, code = ([[mpmath.mpf(u) for u in row] for row in t] for t in (X, C, code))
        Y = attend(X, C, code)  # the codes are zero at first, so self-attention adds nothing
        cross, own = attend(code, Y, X), attend(code, code, C)
        return [
            [float(c + a - b) for c, a, b in zip(*rows, strict=True)]
            for rows in zip(C, cross, own, strict=True)
        ]


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("code", ["binary", "one_hot", "circle", "scalar"])
def test_one_layer_at_a_finite_inverse_temperature_is_the_formula(code, gamma, rng):
    X = rng.random((9, 2))
    C = X[:5]
    model = LloydTransformer(2, 5, code, gamma)
    want = soft_layer(X.tolist(), C.tolist(), model.code.table.tolist(), gamma)
    # scores are at most gamma * max(2, diameter); each is off by some (p + 4) rounding errors,
    # and so are the weights relatively; values are at most 1, and the codes' error is passed on
    # once more through scores
    largest = gamma * max(2.0, float(model.code.diameter))
    bound = 2.0**-53 * (1 + largest) ** 2 * 100
    assert bound < 1e-4
    np.testing.assert_allclose(model(X, C), want, rtol=0, atol=bound)


def test_a_large_inverse_temperature_reaches_the_limit():
    """Public cases 20 and 21: any finite one, in any precision, up to the largest there is."""
    for dtype in (np.float32, np.float64):
        X = np.array([[0, 0], [1, 0], [4, 4], [5, 4]], dtype)
        C = np.array([[0, 0], [5, 5]], dtype)
        for gamma in (1e4, 3e38, 1e308, 10**300, Fraction(10**40, 3), fmpq(10) ** 30, math.inf):
            got = LloydTransformer(2, 2, inverse_temperature=gamma)(X, C)
            assert got.dtype == dtype
            assert got.tolist() == [[0.5, 0.0], [4.5, 4.0]], gamma
        flat = LloydTransformer(2, 2, inverse_temperature=5e-324)(X, C)
        assert np.array_equal(flat, C + X.mean(axis=0) - C.mean(axis=0))


def test_what_is_not_rational_says_so():
    X, C = rational_array([[0], [1]]), rational_array([[0]])
    with pytest.raises(NotRationalError, match=r"circle code is not rational.*use another code"):
        LloydTransformer(1, 1, "circle")(X, C)
    model = LloydTransformer(1, 1, inverse_temperature=Fraction(3, 2))
    for call in (model, model.layer):
        with pytest.raises(NotRationalError, match="use inverse_temperature = inf"):
            call(X, C)


@pytest.mark.parametrize("make", [np.asarray, torch.tensor, strict.asarray, rational_array])
def test_one_cluster_no_steps_and_batches(make):
    rng = np.random.default_rng(5)
    X, C = rng.integers(-3, 4, (2, 3, 7, 2)) * 0.5, rng.integers(-3, 4, (2, 3, 4, 2)) * 0.5
    for code in ("binary", "one_hot", "none"):  # public case 25: the binary code has width zero
        model = LloydTransformer(2, 1, code)
        for literal in (False, True):
            got = model(make(X[0, 0]), make(C[0, 0, :1]), literal=literal)
            mean = [sum(Fraction(u) for u in column) / 7 for column in X[0, 0].T.tolist()]
            if make is rational_array:
                assert as_fractions(got) == [mean]
            else:
                assert to_numpy(got).tolist() == [[float(u) for u in mean]]
    model = LloydTransformer(2, 4)
    for literal in (False, True):
        assert as_fractions(model(make(X), make(C), steps=0, literal=literal)) == as_fractions(C)
        whole = model(make(X), make(C), steps=2, literal=literal)
        for place in np.ndindex(2, 3):
            alone = model(make(X[place]), make(C[place]), steps=2, literal=literal)
            assert to_numpy(whole)[place].tolist() == to_numpy(alone).tolist()


def test_tokens_padded_with_zeros_leave_everything_as_it_was():
    """Public case 24: fused kernels want widths of 8; a wider model is fed the same tokens."""
    rng = np.random.default_rng(6)
    X, C = rng.integers(-9, 9, (12, 3)) * 0.25, rng.integers(-9, 9, (6, 3)) * 0.25
    want = LloydTransformer(3, 6)(X, C, steps=3)
    padded = [np.pad(a, ((0, 0), (0, 2))) for a in (X, C)]
    wide = LloydTransformer(5, 6, np.pad(codes.binary(6).table, ((0, 0), (0, 1))))
    assert wide.d_emb == 9
    for literal in (False, True):
        got = wide(*padded, steps=3, literal=literal)
        assert np.array_equal(got[:, :3], want)
        assert not got[:, 3:].any()


def test_the_layer_shows_its_tokens():
    X, C = rational_array([[0], [1], [6]]), rational_array([[0], [6], [7]])
    model = LloydTransformer(1, 3)
    points, centers = model.embed(X, C)
    assert as_fractions(points) == [[0, 0, 0], [1, 0, 0], [6, 0, 0]]
    assert as_fractions(centers) == [[0, 0, 0], [6, 1, 0], [7, 0, 1]]
    points, centers = model.layer(points, centers)
    assert as_fractions(points) == [[0, 0, 0], [1, 0, 0], [6, 1, 0]]
    # cluster 2 is empty: its code (0, 1) is nearest to code (0, 0), so it takes that mean
    assert as_fractions(centers) == [[Fraction(1, 2), 0, 0], [6, 1, 0], [Fraction(1, 2), 0, 1]]


def test_the_weights_are_twelve_square_integer_matrices_of_minus_one_zero_and_one():
    for name in codes.NAMED:
        model = LloydTransformer(3, 6, name)
        assert model.d_emb == 3 + codes.code(name, 6).width
        matrices = [m for module in model.matrices.values() for m in module]
        assert len(matrices) == 12
        for m in matrices:
            assert m.shape == (model.d_emb, model.d_emb)
            assert set(np.unique(m)) <= {-1, 0, 1}


def test_the_shortcut_never_holds_all_pairs_of_points():
    n, k, d = 20_000, 4, 2  # all pairs would be 3.2 GB
    X = np.random.default_rng(7).random((n, d))
    model = LloydTransformer(d, k)
    tracemalloc.start()
    model(X, X[:k], steps=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * 8 * n * k


def test_gradients_reach_points_and_centers():
    X = torch.tensor([[0.0], [1.0], [6.0], [8.0]], dtype=torch.float64, requires_grad=True)
    C = torch.tensor([[0.0], [6.0]], dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(LloydTransformer(1, 2)(X, C)[0, 0], X)
    assert grad.tolist() == [[0.5], [0.5], [0.0], [0.0]]
    soft = LloydTransformer(1, 2, inverse_temperature=0.5)
    assert torch.autograd.gradcheck(lambda x, c: soft(x, c, steps=2), (X, C))


def test_the_standard_alone_is_used_on_any_device():
    second = strict.Device("device1")
    X = strict.asarray([[0.0], [1.0], [6.0], [8.0]], device=second)
    C = strict.asarray([[0.0], [6.0]], device=second)
    with strict.ArrayAPIStrictFlags(
        api_version="2022.12", boolean_indexing=False, data_dependent_shapes=False
    ):
        for code in codes.NAMED:
            for gamma in (math.inf, 2.0):
                for update in ("distance", "linear") if code == "one_hot" else ("distance",):
                    model = LloydTransformer(1, 2, code, gamma, update)
                    for options in ({}, {"literal": True, "reembed": True}):
                        assert model(X, C, steps=2, **options).device == second
        model = LloydTransformer(1, 2, "one_hot", center_update="linear")
        with pytest.raises(EmptyClusterError, match="cluster 1"):
            model(X, strict.asarray([[0.0], [99.0]], device=second))


def test_models_and_calls_that_are_refused():
    X, C = np.zeros((4, 2)), np.zeros((2, 2))
    model = LloydTransformer(2, 2)
    for d, k, options, says in (
        (0, 2, {}, "d = 0 is out of range"),
        (2, 0, {}, "k = 0 is out of range"),
        (2.0, 2, {}, "d must be an integer"),
        (2, 2, {"inverse_temperature": 0}, "inverse_temperature = 0 is out of range"),
        (2, 2, {"inverse_temperature": math.nan}, "allowed: a positive number or inf"),
        (2, 2, {"inverse_temperature": "inf"}, "inverse_temperature must be a number"),
        (2, 2, {"inverse_temperature": 10**400}, "beyond every float; use inf"),
        (2, 2, {"center_update": "mean"}, "allowed: 'distance', 'linear'"),
    ):
        with pytest.raises(InputError, match=says):
            LloydTransformer(d, k, **options)
    for steps in (-1, 1.0, True, None):
        with pytest.raises(InputError, match="steps"):
            model(X, C, steps=steps)
    for points, centers in ((X, np.zeros((3, 2))), (np.zeros((4, 3)), np.zeros((2, 3)))):
        for call in (model, model.embed):
            with pytest.raises(InputError, match="this model is for k = 2 centers in d = 2"):
                call(points, centers)
    for tokens, centers in ((X, C), (np.zeros((4, 3)), np.zeros((3, 3)))):
        with pytest.raises(InputError, match="this model is for tokens of width 3, 2 of them"):
            model.layer(tokens, centers)
    with pytest.raises(InputError, match="overflows"):
        model(np.float32([[3e19, 0]] * 2), np.float32([[-1, 0], [1, 0]]))
    assert repr(model) == (
        "LloydTransformer(d=2, k=2, code='binary', inverse_temperature=inf, "
        "center_update='distance')"
    )
