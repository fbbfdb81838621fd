"""Second derivatives of the transformer, and the envelope: against what is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.trainable import MATRICES, TrainableTransformer
from verify.bounds import lemmas, smoothness
from verify.bounds.evaluate import Setting, fast, precise
from verify.bounds.geometry import scene
from verify.claims.convergence import _runs as runs
from verify.claims.convergence import _transformer as transformer
from verify.claims.convergence._moreau import envelope

CODES = ("binary", "one_hot", "none")
FUNCTIONS = {
    code: (fast(lemmas.output(scene(code), "sharp")), fast(smoothness.output(scene(code))))
    for code in CODES
}


@given(
    code=st.sampled_from(CODES),
    sizes=st.tuples(st.integers(1, 3), st.integers(2, 4), st.integers(1, 5)),
    gamma=st.sampled_from((0.1, 1.0, 4.0)),
    B=st.sampled_from((0.3, 1.0)),
    flat=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_centers_move_and_bend_no_more_than_the_bounds(
    code: str, sizes: tuple[int, int, int], gamma: float, B: float, flat: bool, seed: int
) -> None:
    d, k, n = sizes
    model = TrainableTransformer(d, k, code, gamma, bias=False)
    rng = np.random.default_rng(seed)
    e = model.d_emb
    M = rng.standard_normal((len(MATRICES), e, e))
    M[2::3] = np.eye(e) if flat else M[2::3]
    M *= B / np.linalg.norm(M, 2, axis=(1, 2))[:, None, None]
    U = rng.standard_normal(M.shape) * rng.integers(0, 2, size=(len(MATRICES), 1, 1))
    U /= np.linalg.norm(U) + 1e-300
    X, C = (torch.from_numpy(np.round(rng.uniform(size=(m, d)), flat)) for m in (n, k))
    line = [torch.from_numpy(a) for a in (M, U)]

    def centers(t: Any) -> Any:
        return model(dict(zip(MATRICES, line[0] + t * line[1], strict=True)), X, C)

    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    first = torch.stack(
        [torch.autograd.grad(y, t, create_graph=True)[0] for y in centers(t).flatten()]
    ).view(k, d)
    second = torch.stack(
        [torch.autograd.grad(y, t, retain_graph=True)[0] for y in first.flatten()]
    ).view(k, d)
    phi, psi = (f(*Setting(code, d, k, n, gamma, 1.0, B).arguments) for f in FUNCTIONS[code])
    assert float(first.detach().norm(dim=-1).max()) <= phi * (1 + 1e-9)
    assert float(second.detach().norm(dim=-1).max()) <= psi * (1 + 1e-9)


def test_the_bend_is_not_far_off_for_small_gamma() -> None:
    """At gamma = 0 attention is uniform: only values act, and an output's second derivative is
    twice the product of the speeds of two value matrices."""
    setting = Setting("none", 1, 2, 1, 0.0, 1.0, 1.0)
    # all tokens 1: c_1 = 1 + V_3 x_1 + V_4, x_1 = 1 + V_1 + V_2, so c'' = 2 V_3' (V_1' + V_2')
    reached = np.sqrt(2)
    assert reached <= float(precise(smoothness.output(scene("none")), setting)) <= 1.5 * reached


@pytest.mark.parametrize("regularizer", ["ne", 1.5, "l2"])
@pytest.mark.parametrize("tau", [1.0, 0.1])
def test_the_loss_is_as_smooth_as_its_constants_say(regularizer: Any, tau: float) -> None:
    """Gradients along short lines: monotone up to curvature, and for smooth losses not more."""
    k, d, rng = 3, 2, np.random.default_rng(0)
    c = transformer.constants(regularizer, k, d, tau)
    X = runs.mixture(rng, 12, k, d)
    start = np.stack([transformer.start(rng, k, d) for _ in range(40)])
    move = rng.standard_normal(start.shape)
    move /= np.linalg.norm(move.reshape(40, -1), axis=1)[:, None, None, None]
    h = 1e-3
    here, there = (
        transformer.losses(start + t * move, X, X[:k], tau, regularizer)[1] for t in (0.0, h)
    )
    assert np.linalg.norm(here.reshape(40, -1), axis=1).max() <= c.alpha
    change = ((there - here) * move).sum((1, 2, 3)) / h
    assert change.min() >= -c.curvature
    if regularizer != "l2":
        assert np.linalg.norm((there - here).reshape(40, -1), axis=1).max() <= h * c.curvature


def test_the_envelope_of_a_distance() -> None:
    """L(x) = |x_1| - x_2^2 / 2 (1-weakly convex): the proximal point is known, on the kink too."""
    rho = 2.0

    def oracle(x: Any) -> tuple[Any, Any]:
        g = np.stack([np.where(x[:, 0] >= 0, 1.0, -1.0), -x[:, 1]], axis=1)
        return np.abs(x[:, 0]) - x[:, 1] ** 2 / 2, g

    x = np.array([[1.0, 0.3], [0.1, -0.7], [0.0, 0.0], [-0.24, 2.0]])
    found = envelope(oracle, x, rho, 48)
    # argmin |y| + rho (y - x)^2: soft threshold by 1 / (2 rho); -y^2/2 + rho (y - x)^2: scaling
    p = np.stack(
        [
            np.sign(x[:, 0]) * np.maximum(np.abs(x[:, 0]) - 1 / (2 * rho), 0),
            x[:, 1] * 2 * rho / (2 * rho - 1),
        ],
        axis=1,
    )
    true = 2 * rho * np.linalg.norm(x - p, axis=1)
    assert (found.low <= true).all()
    assert (true <= found.high).all()
    assert (found.high - found.low <= 0.02 * true + 1e-6).all()
    assert (found.high - found.low)[0] <= 1e-5


def test_the_envelope_of_the_k_means_loss_is_certified_by_brute_force() -> None:
    """One center in one dimension's worth of freedom: a fine grid finds the proximal point."""
    rng = np.random.default_rng(1)
    X = runs.mixture(rng, 20, 2, 1)
    c = runs.constants("l2", 2, 0.2, 1.0)

    def oracle(flat: Any) -> tuple[Any, Any]:
        C = flat.reshape(-1, 2, 1)
        values = runs.smoothed(C, X, 0.2, "l2")
        return values, runs.full_gradient(C, X, 0.2, "l2").reshape(len(flat), 2)

    start = rng.uniform(size=(5, 2))
    found = envelope(oracle, start, c.curvature)
    steps = np.linspace(-0.05, 0.05, 201)
    moves = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    for x, low, high in zip(start, found.low, found.high, strict=True):
        values = oracle(x + moves)[0] + c.curvature * (moves**2).sum(-1)
        best = moves[values.argmin()]
        length = 2 * c.curvature * np.linalg.norm(best)
        grid_error = 2 * c.curvature * 5e-4  # half a cell, and what the values of a cell leave open
        assert low - 2 * grid_error <= length <= high + 2 * grid_error
