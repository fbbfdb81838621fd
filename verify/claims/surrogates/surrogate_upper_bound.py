"""The smoothed loss is an upper bound of the clustering loss."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import sympy
import z3
from hypothesis import strategies as st

from constructions import as_fractions, rational_array, surrogate
from verify.claim import Case, Claim, Kind, Measured, Method, Run, Source
from verify.claims.surrogates._shared import SCRIPT
from verify.oracles import smt
from verify.proofs.record import MachineChecked
from verify.search import Proof, Property, Step, proved
from verify.strategies import distances


def measure(case: Case) -> Measured:
    """The L2 surrogate and the minimum, in exact rationals."""
    value = surrogate(rational_array(case["r"]), case["tau"], "l2")
    return Measured(as_fractions(value), min(case["r"]))


def measure_float(case: Case) -> Measured:
    """The surrogate as computed, against the minimum of the same floats: no allowance."""
    r = np.asarray(case["r"], dtype=case["dtype"])
    value = surrogate(r, case["tau"], case["regularizer"])
    return Measured(Fraction(float(value)), Fraction(float(r.min())))


@st.composite
def floats(draw: st.DrawFn) -> Case:
    """r of float32 or float64, over the whole range, at temperatures from 1e-300 to 1e300."""
    double = draw(st.booleans())
    width: Literal[32, 64] = 64 if double else 32
    entry = st.floats(allow_nan=False, allow_infinity=False, width=width)
    near = st.floats(0, 4, width=width)
    return Case(
        r=draw(st.lists(st.one_of(entry, near), min_size=1, max_size=12)),
        dtype=f"float{width}",
        tau=10.0 ** draw(st.integers(-300, 300)),
        regularizer=draw(st.sampled_from(["ne", "l2", 1.5])),
    )


def identity(run: Run) -> Iterator[Step]:
    """S - min r = sum_j P_j (r_j - min r) when the weights add up to 1; no term is negative."""
    j, k = sympy.symbols("j k", integer=True, positive=True)
    p, r, least = sympy.IndexedBase("P"), sympy.IndexedBase("r"), sympy.Symbol("m")
    value = sympy.Sum(p[j] * r[j], (j, 1, k))
    terms = sympy.Sum(sympy.expand(p[j] * (r[j] - least)), (j, 1, k))
    total = sympy.Sum(p[j], (j, 1, k))
    same = sympy.simplify(value - terms - least * total) == 0
    yield proved("S - min r = sum of P_j (r_j - min r), every k and every regularizer", same)
    weight, excess = sympy.symbols("P_j e_j", nonnegative=True)
    yield proved("no term is negative", (weight * excess).is_nonnegative)


def solver(run: Run) -> Iterator[Step]:
    for k in range(2, 6):
        e: Any = z3.RealVector("e", k)
        above = [e[0] == 0, *smt.ascending(e)]
        p, weights = smt.simplex(k)
        yield smt.decide(f"any weights, k = {k}", [*above, *weights], smt.dot(p, e) >= 0, e)
        p, weights = smt.sparsemax_of(e)
        yield smt.decide(f"sparsemax, k = {k}", [*above, *weights], smt.dot(p, e) >= 0, e)


CLAIM = Claim(
    id="surrogate-upper-bound",
    title="The smoothed loss is never below the true loss",
    says="Averaging the distances with any weights gives at least the smallest distance, so the "
    "smoothed loss is an upper bound of the true one, for every temperature and regularizer.",
    statement=r"\langle P_\Omega(r/\tau), r\rangle \;\ge\; \min_j r_j \qquad \text{for all } r \in "
    r"\mathbb{R}^k,\ \tau > 0",
    sources=(Source("summary", "App. H, p. 32"), Source("review", "design 3")),
    kind=Kind.LOWER,
    bound=r"\min_j r_j",
    measure=measure,
    checks=(
        Proof(
            "identity",
            Method.SYMBOLIC,
            identity,
            scope="every k, r and regularizer",
            decides_all=True,
        ),
        Proof("solver", Method.SMT, solver, scope="k = 2 ... 5, every r"),
        Property("random", scope="k <= 8, L2, rational r", strategy=distances(8), count=500),
        Property(
            "floats",
            scope="float32 and float64 over their whole range, tau from 1e-300 to 1e300, "
            "entropy, L2 and 1.5-entmax",
            variant="the computed value is not below the minimum either, without any allowance",
            strategy=floats(),
            count=1500,
            measure=measure_float,
            arithmetic="numpy float32 and float64",
        ),
        MachineChecked(
            "coq",
            {
                "surrogate_upper_bound": "1a602fa75ab691d1",
            },
            scope="every k and r, any weights in the simplex",
        ),
    ),
    falsify="an r, a temperature and a regularizer whose surrogate is below min r",
    theory="surrogates.md#upper-bound",
    conflict="The review calls the surrogate a variational lower bound and, two lines on, an upper "
    "bound; the summary calls it an upper bound. It is an upper bound. Only the regularized "
    "value of the entropy, min over p of <p, r> + tau * Omega(p), is a lower bound.",
    script=SCRIPT,
)
