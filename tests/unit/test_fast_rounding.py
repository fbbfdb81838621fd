"""How far float32 can move the fast transformer: the bound of docs/training.md, and a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions import blocked
from constructions.codes import NAMED
from constructions.fast import FastTransformer
from constructions.objective import centered
from constructions.trainable import TrainableTransformer

DOUBLE = torch.float64
U = 2.0**-24  # half the distance of 1 to the next float32


@dataclass(frozen=True)
class Rough:
    """A value, and how far what float32 makes of it can be off."""

    value: Any
    error: Any

    @classmethod
    def exact(cls, value: Any) -> Rough:
        return cls(value, torch.zeros_like(value))

    @property
    def size(self) -> Any:
        return self.value.abs() + self.error

    @property
    def mT(self) -> Rough:  # noqa: N802 - as in torch
        return Rough(self.value.mT, self.error.mT)

    def __getitem__(self, index: Any) -> Rough:
        return Rough(self.value[index], self.error[index])

    def rounded(self, times: int = 1) -> Rough:
        return Rough(self.value, self.error + times * U / (1 - times * U) * self.size)

    def __add__(self, other: Rough) -> Rough:
        return Rough(self.value + other.value, self.error + other.error).rounded()

    def __sub__(self, other: Rough) -> Rough:
        return Rough(self.value - other.value, self.error + other.error).rounded()

    def times(self, factor: float) -> Rough:
        return Rough(factor * self.value, abs(factor) * self.error).rounded(2)  # the factor, too

    def __matmul__(self, other: Rough) -> Rough:
        """Sums of m products, in any order: each is rounded at most m times."""
        m = self.value.shape[-1]
        spread = self.error @ other.size + self.value.abs() @ other.error
        rounding = m * U / (1 - m * U) * (self.size @ other.size)
        return Rough(self.value @ other.value, spread + rounding)

    def plus_product(self, a: Rough, b: Rough) -> Rough:
        """self + a @ b as one sum: what is added may take part in every rounding."""
        found, m = a @ b, a.value.shape[-1] + 2
        rounding = m * U / (1 - m * U) * (self.size + a.size @ b.size)
        return Rough(self.value + found.value, self.error + found.error + rounding)

    def times_elementwise_summed(self, other: Rough) -> Rough:
        """Sums over the rows, (..., r, m) to (..., m)."""
        columns = [Rough(r.value.mT[..., None, :], r.error.mT[..., None, :]) for r in (self, other)]
        found = columns[0] @ columns[1].mT
        return Rough(found.value[..., 0, 0], found.error[..., 0, 0])


def joined(*parts: Rough, dim: int) -> Rough:
    shape = torch.broadcast_shapes(*(p.value.shape[:2] for p in parts))

    def cat(values: list[Any]) -> Any:
        return torch.cat([v.expand(*shape, *v.shape[2:]) for v in values], dim=dim)

    return Rough(cat([p.value for p in parts]), cat([p.error for p in parts]))


def attention(Q: Rough, K: Rough, offsets: Rough, V: Rough) -> Rough:
    """Scores off by at most delta put weights off by a factor within exp(+-2 delta). Scaling a
    score and subtracting the largest are 6 roundings of what it is a sum of; exponential, sum,
    quotient and mean of V are 2n + 12 roundings of weights."""
    row = Rough(offsets.value[..., None], offsets.error[..., None])
    scores, terms = row.plus_product(K.mT, Q), K.mT.size @ Q.size + row.size
    delta = (scores.error + 6 * U * terms).amax(dim=-2, keepdim=True)
    factor = torch.expm1(2 * delta) + (2 * scores.value.shape[-2] + 12) * U
    P = torch.softmax(scores.value, dim=-2)
    return Rough(V.value @ P, factor * (V.size @ P) + V.error @ P)


def weights(Q: Rough, K: Rough, offsets: Rough) -> Rough:
    """What `attention` gives of one key each, (..., n, m)."""
    n = K.value.shape[-1]
    return attention(Q, K, offsets, Rough.exact(torch.eye(n, dtype=DOUBLE)))


def bound(
    model: TrainableTransformer, parameters: Any, X: Any, C: Any, few: int = blocked.FEW
) -> Rough:
    """`FastTransformer.__call__` operation by operation: values (S, B, k, d) and their errors."""
    d, g, width = model.d, model.scale, model.d_qkv
    one_hot = model.table.name == "one_hot"
    points = centered(X)
    x, c = (Rough.exact(v.mT) - Rough.exact(points.median) for v in (X, C))
    median = Rough.exact(points.median)
    codes = Rough.exact(torch.tensor(model.table.table.astype(float)).mT).rounded()

    def read(name: str) -> tuple[Rough, Rough]:
        matrix = parameters[name]
        bias = parameters.get(f"{name}_bias", matrix.new_zeros(matrix.shape[:-1]))
        return Rough.exact(matrix[:, None]), Rough.exact(bias[:, None, :, None])

    def of_codes(matrix: Rough) -> Rough:
        return matrix if one_hot else matrix @ codes

    def affine(matrix: Rough, shift: Rough | None = None) -> Rough:
        """One product of [matrix, shift] with [c, 1], beside what the codes add."""
        ones = Rough.exact(torch.ones_like(c.value[..., :1, :]))
        zero = Rough.exact(torch.zeros_like(matrix.value[..., :1]))
        whole = joined(matrix[..., :d], shift or zero, dim=-1)
        return of_codes(matrix[..., d:]).plus_product(whole, joined(c, ones, dim=-2))

    def squares(keys: Rough) -> Rough:
        return keys.times_elementwise_summed(keys).times(-g)

    Wq, bq = read("points_from_points.query")
    Wk, bk = read("points_from_points.key")
    Wq, Wk = Wq[..., :d], Wk[..., :d]
    gap = (Wq - Wk) @ median + (bq - bk)
    twice = Wk.mT.times(2 * g)
    A = (twice @ gap).plus_product(twice @ Wq, x)
    G = Wk.mT.times(g) @ Wk
    offsets = (G @ x).times_elementwise_summed(x)
    average = attention(A, x, offsets.times(-1.0), x)

    Wq, bq = read("points_from_centers.query")
    Wk, bk = read("points_from_centers.key")
    gap = (Wk[..., :d] - Wq[..., :d]) @ median + (bk - bq)
    twice = Wq[..., :d].mT.times(2 * g)
    kappa, keys = affine(Wk, gap), affine(twice @ Wk, twice @ gap)
    offsets = squares(kappa)

    Wq, bq = read("centers_from_points.query")
    Wk, bk = read("centers_from_points.key")
    Wv, bv = read("centers_from_points.value")
    reader = joined(Wk, Wv[..., :d, :], dim=-2)
    cross, cross_bias = read("points_from_centers.value")
    own, own_bias = read("points_from_points.value")
    of_points, of_cross, of_own = reader[..., :d], reader @ cross, reader @ own[..., :d]
    of_center, of_code = of_cross[..., :d], of_cross[..., d:]
    middle = (of_points + of_center + of_own) @ median + reader @ (cross_bias + own_bias)
    gap = Wq[..., :d] @ median + (bq - bk) - middle[..., :width, :]
    Q, constant = affine(Wq, gap).times(2 * g), middle[..., width:, :] + bv[..., :d, :]
    fixed = (of_points @ x).plus_product(of_own, average)
    if model.k <= few:
        values = of_codes(of_code).plus_product(of_center, c)
        P = weights(x, keys, offsets)
        K = fixed[..., :width, :].plus_product(values[..., :width, :], P)
        P2 = weights(Q, K, squares(K))
        new = values[..., width:, :] @ (P @ P2)
        new = new.plus_product(of_points[..., width:, :], x @ P2)
        new = new.plus_product(of_own[..., width:, :], average @ P2)
    else:
        if one_hot:
            tokens = attention(x, keys, offsets, of_code.plus_product(of_center, c)) + fixed
        else:
            averages = attention(x, keys, offsets, joined(c, codes[None, None], dim=-2))
            tokens = fixed.plus_product(of_center, averages[..., :d, :])
            tokens = tokens.plus_product(of_code, averages[..., d:, :])
        K, V = tokens[..., :width, :], tokens[..., width:, :]
        new = attention(Q, K, squares(K), V)

    Wq, bq = read("centers_from_centers.query")
    Wk, bk = read("centers_from_centers.key")
    Wv, bv = read("centers_from_centers.value")
    gap = (Wq[..., :d] - Wk[..., :d]) @ median + (bq - bk)
    Q, K = affine(Wq, gap).times(2 * g), affine(Wk)
    constant = constant + Wv[..., :d, :d] @ median + bv[..., :d, :]
    new = c + constant + new + attention(Q, K, squares(K), affine(Wv[..., :d, :]))
    return (new + median).mT


@settings(max_examples=80)
@given(
    S=st.integers(1, 2),
    B=st.integers(1, 3),
    d=st.integers(1, 6),
    k=st.integers(1, 8),
    more=st.integers(0, 60),
    code=st.sampled_from([name for name in NAMED if name != "powers"]),
    gamma=st.sampled_from([0.1, 1.0, 4.0]),
    multiplier=st.integers(1, 2),
    few=st.sampled_from([0, blocked.FEW]),
    shift=st.sampled_from([0.0, 0.0, 100.0]),
    seed=st.integers(0, 999),
)
def test_float32_is_within_its_bound(
    S: int, B: int, d: int, k: int, more: int, code: str, gamma: float, multiplier: int, few: int,
    shift: float, seed: int,
) -> None:  # fmt: skip
    model = TrainableTransformer(d, k, code, gamma, qkv_multiplier=multiplier)
    generator = torch.Generator().manual_seed(seed)
    parameters = {n: p.float() for n, p in model.initial(generator, (S,)).items()}
    X = torch.rand(S, B, k + more, d, generator=generator) + shift
    C = X[:, :, :k]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocked, "FEW", few)
        single = FastTransformer(model)(parameters, X, C)
    exact = {n: p.to(DOUBLE) for n, p in parameters.items()}
    X, C = X.to(DOUBLE), C.to(DOUBLE)
    double = model({n: p[:, None] for n, p in exact.items()}, X, C)
    found = bound(model, exact, X, C, few)
    # the same function, and its float64 rounding is nothing beside the bound
    torch.testing.assert_close(found.value, double, rtol=1e-9, atol=1e-9)
    assert bool(((single.to(DOUBLE) - double).abs() <= found.error).all())


def test_the_bound_says_something() -> None:
    """At the size of a task in training it leaves three digits."""
    model = TrainableTransformer(4, 6)
    generator = torch.Generator().manual_seed(0)
    parameters = model.initial(generator, (2,))
    X = torch.rand(2, 3, 512, 4, generator=generator, dtype=DOUBLE)
    found = bound(model, parameters, X, X[:, :, :6])
    assert float((found.error / found.value.abs().amax()).max()) < 1e-3
