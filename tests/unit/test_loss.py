"""The loss under what watches a computation: torch.func, forward mode, torch.compile; and as a
module for training loops."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, hessian, jacrev, jvp, vmap

from constructions import (
    InputError,
    KMeansSurrogateLoss,
    LloydTransformer,
    surrogate,
    surrogate_gap,
    surrogate_gradient,
    surrogate_weights,
)
from constructions.fast import FastTransformer
from constructions.objective import smoothed_loss
from constructions.trainable import (
    TrainableTransformer,
    from_matrices,
    softmax,
    sparsemax,
    squared_distances,
)
from verify.oracles import clustering, surrogates

# torch scripts a table of its own when forward mode is first used
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

ROOT = Path(__file__).resolve().parents[2]
DOUBLE = torch.float64
FUNCTIONS = (surrogate, surrogate_gap, surrogate_weights, surrogate_gradient)
REGULARIZERS = ("ne", "l2", 1.5, 1.2, 3.0)


def rand(seed: int, *shape: int) -> Any:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def off(a: Any, b: Any) -> float:
    assert a.shape == b.shape
    return float((a - b).detach().abs().max()) / (1 + float(b.detach().abs().max()))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 20),
    tau=st.sampled_from([0.1, 1.0]),
    regularizer=st.sampled_from(REGULARIZERS),
    function=st.sampled_from(FUNCTIONS[:3]),
)
def test_transforms_find_what_autograd_finds(
    seed: int, k: int, tau: float, regularizer: Any, function: Any
) -> None:
    r, direction, t = rand(seed, 4, k), rand(seed + 1, k), rand(seed + 2, 4, k)
    value = partial(function, temperature=tau, regularizer=regularizer)

    def total(r: Any) -> Any:
        found = value(r)
        return (found * (direction if found.ndim == r.ndim else 1)).sum()

    x = r.clone().requires_grad_()
    (slope,) = torch.autograd.grad(total(x), x, create_graph=True)
    curved = (slope * t).sum()
    # k = 1 and the weights of one center are constants
    second = torch.zeros_like(r)
    if curved.requires_grad:
        (second,) = torch.autograd.grad(curved, x)
    tolerance = 1e-9  # a weight near 0 has a steep slope at exponent 3
    assert off(vmap(value)(r), value(r)) < 1e-14
    assert off(grad(total)(r), slope) < tolerance
    assert off(vmap(grad(total))(r), slope) < tolerance
    assert off(jacrev(total)(r), slope) < tolerance
    assert off(jvp(total, (r,), (t,))[1], (slope * t).sum()) < tolerance
    assert off((hessian(total)(r) * t).sum((2, 3)), second) < tolerance
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(r, t)
        tangent = torch.autograd.forward_ad.unpack_dual(total(dual)).tangent
    assert off(tangent, (slope * t).sum()) < tolerance


@pytest.mark.parametrize("tau", [1e-300, 1e-40, 1e40, 1e300])
@pytest.mark.parametrize("regularizer", ["ne", "l2", 1.5])
def test_temperatures_that_float32_cannot_hold(tau: float, regularizer: Any) -> None:
    r = rand(0, 5, 4).float() * 1e-3
    want = surrogate_weights(r, tau, regularizer)
    assert off(vmap(lambda r: surrogate_weights(r, tau, regularizer))(r), want) < 1e-6


def test_of_weights_that_are_not_smooth_the_inner_side_is_taken() -> None:
    """A second entry exactly tau above the first is outside of the support."""
    r = torch.tensor([0.0, 1.0], dtype=DOUBLE)
    assert grad(lambda r: surrogate(r, 1.0, "l2"))(r).tolist() == [1.0, 0.0]
    assert grad(lambda r: sparsemax(-r)[0])(r).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("regularizer", ["ne", "l2", 1.5])
def test_everything_compiles_without_a_break(backend: str, regularizer: Any) -> None:
    r = rand(0, 6, 5)
    for function in FUNCTIONS if regularizer == "l2" else FUNCTIONS[:1]:
        torch._dynamo.reset()
        plain = partial(function, temperature=0.3, regularizer=regularizer)
        compiled = torch.compile(lambda r, f=plain: f(r), backend=backend, fullgraph=True)
        x, y = r.clone().requires_grad_(), r.clone().requires_grad_()
        a, b = compiled(x), plain(y)
        assert off(a, b) < 1e-14
        slopes = (torch.autograd.grad((v * v).sum(), z)[0] for v, z in ((a, x), (b, y)))
        assert off(*slopes) < 1e-11
    torch._dynamo.reset()
    loss = KMeansSurrogateLoss(0.1, regularizer)
    X, C = rand(1, 2, 9, 3), rand(2, 2, 4, 3).requires_grad_()
    a, b = torch.compile(loss, backend=backend, fullgraph=True)(X, C), loss(X, C)
    assert off(a, b) < 1e-14
    assert off(*(torch.autograd.grad(v.sum(), C)[0] for v in (a, b))) < 1e-12
    torch._dynamo.reset()


@pytest.mark.parametrize("regularizer", ["ne", "l2", 1.5])
def test_the_loss_of_a_batch_and_its_derivatives(regularizer: Any) -> None:
    """In the points as well; initial centers are points, where expanded squares round below 0."""
    loss = KMeansSurrogateLoss(0.1, regularizer)
    X = rand(0, 3, 8, 2)
    C = X[:, :3] + 0.01
    want = surrogate(((X[:, :, None] - C[:, None]) ** 2).sum(-1), 0.1, regularizer).mean(-1)
    assert off(loss(X, C), want) < 1e-14
    assert off(loss(X + 1e6, C + 1e6), want) < 1e-9
    assert off(loss(X[0], C), torch.stack([loss(X[0], c) for c in C])) < 1e-14
    x, c = X.clone().requires_grad_(), C.clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (x, c))
    assert torch.autograd.gradgradcheck(loss, (x, c))
    due = torch.autograd.grad(loss(x, c).sum(), (x, c))
    found = grad(lambda x, c: loss(x, c).sum(), (0, 1))(X, C)
    assert max(map(off, found, due)) < 1e-13
    assert off(vmap(loss)(X, C), want) < 1e-14
    on_points = hessian(lambda c: loss(X[0], c))(X[0, :3])
    near = hessian(lambda c: loss(X[0], c))(X[0, :3] + 1e-9)
    if regularizer != "l2":
        assert off(on_points, near) < 1e-5


def test_the_training_objective_of_many_models_under_transforms() -> None:
    X, C, tau = rand(0, 3, 2, 2, 9), rand(1, 3, 2, 2, 4), torch.tensor([0.1, 0.2, 1.0])
    names = ("ne", "l2", 1.5)
    c = C.clone().requires_grad_()
    value = smoothed_loss(X, c, tau, names)
    (due,) = torch.autograd.grad(value.sum(), c)
    assert off(grad(lambda c: smoothed_loss(X, c, tau, names).sum())(C), due) < 1e-13
    model = TrainableTransformer(2, 3)
    parameters = model.initial(torch.Generator().manual_seed(0))
    X, C = rand(2, 4, 6, 2), rand(3, 4, 3, 2)
    each = vmap(grad(model.loss), (None, 0, 0, None, None))(parameters, X, C, 0.1, "l2")
    one = grad(model.loss)(parameters, X[1], C[1], 0.1, "l2")
    assert off(each["centers_from_points.value"][1], one["centers_from_points.value"]) < 1e-13


def test_what_the_loss_refuses() -> None:
    X = rand(0, 4, 2)
    for tau in (0, -1.0, float("nan"), "a"):
        with pytest.raises(InputError, match="temperature"):
            KMeansSurrogateLoss(tau)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="regularizer = 'l3' is not known"):
        KMeansSurrogateLoss(0.1, "l3")
    loss = KMeansSurrogateLoss(0.1)
    assert str(loss) == "KMeansSurrogateLoss(temperature=0.1, regularizer='l2')"
    with pytest.raises(InputError, match="the same d"):
        loss(X, X[:, :1])
    with pytest.raises(InputError, match=r"C has shape \(2,\)"):
        loss(X, X[0])
    with pytest.raises(InputError, match="float16"):
        loss(X.half(), X.half())
    with pytest.raises(InputError, match="must be a torch tensor"):
        loss(np.zeros((3, 2)), X)
    with pytest.raises(InputError, match=r"expected \(..., k\)"):
        vmap(lambda r: surrogate(r, 1.0, "l2"))(torch.zeros(3, 0))


def test_the_training_loop_of_the_docs_learns(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "loss.md").read_text("utf-8"), re.S
    )
    for block in blocks:
        exec(block, {})
    before, after = map(float, capsys.readouterr().out.split()[:2])
    assert after < 0.5 * before


# --- every function of scores depends on their differences only ----------------------------------


@settings(max_examples=80)
@given(
    small=st.lists(st.integers(-24, 24), min_size=1, max_size=9),
    offset=st.sampled_from([0, 1, -1000, 2**20, -(2**21)]),
    scale=st.sampled_from([1, 4, 1024, 2**40, 2**100]),
    dtype=st.sampled_from([torch.float32, DOUBLE]),
)
def test_sparsemax_at_offsets_and_scales(
    small: list[int], offset: int, scale: int, dtype: Any
) -> None:
    """Scores that both types hold exactly, against rationals."""
    scores = [Fraction(offset * 8 + s, 8) * scale for s in small]
    held = torch.tensor([float(s) for s in scores], dtype=dtype)
    scores = [Fraction(float(v)) for v in held]  # what the type holds
    want = surrogates.sparsemax([-s for s in scores], Fraction(1))
    eps = torch.finfo(dtype).eps
    assert (
        max(abs(float(f) - float(w)) for f, w in zip(sparsemax(held), want, strict=True)) < 16 * eps
    )
    base = max(scores)
    exact = np.exp([float(s - base) for s in scores])
    assert off(softmax(held).double(), torch.tensor(exact / exact.sum())) < 64 * eps


def test_scores_without_a_unit_left() -> None:
    assert sparsemax(torch.tensor([[1e8, 1e8 + 8, 1e8]])).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("attention", ["softmax", "sparsemax"])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize(("gamma", "origin"), [(1e6, 0), (1e8, 0), (1e18, 0), (1e6, 1000)])
def test_the_plain_model_is_right_where_the_fast_one_is(
    gamma: float, origin: int, dtype: Any, attention: str
) -> None:
    rng = np.random.default_rng(7)
    X = rng.integers(0, 1024, (64, 2)) / 1024 + origin
    C = X[:3]
    want = clustering.lloyd(*([[Fraction(float(v)) for v in row] for row in a] for a in (X, C)))
    model = TrainableTransformer(
        2, 3, "binary", inverse_temperature=gamma, bias=False, attention=attention
    )
    built = from_matrices(LloydTransformer(2, 3, "binary").matrices)
    parameters = {name: p.to(dtype) for name, p in built.items()}
    points, centers = (torch.tensor(a, dtype=dtype) for a in (X, C))
    allowed = 16 * torch.finfo(dtype).eps * (1 + origin)
    expected = torch.tensor([[float(v) for v in row] for row in want], dtype=DOUBLE)
    plain = model(parameters, points, centers)
    assert float((plain.double() - expected).abs().max()) < allowed
    fast = FastTransformer(model)(
        {name: p[None] for name, p in parameters.items()}, points[None, None], centers[None, None]
    )
    assert float((fast[0, 0].double() - expected).abs().max()) < allowed


def test_distances_far_from_the_origin() -> None:
    x = torch.tensor([[32768.0, 0.0625], [32768.0625, 0.0]])
    assert squared_distances(x, x).tolist() == [[0, 2 * 0.0625**2], [2 * 0.0625**2, 0]]
