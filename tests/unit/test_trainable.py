"""The trainable transformer: it is the formula, it is differentiable, batches are loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from constructions import InputError, LloydTransformer, surrogate
from constructions.codes import NAMED
from constructions.trainable import (
    ATTENTIONS,
    MATRICES,
    MODULES,
    TrainableTransformer,
    from_matrices,
    squared_distances,
)


def task(n: int = 7, d: int = 3, k: int = 4, batch: tuple[int, ...] = ()) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(5)
    draw = lambda rows: torch.rand(  # noqa: E731
        (*batch, rows, d), generator=generator, dtype=torch.float64
    )
    return draw(n), draw(k)


def nearest_weights(scores: Any) -> Any:
    """The point of the simplex nearest to the scores: the best over all supports."""
    best = (math.inf, scores)
    for size in range(1, len(scores) + 1):
        for support in itertools.combinations(range(len(scores)), size):
            weights = np.zeros(len(scores))
            chosen = scores[list(support)]
            weights[list(support)] = chosen - (chosen.sum() - 1) / size
            if weights.min() >= 0:
                best = min(
                    best, (float(((weights - scores) ** 2).sum()), weights), key=lambda b: b[0]
                )
    return best[1]


def by_hand(
    parameters: Any, X: Any, C: Any, code: Any, gamma: float, attention: str = "softmax"
) -> Any:
    """The formula of the module docstring, token by token, in numpy."""
    P = {name: p.numpy() for name, p in parameters.items()}
    points = [np.concatenate([x, np.zeros(code.shape[1])]) for x in X.numpy()]
    centers = [np.concatenate([c, b]) for c, b in zip(C.numpy(), code, strict=True)]

    def apply(name: str, z: Any) -> Any:
        return P[name] @ z + P.get(f"{name}_bias", 0)

    def attend(module: str, z: Any, others: list[Any]) -> Any:
        q = apply(f"{module}.query", z)
        scores = np.array(
            [-gamma * np.sum((q - apply(f"{module}.key", o)) ** 2) for o in others]
        ) / math.sqrt(len(q))
        a = np.exp(scores - max(scores))
        a = a / a.sum() if attention == "softmax" else nearest_weights(scores)
        return sum(w * apply(f"{module}.value", o) for w, o in zip(a, others, strict=True))

    points = [
        z + attend("points_from_centers", z, centers) + attend("points_from_points", z, points)
        for z in points
    ]
    centers = [
        z + attend("centers_from_points", z, points) + attend("centers_from_centers", z, centers)
        for z in centers
    ]
    return np.array(centers)[:, : C.shape[1]]


@pytest.mark.parametrize("code", sorted(NAMED))
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_formula(code: str, bias: bool) -> None:
    model = TrainableTransformer(3, 4, code, 1.7, bias)
    parameters = model.initial(torch.Generator().manual_seed(1))
    X, C = task()
    table = model.table.table.astype(float)
    expected = by_hand(parameters, X, C, table, 1.7)
    np.testing.assert_allclose(model(parameters, X, C).numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("code", ["binary", "one_hot", "scalar"])
def test_with_the_written_weights_it_is_the_written_transformer(code: str) -> None:
    written = LloydTransformer(3, 4, code, inverse_temperature=2.0)
    model = TrainableTransformer(3, 4, code, 2.0, bias=False)
    X, C = task()
    expected = written(X.numpy(), C.numpy())
    np.testing.assert_allclose(
        model(from_matrices(written.matrices), X, C).numpy(), expected, rtol=1e-11
    )


@pytest.mark.parametrize("name", list(ATTENTIONS))
@pytest.mark.parametrize("multiplier", [1, 3])
def test_options_of_the_attention(name: str, multiplier: int) -> None:
    model = TrainableTransformer(3, 4, "binary", 1.7, attention=name, qkv_multiplier=multiplier)
    assert (model.d_emb, model.d_qkv) == (5, 5 * multiplier)
    parameters = model.initial(torch.Generator().manual_seed(1))
    assert parameters["points_from_points.key"].shape == (5 * multiplier, 5)
    assert parameters["points_from_points.value_bias"].shape == (5,)
    X, C = task()
    expected = by_hand(parameters, X, C, model.table.table.astype(float), 1.7, name)
    np.testing.assert_allclose(model(parameters, X, C).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    scores = torch.randn(50, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = ATTENTIONS["sparsemax"](scores)
    for row, found in zip(scores.numpy(), weights.numpy(), strict=True):
        np.testing.assert_allclose(found, nearest_weights(row), atol=1e-14)


def test_dropout_needs_a_generator_and_keeps_the_mean() -> None:
    model = TrainableTransformer(3, 4, dropout=0.25)
    parameters = model.initial(torch.Generator().manual_seed(1))
    X, C = task()
    without = TrainableTransformer(3, 4)(parameters, X, C)
    assert torch.equal(model(parameters, X, C), without)
    generator = torch.Generator().manual_seed(2)
    assert not torch.equal(model(parameters, X, C, generator), without)
    scores = torch.zeros(400, 100, dtype=torch.float64)
    weights = model.weights(scores, generator)
    assert set(weights.unique().tolist()) == {0.0, 0.01 / 0.75}
    # 40,000 independent weights, each 0 with probability 1/4: six standard errors
    assert abs(float((weights == 0).double().mean()) - 0.25) < 6 * math.sqrt(3 / 16 / 40_000)


def test_names_are_those_of_the_written_transformer() -> None:
    assert tuple(LloydTransformer(2, 2).matrices) == MODULES
    assert len(MATRICES) == 12
    assert len(TrainableTransformer(2, 3).names) == 24


def test_batches_of_models_and_tasks_are_loops() -> None:
    model = TrainableTransformer(2, 3)
    X, C = task(6, 2, 3, (2,))
    parameters = model.initial(torch.Generator().manual_seed(2), (5, 1))
    together = model(parameters, X, C)
    assert together.shape == (5, 2, 3, 2)
    for i in range(5):
        for j in range(2):
            one = model({name: p[i, 0] for name, p in parameters.items()}, X[j], C[j])
            torch.testing.assert_close(together[i, j], one, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("regularizer", ["ne", "l2", 1.5])
def test_first_and_second_derivatives(regularizer: Any) -> None:
    model = TrainableTransformer(2, 2, "binary", 1.0)
    X, C = task(3, 2, 2)
    parameters = model.initial(torch.Generator().manual_seed(3))
    names = ("points_from_centers.query", "centers_from_points.value_bias")

    def loss(*some: Any) -> Any:
        return model.loss(
            {**parameters, **dict(zip(names, some, strict=True))}, X, C, 1.0, regularizer
        )

    leaves = tuple(parameters[name].requires_grad_() for name in names)
    assert torch.autograd.gradcheck(loss, leaves)
    if regularizer in ("ne", "l2"):
        assert torch.autograd.gradgradcheck(loss, leaves, atol=1e-4)


def test_the_loss_is_the_surrogate_of_the_squared_distances() -> None:
    model = TrainableTransformer(2, 3)
    X, C = task(5, 2, 3)
    parameters = model.initial(torch.Generator().manual_seed(4))
    r = ((X[:, None] - model(parameters, X, C)[None]) ** 2).sum(-1)
    expected = surrogate(r, 0.5, "l2").sum()
    torch.testing.assert_close(model.loss(parameters, X, C, 0.5, "l2"), expected)
    torch.testing.assert_close(squared_distances(X, C), ((X[:, None] - C[None]) ** 2).sum(-1))


def test_what_does_not_fit_is_said() -> None:
    model = TrainableTransformer(2, 3)
    parameters = model.initial(torch.Generator().manual_seed(0))
    X, C = task(5, 2, 3)
    with pytest.raises(InputError, match=r"X has shape \(5, 1\); this model takes \(..., n, 2\)"):
        model(parameters, X[:, :1], C)
    with pytest.raises(InputError, match=r"C has shape \(2, 2\)"):
        model(parameters, X, C[:2])
    with pytest.raises(InputError, match="query is missing"):
        model({}, X, C)
    wrong = {**parameters, MATRICES[0]: torch.zeros(3, 3)}
    with pytest.raises(InputError, match="d_emb = 4, takes"):
        model(wrong, X, C)
    with pytest.raises(InputError, match="inverse_temperature"):
        TrainableTransformer(2, 3, inverse_temperature=math.inf)
    with pytest.raises(InputError, match="attention = 'hard' is not known; allowed: softmax, "):
        TrainableTransformer(2, 3, attention="hard")
    with pytest.raises(InputError, match="qkv_multiplier = 0"):
        TrainableTransformer(2, 3, qkv_multiplier=0)
    for p in (-0.1, 1.0, math.nan):
        with pytest.raises(InputError, match=r"dropout = .* is out of range; allowed: 0 <= p < 1"):
            TrainableTransformer(2, 3, dropout=p)
    with pytest.raises(InputError, match="unknown code"):
        TrainableTransformer(2, 3, "morse")
