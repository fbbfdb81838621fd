"""The local bound: the gradient of one model on one task, bounded from what the model does there.

Where Theorem 3.1 takes the worst attention weights, tokens and matrices, this takes the actual
ones, and bounds the rest: a sum over queries by the sum of the norms, and how a token is moved by
the first two modules by operator norms. Biases are parameters like all others. The gradient itself
comes out of the same pass. Proof: docs/theory/lipschitz.md, "One model and one task".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import mpmath
import numpy as np

from constructions import surrogate_gradient
from constructions.trainable import ROLES, TrainableTransformer

_BLOCK = 1 << 22  # numbers in the largest array made for a block of queries


@dataclass(frozen=True)
class Local:
    """Of the loss summed over the points.

    Attributes
    ----------
    bound, gradient : mpmath numbers; norm of the gradient in all parameters, and its bound
    bounds, gradients : the same for each matrix and each bias by name; root of the sum of squares
        of these is the whole
    """

    bound: Any
    gradient: Any
    bounds: dict[str, Any]
    gradients: dict[str, Any]


class _Module(NamedTuple):
    """One attention module at work: its matrices and the bias of the values, and the tokens of
    queries and keys as they are and projected; rows are tokens."""

    Q: Any
    K: Any
    V: Any
    tokens: Any
    others: Any
    q: Any
    k: Any
    v_bias: Any


class _Rows(NamedTuple):
    """What some queries of a module attend to: weights (m, n) and mean token (m, e)."""

    at: slice
    weights: Any
    mean: Any


def local(
    model: TrainableTransformer,
    parameters: Mapping[str, Any],
    X: Any,
    C: Any,
    temperature: float,
    regularizer: Any,
) -> Local:
    """The local bound of a model without batch dimensions.

    Parameters
    ----------
    model : with softmax attention
    parameters : arrays by name, see `TrainableTransformer.names`
    X, C : (n, d) points and (k, d) centers
    temperature, regularizer : of the surrogate, any that `surrogate` takes

    Raises
    ------
    OverflowError
        the numbers overflow even in the widest floating type of this machine.
    """
    for kind in (np.float64, np.longdouble):
        with np.errstate(over="ignore", invalid="ignore"):
            parts = _parts(model, parameters, X, C, temperature, regularizer, kind)
        numbers = {name: tuple(map(_exact, pair)) for name, pair in parts.items()}
        if all(mpmath.isfinite(v) for pair in numbers.values() for v in pair):
            bounds, gradients = ({name: p[i] for name, p in numbers.items()} for i in (0, 1))
            return Local(_root(bounds), _root(gradients), bounds, gradients)
    raise OverflowError("the gradient of this model overflows")


def _parts(
    model: TrainableTransformer,
    parameters: Mapping[str, Any],
    X: Any,
    C: Any,
    tau: float,
    regularizer: Any,
    kind: Any,
) -> dict[str, tuple[Any, Any]]:
    """(bound, gradient) of each parameter; see the theory page for the letters."""
    weights = {name: np.asarray(a, dtype=kind) for name, a in parameters.items()}
    X, C = np.asarray(X, dtype=kind), np.asarray(C, dtype=kind)
    c = kind(model.scale)
    points = np.hstack([X, np.zeros((len(X), model.table.width), dtype=kind)])
    centers = np.hstack([C, model.table.table.astype(kind)])

    def module(name: str, tokens: Any, others: Any) -> _Module:
        Q, K, V = (weights[f"{name}.{role}"] for role in ROLES)
        b_Q, b_K, b_V = (weights.get(f"{name}.{role}_bias", kind(0)) for role in ROLES)
        return _Module(Q, K, V, tokens, others, tokens @ Q.T + b_Q, others @ K.T + b_K, b_V)

    first = {
        "points_from_centers": module("points_from_centers", points, centers),
        "points_from_points": module("points_from_points", points, points),
    }
    moved = points + sum(_output(m, c) for m in first.values())
    second = {
        "centers_from_points": module("centers_from_points", centers, moved),
        "centers_from_centers": module("centers_from_centers", centers, centers),
    }
    updated = centers + sum(_output(m, c) for m in second.values())

    # h: the gradient of the loss in the updated centers' tokens
    apart = updated[:, None, : model.d] - X  # (k, n, d)
    r = (apart * apart).sum(-1).T
    if not np.isfinite(r).all():
        return dict.fromkeys(model.names, (kind(np.inf), kind(np.inf)))
    excess = (r - r.min(-1, keepdims=True)) / kind(tau)
    g = surrogate_gradient(np.minimum(excess, 1e300).astype(float), 1.0, regularizer)
    h = np.zeros_like(centers)
    h[:, : model.d] = 2 * np.einsum("ij,jid->jd", g.astype(kind), apart)

    found: dict[str, tuple[Any, Any]] = {}
    for name, m in second.items():
        found |= {f"{name}.{role}": pair for role, pair in _of_module(m, c, h, None).items()}
    # G: the gradient in the updated points; eta: its bound, a sum of norms over the centers
    G, eta = _pulled_back(second["centers_from_points"], c, h)
    for name, m in first.items():
        found |= {f"{name}.{role}": pair for role, pair in _of_module(m, c, G, eta).items()}
    return {name: found[name] for name in model.names}


def _blocks(m: _Module, c: Any) -> Iterator[_Rows]:
    """The queries of a module, some at a time."""
    e, n = m.tokens.shape[-1], len(m.others)
    step = max(1, _BLOCK // (n * e))
    squares = (m.k * m.k).sum(-1)
    for start in range(0, len(m.tokens), step):
        at = slice(start, start + step)
        scores = -c * ((m.q[at] * m.q[at]).sum(-1)[:, None] + squares - 2 * m.q[at] @ m.k.T)
        a = np.exp(scores - scores.max(-1, keepdims=True))
        a /= a.sum(-1, keepdims=True)
        yield _Rows(at, a, a @ m.others)


def _output(m: _Module, c: Any) -> Any:
    """What is added to the tokens of the queries."""
    return np.concatenate([rows.mean for rows in _blocks(m, c)]) @ m.V.T + m.v_bias


def _of_module(m: _Module, c: Any, h: Any, eta: Any) -> dict[str, tuple[Any, Any]]:
    """(bound, gradient) of the matrices and biases of one module.

    `h` (m, e) is the gradient of the loss in its outputs. With `eta` (m,), the bound does not use
    the direction of h but only that |h_j| <= eta_j.
    """
    sums = {name: h.dtype.type(0) for name in _GROUPS}  # of norms over the queries
    whole: dict[str, Any] = dict.fromkeys(_GROUPS, h.dtype.type(0))
    for at, a, mean in _blocks(m, c):
        up, tokens, q = h[at], m.tokens[at], m.q[at]
        apart = m.others - mean[:, None, :]  # (m, n, e)
        S = (a[..., None] * apart).swapaxes(-1, -2) @ apart
        side = apart @ m.K.T  # of the keys from their mean
        center = q - a @ m.k  # of the query from there
        # the gradient in the scores, then in queries and keys. Weights w sum to 0 over the keys, so
        # what all keys have in common does not act: all is made of differences, and the products of
        # query minus key and token count from the product of their means
        w = 2 * c * a * (apart * (up @ m.V)[:, None, :]).sum(-1)
        u = (w[..., None] * side).sum(1)
        turned = (w[..., None] * side).sum(0)
        whole["value"] = whole["value"] + up.T @ mean
        whole["value_bias"] = whole["value_bias"] + up.sum(0)
        whole["query"] = whole["query"] + u.T @ tokens
        whole["query_bias"] = whole["query_bias"] + u.sum(0)
        whole["key"] = whole["key"] + center.T @ (w[..., None] * apart).sum(1) - turned.T @ m.others
        whole["key_bias"] = whole["key_bias"] - turned.sum(0)
        if eta is None:
            size, turn = _norm(up), _norm(u)
            spread = np.sqrt(np.maximum(_quadratic(up @ m.V, S), 0))
        else:
            size = eta[at]
            turn = 2 * c * size * _operator(m.K @ S @ m.V.T)
            spread = size * np.sqrt(_operator(m.V @ S @ m.V.T))
        width = (side * side).sum(-1)
        tilt = (
            (center * center).sum(-1)[:, None] * (apart * apart).sum(-1)
            + width * (m.others * m.others).sum(-1)
            - 2 * (center[:, None, :] * side).sum(-1) * (apart * m.others).sum(-1)
        )
        sums["value"] += (size * _norm(mean)).sum()
        sums["value_bias"] += size.sum()
        sums["query"] += (turn * _norm(tokens)).sum()
        sums["query_bias"] += turn.sum()
        sums["key"] += (2 * c * spread * np.sqrt(np.maximum((a * tilt).sum(-1), 0))).sum()
        sums["key_bias"] += (2 * c * spread * np.sqrt((a * width).sum(-1))).sum()
    return {name: (sums[name], np.sqrt((whole[name] ** 2).sum())) for name in _GROUPS}


_GROUPS = (*ROLES, *(f"{role}_bias" for role in ROLES))


def _pulled_back(m: _Module, c: Any, h: Any) -> tuple[Any, Any]:
    """The gradient (n, e) of the loss in the keys-and-values of a module, and a bound (n,) on its
    norms."""
    G, eta = np.zeros_like(m.others), np.zeros(len(m.others), dtype=h.dtype)
    for at, a, mean in _blocks(m, c):
        up = h[at] @ m.V
        along = ((m.others - mean[:, None, :]) * up[:, None, :]).sum(-1)
        pull = 2 * c * along[..., None] * (m.q[at][:, None, :] - m.k)
        terms = a[..., None] * (up[:, None, :] + pull @ m.K)
        G += terms.sum(0)
        eta += _norm(terms).sum(0)
    return G, eta


def _norm(rows: Any) -> Any:
    return np.sqrt((rows * rows).sum(-1))


def _quadratic(rows: Any, S: Any) -> Any:
    return np.einsum("je,jef,jf->j", rows, S, rows)


def _operator(M: Any) -> Any:
    """Spectral norms of matrices (m, e, e). LAPACK knows no wider type than float64; there, the
    Frobenius norm is at least as large."""
    if M.dtype == np.float64 and np.isfinite(M).all():
        return np.linalg.norm(M, 2, axis=(1, 2))
    return np.sqrt((M * M).sum((1, 2)))


def _exact(number: Any) -> Any:
    """Any floating type as an mpmath number."""
    if not np.isfinite(number):
        return mpmath.inf
    mantissa, exponent = np.frexp(number)
    return mpmath.ldexp(float(mantissa), int(exponent))


def _root(parts: dict[str, Any]) -> Any:
    return mpmath.sqrt(sum(v * v for v in parts.values()))


def largest_norm(parameters: Mapping[str, Any]) -> float:
    """Largest spectral norm of the matrices, each with its bias as one more column."""
    found = 0.0
    for name, M in parameters.items():
        if not name.endswith("_bias"):
            whole = np.asarray(M, dtype=float)
            bias = parameters.get(f"{name}_bias")
            if bias is not None:
                whole = np.column_stack([whole, np.asarray(bias, dtype=float)])
            size = float(np.abs(whole).max())
            found = max(found, size and size * float(np.linalg.norm(whole / size, 2)))
    return found if math.isfinite(found) else math.inf
