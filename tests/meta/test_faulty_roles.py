"""Right and wrong weights, surrogates, attention and samplers: who passes, and who is caught at
which property, with a small case and what explains it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch

from constructions import distance_attention, surrogate, surrogate_weights
from constructions.tasks import TaskDistribution
from verify.conformance import Records, conformance
from verify.conformance.property import Sort


def _judge(f: Callable[..., Any], role: str, only: str = "", cases: int = 8) -> Records:
    return conformance(f, role=role, only=only, cases=cases)


def _softmax(r: Any, tau: Any) -> Any:
    return scipy.special.softmax(-r / tau, axis=-1)


def _sample(seed: int, n: int, k: int, d: int, scaling: str = "per-dimension") -> Any:
    source = TaskDistribution("normal", n=n, d=d, k=k, scaling=scaling)
    tasks = source.sample(np.random.default_rng(seed))
    return tasks.X[0], tasks.C[0]


def _torch_sample(seed: int, n: int, k: int, d: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, d, generator=generator)
    return X, X[torch.randperm(n, generator=generator)[:k]]


def _squares(Q: Any, K: Any) -> Any:
    return ((Q[..., :, None, :] - K[..., None, :, :]) ** 2).sum(-1)


def _entmax(name: str) -> Callable[..., Any]:
    import entmax

    return lambda r, tau: getattr(entmax, name)(-r / tau, dim=-1)


RIGHT = {
    "scipy softmax": ("weights", _softmax, "softmax"),
    "torch softmax": ("weights", lambda r, tau: torch.softmax(-r / tau, -1), "softmax"),
    "entmax.sparsemax": ("weights", _entmax("sparsemax"), "sparsemax"),
    "entmax.entmax15": ("weights", _entmax("entmax15"), "entmax 1.5"),
    "our sparsemax": ("weights", lambda r, tau: surrogate_weights(r, tau, "l2"), "sparsemax"),
    "our entmax 1.25": ("weights", lambda r, tau: surrogate_weights(r, tau, 1.25), "5/4"),
    "our entmax 3": ("weights", lambda r, tau: surrogate_weights(r, tau, 3.0), "3"),
    "our surrogate": ("surrogate", lambda r, tau: surrogate(r, tau, "l2"), "sparsemax"),
    "a torch surrogate": (
        "surrogate",
        lambda r, tau: (torch.softmax(-r / tau, -1) * r).sum(-1),
        "softmax",
    ),
    "our attention": (
        "attention",
        lambda Q, K, V, scale: distance_attention(Q, K, V, scale * math.sqrt(Q.shape[-1])),
        "squared distance",
    ),
    "our hardmax": (
        "attention",
        lambda Q, K, V, scale: distance_attention(Q, K, V),
        "hardmax",
    ),
    "torch attention": (
        "attention",
        lambda Q, K, V, scale: torch.nn.functional.scaled_dot_product_attention(
            Q, K, V, scale=scale
        ),
        "dot product",
    ),
    "our sampler": ("sampler", _sample, "centers are points, per-dimension scaling"),
    "our sampler, common": (
        "sampler",
        lambda seed, n, k, d: _sample(seed, n, k, d, "common"),
        "centers are points, common scaling",
    ),
    "a torch sampler": ("sampler", _torch_sample, "centers are points, no scaling"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_ones_pass_and_are_recognized(name: str) -> None:
    role, f, kind = RIGHT[name]
    records = _judge(f, role)
    assert records.ok, [r for r in records if r.outcome == "violated"]
    assert records.declaration.kind == kind
    # what is not asked is said, and nothing else is left out
    left_out = {r.property: r.message for r in records if r.outcome == "unsupported"}
    reasons = {
        "gradient": "no automatic derivatives",
        "mask": "no parameter mask",
        "quantiles": "no family is declared",
    }
    assert all(reasons[name] in message for name, message in left_out.items())


def _stuck_gradient(r: Any, tau: Any) -> Any:
    return (torch.softmax(-r / tau, -1).detach() * r).sum(-1)


class _AtLeast(torch.autograd.Function):
    """Sparsemax whose derivative counts every entry with weight >= 0 as support."""

    @staticmethod
    def forward(ctx: Any, r: Any, tau: Any) -> Any:
        p = surrogate_weights(r.detach(), tau, "l2")
        ctx.save_for_backward(p)
        ctx.tau = tau
        return p

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        (p,) = ctx.saved_tensors
        support = (p >= 0).to(p)
        mean = (g[0] * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return -support * (g[0] - mean) / ctx.tau, None


def _in_half(r: Any, tau: Any) -> Any:
    z = (-np.asarray(r, np.float16) / np.float16(tau)).astype(np.float16)
    w = np.exp(z - z.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True, dtype=np.float16)).astype(r.dtype)


def _in_place(r: Any, tau: Any) -> Any:
    r -= r.min(-1, keepdims=True)
    return _softmax(r, tau)


def _hard_gap(r: Any, tau: Any) -> Any:
    """Zero gap at twice the threshold only: smoothed with a sparsemax of twice the temperature."""
    return surrogate(r, 2 * tau, "l2")


def _expanded(Q: Any, K: Any, V: Any, scale: Any) -> Any:
    d2 = (Q * Q).sum(-1)[..., :, None] - 2 * Q @ K.mT + (K * K).sum(-1)[..., None, :]
    return torch.softmax(-scale * d2.float(), -1) @ V.float()


def _unshifted(Q: Any, K: Any, V: Any, scale: Any) -> Any:
    w = torch.exp(-scale * _squares(Q, K))
    return w / w.sum(-1, keepdim=True) @ V


def _global_seed(seed: int, n: int, k: int, d: int) -> Any:
    np.random.seed(seed)
    X = np.random.random_sample((n, d))
    return X, X[:k]


def _sorted(seed: int, n: int, k: int, d: int) -> Any:
    X, C = _sample(seed, n, k, d)
    return X[np.argsort(X[:, 0])], C


def _normals(seed: int, n: int, k: int, d: int) -> Any:
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:k]


def _row_sums(r: Any, tau: Any) -> Any:
    w = np.exp(-(r - r.min(-1, keepdims=True)) / tau)
    return w / w.sum(axis=0)


CONVENTION, BUG, ROUNDING = Sort.CONVENTION, Sort.BUG, Sort.ROUNDING
WRONG = {
    "do not sum to 1": (
        "weights",
        lambda r, tau: np.exp(-(r - r.min(-1, keepdims=True)) / tau),
        "simplex-sum",
        BUG,
        "not divided by the sum",
    ),
    "no subtraction before exp": (
        "weights",
        lambda r, tau: np.exp(-r / tau) / np.exp(-r / tau).sum(-1, keepdims=True),
        "huge-spread",
        BUG,
        "overflow",
    ),
    "inverse temperature": (
        "weights",
        lambda r, tau: _softmax(r, 1 / tau),
        "value",
        CONVENTION,
        "inverted",
    ),
    "temperature forgotten": (
        "weights",
        lambda r, tau: _softmax(r, 1.0),
        "value",
        BUG,
        "temperature is not used",
    ),
    "scores for distances": (
        "weights",
        lambda r, tau: scipy.special.softmax(r / tau, axis=-1),
        "order",
        CONVENTION,
        "taken for scores",
    ),
    "float16 inside": ("weights", _in_half, "value", ROUNDING, "float16"),
    "wrong axis in a batch": ("weights", _row_sums, "batch", BUG, ""),
    "writes over its input": ("weights", _in_place, "untouched", BUG, ""),
    "another type out": (
        "weights",
        lambda r, tau: _softmax(r, tau).astype(np.longdouble),
        "dtype",
        BUG,
        "",
    ),
    ">= for > in the support": (
        "weights",
        lambda r, tau: _AtLeast.apply(torch.as_tensor(r), tau),
        "gradient",
        BUG,
        "",
    ),
    "another answer each time": (
        "weights",
        lambda r, tau: _softmax(r, tau) * (1 + 1e-16 * np.random.default_rng().integers(0, 9)),
        "repeatable",
        BUG,
        "",
    ),
    "a gradient that forgets that weights move": (
        "surrogate",
        _stuck_gradient,
        "gradient",
        BUG,
        "forgets that they move",
    ),
    "log-sum-exp for the weighted mean": (
        "surrogate",
        lambda r, tau: -tau * torch.logsumexp(-torch.as_tensor(r) / tau, -1),
        "above-minimum",
        CONVENTION,
        "log sum exp",
    ),
    "no smoothing": ("surrogate", lambda r, tau: r.min(-1), "zero-gap", BUG, "no smoothing"),
    "twice the threshold": ("surrogate", _hard_gap, "zero-gap", CONVENTION, "doubled"),
    "expanded square": ("attention", _expanded, "far-from-origin", BUG, ""),
    "large scores underflow": ("attention", _unshifted, "large-scores", BUG, "overflow"),
    "softmax over the queries": (
        "attention",
        lambda Q, K, V, scale: torch.softmax(-scale * _squares(Q, K), -2) @ V,
        "sums-to-one",
        BUG,
        "over the queries",
    ),
    "a hidden 1/sqrt(d)": (
        "attention",
        distance_attention,
        "value",
        CONVENTION,
        "sqrt(d)",
    ),
    "repeats between workers": (
        "sampler",
        lambda seed, n, k, d: _sample(seed // 2, n, k, d),
        "streams",
        BUG,
        "share",
    ),
    "the global stream": ("sampler", _global_seed, "own-stream", BUG, "global"),
    "sorted points": ("sampler", _sorted, "exchangeable", BUG, "0 of 200"),
    "outside of the cube": ("sampler", _normals, "unit-cube", BUG, ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_caught_with_a_small_case_and_explained(name: str) -> None:
    role, f, at, sort, explanation = WRONG[name]
    (record,) = (r for r in _judge(f, role, only=at, cases=30) if r.property == at)
    assert record.outcome == "violated"
    assert record.case is not None
    assert sum(np.size(v) for v in dict(record.case).values()) <= 10
    assert record.sort == sort, record
    assert explanation in record.message


def _seen(Q: Any, K: Any, V: Any, scale: Any, mask: Any = None) -> Any:
    z = -scale * _squares(Q, K)
    w = np.exp(z if mask is None else np.where(mask, z, -np.inf))
    return w / w.sum(-1, keepdims=True) @ V


def test_masks_are_judged_where_there_are_some() -> None:
    def hiding(Q: Any, K: Any, V: Any, scale: Any, mask: Any = None) -> Any:
        return _seen(Q, K, V, scale, None if mask is None else ~mask)

    def deaf(Q: Any, K: Any, V: Any, scale: Any, mask: Any = None) -> Any:
        return _seen(Q, K, V, scale)

    assert _judge(_seen, "attention", only="mask").ok
    (hides,) = _judge(hiding, "attention", only="mask")
    assert (hides.outcome, hides.sort) == ("violated", "other convention")
    (ignores,) = _judge(deaf, "attention", only="mask")
    assert (ignores.outcome, ignores.sort) == ("violated", "bug")


def test_a_declared_family_is_told_from_another_one() -> None:
    from constructions import TaskDistribution
    from verify.conformance.declaration import Declaration

    def cauchy(seed: int, n: int, k: int, d: int) -> Any:
        rng = np.random.default_rng(seed)
        tasks = TaskDistribution("cauchy", n=n, k=k, d=d).sample(rng, 1)
        return tasks.X[0], tasks.C[0]

    for family, ok in (("cauchy", True), ("normal", False)):
        said = Declaration(role="sampler", kind=family)
        assert conformance(cauchy, declaration=said, only="quantiles").ok is ok


def test_jax_passes_in_every_role() -> None:
    """In float32, its own default; every shape is compiled anew, so few cases."""
    jax = pytest.importorskip("jax")
    from verify.conformance.declaration import Declaration

    def attention(Q: Any, K: Any, V: Any, scale: Any) -> Any:
        return jax.nn.softmax(-scale * _squares(Q, K), axis=-1) @ V

    def sampler(seed: int, n: int, k: int, d: int) -> Any:
        X = jax.random.uniform(jax.random.key(seed), (n, d))
        return X, X[:k]

    for role, f in {
        "weights": lambda r, tau: jax.nn.softmax(-r / tau, axis=-1),
        "surrogate": lambda r, tau: (jax.nn.softmax(-r / tau, axis=-1) * r).sum(-1),
        "attention": attention,
        "sampler": sampler,
    }.items():
        said = Declaration(role=role, library="jax", dtype="float32")
        records = conformance(f, declaration=said, cases=2)
        assert records.ok, [r for r in records if r.outcome == "violated"]
        assert not [r for r in records if r.outcome == "unsupported"]
