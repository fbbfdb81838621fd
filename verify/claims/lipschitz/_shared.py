"""What the Lipschitz claims have in common: instances, numbers of the bounds, and the ascent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import sympy
import torch
from hypothesis import strategies as st

from constructions.trainable import MATRICES, Tensor, TrainableTransformer
from verify.bounds.evaluate import Setting, fast
from verify.bounds.geometry import TokenSet
from verify.claim import Case, Claim, Evidence, Source

EPS = 2.0**-52

ARITHMETIC = "float64 with a rounding bound"

RECONSTRUCTION = (
    "The paper's own constants were not available; where the claim needs one, it is a "
    "reconstruction of the chain that the summary describes."
)

SUMMARY_I = "App. I, pp. 34-47"


def source(place: str) -> tuple[Source, ...]:
    return (Source("summary", place),)


# ---- instances -----------------------------------------------------------------------------


@st.composite
def models(
    draw: st.DrawFn,
    /,
    codes: tuple[str, ...] = ("binary", "one_hot", "none", "scalar"),
    max_d: int = 3,
    max_k: int = 5,
    max_n: int = 5,
    gammas: tuple[float, ...] = (0.1, 1.0, 4.0),
    norm_bounds: tuple[float, ...] = (0.5, 1.0, 2.0),
    **more: st.SearchStrategy[Any],
) -> Case:
    """A model with matrices in the norm ball and a task in the unit cube.

    Matrices are multiples of the identity, signed or of rank one, or anything, then scaled to the
    largest norm allowed: where bounds are reached, matrices are on the sphere.
    """
    code = draw(st.sampled_from(codes))
    d, k, n = (draw(st.integers(low, high)) for low, high in ((1, max_d), (2, max_k), (1, max_n)))
    B = draw(st.sampled_from(norm_bounds))
    e = TrainableTransformer(d, k, code).d_emb
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    entries = st.sampled_from([0.0, 1.0, 0.5])

    def matrix() -> list[list[float]]:
        kind = draw(st.sampled_from(("identity", "zero", "signed", "rank one", "any")))
        if kind == "identity":
            M = np.eye(e)
        elif kind == "zero":
            return np.zeros((e, e)).tolist()
        elif kind == "signed":
            M = np.diag(rng.choice([-1.0, 1.0], e))
        elif kind == "rank one":
            M = np.outer(rng.standard_normal(e), rng.standard_normal(e))
        else:
            M = rng.standard_normal((e, e))
        return (M * (B * (1 - 4 * EPS) / np.linalg.norm(M, 2))).tolist()

    def table(rows: int) -> list[list[float]]:
        if draw(st.booleans()):
            return rng.uniform(size=(rows, d)).tolist()
        return draw(
            st.lists(st.lists(entries, min_size=d, max_size=d), min_size=rows, max_size=rows)
        )

    return Case(
        code=code,
        gamma=draw(st.sampled_from(gammas)),
        B=B,
        X=table(n),
        C=table(k),
        matrices=[matrix() for _ in MATRICES],
        **{name: draw(strategy) for name, strategy in more.items()},
    )


def read(case: Case) -> tuple[TrainableTransformer, dict[str, Tensor], Tensor, Tensor, Setting]:
    """The model of a case, its parameters, points, centers, and the setting of its bounds."""
    X, C = (torch.tensor(case[name], dtype=torch.float64) for name in "XC")
    (n, d), k = X.shape, len(C)
    model = TrainableTransformer(d, k, case["code"], case["gamma"], bias=False)
    parameters = {
        name: torch.tensor(M, dtype=torch.float64)
        for name, M in zip(MATRICES, case["matrices"], strict=True)
    }
    setting = Setting(
        case["code"],
        d,
        k,
        n,
        case["gamma"],
        case.get("tau", 1.0),
        case["B"],
        case.get("regularizer", "l2"),
    )
    return model, parameters, X, C, setting


def rounding(setting: Setting, bound: float) -> float:
    """How much rounding can have moved a norm or a gradient norm that `bound` bounds.

    Scores are sums of 2 (d_emb + 1) products of total size at most c B^2 (R + R')^2 =: s, so
    exp(score) is right up to a factor 1 + (2 d_emb + 4) s eps; weights and their means add
    (n + k + d_emb) eps. Each of the two layers of attention, and each derivative of it, repeats
    that once: four times at most, in quantities whose sizes the bound counts.
    """
    s = setting
    length = 4 * (s.d + s.k**2) * (1 + s.B) ** 2  # covers every code used in the claims
    score = s.gamma / math.sqrt(s.d_emb) * s.B**2 * 4 * length
    return 4 * EPS * bound * ((2 * s.d_emb + 4) * (1 + score) + s.n + s.k + s.d_emb)


@cache
def numeric(expression: Any) -> Callable[..., Any]:
    return fast(expression)


def at(expression: Any, setting: Setting) -> float:
    """A bound at a setting in float64."""
    return float(numeric(expression)(*setting.arguments))


def largest(claim: Claim, e: Evidence, cases: Iterable[Case]) -> float:
    """The largest value of some cases; all are judged and counted."""
    best = 0.0
    for case in cases:
        answer, m = claim.judge(case)
        e.count(answer)
        best = max(best, float(m.value))
    return best


# ---- token sets with numbers of their own --------------------------------------------------

QUERY, KEYS = (TokenSet(*sympy.symbols(f"R{i} m{i} r{i}", positive=True)) for i in "01")
SHARPNESS, NORM = sympy.symbols("c B", positive=True)


def geometry(name: str, e: int) -> tuple[TokenSet, TokenSet]:
    """Query and keys in the unit cube, or query in a ball of radius 2 and keys in the unit ball."""
    if name == "cube":
        cube = TokenSet(math.sqrt(e), math.sqrt(e) / 2, math.sqrt(e) / 2)
        return cube, cube
    return TokenSet(2.0, 0.0, 2.0), TokenSet(1.0, 0.0, 1.0)


@cache
def of_sets(function: Callable[..., Any], *more: Any) -> Callable[..., Any]:
    """A formula of `verify.bounds.lemmas` as a float function of (query, keys, c, B)."""
    symbols = (*QUERY, *KEYS, SHARPNESS, NORM)
    expression = function(QUERY, KEYS, SHARPNESS, NORM, *more)
    if isinstance(expression, tuple):
        expression = tuple(expression)
    evaluate = sympy.lambdify(symbols, expression, "math")
    return lambda query, keys, c, B: evaluate(*query, *keys, c, B)


# ---- ascent --------------------------------------------------------------------------------

Project = Callable[[Tensor], Tensor]


def climb(
    objective: Callable[[dict[str, Tensor]], Tensor],
    start: dict[str, Tensor],
    project: dict[str, Project],
    steps: int,
    rate: float = 0.05,
) -> dict[str, Tensor]:
    """Projected ascent on a batch of restarts, the best state of each.

    Adam with one step size for each tensor of a restart (one an entry in the cube): with one step
    size an entry, projected steps onto a ball come to rest where the ball is not stationary.

    `objective` maps tensors with a leading dimension of restarts to one number each; `project`
    brings a tensor back to where it may be (the start, before anything is evaluated, as well).
    """
    state = {name: project[name](a) for name, a in start.items()}
    best = {name: a.clone() for name, a in state.items()}
    top: Tensor = torch.full((len(next(iter(state.values()))),), -math.inf, dtype=torch.float64)
    mean = {name: torch.zeros_like(a) for name, a in state.items()}
    square = {name: torch.zeros_like(a) for name, a in state.items()}
    for step in range(1, steps + 1):
        leaves = {name: a.detach().requires_grad_() for name, a in state.items()}
        value = objective(leaves)
        slopes = torch.autograd.grad(value.sum(), list(leaves.values()), allow_unused=True)
        better = value.detach() > top
        top = torch.where(better, value.detach(), top)
        size = rate * (0.02 + 0.98 * (1 + math.cos(math.pi * step / steps)) / 2)
        for (name, a), slope in zip(state.items(), slopes, strict=True):
            best[name][better] = a[better]
            if slope is None:
                continue
            slope = torch.nan_to_num(slope)
            power = slope * slope
            if project[name] is not in_cube:
                power = power.flatten(1).mean(1).view(-1, *[1] * (a.ndim - 1)).expand_as(a)
            m = mean[name].mul_(0.9).add_(slope, alpha=0.1)
            v = square[name].mul_(0.99).add_(power, alpha=0.01)
            move = (m / (1 - 0.9**step)) / ((v / (1 - 0.99**step)).sqrt() + 1e-12)
            state[name] = project[name](a + size * move)
    return best


def in_cube(a: Tensor) -> Tensor:
    return a.detach().clamp(0, 1)


def in_spectral_ball(B: float) -> Project:
    """Singular values at most B."""

    def project(a: Tensor) -> Tensor:
        U, S, V = torch.linalg.svd(a.detach())
        return (U * S.clamp(max=B * (1 - 4 * EPS))[..., None, :]) @ V

    return project


def in_ball(radius: float) -> Project:
    """Each row of length at most `radius`."""

    def project(a: Tensor) -> Tensor:
        a = a.detach()
        length = a.norm(dim=-1, keepdim=True)
        return a * (radius * (1 - 4 * EPS) / length.clamp(min=radius))

    return project


def on_sphere(a: Tensor) -> Tensor:
    """The whole of each restart of Frobenius norm 1."""
    a = a.detach()
    return a / a.flatten(1).norm(dim=1).clamp(min=1e-300).view(-1, *[1] * (a.ndim - 1))


def noise(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape))


def model_starts(
    model: TrainableTransformer, n: int, B: float, restarts: int, rng: np.random.Generator
) -> tuple[dict[str, Tensor], dict[str, Project]]:
    """Random models and tasks; two thirds are near the identity, with all tokens near one corner
    of the cube, or all but the first point, which centers then do not attend to."""
    e = model.d_emb
    start = {name: noise(rng, restarts, e, e) for name in MATRICES}
    kind = torch.arange(restarts) % 3
    for name in MATRICES:
        if name.endswith("value"):
            start[name][kind < 2] = B * torch.eye(e, dtype=torch.float64)
            start[name][kind < 2] += noise(rng, int((kind < 2).sum()), e, e) / 20
    start["X"] = torch.from_numpy(rng.uniform(size=(restarts, n, model.d)))
    start["C"] = torch.from_numpy(rng.uniform(size=(restarts, model.k, model.d)))
    for name in "XC":
        start[name][kind < 2] = 1
    start["X"][kind == 1, 0] = 0
    identity = torch.eye(e, dtype=torch.float64)
    start["centers_from_points.query"][kind == 1] = B * identity
    start["centers_from_points.key"][kind == 1] = 0.3 * B * identity
    return start, dict.fromkeys(MATRICES, in_spectral_ball(B)) | {"X": in_cube, "C": in_cube}


def as_case(model: TrainableTransformer, state: dict[str, Tensor], row: int, **more: Any) -> Case:
    """One restart as a case."""
    return Case(
        code=model.code,
        gamma=float(model.inverse_temperature),
        X=state["X"][row].tolist(),
        C=state["C"][row].tolist(),
        matrices=[state[name][row].tolist() for name in MATRICES],
        **more,
    )


def rows_of(best: dict[str, Tensor]) -> Iterator[int]:
    yield from range(len(next(iter(best.values()))))
