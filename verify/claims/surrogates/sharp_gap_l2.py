"""The largest gap of the L2 surrogate."""

from __future__ import annotations

from collections.abc import Iterator

import sympy
import z3

from verify.claim import Claim, Evidence, Kind, Method, Plot, Run, Source, Table
from verify.claims.surrogates._shared import (
    SCRIPT,
    SIZES,
    ascend,
    entropy_constant,
    l2_constant,
    measure_l2,
)
from verify.oracles import smt
from verify.proofs.record import MachineChecked
from verify.search import Adversarial, Proof, Property, Step, Study, proved
from verify.strategies import distances


def identity(run: Run) -> Iterator[Step]:
    """gap / tau = P_a - |P|^2 = (k-1)/(4k) - |P - P*|^2, where P* has (k+1)/(2k) at a and 1/(2k)
    elsewhere. With N = |P|^2 and the other weights adding up to 1 - P_a, both are polynomials."""
    k, weight, square = sympy.symbols("k P_a N", positive=True)
    first, other = (k + 1) / (2 * k), 1 / (2 * k)
    cross = weight * first + (1 - weight) * other
    distance = square - 2 * cross + first**2 + (k - 1) * other**2
    difference = sympy.simplify(weight - square - ((k - 1) / (4 * k) - distance))
    yield proved("gap / tau = (k-1)/(4k) - |P - P*|^2 for every k", difference == 0)
    # the weights P* are those of r = (0, tau/2, ..., tau/2): the bound is reached
    reached = sympy.simplify(first - other - sympy.Rational(1, 2))
    yield proved("P* are the weights at r_j - min r = tau/2", reached == 0)
    # on the support r_j - r_a = tau (P_a - P_j), so sum_j P_j (r_j - r_a) = tau (P_a - |P|^2)
    yield proved("P_a - |P|^2 is the gap", _gap_from_kkt() == 0)


def _gap_from_kkt() -> sympy.Expr:
    """sum_j P_j (P_a - P_j) - (P_a - sum_j P_j^2) with sum_j P_j = 1, for a symbolic k."""
    j, k = sympy.symbols("j k", integer=True, positive=True)
    p, first = sympy.IndexedBase("P"), sympy.Symbol("P_a")
    total = sympy.Sum(p[j] * first, (j, 1, k)) - sympy.Sum(p[j] ** 2, (j, 1, k))
    direct = sympy.Sum(sympy.expand(p[j] * (first - p[j])), (j, 1, k))
    return sympy.simplify(direct - total)


def solver(run: Run) -> Iterator[Step]:
    for k in range(2, 7):
        e = z3.RealVector("e", k)
        p, weights = smt.sparsemax_of(e)
        ordered = [e[0] == 0, *smt.ascending(e)]
        goal = smt.dot(p, e) <= z3.Q(k - 1, 4 * k)
        yield smt.decide(f"k = {k}", [*ordered, *weights], goal, e)


def constants(claim: Claim, run: Run, e: Evidence) -> None:
    sizes = sorted({*SIZES, 4, 8, 40, 64, 160, 400, 640, 10000})
    rows = [[k, float(l2_constant(k)), float(entropy_constant(k))] for k in sizes]
    e.note = f"computed for {len(rows)} values of k"
    e.tables.append(
        Table(
            "sharp-constants",
            "Largest gap over the temperature, L2 and entropy",
            ("k", "L2: (k-1)/(4k)", "entropy: W0((k-1)/e)"),
            rows,
            Plot(
                x="k",
                lines=("L2: (k-1)/(4k)", "entropy: W0((k-1)/e)"),
                x_label="number of centers k",
                y_label="largest gap / temperature",
                log_x=True,
                caption="The L2 gap stays below a quarter of the temperature for every k; the "
                "entropy gap grows like log k - log log k - 1.",
            ),
        )
    )


CLAIM = Claim(
    id="sharp-gap-l2",
    title="The L2 surrogate is at most tau (k-1)/(4k) too high",
    says="The L2-regularized minimum exceeds the minimum by at most (k-1)/(4k) of the temperature, "
    "less than a quarter of it, and there is no smaller bound.",
    statement=r"\sup_{r \in \mathbb{R}^k} \langle P_{L2}(r/\tau), r\rangle - \min_j r_j "
    r"= \tau\,\frac{k-1}{4k}",
    sources=(Source("beyond", "sharp form of the tightness statements of App. H, p. 33"),),
    kind=Kind.TIGHT,
    bound=r"\tau\,\frac{k-1}{4k}",
    measure=measure_l2,
    checks=(
        Proof("identity", Method.SYMBOLIC, identity, scope="every k and r", decides_all=True),
        Proof("solver", Method.SMT, solver, scope="k = 2 ... 6, every r"),
        Property("random", scope="k <= 8, rational r", strategy=distances(8, 2), count=500),
        Adversarial(
            "ascent",
            scope="k = 2 ... 1000, random starts, judged exactly",
            search=ascend("l2"),
            reach=0.99,
        ),
        Study("constants", Method.EXACT, constants, scope="the two sharp constants by k"),
        MachineChecked(
            "coq",
            {
                "l2_gap": "6ccc0d2231e2b08c",
                "sharp_gap_l2": "f7c6e51fb2a11ec1",
                "sharp_gap_l2_attained": "e1b4d61970a10a17",
            },
            scope="the bound, and that it is reached, for weights in threshold form; every k, r "
            "and tau, over every ordered field",
        ),
    ),
    falsify="an r whose gap is larger than tau (k-1)/(4k), or a k where no r comes near it",
    theory="surrogates.md#sharp-gaps",
    script=SCRIPT,
)
