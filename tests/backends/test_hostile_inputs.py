"""Hostile inputs, in every arithmetic: a right answer, or one clear error of the same words.

A result lives where its input lived, in the same library, on the same device, in the same type.
`device1` of array_api_strict stands in for a GPU: a forgotten `device=`, or a transfer to the host
that nobody asked for, is an error there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import torch
from array_api_compat import device as device_of

from constructions import (
    InputError,
    LloydTransformer,
    distance_attention,
    lloyd_step,
    scale_to_unit_cube,
    surrogate,
    surrogate_gap,
    surrogate_gradient,
    surrogate_weights,
)
from constructions.arrays import checked
from constructions.fast import FastTransformer
from constructions.tasks import Draws, TaskDistribution
from constructions.trainable import TrainableTransformer
from verify import arithmetic
from verify.arithmetic import Arithmetic

X = np.array([[0.0, 0.0], [1.0, 0.0], [4.0, 4.0], [5.0, 4.0]])
C = np.array([[0.0, 0.0], [5.0, 5.0]])

Call = Callable[[Any, Any], Any]
OF_TWO: dict[str, Call] = {
    "Lloyd step": lambda X, C: lloyd_step(X, C).centers,
    "assignments": lambda X, C: lloyd_step(X, C, empty="keep").assignments,
    "transformer": LloydTransformer(2, 2),
    "all matrices": lambda X, C: LloydTransformer(2, 2)(X, C, steps=2, literal=True),
    "tokens": lambda X, C: LloydTransformer(2, 2).embed(X, C)[0],
    "layer": lambda X, C: LloydTransformer(1, 2).layer(X, C)[1],
    "linear": LloydTransformer(2, 2, "one_hot", center_update="linear"),
    "hard attention": lambda X, C: distance_attention(X, C, C),
    "scaling": lambda X, C: scale_to_unit_cube(X, C)[0],
}
OF_TWO_FLOATS: dict[str, Call] = {
    "finite temperature": LloydTransformer(2, 2, inverse_temperature=3.0),
    "attention": lambda X, C: distance_attention(X, C, C, 3.0),
}
OF_ONE: dict[str, Callable[[Any], Any]] = {
    f.__name__: lambda r, f=f: f(r, 0.5, "l2")
    for f in (surrogate, surrogate_gap, surrogate_weights, surrogate_gradient)
}
OF_ONE_FLOAT: dict[str, Callable[[Any], Any]] = {
    f"{f.__name__} {alpha}": lambda r, f=f, alpha=alpha: f(r, 0.5, alpha)
    for f in (surrogate, surrogate_weights, surrogate_gradient)
    for alpha in ("ne", 1.5)
}


def calls(where: Arithmetic) -> Iterator[tuple[str, Call]]:
    """Every public operation, as a function of points and centers."""
    yield from OF_TWO.items()
    ones = dict(OF_ONE)
    if not where.exact:
        yield from OF_TWO_FLOATS.items()
        ones |= OF_ONE_FLOAT
    for name, call in ones.items():
        yield name, lambda X, C, call=call: call(X)


@pytest.fixture(params=[a.name for a in arithmetic.ARITHMETICS if not a.half])
def where(request: pytest.FixtureRequest) -> Arithmetic:
    used = arithmetic.get(request.param)
    if used.why_not and used.gpu and arithmetic.gpu_required():
        pytest.fail(f"{used.name} is required but not available: {used.why_not}")
    if used.why_not:
        pytest.skip(f"{used.name} is not available: {used.why_not}")
    return used


def place(where: Arithmetic, a: np.ndarray) -> Any:
    return where.put(a) if where.exact else where.place(a.astype(where.element))


def layouts(where: Arithmetic, a: np.ndarray) -> Iterator[tuple[str, Any]]:
    """The same numbers, in memory that is not a fresh C-ordered copy."""
    yield "transposed", place(where, a.T.copy()).T
    yield "every other row", place(where, np.repeat(a, 2, axis=0))[::2, :]
    yield "every third column", place(where, np.repeat(a, 3, axis=1))[:, ::3]
    yield "behind others", place(where, np.vstack([a, a]))[len(a) :, :]
    if where.library != "torch":
        yield "reversed", place(where, a[::-1].copy())[::-1, :]
        yield "reversed, by columns", place(where, a[::-1].T.copy()).T[::-1, :]
    if where.library == "numpy" or where.exact:
        fixed = place(where, a)
        fixed.flags.writeable = False
        yield "read-only", fixed
    if where.library == "numpy":
        array = place(where, a)
        yield "big-endian", array.astype(array.dtype.newbyteorder(">"))
        bytes_ = np.frombuffer(b"." + array.tobytes(), np.uint8)[1:]
        yield "unaligned", bytes_.view(array.dtype).reshape(a.shape)
    if where.library == "torch":
        tensor = place(where, a)
        yield "recorded", tensor.clone().requires_grad_()
        yield "parameter", torch.nn.Parameter(tensor.clone())
        yield "negative bit", torch._neg_view(-tensor)
        with torch.inference_mode():
            unrecorded = tensor.clone()
        yield "inference", unrecorded


def lives_like(result: Any, like: Any) -> None:
    """In the library and on the device of an input, and in its type if it has floats."""
    assert type(result) is type(like)
    assert str(device_of(result)) == str(device_of(like))
    if "int" not in str(result.dtype):
        assert result.dtype == like.dtype


def test_every_layout_gives_the_answer_of_a_plain_copy(where: Arithmetic) -> None:
    """Public cases 17 and 42."""
    plain = place(where, X), place(where, C)
    right = {name: call(*plain) for name, call in calls(where)}
    for (layout, points), (_, centers) in zip(layouts(where, X), layouts(where, C), strict=True):
        before = where.get(points).tobytes(), where.get(centers).tobytes()
        for name, call in calls(where):
            for pair in ((points, centers), (points, plain[1]), (plain[0], centers)):
                found = call(*pair)
                if where.exact and found.ndim == 0:
                    assert found == right[name]
                    continue
                lives_like(found.detach() if where.library == "torch" else found, plain[0])
                same = where.get(found) == where.get(right[name])
                assert np.all(same), (layout, name)
        if not where.exact:
            after = where.get(points).tobytes(), where.get(centers).tobytes()
            assert after == before, layout


HOSTILE = {
    "no points": (X[:0], C, "X has shape (0, 2): it is empty"),
    "no coordinates": (X[:, :0], C[:, :0], "it is empty"),
    "no centers": (X, C[:0], "C has shape (0, 2): it is empty"),
    "0-d": (np.array(1.0), C, "X has shape ()"),
    "1-d": (X[0], C[0], "a single coordinate is a column"),
    "other width": (X[:, :1], C, "X has 1 coordinates but C has 2"),
    "other batch": (X[None], C, "X has batch shape (1,) but C has ()"),
    "more centers than points": (X[:1], C, "k = 2 centers for n = 1 points"),
}
NOT_FINITE = {
    "nan": (np.where(X == 1, np.nan, X), C, "X[1, 0] is nan; only finite numbers are allowed"),
    "inf": (np.where(X == 1, np.inf, X), C, "X[1, 0] is inf"),
    "nan center": (X, np.where(C == 5, np.nan, C), "C[1, 0] is nan"),
}


def test_what_is_refused_is_refused_in_the_same_words(where: Arithmetic) -> None:
    """Public cases 16, 23 and 43."""
    twos = dict(OF_TWO) if where.exact else OF_TWO | OF_TWO_FLOATS
    for kind, (points, centers, words) in (HOSTILE | ({} if where.exact else NOT_FINITE)).items():
        x, c = place(where, points), place(where, centers)
        for name, call in twos.items():
            if "attention" in name and kind not in ("0-d", "1-d", "other width", *NOT_FINITE):
                continue  # keys and queries that a Lloyd step has no use for
            says = words
            if "attention" in name:
                says = words.replace("X[", "queries[").replace("C[", "keys[")
                says = says if kind in NOT_FINITE else "expected (..., m, p), (..., n, p) and"
            with pytest.raises(InputError) as caught:
                call(x, c)
            assert type(caught.value) is InputError
            assert says in str(caught.value), (kind, name)
            assert "\n" not in str(caught.value)
    for kind, r, words in (
        ("0-d", np.array(1.0), "r has shape (); expected (..., k) with k >= 1"),
        ("no entry", X[:, :0], "r has shape (4, 0)"),
        ("nan", X * np.nan, "r[0, 0] is nan"),
    ):
        for call in OF_ONE.values():
            if not (where.exact and kind == "nan"):
                with pytest.raises(InputError) as caught:
                    call(place(where, r))
                assert words in str(caught.value)
    with pytest.raises(InputError, match="with n >= 1"):
        distance_attention(place(where, X), place(where, C[:0]), place(where, C[:0]))
    # no rows are no error where there is nothing to decide
    empty = surrogate_weights(place(where, X[:0]), 1, "l2")
    lives_like(empty, place(where, X))
    assert empty.shape == (0, 2)
    nobody = distance_attention(place(where, X[:0]), place(where, C), place(where, C))
    lives_like(nobody, place(where, X))
    assert nobody.shape == (0, 2)


def test_other_element_types(where: Arithmetic) -> None:
    """Public cases 32 and 40: one declared type in all libraries; no half precision."""
    if where.exact:
        pytest.skip("rationals have one element type")
    single, double = (where.place(X.astype(t)) for t in ("float32", "float64"))
    whole = where.place(X.astype(np.int32))
    centers = {t: where.place(C.astype(t)) for t in ("float32", "float64", "int64")}
    for points, kind, wanted in (
        (single, "float64", double), (double, "float32", double),
        (whole, "float32", double), (whole, "int64", double), (single, "float32", single),
    ):  # fmt: skip
        for name, call in (OF_TWO | OF_TWO_FLOATS).items():
            found = call(points, centers[kind])
            lives_like(found, wanted)
            same = call(wanted, centers["float32" if wanted is single else "float64"])
            assert np.array_equal(where.get(found), where.get(same)), name
    for scalar in (np.float64(0.3), np.float32(0.3), 0.3):
        assert surrogate(single, scalar, "l2").dtype == single.dtype
        assert distance_attention(single, single, single, scalar).dtype == single.dtype
    refused = [where.place(X > 0)]
    if where.library != "array_api_strict":
        refused.append(where.place(X.astype(np.float16)))
    if where.library == "torch":
        refused += [double.bfloat16(), double.cfloat(), double.to_sparse(), double.to("meta")]
    for array in refused:
        for call in (OF_TWO | OF_TWO_FLOATS).values():
            with pytest.raises(InputError, match=r"element type|layout|no data"):
                call(array, centers["float64"])


def test_libraries_and_devices_do_not_mix() -> None:
    here, there = strict.asarray(X), strict.asarray(X, device=strict.Device("device1"))
    centers = strict.asarray(C)
    for call in (OF_TWO | OF_TWO_FLOATS).values():
        for points, words in ((there, "different devices"), (X, "different libraries"),
                              (torch.tensor(X), "different libraries")):  # fmt: skip
            with pytest.raises(InputError, match=words):
                call(points, centers)
        lives_like(call(here, centers), here)


def test_gradients_pass_and_are_finite_where_branches_are_not() -> None:
    """Public cases 5 and 6: a point on its center, and branches that are not taken."""
    for element in (torch.float32, torch.float64):
        points = torch.tensor(X, dtype=element, requires_grad=True)
        centers = torch.tensor(C, dtype=element, requires_grad=True)
        for call in (*OF_TWO.values(), *OF_TWO_FLOATS.values()):
            found = call(points, centers)
            if found.is_floating_point() and found.requires_grad:
                gradients = torch.autograd.grad(
                    found.sum(), (points, centers), allow_unused=True, materialize_grads=True
                )
                assert all(bool(g.isfinite().all()) for g in gradients)
        for call in (OF_ONE | OF_ONE_FLOAT).values():
            (gradient,) = torch.autograd.grad(call(points).sum(), points)
            assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("d", [1, 2, 3, 7, 17, 1536])
def test_small_and_odd_shapes(where: Arithmetic, d: int) -> None:
    """Public cases 18 and 38: every shape, and a batch is a loop, as all numbers are exact."""
    rng = np.random.default_rng(d)
    if where.exact and d > 17:
        pytest.skip("minutes of fractions that show nothing new")
    for k in (1, 2, 3, 17):
        points = rng.integers(-4, 5, (2, 2 * k, d)) / 2
        centers = points[:, rng.permutation(2 * k)[:k]]
        x, c = place(where, points), place(where, centers)
        both = lloyd_step(x, c, empty="keep")
        for b in (0, 1):
            one = lloyd_step(x[b, ...], c[b, ...], empty="keep")
            assert np.all(where.get(one.centers) == where.get(both.centers)[b])
            want = ((points[b, :, None] - centers[b, None]) ** 2).sum(-1).argmin(-1)
            assert where.get(one.assignments).tolist() == want.tolist()


def test_products_keep_all_digits(where: Arithmetic) -> None:
    """Public case 36: TF32 would make 2049.5 to 2050."""
    if where.exact:
        pytest.skip("softmax attention is not rational")
    one, value = place(where, np.array([[1.0]])), place(where, np.array([[2049.5]]))
    assert where.get(distance_attention(one, one, value, 1.0)).tolist() == [[2049.5]]
    assert where.get(distance_attention(one, one, value)).tolist() == [[2049.5]]


def test_tasks_from_hostile_draws() -> None:
    """Public case 44: drawn on the host by one generator, then moved; the same on any device."""
    distribution = TaskDistribution("gumbel", n=5, d=2, k=3, isotropic=False)
    drawn = distribution.draw(np.random.default_rng(0), 2)
    names = [name for name, value in vars(drawn).items() if value is not None]

    def moved(put: Any) -> Draws:
        return Draws(**{name: put(getattr(drawn, name)) for name in names})

    right = distribution.assemble(drawn)
    second = strict.Device("device1")
    for put in (
        lambda a: a.astype(">f8"),
        lambda a: np.asfortranarray(a)[::-1][::-1],
        torch.tensor,
        lambda a: strict.asarray(a, device=second),
    ):
        found = distribution.assemble(moved(put))
        lives_like(found, put(drawn.noise) * 1)
        assert np.allclose(arithmetic.get("numpy64").get(found), right, rtol=1e-14, atol=1e-14)
    for put, words in (
        (lambda a: a.tolist(), "must be an array"),
        (lambda a: a * np.nan, r"\[0, 0, 0\] is nan"),
        (lambda a: a[..., :1], "of shape"),
        (lambda a: torch.tensor(a) if a.ndim == 2 else a, "different libraries"),
    ):
        with pytest.raises(InputError, match=words):
            distribution.assemble(moved(put))
    for other in ({"n": 6}, {"isotropic": True}, {"equal_weights": False}):
        settings = {"n": 5, "isotropic": False, **other}
        with pytest.raises(InputError, match="the draws have"):
            TaskDistribution("gumbel", d=2, k=3, **settings).assemble(drawn)


def test_the_trainable_model_takes_tensors_of_one_kind() -> None:
    """All of one float type on one device. NaN passes: it is how a model diverges."""
    model = TrainableTransformer(2, 2)
    fast = FastTransformer(model)
    parameters = model.initial(torch.Generator().manual_seed(0))
    points, centers = torch.tensor(X), torch.tensor(C)
    right = model(parameters, points, centers)
    for layout, p, c in (
        ("transposed", torch.tensor(X.T.copy()).T, torch.tensor(C.T.copy()).T),
        (
            "strided",
            torch.tensor(np.repeat(X, 2, 0))[::2],
            torch.tensor(np.repeat(C, 3, 1))[:, ::3],
        ),
    ):
        assert torch.equal(model(parameters, p, c), right), layout
    hostile: list[tuple[Any, Any, Any, str]] = [
        (parameters, X, C, "must be a torch tensor"),
        (parameters, X.tolist(), centers, "must be a torch tensor"),
        (parameters, strict.asarray(X), centers, "must be a torch tensor"),
        (parameters, points.float(), centers, r"X has element type torch\.float32, but"),
        (parameters, points, centers.float(), r"C has element type torch\.float32, but"),
        (parameters, points.int(), centers.int(), "allowed: float types"),
        (parameters, points > 0, centers, "allowed: float types"),
        (parameters, points.cdouble(), centers, "allowed: float types"),
        (parameters, points.to_sparse(), centers, "layout"),
        (parameters, points.to("meta"), centers, "no data"),
        ({name: p.float() for name, p in parameters.items()}, points, centers, "convert one"),
        ({name: p.numpy() for name, p in parameters.items()}, points, centers, "torch tensor"),
        (None, points, centers, "tensors by name"),
        (parameters, points[:0], centers, "has shape"),
        (parameters, points[0, 0], centers, "has shape"),
        (parameters, points.expand(3, 4, 2), centers.expand(2, 2, 2), "do not broadcast"),
    ]
    for p, x, c, words in hostile:
        with pytest.raises(InputError, match=words):
            model(p, x, c)
    stacked = {name: p[None] for name, p in parameters.items()}
    for x, c, words in (
        (X[None, None], C[None, None], "must be a torch tensor"),
        (points[None, None].float(), centers[None, None], "convert one"),
        (points, centers, "expected"),
    ):
        with pytest.raises(InputError, match=words):
            fast(stacked, x, c)
    assert bool(model(parameters, points * math.nan, centers).isnan().all())


def test_memory_is_shared_where_it_can_be() -> None:
    """Public case 41: arrays enter without a copy, also from another library by DLPack."""
    array = np.arange(6.0).reshape(3, 2)
    tensor = torch.from_dlpack(array)
    assert tensor.data_ptr() == array.ctypes.data
    for entered, pointer in (
        (checked(a=array)[1][0], array.ctypes.data),
        (checked(a=np.from_dlpack(tensor))[1][0], array.ctypes.data),
    ):
        assert entered.ctypes.data == pointer
    assert checked(a=tensor)[1][0].data_ptr() == array.ctypes.data


@pytest.mark.parametrize("element", ["float32", "float64"])
def test_torch_and_cupy_hand_over_on_a_gpu(element: str) -> None:
    """Public case 41: by DLPack, without a copy, and ordered although each side has a stream of its
    own. No function of ours is needed: `from_dlpack` of both libraries orders the streams."""
    bits = element[-2:]
    for name in (f"torch-cuda{bits}", f"cupy{bits}"):
        why = arithmetic.get(name).why_not
        if why and arithmetic.gpu_required():
            pytest.fail(f"{name} is required but not available: {why}")
        if why:
            pytest.skip(f"{name} is not available: {why}")
    import cupy

    kind = getattr(torch, element)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # long enough that a reader who does not wait would see zeros
        tensor = torch.zeros(1 << 24, dtype=kind, device="cuda")
        for _ in range(64):
            tensor += 1
        with cupy.cuda.Stream(non_blocking=True):
            array = cupy.from_dlpack(tensor)
            assert array.data.ptr == tensor.data_ptr()
            assert float(array.min()) == float(array.max()) == 64
            array *= 2
            back = torch.from_dlpack(array)
            assert back.data_ptr() == tensor.data_ptr()
            assert bool((back == 128).all())
    points = torch.tensor(X, dtype=kind, device="cuda")
    centers = torch.tensor(C, dtype=kind, device="cuda")
    found = lloyd_step(cupy.from_dlpack(points), cupy.from_dlpack(centers)).centers
    assert torch.equal(torch.from_dlpack(found), lloyd_step(points, centers).centers)
    with pytest.raises(InputError, match="different libraries"):
        lloyd_step(points, cupy.from_dlpack(centers))
