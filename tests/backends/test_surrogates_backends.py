"""Surrogates on every array library: bit-equal where arithmetic is exact, else within bounds."""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch

from constructions import (
    rational_array,
    surrogate,
    surrogate_gap,
    surrogate_gradient,
    surrogate_weights,
    surrogates,
)
from constructions.arrays import checked
from constructions.rationals import as_fractions, to_numpy
from verify.arithmetic import ARITHMETICS, Arithmetic, gpu_required

FUNCTIONS = (surrogate, surrogate_gap, surrogate_weights, surrogate_gradient)
ALPHAS = (1, 1.25, 1.5, 2, 3)


def transposed(array: np.ndarray) -> Any:
    """A torch tensor that is not contiguous."""
    return torch.tensor(np.moveaxis(array, -1, 0).copy()).movedim(0, -1)


FLOATS = [a for a in ARITHMETICS if a.element in ("float32", "float64")]
WAYS: dict[str, tuple[Arithmetic, Any]] = {a.name: (a, a.place) for a in FLOATS}
for a in (a for a in FLOATS if a.library == "torch" and not a.gpu):
    WAYS[f"{a.name}, recorded"] = (a, partial(torch.tensor, requires_grad=True))
    WAYS[f"{a.name}, transposed"] = (a, transposed)


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest) -> tuple[Arithmetic, Any]:
    arithmetic, put = WAYS[request.param]
    if arithmetic.why_not and arithmetic.gpu and gpu_required():
        pytest.fail(f"{arithmetic.name} is required but not available: {arithmetic.why_not}")
    if arithmetic.why_not:
        pytest.skip(f"{arithmetic.name} is not available here: {arithmetic.why_not}")
    return arithmetic, put


@pytest.fixture
def put(way: tuple[Arithmetic, Any]) -> Any:
    return way[1]


@pytest.fixture
def dtype(way: tuple[Arithmetic, Any]) -> Any:
    return np.dtype(way[0].element).type


@cache
def dyadic(k: int) -> np.ndarray:
    """Vectors whose supports have 1, 2, 4, ... entries, so that all arithmetic is exact at
    temperature 1: P on the support is r = 1 - P there, and at least 1 elsewhere."""
    rng = np.random.default_rng(k)
    rows = []
    for size in (2**i for i in range(k.bit_length()) if 2**i <= k):
        for _ in range(6):
            p = np.zeros(k)
            p[:size] = rng.multinomial(64, np.ones(size) / size) / 64
            rows.append(rng.permutation(1 - p + (p == 0) * rng.integers(0, 3, k) / 8))
    return np.array(rows)


@pytest.mark.parametrize("k", [1, 2, 6, 8, 9, 33, 70])
def test_exact_arithmetic_gives_the_same_bits_everywhere(put, dtype, k):
    r = dyadic(k).astype(dtype)
    for function in FUNCTIONS:
        exact = np.asarray(function(rational_array(r), 1, "l2"))
        if function is surrogate_gradient:  # 1/s is exact only where the support has 2^i entries
            sizes = (np.asarray(surrogate_weights(rational_array(r), 1, "l2")) > 0).sum(-1)
            keep = (sizes & (sizes - 1)) == 0
        else:
            keep = np.ones(len(r), dtype=bool)
        found = function(put(r), 1, "l2")
        assert type(found) is type(put(r) * 1)
        assert to_numpy(found).dtype == dtype
        expected = np.vectorize(lambda v: dtype(float(Fraction(int(v.p), int(v.q)))))(exact)
        assert (to_numpy(found)[keep] == expected[keep]).all()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_libraries_agree_with_numpy_to_a_few_roundings(put, dtype, alpha):
    for shape, tau in (((7,), 0.3), ((2, 3, 12), 1e-40), ((4, 70), 0.1), ((0, 5), 1)):
        r = np.random.default_rng(0).random(shape).astype(dtype)
        for function in FUNCTIONS:
            one = to_numpy(function(put(r), tau, alpha))
            two = function(r, tau, alpha)
            assert one.shape == two.shape
            assert one.dtype == two.dtype == dtype
            limit = (shape[-1] + 6) * 2 * float(np.finfo(dtype).eps)
            assert np.abs(one - two).max(initial=0) <= limit


def test_the_inner_functions_are_those_of_the_library(put, dtype):
    """Without the blocks and the layout of the outer ones."""
    u = np.random.default_rng(1).random((3, 20)).astype(dtype)
    u -= u.min(axis=-1, keepdims=True)
    system, (array,) = checked(u=put(u))
    reference, _ = checked(u=u)
    for alpha in ALPHAS:
        p = surrogates.weights(array, alpha, system)
        q = surrogates.weights(u, alpha, reference)
        assert np.abs(to_numpy(p) - q).max() <= 26 * np.finfo(dtype).eps
        g = surrogates.gradient_from(array, p, alpha, system)
        assert np.abs(to_numpy(g).sum(-1) - 1).max() <= 60 * np.finfo(dtype).eps
    one = surrogates.sparsemax_threshold(array, system)
    two = surrogates.sparsemax_threshold(u, reference)
    assert one.shape == two.shape == (3, 1)
    assert np.abs(to_numpy(one) - two).max() <= 26 * np.finfo(dtype).eps


@pytest.mark.parametrize("kind", [None, Fraction])
def test_rationals_keep_their_kind(kind):
    r = rational_array([[0, Fraction(1, 3), 2], [1, 1, 1]], kind)
    scalar = type(r[0, 0])
    for function in FUNCTIONS:
        found = function(r, Fraction(3, 2), "l2")
        assert {type(v) for v in found.ravel()} == {scalar}
        assert type(function(r[0], 1, "l2")) in (scalar, np.ndarray)
    assert as_fractions(surrogate(r, 1, "l2")) == [Fraction(1, 9), 1]
