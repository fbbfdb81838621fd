"""The fast transformer against the plain one, and its parts against their formulas."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions import InputError, LloydTransformer, blocked, lloyd_step, objective, surrogate
from constructions.blocked import attention
from constructions.codes import NAMED
from constructions.fast import FastTransformer
from constructions.moments import self_attention
from constructions.objective import centered
from constructions.sparse import sparse_attention
from constructions.trainable import ATTENTIONS, TrainableTransformer, from_matrices

DOUBLE = torch.float64


def generator(seed: int) -> Any:
    return torch.Generator().manual_seed(seed)


def rand(seed: int, *shape: int) -> Any:
    return torch.rand(shape, generator=generator(seed), dtype=DOUBLE)


def plain(model: TrainableTransformer, parameters: Any, X: Any, C: Any) -> Any:
    return model({name: p[:, None] for name, p in parameters.items()}, X, C)


def gradients(y: Any, weights: Any, wanted: list[Any]) -> list[Any]:
    found = torch.autograd.grad((y * weights).sum(), wanted, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for g, w in zip(found, wanted, strict=True)]


def assert_near(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    assert a.shape == b.shape
    scale = 1 + float(b.abs().max()) if b.numel() else 1
    assert float((a - b).abs().max()) <= tolerance * scale


@settings(max_examples=120)
@given(
    S=st.integers(1, 3),
    B=st.integers(1, 3),
    d=st.integers(1, 7),
    k=st.integers(1, 8),
    more=st.integers(0, 30),
    code=st.sampled_from([name for name in NAMED if name != "powers"]),
    bias=st.booleans(),
    gamma=st.sampled_from([0.1, 1.0, 4.0]),
    options=st.fixed_dictionaries(
        {"attention": st.sampled_from(list(ATTENTIONS)), "qkv_multiplier": st.integers(1, 3)}
    ),
    few=st.sampled_from([0, blocked.FEW]),
    block=st.sampled_from([1 << 18, 64, 7]),
    seed=st.integers(0, 99),
)
def test_fast_and_plain_agree_in_values_and_gradients(
    S: int, B: int, d: int, k: int, more: int, code: str, bias: bool, gamma: float, options: Any,
    few: int, block: int, seed: int,
) -> None:  # fmt: skip
    model = TrainableTransformer(d, k, code, gamma, bias, **options)
    parameters = model.initial(generator(seed), (S,))
    X = rand(seed, S, B, k + more, d)
    C = X[:, :, :k].clone().requires_grad_()
    wanted = [p.requires_grad_() for p in parameters.values()] + [C]
    weights = rand(seed + 1, S, B, k, d)
    expected = plain(model, parameters, X, C)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(blocked.BLOCK, "cpu", block)
        patch.setattr(blocked, "FEW", few)
        found = FastTransformer(model)(parameters, X, C)
        found_gradients = gradients(found, weights, wanted)
    assert_near(found.detach(), expected.detach())
    for a, b in zip(found_gradients, gradients(expected, weights, wanted), strict=True):
        assert_near(a, b)


@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("n", [9, 40])
def test_all_forms_of_attention_are_the_same(n: int, offsets: bool) -> None:
    Q, K, V, b = (rand(i, 2, rows, n) for i, rows in enumerate((5, 5, 3, 1)))
    Q, b, scale = Q[..., :9], b[:, 0] if offsets else None, 0.7
    wanted = [a.requires_grad_() for a in (Q, K, V, b) if a is not None]
    squares = (Q[:, :, None] - K[..., None]).square().sum(1)
    scores = -scale / 2 * squares if b is None else scale * K.mT @ Q + b[..., None]
    expected = V @ torch.softmax(scores, dim=-2)
    cotangent = rand(9, 2, 3, 9)
    due = gradients(expected, cotangent, wanted)
    for few, wide in itertools.product((0, 32), (1, 128)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocked, "FEW", few)
            patch.setattr(blocked, "WIDE", wide)
            for form in (attention, blocked.fused):
                found = form(Q, K, V, scale, b)
                assert_near(found.detach(), expected.detach())
                for x, y in zip(gradients(found, cotangent, wanted), due, strict=True):
                    assert_near(x, y)


def test_a_wide_code_keeps_its_weights_and_agrees() -> None:
    model = TrainableTransformer(3, blocked.WIDE, "one_hot")
    parameters = {n: p.requires_grad_() for n, p in model.initial(generator(0), (1,)).items()}
    X = rand(1, 1, 2, 150, 3)
    C = X[:, :, : blocked.WIDE]
    weights = rand(2, *C.shape)
    a, b = FastTransformer(model)(parameters, X, C), plain(model, parameters, X, C)
    assert_near(a.detach(), b.detach())
    wanted = list(parameters.values())
    for x, y in zip(gradients(a, weights, wanted), gradients(b, weights, wanted), strict=True):
        assert_near(x, y)


@pytest.mark.parametrize("d", [4, 5])
@pytest.mark.parametrize("reembed", [True, False])
@pytest.mark.parametrize("options", [{}, {"attention": "sparsemax", "qkv_multiplier": 2}])
def test_several_steps(d: int, reembed: bool, options: Any) -> None:
    model = TrainableTransformer(d, 5, "binary", **options)
    parameters = model.initial(generator(3), (2,))
    X = rand(4, 2, 3, 40, d)
    C = X[:, :, :5]
    found = FastTransformer(model).iterate(parameters, X, C, 4, reembed=reembed)
    points, centers = model.tokens(X, C)
    spread = {name: p[:, None] for name, p in parameters.items()}
    assert len(found) == 5
    for new in found[1:]:
        points, centers = model.layer(spread, points, centers)
        # naive iteration of random weights grows, and differences with it
        assert_near(new, centers[..., :d], 1e-12 if reembed else 1e-9)
        if reembed:
            points, centers = model.tokens(X, centers[..., :d])


@pytest.mark.parametrize("code", ["binary", "one_hot", "scalar", "circle"])
def test_the_weights_of_theorem_2_1_at_large_gamma_are_lloyd(code: str) -> None:
    gamma = 1e6
    model = TrainableTransformer(2, 3, code, gamma, bias=False)
    parameters = from_matrices(LloydTransformer(2, 3, code).matrices)
    # clusters far from every tie, so that exp(-gamma * gap) is 0
    corners = torch.tensor([[0.0, 0], [4, 0], [0, 4]], dtype=DOUBLE)
    X = (corners[:, None] + rand(5, 3, 6, 2)).reshape(1, 1, 18, 2)
    C = corners.reshape(1, 1, 3, 2) + 0.3
    found = FastTransformer(model)({n: p[None] for n, p in parameters.items()}, X, C)
    assert_near(found, lloyd_step(X, C).centers, 1e-9)


@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("far from the origin", lambda X: X + 1000),
        ("one outlier", lambda X: torch.cat([X[..., :1, :] * 0 + 1e3, X[..., 1:, :]], dim=-2)),
        ("both", lambda X: torch.cat([X[..., :1, :] + 1e3, X[..., 1:, :]], dim=-2) + 1e4),
    ],
)
def test_no_digits_are_lost_far_from_the_origin(name: str, move: Any) -> None:
    """With distances between the points themselves (equal query and key weights), float32 is as
    good as at the origin: what a mean, or no shift at all, would lose is a thousand times more."""
    model = TrainableTransformer(2, 3, "binary", 1.0, bias=False)
    parameters = from_matrices(LloydTransformer(2, 3, "binary").matrices)
    parameters = {n: p[None] for n, p in parameters.items()}
    X = move(rand(6, 1, 4, 200, 2)).to(torch.float32)
    C = X[:, :, 5:8]
    single = FastTransformer(model)({n: p.float() for n, p in parameters.items()}, X, C)
    double = plain(model, parameters, X.to(DOUBLE), C.to(DOUBLE))
    error = float((single.to(DOUBLE) - double).abs().max())
    assert error <= 8 * 2.0**-24 * max(1.0, float(double.abs().max()))


@settings(max_examples=40)
@given(
    d=st.integers(1, 6),
    n=st.integers(1, 60),
    few=st.sampled_from([0, blocked.FEW]),
    spread=st.sampled_from([0.1, 1.0, 10.0]),
    seed=st.integers(0, 99),
)
def test_attention_in_float32_is_within_its_error_bound(
    d: int, n: int, few: int, spread: float, seed: int
) -> None:
    """Scores are sums of d + 1 products of rounded factors, so each is off by at most
    delta = (d + 4) eps (|k|'|q| + |b|); weights are off by the factor exp(2 delta), plus 4 eps for
    the exponential and its argument near 0 and n eps for each of two sums. A weighted mean of v is
    then off by at most (exp(2 delta) - 1 + (2n + 12) eps) max |v|."""
    eps = 2.0**-24
    Q, K, V = (spread * rand(seed + i, 1, d, n) - spread / 2 for i in range(3))
    b = rand(seed + 3, 1, n)
    Q, K, V, b = (a.float().to(DOUBLE) for a in (Q, K, V, b))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocked, "FEW", few)
        single = attention(*(a.float() for a in (Q, K, V)), offsets=b.float()).to(DOUBLE)
    scores = K.mT @ Q + b[..., None]
    exact = V @ torch.softmax(scores, dim=-2)
    assert_near(attention(Q, K, V, offsets=b), exact)
    # subtracting the maximum rounds once more, by eps times the largest score
    magnitude = K.abs().mT @ Q.abs() + b.abs()[..., None]
    delta = (d + 6) * eps * float(magnitude.max())
    bound = (math.expm1(2 * delta) + (2 * n + 12) * eps) * float(V.abs().max())
    assert float((single - exact).abs().max()) <= bound


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_the_shift_by_the_maximum_and_the_third_moments(scale: float) -> None:
    """Sharp scores take the shifted branch; both give the same as the definition."""
    d, n = 3, 50
    X = rand(0, 2, d, n)
    A = (scale * (rand(1, 2, d, n) - 0.5)).requires_grad_()
    root = rand(2, 2, d, d)
    G = (scale / 10 * root @ root.mT).requires_grad_()
    weights = rand(3, 2, d, n)
    scores = X.mT @ A - ((G @ X) * X).sum(1)[..., None]
    expected = X @ torch.softmax(scores, dim=-2)
    found = self_attention(A, X, G)
    assert_near(found.detach(), expected.detach())
    a, b = gradients(found, weights, [A, G]), gradients(expected, weights, [A, G])
    assert_near(a[0], b[0], 1e-10)
    assert_near(a[1], (b[1] + b[1].mT) / 2, 1e-10)
    # the general way, which also has a gradient in the points
    X.requires_grad_()
    a, b = (
        gradients(y, weights, [A, X])
        for y in (self_attention(A, X, G), X @ torch.softmax(
            X.mT @ A - ((G @ X) * X).sum(1)[..., None], dim=-2))
    )  # fmt: skip
    assert_near(a[0], b[0], 1e-10)
    assert_near(a[1], b[1], 1e-10)


def test_sparse_weights_sum_to_one_where_scores_have_no_digit_left_for_them() -> None:
    Q, K = (rand(i, 1, 3, 9).float() for i in range(2))
    offsets = torch.full((1, 9), 1e8)
    found = sparse_attention(Q, K, torch.ones(1, 1, 9), offsets=offsets)
    torch.testing.assert_close(found, torch.ones(1, 1, 9))


def test_dropout_is_refused() -> None:
    with pytest.raises(InputError, match=r"dropout = 0.01: only TrainableTransformer"):
        FastTransformer(TrainableTransformer(2, 3, dropout=0.01))


@pytest.mark.parametrize("k", [1, 2, 7])
def test_smoothed_loss_is_the_mean_of_the_surrogates(k: int) -> None:
    regularizers = ["ne", "l2", 1.5, "l2"]
    temperatures = torch.tensor([1.0, 0.1, 0.3, 0.01], dtype=DOUBLE)
    X, C = rand(0, 4, 3, 2, 30), rand(1, 4, 3, 2, k).requires_grad_()
    found = objective.smoothed_loss(X, C, temperatures, regularizers)
    r = (X[..., None, :] - C[..., None]).square().sum(2).mT
    expected = torch.stack(
        [
            surrogate(r[s], float(temperatures[s]), name).mean(-1)
            for s, name in enumerate(regularizers)
        ]
    )
    assert_near(found.detach(), expected.detach())
    weights = rand(2, 4, 3)
    assert_near(*(gradients(y, weights, [C])[0] for y in (found, expected)))


def test_a_model_full_of_nan_spoils_no_other() -> None:
    X, C = rand(0, 3, 2, 2, 20), rand(1, 3, 2, 2, 4)
    C[1] = math.nan
    for name in ("ne", "l2", 1.5):
        loss = objective.smoothed_loss(X, C, torch.ones(3), [name] * 3)
        assert loss.isnan().any(dim=1).tolist() == [False, True, False]


@pytest.mark.parametrize("block", [1 << 19, 50])
@pytest.mark.parametrize("wide", [objective.WIDE, 1])
@pytest.mark.parametrize("lead", [(2, 3), (1, 1)])
@pytest.mark.parametrize("scale", [1.0, 2.0**-200, 2.0**200])
def test_lloyd_step_of_a_batch_is_the_lloyd_step(
    block: int, wide: int, lead: tuple[int, int], scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(objective.BLOCK, "cpu", block)
    monkeypatch.setattr(objective, "WIDE", wide)  # from here on, rows are kept as rows
    X = torch.round(rand(0, *lead, 40, 2) * 4) * scale  # a grid: many ties, and empty clusters
    C = X[:, :, :6].clone()
    C[0, 0, 0] = 100 * scale
    expected = lloyd_step(X, C, empty="keep")
    assert bool(expected.tied_points.any())
    assert bool(expected.empty_clusters.any())
    found, inertia = objective.lloyd_step(X.mT, C.mT)
    assert_near(found.mT / scale, expected.centers / scale)
    r = ((X[..., :, None, :] - C[..., None, :, :]) / scale).square().sum(-1)
    assert_near(inertia / scale**2, r.amin(-1).sum(-1))
    assert_near(objective.inertia(X.mT, C.mT), inertia)


def test_centers_at_one_place_and_a_task_with_nan() -> None:
    X = rand(0, 1, 2, 30, 3)
    C = X[:, :, :1].expand(1, 2, 4, 3).clone()
    X[0, 1, 0, 0] = math.nan
    found, inertia = objective.lloyd_step(X.mT, C.mT)
    assert_near(found[0, 0, :, 0], X[0, 0].mean(0))
    assert torch.equal(found[0, 0, :, 1:], C[0, 0].mT[:, 1:])
    assert_near(inertia[0, 0], (X[0, 0] - C[0, 0, :1]).square().sum())
    assert bool(inertia[0, 1].isnan())


def test_the_median_of_a_sample_lies_among_the_points() -> None:
    X = torch.cat([torch.full((1, 1, 1, 2), 1e6), torch.rand(1, 1, 999, 2)], dim=-2)
    points = centered(X)
    assert bool(((points.median > 0) & (points.median < 1)).all())
    assert points.X.shape == (1, 1, 2, 1000)


def test_shapes_that_do_not_fit_are_refused() -> None:
    model = TrainableTransformer(2, 3)
    parameters = model.initial(generator(0), (2,))
    X = rand(0, 2, 1, 5, 2)
    with pytest.raises(InputError, match="expected"):
        FastTransformer(model)(parameters, X[:1], X[:1, :, :3])
    with pytest.raises(InputError, match="expected"):
        FastTransformer(model)(parameters, X, X[:, :, :2])
