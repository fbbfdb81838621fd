"""The Lipschitz constant of the surrogate does not depend on the temperature."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import sympy
import z3

from verify.claim import (
    Case,
    Claim,
    Evidence,
    Kind,
    Measured,
    Method,
    Plot,
    Run,
    Source,
    Table,
    compare,
)
from verify.claims.surrogates._family import label
from verify.claims.surrogates._shared import ARITHMETIC
from verify.claims.surrogates._slopes import (
    ENTMAX,
    L2,
    NE,
    ascent,
    fastest_turn,
    hunt,
    sharp_slope,
    slope,
    smoothness,
    turn,
)
from verify.oracles import smt
from verify.search import Adversarial, Exhaustive, Proof, Step, Study, proved

SHARP = "the sharp constants, free of the temperature"


def growth(case: Case) -> Measured:
    """By how much the Lipschitz constant can grow at most when the temperature falls tenfold: its
    bound, which holds at every temperature, over a slope found at the higher temperature.

    The slope is taken where one center is nearest and the others are equally far: at the end of
    the support (L2), or at the excess 2 tau M_k of the steepest point (entropy).
    """
    k, tau, alpha = case["k"], case["tau"], case["alpha"]
    excess = tau
    if alpha == NE:
        excess *= Fraction(2 * float(sharp_slope(alpha, k))).limit_denominator(1000)
    step = tau / 1000
    r = [Fraction(0)] + [excess] * (k - 1)
    other = [step] + [excess - step] * (k - 1)
    found = slope(Case(r=r, other=other, tau=tau, alpha=alpha, norm="inf"))
    value = found.bound / found.value
    error = value * found.error / found.value
    answers = {"Lipschitz bound at every temperature": found.bound, "slope found": found.value}
    note = f"from r = (0, x, ..., x) to (h, x - h, ..., x - h), x = {excess}, h = {step}"
    if alpha == NE:
        return Measured(float(value), 10, float(error) + 1e-15, answers, note)
    return Measured(value, 10, error, answers, note)


def constants(run: Run) -> Iterator[Step]:
    """The sums of absolute gradient entries are at most 3 - 2/k and M_k, whatever tau is."""
    tau, total, squares, s, rj = sympy.symbols("tau R1 R2 s r_j", positive=True)
    threshold = (tau + total) / s
    value = (threshold * total - squares) / tau
    entry = sympy.diff(value, total) + sympy.diff(value, squares) * 2 * rj
    weight = (threshold - rj) / tau
    yield proved("L2: dS/dr_j = 2 P_j - 1/s", sympy.simplify(entry - (2 * weight - 1 / s)) == 0)
    p, q = z3.Reals("p q")  # q = 1/s
    top = z3.If(2 * p >= q, 2 * p - q, q - 2 * p)
    yield smt.decide("|2p - 1/s| <= 2p + 1/s", [p >= 0, q >= 0], top <= 2 * p + q)
    yield smt.decide("|2p - 1/s| = 2p - 1/s if p >= 1/s", [q >= 0, p >= q], top == 2 * p - q)
    yield proved(
        "so the sum is at most 3 - 2/s: one weight is at least 1/s",
        sympy.simplify(2 - 1 / s + (s - 1) / s - (3 - 2 / s)) == 0,
    )
    square = sympy.Symbol("N")  # |P|^2 <= 1
    length = 4 * square - 4 / s + s / s**2
    same = sympy.simplify(length - 4 * square + 3 / s) == 0
    yield proved("L2: |grad S|^2 = 4 |P|^2 - 3/s <= 4 - 3/s", same)

    # entropy: with u_j = (r_j - S)/tau the entries are P_j (1 - u_j); B = {u_j > 1} has mass b
    b, inner, outer, others = sympy.symbols("b H_B H_C k-1", positive=True)
    entropy = b * inner + (1 - b) * outer - b * sympy.log(b) - (1 - b) * sympy.log(1 - b)
    excess = b * inner - b * sympy.log(b) - b * entropy - b  # sum over B of P_j (u_j - 1)
    grouped = b * (1 - b) * (inner - outer + sympy.log(1 - b) - sympy.log(b)) - b
    yield proved("entropy: sum_B P_j (u_j - 1), by entropies", sympy.expand(excess - grouped) == 0)
    # largest at H_B = log(k-1), H_C = 0; there 1 + 2 excess has its maximum where it is 1/(1-2b)
    best = 1 + 2 * grouped.subs({inner: sympy.log(others), outer: 0})
    logs = sympy.Symbol("logs")  # log(others) + log(1-b) - log(b)
    rate = sympy.diff(best, b)
    at = sympy.solve((1 - 2 * b) * logs - 2, logs)[0]
    rate = rate - 2 * ((1 - 2 * b) * (sympy.log(others) + sympy.log(1 - b) - sympy.log(b)) - 2)
    level = 1 + 2 * (b * (1 - b) * at - b) - 1 / (1 - 2 * b)
    yield proved("entropy: its maximum over b is 1/(1 - 2b)", sympy.simplify(rate) == 0)
    yield proved("with 2/(1 - 2b) = log((k-1)(1-b)/b): M_k", sympy.simplify(level) == 0)


def six_decades(claim: Claim, run: Run, e: Evidence) -> None:
    """Six distances, each temperature searched on its own."""
    rng = np.random.default_rng(e.seed)
    rows: list[list[float]] = []
    farthest = Fraction(0)
    for n in range(7):
        tau = Fraction(1, 10**n)
        row = [float(tau)]
        for alpha in (NE, L2):
            case = hunt(alpha, 6, tau, rng)
            farthest = max(farthest, *case["r"], *case["other"])
            m = slope(case)
            answer = compare(Kind.TIGHT, m)
            e.count(answer)
            row += [float(m.value), float(m.bound)]
            if m.value < 0.97 * m.bound:
                e.problem = f"{label(alpha)} at temperature {tau}: reached {row[-2]} of {row[-1]}"
        rows.append([*row, rows[0][1] / row[0] if rows else row[1]])
    names = ("entropy, measured", "entropy: M_6", "L2, measured", "L2: 3 - 2/6", "1 / temperature")
    e.note = f"entropy {rows[0][1]:.4f} and {rows[-1][1]:.4f}, L2 {rows[0][3]:.4f} and " + (
        f"{rows[-1][3]:.4f} at temperatures 1 and {rows[-1][0]:g}, "
        f"with distances up to {float(farthest):.3g}"
    )
    e.tables.append(
        Table(
            "lipschitz-by-temperature",
            "Steepest slope found of the surrogate of six distances (largest-entry norm)",
            ("temperature", *names),
            rows,
            Plot(
                x="temperature",
                lines=(names[1], names[3], names[4]),
                points=(names[0], names[2]),
                x_label="temperature",
                y_label="|dS| / |dr|",
                log_x=True,
                log_y=True,
                caption="Over six decades of the temperature the constant does not move; the "
                "line proportional to 1 / temperature starts from the entropy value at 1.",
            ),
        )
    )


def turning(claim: Claim, run: Run, e: Evidence) -> None:
    """The fastest turn of the gradient, found once at temperature 1 and measured at each."""
    rng = np.random.default_rng(e.seed)
    k = 6
    places = {alpha: fastest_turn(alpha, k, rng) for alpha in (NE, ENTMAX)}
    rows = []
    for n in range(7):
        tau = 10.0**-n
        row = [tau]
        for alpha, (r, d) in places.items():
            value, bound = turn(tau * r, d, tau, alpha), smoothness(alpha, k) / tau
            e.cases += 1
            e.violated += value > bound * (1 + 1e-9)  # rounding / step: 1e-15 / 1.5e-5 at most
            row += [value, bound]
        if row[3] < 0.97 * row[4]:
            e.problem = f"1.5-entmax at temperature {tau}: reached {row[3]} of {row[4]}"
        rows.append(row)
    decades = float(np.log10(rows[0][0] / rows[-1][0]))
    slopes = [float(np.log10(rows[-1][i] / rows[0][i])) / decades for i in (1, 3)]
    e.note = (
        "grows with 1 / temperature to the power {:.4f} (entropy), {:.4f} (1.5-entmax); ".format(
            *slopes
        )
        + "L2 has no finite constant"
    )
    if max(abs(x - 1) for x in slopes) > 0.01:
        e.problem = f"the power was to be 1: {slopes}"
    names = ("entropy, measured", "entropy: bound", "1.5-entmax, measured", "1.5-entmax: k / tau")
    e.tables.append(
        Table(
            "smoothness-by-temperature",
            "Fastest change of the gradient found, six distances (Euclidean norm)",
            ("temperature", *names),
            rows,
            Plot(
                x="temperature",
                lines=(names[1], names[3]),
                points=(names[0], names[2]),
                x_label="temperature",
                y_label="|d grad S| / |dr|",
                log_x=True,
                log_y=True,
                caption="What does grow like 1 / temperature: the smoothness constant.",
            ),
        )
    )


steepest = partial(Adversarial, measure=slope, kind=Kind.TIGHT, reach=0.97, variant=SHARP)

CLAIM = Claim(
    id="surrogate-lipschitz",
    title="How the Lipschitz constant of the surrogate depends on the temperature",
    says="The Lipschitz constant of the smoothed minimum diverges in proportion to the inverse of "
    "the temperature.",
    statement=r"\mathrm{Lip}\bigl(r \mapsto \langle P_\Omega(r/\tau), r\rangle\bigr) \propto "
    r"\frac1\tau \quad (\tau \to 0)",
    sources=(
        Source("review", "design 3 and trade-off 3 of theorem 3.1"),
        Source("summary", "App. H, p. 33"),
    ),
    kind=Kind.LOWER,
    bound=r"\frac{\mathrm{Lip}(S^{\tau/10})}{\mathrm{Lip}(S^{\tau})} \ge 10, \quad \text{while in "
    r"truth } \mathrm{Lip}_\infty(S_{L2}^\tau) = 3 - \tfrac2k,\ \mathrm{Lip}_\infty(S_{NE}^\tau) "
    r"= M_k \text{ for every } \tau",
    measure=growth,
    checks=(
        Exhaustive(
            "as-stated",
            scope="k = 2, 3, 6, 25, 100, temperatures 1 to 1e-6, L2 and entropy",
            cases=lambda run: (
                Case(k=k, tau=Fraction(1, 10**n), alpha=alpha)
                for k, n, alpha in itertools.product((2, 3, 6, 25, 100), range(7), (L2, NE))
            ),
            arithmetic="exact rationals (L2), float64 with a rounding bound (entropy)",
        ),
        Proof("constants", Method.SYMBOLIC, constants, scope="every k, r, tau", variant=SHARP),
        steepest(
            "ascent-l2",
            scope="L2, largest-entry norm, constant 3 - 2/k",
            search=ascent(L2),
            arithmetic="float64 search, exact judge",
        ),
        steepest(
            "ascent-l2-euclidean",
            scope="L2, Euclidean norm, squares: constant 4 - 3/k",
            search=ascent(L2, "2"),
            arithmetic="float64 search, exact judge",
        ),
        steepest(
            "ascent-ne",
            scope="entropy, largest-entry norm, constant M_k",
            search=ascent(NE),
            arithmetic=ARITHMETIC,
        ),
        Study(
            "six-decades",
            Method.ADVERSARIAL,
            six_decades,
            scope="k = 6, temperatures 1 to 1e-6",
            variant=SHARP,
            arithmetic="float64 search, exact (L2) or mpmath (entropy) judge",
        ),
        Study(
            "smoothness",
            Method.ADVERSARIAL,
            turning,
            scope="k = 6, temperatures 1 to 1e-6, entropy and 1.5-entmax",
            variant="the smoothness constant, which does grow like 1/tau",
            arithmetic="numpy float64",
        ),
    ),
    falsify="a temperature at which a slope is found that is ten times as steep as at ten times "
    "the temperature",
    theory="surrogates.md#lipschitz-constant",
)
