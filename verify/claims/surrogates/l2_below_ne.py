"""At the same temperature the L2 surrogate is below the entropy surrogate."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import mpmath
import sympy
import z3
from hypothesis import strategies as st

from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Plot, Run, Source, Table
from verify.claims.surrogates._family import (
    EXPONENTS,
    decided,
    digits_error,
    float_gap,
    label,
    precise_gap,
    precise_weights,
    vectors,
)
from verify.claims.surrogates._shared import ARITHMETIC, DIGITS
from verify.oracles import smt
from verify.search import Proof, Property, Step, Study, proved


def measure(case: Case) -> Measured:
    """The gap with the larger exponent beta against the gap with the smaller one, alpha."""
    r, tau, alpha, beta = case["r"], case["tau"], case["alpha"], case["beta"]

    def careful() -> Measured:
        value, bound = precise_gap(r, tau, beta), precise_gap(r, tau, alpha)
        return Measured(value, bound, digits_error(value, bound))

    (value, error), (bound, more) = float_gap(r, tau, beta), float_gap(r, tau, alpha)
    return decided(Kind.UPPER, Measured(value, bound, error + more), careful)


def majorization(case: Case) -> Measured:
    """The weight on all centers at distance c or more, with the larger exponent against the
    smaller, for the c above min r where they are nearest to each other. Weights fall as distances
    rise and ties share theirs, so this is majorization of the sorted weights."""
    r, tau = case["r"], case["tau"]
    with mpmath.workdps(DIGITS + 10):
        p, q = (precise_weights(r, tau, case[name]) for name in ("alpha", "beta"))
        tails = [
            [
                mpmath.fsum(w for w, v in zip(weights, r, strict=True) if v >= c)
                for weights in (q, p)
            ]
            for c in sorted({*r})[1:]
        ]
        ratios = [(q / p if p else q, q, p) for q, p in tails]
        _, value, bound = max(ratios, default=(0, 0, 0))
        return Measured(value, bound, digits_error(value, bound))


def pairs(low: tuple[Fraction, ...], high: tuple[Fraction, ...]) -> st.SearchStrategy[Case]:
    choices = [(a, b) for a in low for b in high if a < b]
    return st.builds(
        lambda c, pair: Case(r=c["r"], tau=c["tau"], alpha=pair[0], beta=pair[1]),
        vectors(),
        st.sampled_from(choices),
    )


def likelihood_ratio(run: Run) -> Iterator[Step]:
    """Let p be the softmax weights, q those of an exponent beta > 1, and w = q / p. Then
    E_q r - E_p r = 1/2 sum_ij p_i p_j (w_i - w_j)(r_i - r_j), and w falls as r rises."""
    w1, w2, r1, r2 = sympy.symbols("w1 w2 r1 r2")
    under_p, under_q = sympy.symbols("E_p E_q")
    moments = {(0, 0): 1, (1, 0): 1, (0, 1): under_p, (1, 1): under_q}
    # for independent draws of two indices from p, the mean of each monomial factors
    terms = sympy.Poly((w1 - w2) * (r1 - r2), w1, r1, w2, r2).terms()
    total = sum(c * moments[n[:2]] * moments[n[2:]] for n, c in terms)
    yield proved(
        "E_q r - E_p r is half the sum over pairs, for every k",
        sympy.expand(total / 2 - (under_q - under_p)) == 0,
    )
    # on the support of q, r / tau = const - q^(beta-1) / (beta-1), so with p = exp(-r / tau) / Z
    q, beta = sympy.symbols("q beta", positive=True)
    log_w = sympy.log(q) - q ** (beta - 1) / (beta - 1)
    rise = sympy.simplify(sympy.diff(log_w, q) * q - (1 - q ** (beta - 1)))
    yield proved("d log w / d log q = 1 - q^(beta-1), which is >= 0 for q <= 1", rise == 0)
    # so in every pair w and r are ordered oppositely; off the support w is 0 and r the larger
    a, b, c, d = z3.Reals("w_i w_j r_i r_j")
    opposite = [z3.Implies(a > b, c <= d), z3.Implies(a < b, c >= d)]
    yield smt.decide("every term of the sum is <= 0", opposite, (a - b) * (c - d) <= 0)


def single_crossing(run: Run) -> Iterator[Step]:
    """The whole family: weights of two exponents cross once, as functions of the distance."""
    v, less = sympy.symbols("v alpha-1", positive=True)
    alpha = 1 + less
    weight = v ** (1 / less)  # v = (alpha-1) z - theta
    slope = sympy.diff(weight, v) * less / weight ** (2 - alpha)
    yield proved("a weight p has slope p^(2-alpha) in z", sympy.simplify(slope) == 1)
    # with v = exp(-x), x > 0: v^(2-beta) / v^(2-alpha) = exp((beta-alpha) x) > 1
    x, step = sympy.symbols("x step", positive=True)
    ratio = (sympy.exp(-x) ** (2 - (alpha + step)) / sympy.exp(-x) ** (2 - alpha)).simplify()
    yield proved(
        "where they meet, at 0 < v < 1, the larger exponent has the larger slope",
        sympy.simplify(ratio - sympy.exp(step * x)) == 0,
    )
    # a second road: dp_j/dalpha = s_j (phi(v_j) - mean phi) with s = p^(2-alpha), v = p^(alpha-1),
    # so dS/dalpha is a covariance of r with a function of v that rises while r falls
    alpha = sympy.Symbol("alpha", positive=True)
    phi = v * (1 - sympy.log(v)) / (alpha - 1) ** 2
    rise = sympy.simplify(sympy.diff(phi, v) + sympy.log(v) / (alpha - 1) ** 2)
    p = sympy.Function("p", positive=True)(alpha)
    mu = sympy.Function("mu")(alpha)
    kkt = sympy.diff(p ** (alpha - 1) / (alpha - 1) + mu, alpha)
    move = sympy.solve(kkt, sympy.diff(p, alpha))[0] / p ** (2 - alpha)
    want = phi.subs(v, p ** (alpha - 1)) - sympy.diff(mu, alpha)
    same = sympy.simplify(sympy.expand(sympy.expand_log(move - want, force=True)))
    yield proved(
        "dS/dalpha is the covariance of r with an increasing function of the weights: <= 0",
        rise == 0 and same == 0,
    )


def curve(claim: Claim, run: Run, e: Evidence) -> None:
    """Gaps where one center is nearest and the other five are equally far."""
    k, tau = 6, Fraction(1)
    names = [label(a) for a in EXPONENTS]
    rows = []
    for n in range(1, 49):
        excess = Fraction(n, 8)
        r = [Fraction(0)] + [excess] * (k - 1)
        for alpha, beta in pairwise(EXPONENTS):
            answer, _ = claim.judge(Case(r=r, tau=tau, alpha=alpha, beta=beta))
            e.count(answer)
        rows.append([float(excess), *(float_gap(r, tau, a)[0] for a in EXPONENTS)])
    e.tables.append(
        Table(
            "gap-by-excess",
            "Gap for k = 6, five centers farther than the nearest by the same excess",
            ("excess over temperature", *names),
            rows,
            Plot(
                x="excess over temperature",
                lines=tuple(names),
                x_label="(r_j - min r) / temperature",
                y_label="gap / temperature",
                caption="Larger exponents are tighter at every point, and reach the minimum at "
                "excess 1/(alpha - 1); the entropy surrogate never does.",
            ),
        )
    )


CLAIM = Claim(
    id="l2-below-ne",
    title="L2 is tighter than entropy at the same temperature",
    says="For the same distances and temperature the sparsemax-based surrogate is never above the "
    "softmax-based one; they are equal only where all distances are equal.",
    statement=r"\langle P_{L2}(r/\tau), r\rangle \le \langle P_{NE}(r/\tau), r\rangle \qquad "
    r"\text{for all } r \in \mathbb{R}^k,\ \tau > 0",
    sources=(Source("summary", "App. H, p. 33; Section 3, p. 8"), Source("review", "design 3")),
    kind=Kind.UPPER,
    bound=r"\langle P_{NE}(r/\tau), r\rangle",
    measure=measure,
    checks=(
        Proof(
            "likelihood-ratio",
            Method.SYMBOLIC,
            likelihood_ratio,
            scope="entropy against every exponent beta > 1, every k and r",
            decides_all=True,
        ),
        Property(
            "random",
            scope="k <= 8, L2 against entropy",
            strategy=pairs(EXPONENTS[:1], EXPONENTS[-1:]),
            count=400,
            arithmetic=ARITHMETIC,
        ),
        Study(
            "curve",
            Method.PROPERTY,
            curve,
            scope="k = 6, 48 excesses, 5 regularizers in order",
            arithmetic=ARITHMETIC,
        ),
        Proof(
            "single-crossing",
            Method.SYMBOLIC,
            single_crossing,
            scope="1 < alpha < beta",
            variant="any two exponents of the entmax family",
        ),
        Property(
            "family",
            scope="k <= 8, exponents 1, 5/4, 3/2, 7/4, 2 in pairs",
            strategy=pairs(EXPONENTS, EXPONENTS),
            count=300,
            variant="any two exponents of the entmax family",
            arithmetic=ARITHMETIC,
        ),
        Property(
            "majorization",
            scope="k <= 8, sorted weights, partial sums",
            strategy=pairs(EXPONENTS, EXPONENTS),
            count=200,
            measure=majorization,
            variant="the weights of the larger exponent majorize those of the smaller",
            arithmetic="mpmath (50 digits)",
        ),
    ),
    falsify="an r and a temperature where the L2 surrogate is above the entropy surrogate",
    theory="surrogates.md#tighter-regularizers",
)
