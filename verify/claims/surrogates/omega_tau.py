"""How much the weights move when the distances move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import sympy
import z3
from hypothesis import strategies as st

from constructions import surrogate_weights
from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Plot, Run, Source, Table
from verify.claims.surrogates._family import (
    decided,
    digits_error,
    evolve,
    exact_weights,
    floats,
    label,
    precise,
    precise_weights,
    vectors,
)
from verify.claims.surrogates._shared import ARITHMETIC, DIGITS
from verify.oracles import smt
from verify.search import Adversarial, Proof, Property, Step, Study, proved

STEP = 1 / 128
"""Length scale of the search's steps, in units of the temperature."""


def measure(case: Case) -> Measured:
    """(tau |P(r/tau) - P(r'/tau)| / |r - r'|)^2 against omega^2, for r and r' whose entries lie
    within `span` of each other."""
    r, other, tau, alpha = case["r"], case["other"], case["tau"], case["alpha"]
    moved = sum(((a - b) ** 2 for a, b in zip(r, other, strict=True)), Fraction(0)) / tau**2
    if alpha == 2:
        p, q = exact_weights(r, tau), exact_weights(other, tau)
        return Measured(_square_distance(p, q) / moved, Fraction(1))

    def careful() -> Measured:
        with mpmath.workdps(DIGITS + 10):
            p, q = (precise_weights(v, tau, alpha) for v in (r, other))
            value = _square_distance(p, q) / precise(moved)
            bound = softmax_omega(len(r), precise(case["span"] / tau)) ** 2
            return Measured(value, bound, digits_error(1 / precise(moved), bound))

    # a softmax weight is off by at most p (u + E u + 2k + 8) eps, all of them by (3k + 10) eps
    p, q = (surrogate_weights(floats(v), float(tau), "ne") for v in (r, other))
    value = float(((p - q) ** 2).sum()) / float(moved)
    bound = float(softmax_omega(len(r), float(case["span"] / tau)) ** 2)
    error = 4 * (3 * len(r) + 10) * 2.0**-52 / float(moved) ** 0.5
    return decided(Kind.TIGHT, Measured(value, bound, error), careful)


def softmax_omega(k: int, span: Any) -> Any:
    """Sharp for distances within `span` temperatures of each other: 1 / (2 + (k-2) e^-span)."""
    return 1 / (2 + (k - 2) * mpmath.exp(-span))


def _square_distance(p: list[Any], q: list[Any]) -> Any:
    return sum((a - b) ** 2 for a, b in zip(p, q, strict=True))


def constants(run: Run) -> Iterator[Step]:
    """1/tau and 1/(2 tau), each from a few numbers, so for every k."""
    # L2: P and P' are projections of z and z', so |P - P'|^2 <= <z - z', P - P'>
    d, inner, n = z3.Reals("d inner n")
    nonexpansive = [d >= 0, n >= 0, d * d <= inner, inner * inner <= d * d * n * n]
    yield smt.decide("L2: |P - P'| <= |r - r'| / tau", nonexpansive, d <= n)
    # entropy: v^T J v is the variance of v under P, at most ((max v - min v)/2)^2 <= |v|^2 / 2
    z = sympy.symbols("z0:3", real=True)
    p = [sympy.exp(x) / sum(map(sympy.exp, z)) for x in z]
    jacobian = sympy.Matrix(3, 3, lambda i, j: sympy.diff(p[i], z[j]))
    stated = sympy.diag(*p) - sympy.Matrix(p) * sympy.Matrix(p).T
    same = (jacobian - stated).applyfunc(sympy.simplify) == sympy.zeros(3, 3)
    yield proved("entropy: J = diag P - P P^T (k = 3)", same)
    low, high, mean, second = z3.Reals("low high mean second")
    inside = [second <= (low + high) * mean - low * high]  # E (high - v)(v - low) >= 0
    quarter = 4 * (second - mean * mean) <= (high - low) * (high - low)
    yield smt.decide("entropy: variance <= (max v - min v)^2 / 4", inside, quarter)
    halves = (high - low) * (high - low) <= 2 * (low * low + high * high)
    yield smt.decide("(max v - min v)^2 <= 2 |v|^2, so |J| <= 1/2", [], halves)


def limited_range(run: Run) -> Iterator[Step]:
    """Softmax, all distances within R: the largest eigenvalue of J is at most
    1 / (2 + (k-2) x), x = exp(-R / tau).

    It solves sum_i p_i / (p_i - lambda) = 0. In units of lambda, q_1 = 1 + a is the only weight
    above 1, the others are at least l = x (1 + a), and their phi(q) = q / (1 - q) add up to
    (1 + a) / a. phi is convex, so their sum is least with all but one at l; then it suffices that
    the total 1 / lambda is at least 2 + n x, n = k - 2.
    """
    p, lam, t = sympy.symbols("p lambda t", positive=True)
    secular = sympy.simplify(p**2 / (p - lam) - p - lam * p / (p - lam))
    yield proved("secular equation", secular == 0)
    bend = sympy.simplify(sympy.diff(t / (1 - t), t, 2) - 2 / (1 - t) ** 3)
    yield proved("phi is convex below 1", bend == 0)
    a, n, x, ell, y = z3.Reals("a n x l y")
    # y = phi(q_2), cleared of denominators; q_2 = y / (1 + y) >= l
    extreme = [a > 0, n >= 0, x > 0, ell == x * (1 + a), ell < 1]
    extreme += [a * (1 - ell) * y == (1 + a) * (1 - ell) - n * a * ell, y * (1 - ell) >= ell]
    goal = (1 + y) * a * (1 + n * x) >= 1
    yield smt.decide("1/lambda >= 2 + n x at the extreme", extreme, goal)


def pairs(alpha: Fraction) -> st.SearchStrategy[Case]:
    def build(c: Case, shifts: list[int]) -> Case:
        r, tau = c["r"], c["tau"]
        step = [tau * Fraction(s, 64) for s in shifts[: len(r)]]
        other = [v + s for v, s in zip(r, step, strict=True)]
        if other == r:
            other = [r[0] + tau / 8, *r[1:]]
        span = max(max(r) - min(r), max(other) - min(other))
        return Case(r=r, other=other, tau=tau, alpha=c["alpha"], span=span)

    base = vectors((alpha,), min_k=2)
    return st.builds(build, base, st.lists(st.integers(-128, 128), min_size=8, max_size=8))


def hunt(alpha: Fraction, k: int, tau: Fraction, span: float, rng: np.random.Generator) -> Case:
    """The pair at which the weights move most, for distances in [0, span * tau]."""

    step = min(STEP, span / 64)

    def ends(x: Any) -> tuple[Any, Any]:
        r, d = x[..., :k], x[..., k:]
        d = d / np.abs(d).max(-1, keepdims=True)  # no tiny steps, which would measure rounding
        return r, r + step * d

    def fitness(x: Any) -> Any:
        r, other = ends(x)
        p, q = (surrogate_weights(v, 1.0, float(alpha)) for v in (r, other))
        return ((p - q) ** 2).sum(-1) / ((r - other) ** 2).sum(-1)

    low, high = [step] * k + [-1.0] * k, [span - step] * k + [1.0] * k
    ends_found = ends(evolve(fitness, low, high, rng, 200))
    scale = 2**30
    r, other = ([tau * Fraction(round(v * scale), scale) for v in end] for end in ends_found)
    return Case(r=r, other=other, tau=tau, alpha=alpha, span=tau * Fraction(span))


def ascent(alpha: Fraction, span: float) -> Callable[[Run, int], Iterator[tuple[str, Case]]]:
    def search(run: Run, seed: int) -> Iterator[tuple[str, Case]]:
        rng = np.random.default_rng(seed)
        for k in (2, 3, 6, 12):
            for tau in (Fraction(1), Fraction(1, 1000)):
                for _ in range(run.count(1)):
                    yield f"{k}, tau = {float(tau):g}", hunt(alpha, k, tau, span, rng)

    return search


def by_temperature(claim: Claim, run: Run, e: Evidence) -> None:
    """Distances in [0, 1], k = 6: the stability parameter as the temperature falls."""
    rng = np.random.default_rng(e.seed)
    rows: list[list[float]] = []
    for n in range(2, -7, -1):
        tau = Fraction(2) ** n
        row = [float(tau)]
        for alpha in (Fraction(1), Fraction(2)):
            case = hunt(alpha, 6, tau, float(1 / tau), rng)
            answer, m = claim.judge(case)
            e.count(answer)
            row += [float(m.value) ** 0.5, float(m.bound) ** 0.5]
            if row[-2] < 0.97 * row[-1]:
                e.problem = f"{label(alpha)}, temperature {row[0]}: {row[-2]} of {row[-1]} reached"
        if rows and row[1] < 0.97 * rows[-1][1]:
            e.violated += 1  # softmax's parameter is to increase as the temperature falls
        rows.append(row)
    names = ("entropy, measured", "entropy: 1/(2 + 4 exp(-1/tau))", "L2, measured", "L2: 1")
    e.note = f"softmax: {rows[0][1]:.4f} at temperature {rows[0][0]:g}, {rows[-1][1]:.4f} at " + (
        f"{rows[-1][0]:g}, never above 1/2; L2: 1 throughout"
    )
    e.tables.append(
        Table(
            "omega-by-temperature",
            "Stability parameter of the weights for six distances in [0, 1]",
            ("temperature", *names),
            rows,
            Plot(
                x="temperature",
                lines=(names[1], names[3]),
                points=(names[0], names[2]),
                x_label="temperature",
                y_label="omega = tau |dP| / |dr|",
                log_x=True,
                caption="Softmax's parameter does increase as the temperature falls, but it "
                "saturates at 1/2.",
            ),
        )
    )


CLAIM = Claim(
    id="omega-tau",
    title="Stability of the weights: omega is at most 1/2 for softmax and 1 for L2",
    says="The weights are Lipschitz in the distances with constant omega over the temperature. "
    "For softmax omega increases as the temperature falls, but only up to 1/2; for L2 it is 1 at "
    "every temperature.",
    statement=r"\left\|P_\Omega(r/\tau) - P_\Omega(r'/\tau)\right\|_2 \le "
    r"\frac{\omega_\tau}{\tau} \left\|r - r'\right\|_2, \qquad \text{softmax: } \omega_\tau "
    r"\text{ increases as } \tau \downarrow",
    sources=(Source("summary", "App. H, pp. 33-34"), Source("review", "theorem 3.1")),
    kind=Kind.TIGHT,
    bound=r"\omega_{L2} = 1, \quad \omega_{NE} = \frac{1}{2 + (k-2)\,e^{-R/\tau}} < \tfrac12 "
    r"\text{ for } r, r' \text{ in a range } R, \text{ and } \tfrac12 \text{ on } \mathbb{R}^k",
    measure=measure,
    checks=(
        Proof(
            "constants",
            Method.SMT,
            constants,
            scope="every k, r and r'",
            decides_all=True,
            sharper="omega is 1 (L2) and at most 1/2 (softmax), at every temperature",
        ),
        Proof("limited-range", Method.SMT, limited_range, scope="softmax, every k, within R"),
        Property("random-l2", scope="k <= 8, L2", strategy=pairs(Fraction(2)), count=200),
        Property(
            "random-ne",
            scope="k <= 8, softmax",
            strategy=pairs(Fraction(1)),
            count=200,
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent-l2",
            scope="L2, k = 2, 3, 6, 12, temperatures 1 and 1/1000; squares of omega",
            search=ascent(Fraction(2), 4.0),
            reach=0.97,
            arithmetic="float64 search, exact judge",
        ),
        Adversarial(
            "ascent-ne",
            scope="softmax, k = 2, 3, 6, 12, temperatures 1 and 1/1000; squares of omega",
            search=ascent(Fraction(1), 64.0),
            reach=0.97,
            arithmetic="float64 search and judge with a rounding bound, else mpmath (50 digits)",
        ),
        Study(
            "by-temperature",
            Method.ADVERSARIAL,
            by_temperature,
            scope="k = 6, distances in [0, 1], 9 temperatures",
            arithmetic="float64 search, exact or mpmath judge",
        ),
    ),
    falsify="two vectors of distances whose weights differ by more than omega / tau times their "
    "distance, or a softmax whose parameter falls with the temperature",
    theory="surrogates.md#stability-of-the-weights",
)
