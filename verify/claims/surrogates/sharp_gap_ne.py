"""The largest gap of the entropy surrogate."""

from __future__ import annotations

from collections.abc import Iterator

import sympy

from verify.claim import Claim, Kind, Method, Run, Source
from verify.claims.surrogates._shared import ascend, measure_entropy
from verify.search import Adversarial, Proof, Property, Step, proved
from verify.strategies import distances


def identity(run: Run) -> Iterator[Step]:
    """gap / tau = H(P) + log P_a = W - KL(P | P*) - h(P_a / P*_a), with h(t) = t - 1 - log t >= 0.

    W = W0((k-1)/e) satisfies (k-1) exp(-1-W) = W. P* has 1/(1+W) at a and exp(-1-W)/(1+W)
    elsewhere. With H the entropy of P and the other weights adding up to 1 - P_a, both sides are
    expressions in P_a, H and W.
    """
    weight, W, t = sympy.symbols("P_a W t", positive=True)
    H = sympy.Symbol("H", nonnegative=True)
    log_first, log_other = -sympy.log(1 + W), -1 - W - sympy.log(1 + W)
    divergence = -H - (weight * log_first + (1 - weight) * log_other)
    ratio = weight * (1 + W)
    h = ratio - 1 - (sympy.log(weight) + sympy.log(1 + W))
    difference = sympy.expand(H + sympy.log(weight) - (W - divergence - h))
    yield proved("gap / tau = W - KL(P | P*) - h(P_a / P*_a) for every k", difference == 0)
    # h has its only critical point at 1, where it is 0, and is convex: h >= 0
    h_of_t = t - 1 - sympy.log(t)
    critical = sympy.solve(sympy.diff(h_of_t, t), t) == [1] and h_of_t.subs(t, 1) == 0
    convex = sympy.diff(h_of_t, t, 2).is_positive
    yield proved("t - 1 - log t >= 0", bool(critical and convex))
    # P* sums to 1, and its log-ratio is 1 + W, so it belongs to r_j - min r = tau (1 + W)
    k = sympy.Symbol("k", positive=True)
    mass = (1 + (k - 1) * sympy.exp(-1 - W)) / (1 + W)
    whole = sympy.simplify(mass.subs(k, 1 + W * sympy.exp(1 + W)) - 1)
    yield proved(
        "P* are weights, reached at r_j - min r = tau (1 + W)",
        whole == 0 and sympy.expand(log_first - log_other - 1 - W) == 0,
    )


CLAIM = Claim(
    id="sharp-gap-ne",
    title="The entropy surrogate is at most tau W0((k-1)/e) too high",
    says="The entropy-regularized minimum exceeds the minimum by at most W0((k-1)/e) times the "
    "temperature, where W0 is Lambert's function, and there is no smaller bound. It grows with the "
    "number of centers without limit, roughly like log k.",
    statement=r"\sup_{r \in \mathbb{R}^k} \langle P_{NE}(r/\tau), r\rangle - \min_j r_j "
    r"= \tau\,W_0\!\left(\frac{k-1}{e}\right)",
    sources=(Source("beyond", "sharp form of the growth statement in the review's design 3"),),
    kind=Kind.TIGHT,
    bound=r"\tau\,W_0\!\left(\frac{k-1}{e}\right)",
    measure=measure_entropy,
    checks=(
        Proof("identity", Method.SYMBOLIC, identity, scope="every k and r", decides_all=True),
        Property(
            "random",
            scope="k <= 8, rational r, 40 digits",
            strategy=distances(8, 2, regularizers=("ne",)),
            count=500,
            arithmetic="mpmath, 50 digits",
        ),
        Adversarial(
            "ascent",
            scope="k = 2 ... 1000, random starts, judged with 40 digits",
            search=ascend("ne"),
            reach=0.99,
            arithmetic="float64 search, mpmath judge (50 digits)",
        ),
    ),
    falsify="an r whose gap is larger than tau W0((k-1)/e), or a k where no r comes near it",
    theory="surrogates.md#sharp-gaps",
)
