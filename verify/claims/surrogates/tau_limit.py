"""The surrogate tends to the minimum as the temperature falls, and to the mean as it rises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import sympy
import z3
from hypothesis import strategies as st

from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Plot, Run, Source, Table
from verify.claims.surrogates._family import (
    EXPONENTS,
    decided,
    digits_error,
    exact_gap,
    float_gap,
    precise,
    precise_gap,
    vectors,
)
from verify.claims.surrogates._shared import ARITHMETIC, DIGITS
from verify.oracles import smt
from verify.search import Proof, Property, Step, Study, proved


def measure(case: Case) -> Measured:
    """The distance of the surrogate to the limit named in the case, against its bound:
    tau (max Omega - min Omega) for the minimum, sum_j (r_j - mean)^2 / tau for the mean."""
    r, tau, alpha = case["r"], case["tau"], case["alpha"]
    k = len(r)
    mean = sum(r, Fraction(0)) / k
    far, spread = mean - min(r), sum(((v - mean) ** 2 for v in r), Fraction(0))

    def sides(gap: Any, number: Callable[[Fraction], Any]) -> tuple[Any, Any]:
        if case["limit"] == "mean":
            return number(far) - gap, number(spread / tau)
        return gap, number(tau) * (
            number(Fraction(k - 1, 2 * k)) if alpha == 2 else number(Fraction(1)) * width(alpha, k)
        )

    if alpha == 2:
        return Measured(*sides(exact_gap(r, tau), Fraction))

    def careful() -> Measured:
        with mpmath.workdps(DIGITS + 10):
            value, bound = sides(precise_gap(r, tau, alpha), precise)
            return Measured(value, bound, digits_error(value, bound, precise(far)))

    gap, error = float_gap(r, tau, alpha)
    value, bound = sides(gap, float)
    rounding = 4 * 2.0**-52 * (float(far) + gap + float(bound))
    return decided(Kind.UPPER, Measured(value, float(bound), error + rounding), careful)


def width(alpha: Fraction, k: int) -> Any:
    """max Omega - min Omega over the simplex."""
    if alpha == 1:
        return mpmath.log(k)
    a = precise(alpha)
    return (1 - mpmath.mpf(k) ** (1 - a)) / (a * (a - 1))


def rates(run: Run) -> Iterator[Step]:
    """Both limits, with rates, from the optimality of P against a vertex and against the uniform
    weights u. Only a handful of numbers matters, so k is not restricted."""
    gap, at_p, at_vertex, least, tau = z3.Reals("gap at_p at_vertex least tau")
    optimal = [tau > 0, gap + tau * at_p <= tau * at_vertex, at_p >= least]
    yield smt.decide(
        "0 <= S - min r <= tau (Omega(e_a) - min Omega)", optimal, gap <= tau * (at_vertex - least)
    )
    # Omega is 1-strongly convex, so with D = |P - u|: Omega(P) - Omega(u) >= D^2/2, and the
    # objective at u is at least tau D^2/2 above its minimum; below = mean - S = <u - P, r - mean>
    below, D, rise, square = z3.Reals("below D rise square")
    convex = [tau > 0, D >= 0, rise >= D * D / 2, below - tau * rise >= tau * D * D / 2]
    schwarz = [below * below <= D * D * square, square >= 0]
    yield smt.decide("tau |P - u|^2 <= mean - S", convex, tau * D * D <= below)
    yield smt.decide(
        "0 <= mean - S <= sum (r_j - mean)^2 / tau",
        [tau > 0, D >= 0, tau * D * D <= below, *schwarz],
        z3.And(below >= 0, below * tau <= square),
    )
    # Omega'' = p^(alpha-2) = exp((2 - alpha) (-log p)) with both factors nonnegative
    slack, minus_log = sympy.symbols("slack minus_log", nonnegative=True)
    yield proved("Omega'' >= 1 on (0, 1] for 1 <= alpha <= 2", (slack * minus_log).is_nonnegative)
    alpha, k = sympy.symbols("alpha k", positive=True)
    omega = (1 - k ** (1 - alpha)) / (alpha * (alpha - 1))
    ends = sympy.limit(omega, alpha, 1) - sympy.log(k), omega.subs(alpha, 2) - (1 - 1 / k) / 2
    yield proved(
        "max Omega - min Omega = (1 - k^(1-alpha)) / (alpha (alpha-1)): log k, ..., (k-1)/(2k)",
        all(sympy.simplify(x) == 0 for x in ends),
    )


def cases(exponents: tuple[Fraction, ...]) -> st.SearchStrategy[Case]:
    return st.builds(
        lambda c, limit: Case(**c, limit=limit),
        vectors(exponents),
        st.sampled_from(["min", "mean"]),
    )


def curve(claim: Claim, run: Run, e: Evidence) -> None:
    """Distances to both limits, of the two regularizers of the paper."""
    r = [Fraction(n, 2) for n in (0, 1, 2, 3, 4, 8)]
    rows = []
    for n in range(-3, 13):
        tau = Fraction(2) ** n
        row: list[float | None] = [float(tau)]
        bounds = []
        for limit in ("min", "mean"):
            for alpha in (EXPONENTS[0], EXPONENTS[-1]):
                answer, m = claim.judge(Case(r=r, tau=tau, alpha=alpha, limit=limit))
                e.count(answer)
                row.append(float(m.value) if m.value > 0 else None)
                bounds.append(float(m.bound))
        rows.append([*row, *bounds[:3]])
    points = ("entropy: S - min", "L2: S - min", "entropy: mean - S", "L2: mean - S")
    lines = ("entropy: tau log k", "L2: tau (k-1)/(2k)", "sum (r_j - mean)^2 / tau")
    e.tables.append(
        Table(
            "distance-to-limits",
            "How far the surrogate is from the minimum and from the mean of r",
            ("temperature", *points, *lines),
            rows,
            Plot(
                x="temperature",
                lines=lines,
                points=points,
                x_label="temperature",
                y_label="distance",
                log_x=True,
                log_y=True,
                caption="r = (0, 1/2, 1, 3/2, 2, 4). Once its support is full, L2 lies on the "
                "bound to the mean; up to temperature 1/2 it is the minimum (not drawn).",
            ),
        )
    )


CLAIM = Claim(
    id="tau-limit",
    title="From the minimum at low temperature to the mean at high temperature",
    says="As the temperature tends to zero the smoothed minimum tends to the minimum, and as it "
    "grows without limit to the plain mean of the distances. Both distances have explicit bounds, "
    "proportional to the temperature and to its inverse.",
    statement=r"\lim_{\tau \to 0} \langle P_\Omega(r/\tau), r\rangle = \min_j r_j, \qquad "
    r"\lim_{\tau \to \infty} \langle P_\Omega(r/\tau), r\rangle = \tfrac1k \textstyle\sum_j r_j",
    sources=(
        Source("summary", "App. H, p. 32: the bound reaches the discrete loss as tau tends to 0"),
        Source("beyond", "the rates, and the limit at high temperature"),
    ),
    kind=Kind.UPPER,
    bound=r"S - \min r \le \tau\,(\max\Omega - \min\Omega), \qquad \bar r - S \le "
    r"\tfrac1\tau \textstyle\sum_j (r_j - \bar r)^2 \quad (1 \le \alpha \le 2)",
    measure=measure,
    checks=(
        Proof(
            "rates",
            Method.SMT,
            rates,
            scope="every k and r, exponents 1 to 2",
            decides_all=True,
        ),
        Property("l2", scope="k <= 8, rational r", strategy=cases((Fraction(2),)), count=300),
        Property(
            "family",
            scope="k <= 8, exponents 1, 5/4, 3/2, 7/4",
            strategy=cases(EXPONENTS[:-1]),
            count=300,
            arithmetic=ARITHMETIC,
        ),
        Study(
            "curve",
            Method.PROPERTY,
            curve,
            scope="one r, 16 temperatures, both limits, entropy and L2",
            arithmetic=ARITHMETIC,
        ),
    ),
    falsify="an r and a temperature where either distance is larger than its bound",
    theory="surrogates.md#limits",
)
