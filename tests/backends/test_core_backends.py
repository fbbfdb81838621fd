"""One implementation, every array library: bit-equal where arithmetic is exact, else bounded.

With LEANLLOYD_REQUIRE_GPU set, a GPU that is missing is a failure instead of a skip.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from array_api_compat import device as device_of

from constructions import (
    EmptyClusterError,
    InputError,
    LloydTransformer,
    codes,
    lloyd_step,
    rational_array,
)
from constructions.rationals import as_fractions, to_numpy
from verify.arithmetic import ARITHMETICS, Arithmetic, gpu_required

FLOATS = [a for a in ARITHMETICS if a.element in ("float32", "float64")]


@pytest.fixture(params=FLOATS, ids=[a.name for a in FLOATS])
def backend(request: pytest.FixtureRequest) -> Arithmetic:
    reason = request.param.why_not
    if reason and request.param.gpu and gpu_required():
        pytest.fail(f"{request.param.name} is required but not available: {reason}")
    if reason:
        pytest.skip(f"{request.param.name} is not available here: {reason}")
    return request.param


@pytest.fixture
def dtype(backend: Arithmetic) -> Any:
    return np.dtype(backend.element).type


def dyadic_instances() -> list[tuple[np.ndarray, np.ndarray]]:
    """Multiples of 1/4 with many ties, duplicates and empty clusters; two of them in batches.
    Every sum is exact, and every division is the one rounding of its result."""
    rng = np.random.default_rng(0)
    out = []
    for n, k, d, spread, batch in (
        (3, 2, 1, 2, ()),
        (5, 1, 2, 4, ()),
        (40, 7, 3, 5, ()),
        (16, 16, 2, 6, ()),
        (600, 25, 17, 40, ()),
        (9, 4, 2, 2, (3,)),
        (12, 6, 1, 30, (2, 2)),
    ):
        X, C = (rng.integers(-spread, spread + 1, (*batch, m, d)) / 4 for m in (n, k))
        out.append((X, C))
        if not batch:
            out.append((X, X[rng.permutation(n)[:k]]))
    return out


@cache
def exact_answers() -> list[dict[str, Any]]:
    """The same computations in rationals, rounded once to each float type."""
    out = []
    for X, C in dyadic_instances():
        x, c = rational_array(X), rational_array(C)
        k, d = C.shape[-2:]
        step = lloyd_step(x, c, empty="keep")
        answers = {
            "centers": step.centers,
            "assignments": step.assignments,
            "tied_points": step.tied_points,
            "empty_clusters": step.empty_clusters,
            "model": LloydTransformer(d, k)(x, c),
            "tokens": LloydTransformer(d, k).layer(*LloydTransformer(d, k).embed(x, c))[0],
        }
        out.append(answers)
    return out


def rounded(array: Any, dtype: Any) -> Any:
    """The floats nearest to exact rationals; anything else as it is."""
    if array.dtype != object:
        return array
    return np.array([dtype(float(u)) for u in map(as_fractions, array.ravel())]).reshape(
        array.shape
    )


def three_way_tie(X: np.ndarray, C: np.ndarray) -> bool:
    """A point with three nearest centers carries thirds, which floats cannot hold."""
    r = ((X[..., :, None, :] - C[..., None, :, :]) ** 2).sum(-1)
    return bool(((r == r.min(-1, keepdims=True)).sum(-1) > 2).any())


def test_exact_inputs_give_the_rational_answer_bit_for_bit(backend: Arithmetic, dtype: Any) -> None:
    compared = 0
    for (X, C), exact in zip(dyadic_instances(), exact_answers(), strict=True):
        x, c = backend.place(X.astype(dtype)), backend.place(C.astype(dtype))
        before = to_numpy(x).tobytes(), to_numpy(c).tobytes()
        step = lloyd_step(x, c, empty="keep")
        got = step._asdict()
        k, d = C.shape[-2:]
        if not three_way_tie(X, C):
            model = LloydTransformer(d, k)
            got["model"] = model(x, c)
            got["tokens"] = model.layer(*model.embed(x, c))[0]
            if X.shape[-2] < 100:
                literal = to_numpy(model(x, c, literal=True))
                assert literal.tolist() == to_numpy(got["model"]).tolist()
            compared += 1
        for name, value in got.items():
            want = rounded(exact[name], dtype)
            assert type(value) is type(x), name
            assert str(device_of(value)) == str(device_of(x)), name
            assert to_numpy(value).dtype == want.dtype, name
            assert np.array_equal(to_numpy(value), want), name
        assert (to_numpy(x).tobytes(), to_numpy(c).tobytes()) == before
    assert compared >= 8


def test_several_steps_on_powers_of_two(backend: Arithmetic, dtype: Any) -> None:
    """Clusters of 1, 2 or 4 points keep everything dyadic, so five steps stay exact, in all codes,
    both ways to iterate, and in both center updates."""
    X = np.array([[0, 0], [2, 0], [10, 10], [12, 10], [10, 12], [12, 12], [40, 0]], dtype)
    C = np.array([[0, 0], [10, 10], [40, 0]], dtype)
    want = np.array([[1, 0], [11, 11], [40, 0]], dtype)
    x, c = backend.place(X), backend.place(C)
    for code in codes.NAMED:
        if code == "none":
            continue
        for update in ("distance", "linear") if code == "one_hot" else ("distance",):
            model = LloydTransformer(2, 3, code, center_update=update)
            for options in ({}, {"literal": True}, {"literal": True, "reembed": True}):
                got = model(x, c, steps=5, **options)
                assert type(got) is type(x)
                assert str(device_of(got)) == str(device_of(x))
                assert to_numpy(got).dtype == dtype
                assert np.array_equal(to_numpy(got), want), (code, update, options)


def test_finite_inverse_temperature_within_a_rounding_bound(
    backend: Arithmetic, dtype: Any
) -> None:
    """Against numpy float64. A score is off by some (d_emb + 4) rounding errors of the largest
    score S, a weight relatively by as much and by the sum's error; twice, through the codes."""
    rng = np.random.default_rng(1)
    eps = float(np.finfo(dtype).eps)
    for code in ("binary", "one_hot", "circle", "half"):
        for gamma in (0.1, 1.0, 20.0):
            X = rng.random((2, 30, 3)).astype(dtype)
            C = X[:, :5].copy()
            model = LloydTransformer(3, 5, code, gamma)
            want = model(X.astype(np.float64), C.astype(np.float64), steps=2, reembed=True)
            got = model(backend.place(X), backend.place(C), steps=2, reembed=True)
            assert to_numpy(got).dtype == dtype
            score = gamma * max(3.0, float(model.code.diameter)) / math.sqrt(model.d_emb)
            bound = eps * ((model.d_emb + 4) * score + 30) * (1 + score) * 4
            assert np.abs(to_numpy(got) - want).max() <= bound, (code, gamma)


def test_errors_are_the_same_everywhere(backend: Arithmetic, dtype: Any) -> None:
    def put(a: Any) -> Any:
        return backend.place(np.asarray(a, dtype))

    model = LloydTransformer(1, 2)
    linear = LloydTransformer(1, 2, "one_hot", center_update="linear")
    points, far = put([[0], [1], [2]]), put([[0], [9]])
    for call in (lloyd_step, linear, lambda X, C: linear(X, C, literal=True)):
        with pytest.raises(EmptyClusterError) as caught:
            call(points, far)
        assert caught.value.clusters == [1]
    huge, small = (3e19, 1e-20) if dtype is np.float32 else (1e200, 1e-200)
    for bad, centers, says in (
        ([[0], [math.nan]], [[0], [1]], r"X\[1, 0\] is nan"),
        ([[0], [-math.inf]], [[0], [1]], r"X\[1, 0\] is -inf"),
        ([[0], [huge]], [[0], [1]], "overflows"),
        ([[0], [small]], [[0], [small]], "underflows"),
        ([[0]], [[0], [1]], "k = 2 centers for n = 1 points"),
    ):
        for call in (lloyd_step, model):
            with pytest.raises(InputError, match=says):
                call(put(bad), put(centers))


def test_integers_become_float64(backend: Arithmetic) -> None:
    step = lloyd_step(backend.place(np.array([[0], [1], [7]])), backend.place(np.array([[0], [7]])))
    assert to_numpy(step.centers).dtype == np.float64
    assert to_numpy(step.centers).tolist() == [[0.5], [7.0]]
    with pytest.raises(InputError, match="float64 cannot hold integers from 2"):
        lloyd_step(backend.place(np.array([[2**53 + 1]])), backend.place(np.array([[0]])))


def test_the_ties_of_the_paper_s_statement(backend: Arithmetic) -> None:
    """X = {0, 1, 2}, C = (0, 2): the middle point is tied. Lloyd gives it to the first cluster,
    the binary code to none."""
    x, c = backend.place(np.array([[0.0], [1.0], [2.0]])), backend.place(np.array([[0.0], [2.0]]))
    assert to_numpy(lloyd_step(x, c).centers).tolist() == [[0.5], [2.0]]
    assert to_numpy(LloydTransformer(1, 2)(x, c)).tolist() == [[0.0], [2.0]]
    shared = LloydTransformer(1, 2, "one_hot", center_update="linear")(x, c)
    assert as_fractions(to_numpy(shared)) == [[Fraction(1 / 3)], [Fraction(5 / 3)]]
