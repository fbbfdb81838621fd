"""The L2 surrogate has kinks; away from them it is smooth, and everywhere weakly convex."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import sympy
import z3
from hypothesis import strategies as st

from constructions import surrogate_gradient
from verify.claim import (
    Case,
    Claim,
    Evidence,
    Hypothesis,
    Kind,
    Measured,
    Method,
    Plot,
    Run,
    Source,
    Table,
)
from verify.claims.surrogates._family import exact_gradient, exact_value, floats
from verify.claims.surrogates._shared import SCRIPT
from verify.oracles import smt
from verify.oracles import surrogates as oracle
from verify.search import Exhaustive, Proof, Property, Step, Study, proved
from verify.strategies import distances

Row = list[Fraction]


def edges(r: Row, tau: Fraction) -> Row:
    """sum_i max(r_j - r_i, 0) - tau for every j: negative in the support, 0 at its edge."""
    return [sum((max(v - w, Fraction(0)) for w in r), Fraction(0)) - tau for v in r]


def measure(case: Case) -> Measured:
    """The largest difference of the two one-sided slopes along an axis, against 0. Near r the
    surrogate is a quadratic on either side, so three values of it give its slope exactly."""
    r, tau = case["r"], case["tau"]
    here, h = exact_value(r, tau), quiet_step(r, tau)

    def slope(j: int, side: int) -> Fraction:
        once, twice = (exact_value(_moved(r, j, n * side * h), tau) for n in (1, 2))
        return side * (4 * once - twice - 3 * here) / (2 * h)

    slopes = [(slope(j, -1), slope(j, 1)) for j in range(len(r))]
    gap, j = max((abs(b - a), j) for j, (a, b) in enumerate(slopes))
    answers = {"slope from below": slopes[j][0], "slope from above": slopes[j][1]}
    return Measured(gap, Fraction(0), answers=answers, note=f"in direction of r_{j}")


def quiet_step(r: Row, tau: Fraction) -> Fraction:
    """So short that two steps along an axis cross no support change and no coincidence of entries
    but those at r: an entry of `edges` moves by at most k times the step."""
    margins = [abs(c) / len(r) for c in edges(r, tau) if c]
    margins += [abs(v - w) for v in r for w in r if v != w]
    return min(margins, default=tau) / 5


def _moved(r: Row, j: int, by: Fraction) -> Row:
    return [v + by * (i == j) for i, v in enumerate(r)]


NO_EDGE = Hypothesis(
    "no center at the edge of the support",
    "sum_i max(r_j - r_i, 0) differs from tau for every center j",
    lambda case: 0 not in edges(case["r"], case["tau"]),
    extra=True,
)


def integers(run: Run) -> Iterator[Case]:
    """The minimum is 0 without loss: a shift of r shifts the surrogate."""
    for k in range(3):
        for rest in itertools.product(range(4), repeat=k):
            yield Case(r=[Fraction(0), *map(Fraction, rest)], tau=Fraction(1))


def jump(case: Case) -> Measured:
    """Center j = the last one is at the edge. The gradient's limits from both sides of it, squared
    distance, against 1/(s(s-1)), where s counts the support with center j."""
    r, tau = case["r"], case["tau"]
    j, h = len(r) - 1, quiet_step(r, tau)

    def limit(side: int) -> Row:  # the gradient is affine on either side: 2 g(h) - g(2h)
        once, twice = (exact_gradient(_moved(r, j, n * side * h), tau) for n in (1, 2))
        return [2 * a - b for a, b in zip(once, twice, strict=True)]

    inside, outside = limit(-1), limit(1)
    s = sum(c < 0 for c in edges(r, tau)) + 1
    found = sum((a - b) ** 2 for a, b in zip(inside, outside, strict=True))
    return Measured(found, Fraction(1, s * (s - 1)), answers={"inside": inside, "outside": outside})


@st.composite
def at_edge(draw: st.DrawFn) -> Case:
    """Any r, and one more center exactly at the threshold."""
    case = draw(distances(7))
    r, tau = case["r"], case["tau"]
    inside = [v for v, c in zip(r, edges(r, tau), strict=True) if c < 0]
    return Case(r=[*r, (tau + sum(inside, Fraction(0))) / len(inside)], tau=tau)


def convexity(case: Case) -> Measured:
    """S(middle) - mean of S(ends) against |r - r'|^2 / (4 tau): what it means for
    S + |r|^2 / tau to be convex."""
    r, other, tau = case["r"], case["other"], case["tau"]
    middle = [(a + b) / 2 for a, b in zip(r, other, strict=True)]
    ends = (exact_value(r, tau) + exact_value(other, tau)) / 2
    apart = sum(((a - b) ** 2 for a, b in zip(r, other, strict=True)), Fraction(0))
    return Measured(exact_value(middle, tau) - ends, apart / (4 * tau))


def identity(case: Case) -> Measured:
    """S against tau (dist(z, simplex)^2 + kappa) - |r|^2 / tau, z = -r / tau."""
    r, tau = case["r"], case["tau"]
    p, z = oracle.sparsemax(r, tau), [-v / tau for v in r]
    j = max(range(len(r)), key=lambda i: p[i])
    kappa = z[j] - p[j]
    distance = sum(((a - b) ** 2 for a, b in zip(z, p, strict=True)), Fraction(0))
    square = sum((v * v for v in r), Fraction(0))
    return Measured(exact_value(r, tau), tau * (distance + kappa) - square / tau)


@st.composite
def couples(draw: st.DrawFn) -> Case:
    """Two vectors of distances, a few temperatures apart."""
    case = draw(distances(8))
    r, tau = case["r"], case["tau"]
    shift = draw(st.lists(st.integers(-24, 24), min_size=len(r), max_size=len(r)))
    return Case(r=r, other=[v + tau * s / 12 for v, s in zip(r, shift, strict=True)], tau=tau)


HALF = Fraction(1, 2)
FULL_CELL = Case(r=[HALF] * 3, other=[HALF + HALF, HALF - HALF, HALF], tau=Fraction(4))
"""All three weights stay positive between the ends, and the ends differ by a sum of zero."""


def kinks(run: Run) -> Iterator[Step]:
    """The jump, for every support size; and the convexity of S + |r|^2 / tau."""
    s, tau, total, squares, size = sympy.symbols("s tau R1 R2 s0", positive=True)
    # weights are continuous, so where center j enters a support of s - 1, 2 P - 1/(s-1) becomes
    # 2 P - 1/s on the old support, and 0 becomes -1/s at j
    norm = (s - 1) * (1 / (s - 1) - 1 / s) ** 2 + 1 / s**2
    same = sympy.simplify(norm - 1 / (s * (s - 1))) == 0
    yield proved("the gradient jumps by 1/sqrt(s(s-1)) at every edge", same)
    delta = sympy.Symbol("delta", positive=True)
    two = sympy.diff(delta * (1 - delta / tau) / 2, delta).subs(delta, tau)
    yield proved("k = 2: slope -1/2 before delta = tau, 0 after", two == -sympy.Rational(1, 2))
    # z - P = kappa on the support, so kappa = <z - P, P>; in the inner products of z and P:
    z2, zp, p2 = sympy.symbols("zz zP PP")
    kappa, dist2 = zp - p2, z2 - 2 * zp + p2
    value = -tau * zp
    rest = sympy.expand(value - (tau * (dist2 + kappa) - tau * z2))
    yield proved("S = tau (dist^2 + kappa) - |r|^2 / tau", rest == 0)
    # kappa's epigraph is {sum_j max(z_j - kappa, 0) <= 1}; each term is jointly convex
    a, b, c, d = z3.Reals("z1 kappa1 z2 kappa2")

    def positive(x: z3.ArithRef) -> z3.ArithRef:
        return z3.If(x > 0, x, 0)

    middle = 2 * positive((a + c) / 2 - (b + d) / 2) <= positive(a - b) + positive(c - d)
    yield smt.decide("kappa is convex: max(z - kappa, 0) is jointly convex", [], middle)
    # along a direction of sum 0 in a cell the second derivative is -2/tau per unit of length
    threshold = (tau + total) / size
    cell = sympy.expand((threshold * total - squares) / tau)
    yield proved(
        "2/tau is sharp: S = c - R2/tau at constant R1",
        sympy.diff(cell, squares) == -1 / tau,
    )


def slopes(claim: Claim, run: Run, e: Evidence) -> None:
    """The slope of S(0, delta) in delta, for three regularizers."""
    names, tau = ("entropy", "entmax 1.5", "L2"), Fraction(1)
    places = {Fraction(n, 20) for n in range(61)} | {Fraction(999, 1000), Fraction(1001, 1000)}
    rows = []
    for d in sorted(places - {tau}):
        r = [Fraction(0), d]
        rows.append(
            [float(d), *(float(surrogate_gradient(floats(r), 1.0, a)[1]) for a in (1, 1.5, 2))]
        )
        e.cases += 1
        e.violated += exact_gradient(r, tau)[1] != (HALF - d if d < tau else 0)
    e.note = "L2: slope 1/2 - delta/tau before delta = tau, then 0"
    e.tables.append(
        Table(
            "slope-by-distance",
            "Slope of the surrogate of two centers in the excess of the farther one",
            ("excess over temperature", *names),
            rows,
            Plot(
                x="excess over temperature",
                lines=names,
                x_label="excess / temperature",
                y_label="slope",
                caption="L2 jumps from -1/2 to 0 where the second center leaves the support. "
                "1.5-entmax arrives at 0 without a jump, the entropy surrogate never.",
            ),
        )
    )


CLAIM = Claim(
    id="l2-differentiable",
    title="Differentiability of the L2 surrogate",
    says="Regularizing the minimum with the squared norm of the weights gives a differentiable "
    "upper bound of the loss.",
    statement=r"S_{L2}^\tau(r) = \langle P_{L2}(r/\tau), r\rangle \text{ is differentiable at "
    r"every } r \in \mathbb{R}^k",
    sources=(
        Source("summary", "App. H, p. 32; App. A, p. 18 says almost everywhere"),
        Source("review", "design 3"),
    ),
    kind=Kind.EQUALITY,
    bound=r"\partial_j^- S_{L2}^\tau = \partial_j^+ S_{L2}^\tau; \quad \text{in truth } \left\|"
    r"\nabla S^{\text{in}} - \nabla S^{\text{out}}\right\|_2 = \frac{1}{\sqrt{s(s-1)}}",
    hypotheses=(NO_EDGE,),
    measure=measure,
    checks=(
        Exhaustive(
            "as-stated",
            scope="integers 0 to 3, k = 1, 2, 3, temperature 1",
            assuming=(),
            cases=integers,
            until_violation=True,
        ),
        Property("away-from-edges", scope="k <= 6, rational r", strategy=distances(6), count=150),
        Proof(
            "kinks",
            Method.SYMBOLIC,
            kinks,
            scope="every k",
            variant="size of the kinks, and weak convexity",
        ),
        Property(
            "jump",
            scope="k <= 8, one center exactly at the edge",
            strategy=at_edge(),
            count=150,
            measure=jump,
            assuming=(),
            variant="the gradient jumps by exactly 1/sqrt(s(s-1)) (squares)",
        ),
        Property(
            "weak-convexity",
            scope="k <= 8, rational pairs",
            strategy=couples(),
            count=250,
            examples=(FULL_CELL,),
            measure=convexity,
            kind=Kind.TIGHT,
            assuming=(),
            variant="S + |r|^2 / tau is convex: S is (2/tau)-weakly convex",
        ),
        Property(
            "identity",
            scope="k <= 8, rational r",
            strategy=distances(8),
            count=200,
            measure=identity,
            assuming=(),
            variant="S = tau (dist^2 + kappa) - |r|^2 / tau",
        ),
        Study(
            "slope",
            Method.EXACT,
            slopes,
            scope="k = 2, 62 distances off the edge",
            variant="the kink of two centers",
            arithmetic="exact rationals (fmpq); the other regularizers in float64",
        ),
    ),
    falsify="for the repaired form: an r without a center at the edge where two one-sided slopes "
    "differ; for the kinks: an edge where they agree",
    theory="surrogates.md#the-gradient",
    conflict="App. H, p. 32, says differentiable; App. A, p. 18, differentiable almost everywhere",
    script=SCRIPT,
)
