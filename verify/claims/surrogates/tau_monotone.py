"""A higher temperature never lowers the surrogate."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

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
    label,
    precise_gap,
    vectors,
)
from verify.claims.surrogates._shared import ARITHMETIC
from verify.oracles import smt
from verify.proofs.record import MachineChecked
from verify.search import Proof, Property, Step, Study, proved


def measure(case: Case) -> Measured:
    """The gap at the lower temperature against the gap at the higher one (min r is the same)."""
    r, alpha = case["r"], case["alpha"]
    low, high = case["tau"], case["tau"] * case["factor"]
    if alpha == 2:
        return Measured(exact_gap(r, low), exact_gap(r, high))

    def careful() -> Measured:
        value, bound = precise_gap(r, low, alpha), precise_gap(r, high, alpha)
        return Measured(value, bound, digits_error(value, bound))

    (value, error), (bound, more) = float_gap(r, low, alpha), float_gap(r, high, alpha)
    return decided(Kind.UPPER, Measured(value, bound, error + more), careful)


def cases(exponents: tuple[Fraction, ...]) -> st.SearchStrategy[Case]:
    factors = st.sampled_from([Fraction(n, 8) for n in (9, 12, 16, 64, 800)])
    return st.builds(lambda c, factor: Case(**c, factor=factor), vectors(exponents), factors)


def optimality(run: Run) -> Iterator[Step]:
    """Only four numbers matter: a_i = <P_i, r> and w_i = Omega(P_i) of minimizers at tau_1 < tau_2.
    So neither k nor Omega is restricted, and Omega need not be convex."""
    a1, a2, w1, w2, t1, t2 = z3.Reals("a1 a2 w1 w2 t1 t2")
    optimal = [t1 > 0, t2 > t1, a1 + t1 * w1 <= a2 + t1 * w2, a2 + t2 * w2 <= a1 + t2 * w1]
    yield smt.decide("Omega(P_1) >= Omega(P_2) for every Omega", optimal, w1 >= w2)
    yield smt.decide("<P_1, r> <= <P_2, r> for every Omega and k", optimal, a1 <= a2)


def derivatives(run: Run) -> Iterator[Step]:
    """How fast: the derivative is a variance over tau^2, so it is zero only where r is constant on
    the support."""
    tau, total, squares, s = sympy.symbols("tau R1 R2 s", positive=True)
    threshold = (tau + total) / s  # weights (threshold - r_j) / tau on a support of size s
    value = (threshold * total - squares) / tau
    variance = squares / s - (total / s) ** 2
    rate = sympy.simplify(sympy.diff(value, tau) - s * variance / tau**2)
    yield proved("L2: s Var_A(r) / tau^2 inside a cell", rate == 0)
    # entropy: S = M1 / M0 with M_n = sum_j r_j^n exp(-beta r_j), so dM_n / dbeta = -M_{n+1}
    M0, M1, M2 = sympy.symbols("M0 M1 M2", positive=True)
    d_beta = -M2 / M0 + M1 * M1 / M0**2
    rate = sympy.simplify(d_beta * sympy.diff(1 / tau, tau) - (M2 / M0 - (M1 / M0) ** 2) / tau**2)
    yield proved("entropy: Var_P(r) / tau^2", rate == 0)


def curve(claim: Claim, run: Run, e: Evidence) -> None:
    r = [Fraction(n, 2) for n in (0, 1, 2, 3, 4, 8)]
    grid = sorted(Fraction(2) ** n * m for n in range(-6, 10) for m in (1, Fraction(3, 2)))
    columns = []
    for alpha in EXPONENTS:
        columns.append([float_gap(r, tau, alpha)[0] for tau in grid])
        for low, high in pairwise(grid):
            case = Case(r=r, tau=low, factor=high / low, alpha=alpha)
            answer, _ = claim.judge(case)
            e.count(answer)
    names = [label(a) for a in EXPONENTS]
    e.tables.append(
        Table(
            "value-by-temperature",
            "Surrogate at r = (0, 1/2, 1, 3/2, 2, 4) as the temperature rises",
            ("temperature", *names, "mean of r"),
            [[float(tau), *row, 1.5] for tau, *row in zip(grid, *columns, strict=True)],
            Plot(
                x="temperature",
                lines=(*names, "mean of r"),
                x_label="temperature",
                y_label="surrogate",
                log_x=True,
                caption="From the minimum (0) to the mean (3/2). L2 and the entmax family leave "
                "the minimum at a positive temperature, the entropy surrogate at once.",
            ),
        )
    )


CLAIM = Claim(
    id="tau-monotone",
    title="The surrogate rises with the temperature",
    says="For fixed distances the smoothed minimum never decreases when the temperature goes up, "
    "whatever the regularizer.",
    statement=r"\tau_1 \le \tau_2 \implies \langle P_\Omega(r/\tau_1), r\rangle \le "
    r"\langle P_\Omega(r/\tau_2), r\rangle",
    sources=(
        Source("summary", "App. F, p. 23, and App. H, p. 32: the bound tightens as tau decreases"),
    ),
    kind=Kind.UPPER,
    bound=r"\langle P_\Omega(r/\tau_2), r\rangle",
    measure=measure,
    checks=(
        Proof("optimality", Method.SMT, optimality, scope="every k, r and Omega", decides_all=True),
        Proof(
            "derivative", Method.SYMBOLIC, derivatives, scope="every k; L2 between support changes"
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
            scope="one r, 32 temperatures, 5 regularizers",
            arithmetic=ARITHMETIC,
        ),
        MachineChecked(
            "coq",
            {
                "tau_monotone": "f45c46e41f110634",
            },
            scope="every k, r and regularizer, tau_1 < tau_2",
        ),
    ),
    falsify="an r and two temperatures where the surrogate at the higher one is smaller",
    theory="surrogates.md#monotone-in-the-temperature",
)
