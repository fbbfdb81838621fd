"""The smoothed loss in the distances, and in the centers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy
import torch
import z3
from hypothesis import strategies as st

from constructions import rational_array, surrogate
from constructions.trainable import Tensor, squared_distances
from verify.bounds.symbols import entropy_slope
from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Plot, Run, Source, Table
from verify.claims.lipschitz._shared import RECONSTRUCTION, climb, source
from verify.oracles import smt
from verify.search import Adversarial, Proof, Property, Step, Study, proved
from verify.strategies import distances

DIGITS = 40
SIZES = (2, 3, 6, 25, 100)


def measure(case: Case) -> Measured:
    """|loss(r) - loss(r')| against G max |r - r'|; exact for L2, 40 digits for the entropy."""
    r, other, tau = case["r"], case["other"], case["tau"]
    length = max(abs(a - b) for a, b in zip(r, other, strict=True))
    if case["regularizer"] == "l2":
        low, high = (_exact(v, tau) for v in (r, other))
        return Measured(abs(low - high), (3 - Fraction(2, len(r))) * length)
    with mpmath.workdps(DIGITS + 10):
        low, high = (entropy_loss(v, tau) for v in (r, other))
        bound = slope(len(r)) * _precise(length)
        error = (abs(low) + abs(high) + bound) * mpmath.mpf(10) ** -DIGITS
        return Measured(abs(low - high), bound, error)


@cache
def slope(k: int) -> Any:
    """G_NE(k) to `DIGITS` digits."""
    with mpmath.workdps(DIGITS + 10):
        return entropy_slope(k)


def _exact(r: list[Fraction], tau: Fraction) -> Fraction:
    value = surrogate(rational_array(r), tau, "l2")
    return Fraction(int(value.p), int(value.q))


def _precise(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def entropy_loss(r: list[Fraction], tau: Fraction) -> Any:
    """<softmax(-r / tau), r> from the definition, in the working precision of mpmath."""
    weights = [mpmath.exp(-_precise((a - min(r)) / tau)) for a in r]
    return mpmath.fdot(weights, [_precise(a) for a in r]) / mpmath.fsum(weights)


@st.composite
def pairs(draw: st.DrawFn, regularizer: str) -> Case:
    base = draw(distances(6, 2, regularizers=(regularizer,)))
    k, tau = len(base["r"]), base["tau"]
    steps = draw(st.lists(st.integers(-8, 8), min_size=k, max_size=k))
    if not any(steps):
        steps[0] = 1
    other = [a + tau * Fraction(s, 16) for a, s in zip(base["r"], steps, strict=True)]
    return Case(r=base["r"], other=other, tau=tau, regularizer=base["regularizer"])


def gradient(r: Tensor, regularizer: str) -> Tensor:
    """At temperature 1, in closed form: functions of the weights alone."""
    if regularizer == "ne":
        p = torch.softmax(-r, -1)
        log = torch.log_softmax(-r, -1)
        return p * (1 + log - (p * log).sum(-1, keepdim=True))
    s = torch.sort(r, -1).values
    count = torch.arange(1, r.shape[-1] + 1, dtype=torch.float64)
    inside = count * s - s.cumsum(-1) < 1
    size = inside.sum(-1, keepdim=True)
    threshold = (1 + (s * inside).sum(-1, keepdim=True)) / size
    p = (threshold - r).clamp(min=0)
    return torch.where(p > 0, 2 * p - 1 / size, 0.0 * p)


def starts(regularizer: str, k: int, count: int, rng: np.random.Generator) -> Tensor:
    """Distances at temperature 1 where some entries of the gradient are negative: for the entropy
    a few units apart, for L2 just inside the support."""
    top = 4 + math.log(k) if regularizer == "ne" else 1.0
    r = torch.from_numpy(rng.uniform(top * (regularizer == "l2") * 0.8, top, (count, k)))
    r[: count // 2, 1:] = torch.from_numpy(rng.uniform(0.5 * top, 0.98 * top, (count // 2, 1)))
    r[:, 0] = 0
    return r


def steepest(regularizer: str, r: Tensor, top: float, steps: int) -> Tensor:
    """Ascent of |gradient|_1 over distances in [0, top], at temperature 1."""

    def objective(s: dict[str, Tensor]) -> Tensor:
        return gradient(s["r"], regularizer).abs().sum(-1)

    def project(a: Tensor) -> Tensor:
        return a.detach().clamp(0, top)

    return climb(objective, {"r": r}, {"r": project}, steps, 0.02 * min(1.0, top))["r"]


def ascent(regularizer: str) -> Callable[[Run, int], Iterator[tuple[str, Case]]]:
    """The steepest place, then a short step along the signs of the gradient."""

    def search(run: Run, seed: int) -> Iterator[tuple[str, Case]]:
        rng = np.random.default_rng(seed)
        for k in SIZES:
            best = steepest(regularizer, starts(regularizer, k, 8, rng), 40.0, run.count(250, 200))
            for r in best:
                signs = torch.sign(gradient(r, regularizer))
                for tau in (Fraction(1, 100), Fraction(1), Fraction(100)):
                    near, far = (
                        [tau * Fraction(float(x)).limit_denominator(10**9) for x in end]
                        for end in (r, r + signs * 2.0**-12)
                    )
                    case = Case(r=near, other=far, tau=tau, regularizer=regularizer)
                    yield f"{k}, tau = {float(tau):g}", case

    return search


def constants(run: Run) -> Iterator[Step]:
    """Homogeneity, the gradients, and both sharp constants, for every k."""
    r, t, tau = (
        sympy.symbols("r0:3", real=True),
        sympy.symbols("t0:3"),
        sympy.Symbol("tau", positive=True),
    )

    def loss(v: Any, temperature: Any) -> Any:
        w = [sympy.exp(-x / temperature) for x in v]
        return sum(a * b for a, b in zip(w, v, strict=True)) / sum(w)

    scaled = loss([tau * x for x in t], tau) - tau * loss(t, 1)
    yield proved(
        "entropy: loss_tau(tau t) = tau loss_1(t), so the slope has no tau",
        sympy.simplify(scaled) == 0,
    )
    total = sum(sympy.diff(loss(r, 1), x) for x in r)
    yield proved("entropy: the gradient sums to 1 (k = 3)", sympy.simplify(total - 1) == 0)
    # entropy: with a sign pattern of mass q, |g|_1 = F(q) at one atom against k - 1 equal ones
    q, K = sympy.symbols("q K", positive=True)
    odds = sympy.log(q / (1 - q)) + sympy.log(K)
    F = 2 * q - 1 + 2 * q * (1 - q) * odds
    stationary = sympy.simplify(sympy.diff(F, q) - (4 - 2 * (2 * q - 1) * odds))
    yield proved("entropy: dF/dq = 4 - 2 (2q - 1)(logit q + log(k-1))", stationary == 0)
    at_top = sympy.simplify(
        F.subs(sympy.log(K), 2 / (2 * q - 1) - sympy.log(q / (1 - q))) - 1 / (2 * q - 1)
    )
    yield proved("entropy: F = 1/(2q - 1) there", at_top == 0)
    G = sympy.Symbol("G", positive=True)
    q_of_G = (G + 1) / (2 * G)
    equation = sympy.simplify((q_of_G / (1 - q_of_G)) - (G + 1) / (G - 1))
    yield proved("entropy: 2 G = log((k-1)(G+1)/(G-1))", equation == 0)
    # L2: |2 p - 1_S / s|_1 is convex in p, so largest at a vertex: (2 - 1/s) + (s - 1)/s = 3 - 2/s
    s = sympy.Symbol("s", positive=True)
    vertex = (2 - 1 / s) + (s - 1) * (1 / s)
    yield proved("L2: 3 - 2/s at a vertex", sympy.simplify(vertex - (3 - 2 / s)) == 0)
    k, size = z3.Reals("k s")
    yield smt.decide(
        "L2: 3 - 2/s <= 3 - 2/k for s <= k", [size >= 1, k >= size], 3 - 2 / size <= 3 - 2 / k
    )


def centers(claim: Claim, run: Run, e: Evidence) -> None:
    """The same for centers: |L(C) - L(C')| <= 2 n G R max_j |c_j - c'_j|, and no tau in it."""
    rng = np.random.default_rng(e.seed)
    rows = []
    for tau in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0):
        shares: dict[str, float] = {}
        for regularizer in ("ne", "l2"):
            top = 0.0
            for _ in range(run.count(60, 10)):
                k, d, n = int(rng.integers(2, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 9))
                X = torch.from_numpy(rng.uniform(size=(n, d)))
                C = torch.from_numpy(rng.uniform(-1, 2, (k, d)))
                moved = C + torch.from_numpy(rng.standard_normal((k, d))) * 2.0 ** -rng.integers(
                    1, 9
                )
                both = [squared_distances(X, c) for c in (C, moved)]
                reach = max(float(r.max()) for r in both) ** 0.5
                values = [float(surrogate(r, tau, regularizer).sum()) for r in both]
                G = float(slope(k)) if regularizer == "ne" else 3 - 2 / k
                length = float((C - moved).norm(dim=-1).max())
                bound = 2 * n * G * reach * length
                # sums of n losses below reach^2, distances right to (3 d + 4) eps
                error = 2 * n * reach**2 * (3 * d + 4 * k + 40) * 2.0**-52 * (1 + reach**2 / tau)
                m = Measured(abs(values[0] - values[1]), bound, error)
                e.cases += 1
                e.violated += m.value > m.bound + m.error
                e.undecided += m.bound - m.error < m.value <= m.bound + m.error
                top = max(top, m.value / m.bound)
            shares[regularizer] = top
        rows.append([tau, shares["ne"], shares["l2"], 1 / tau])
    e.tables.append(
        Table(
            "centers-by-temperature",
            "Largest share of 2 n G R that a random move of the centers reached",
            ("tau", "entropy", "L2", "1 / tau"),
            rows,
        )
    )


def by_temperature(claim: Claim, run: Run, e: Evidence) -> None:
    """k = 6, distances in [0, 4]: the steepest slope as the temperature falls, beside 1/tau."""
    rng = np.random.default_rng(e.seed)
    rows = []
    for tau in (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01, 0.001):
        row = [tau]
        for regularizer in ("ne", "l2"):
            start = starts(regularizer, 6, 12, rng)
            best = steepest(regularizer, start, 4 / tau, run.count(300, 100))
            row.append(float(gradient(best, regularizer).abs().sum(-1).max()))
            e.cases += 12
            e.violated += row[-1] > (float(slope(6)) if regularizer == "ne" else 3 - 2 / 6) + 1e-12
        product = 1 + 6 * 4 / tau / 2
        rows.append([*row, float(slope(6)), 3 - 2 / 6, product])
    names = ("entropy, measured", "L2, measured", "entropy: G", "L2: G", "product rule (entropy)")
    e.tables.append(
        Table(
            "slope-by-temperature",
            "Steepest slope of the surrogate, six distances in [0, 4]",
            ("tau", *names),
            rows,
            Plot(
                x="tau",
                lines=names[2:],
                points=names[:2],
                x_label="temperature tau",
                y_label="loss per max-norm change of the distances",
                log_x=True,
                log_y=True,
                caption="The product rule's bound grows like 1/tau; the slope itself does not.",
            ),
        )
    )


CLAIM = Claim(
    id="lem-I.2",
    title="The smoothed loss is stable under changes of the centers",
    says="The surrogate moves at most G times as much as the largest change of a distance, and the "
    "loss of n points at most 2 n G R times the largest move of a center. G does not depend on the "
    "temperature: 3 - 2/k for L2, and about half of log k for the entropy; both are sharp.",
    statement=r"|\ell_\tau(r) - \ell_\tau(r')| \le G_\Omega\,\|r - r'\|_\infty, \qquad "
    r"|L(\bar C) - L(\bar C')| \le 2 n G_\Omega R_\Delta \max_j \|\bar c_j - \bar c'_j\|",
    sources=(*source("App. I, pp. 34-35"), Source("review", "theorem 3.1")),
    kind=Kind.TIGHT,
    bound=r"G_{L2} = 3 - \tfrac2k, \quad 2 G_{NE} = \log\frac{(k-1)(G_{NE}+1)}{G_{NE}-1}; \quad "
    r"\text{as reconstructed: } 1 + k\,\omega\,R_\Delta^2/\tau",
    measure=measure,
    checks=(
        Proof(
            "constants",
            Method.SYMBOLIC,
            constants,
            scope="every k and tau",
            sharper="no 1/tau and no factor k: G is below 3 (L2) and about log(k)/2 (entropy)",
        ),
        Property("random-l2", scope="k <= 6, rational distances", strategy=pairs("l2"), count=300),
        Property(
            "random-ne",
            scope="k <= 6, rational distances",
            strategy=pairs("ne"),
            count=300,
            arithmetic="mpmath with 50 digits",
        ),
        Adversarial(
            "ascent-l2",
            scope="k = 2 ... 100, temperatures 1/100, 1, 100",
            search=ascent("l2"),
            reach=0.97,
            arithmetic="float64 search, exact judge",
        ),
        Adversarial(
            "ascent-ne",
            scope="k = 2 ... 100, temperatures 1/100, 1, 100",
            search=ascent("ne"),
            reach=0.97,
            arithmetic="float64 search, mpmath judge (50 digits)",
        ),
        Study(
            "centers",
            Method.EXPERIMENT,
            centers,
            scope="random centers and moves, temperatures 0.001 to 100",
            arithmetic="float64 with a rounding bound",
        ),
        Study(
            "by-temperature",
            Method.ADVERSARIAL,
            by_temperature,
            scope="k = 6, distances in [0, 4], temperatures 0.001 to 1000",
            arithmetic="float64",
        ),
    ),
    falsify="two distance vectors whose surrogates differ by more than G times their max-norm "
    "distance, or a k at which no pair comes near that",
    theory="lipschitz.md#the-loss",
    conflict=RECONSTRUCTION,
)
