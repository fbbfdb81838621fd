"""The sparsemax weights are a Euclidean projection, given by a threshold, and sparse."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy
import z3

from constructions import surrogate_weights
from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Plot, Run, Source, Table
from verify.claims.surrogates._family import exact_weights
from verify.claims.surrogates._shared import SCRIPT
from verify.oracles import smt
from verify.oracles import surrogates as oracle
from verify.search import Exhaustive, Proof, Property, Step, Study
from verify.strategies import distances


def measure(case: Case) -> Measured:
    """The worst of: distance to the formula, distance to the oracle (which sorts), and the
    residual of the projection's optimality condition <z - P, e_j - P> <= 0 at every vertex."""
    r, tau = case["r"], case["tau"]
    p, z = exact_weights(r, tau), [-v / tau for v in r]
    formula = [max(v - kappa(r, tau), Fraction(0)) for v in z]
    inner = sum((w * (v - w) for w, v in zip(p, z, strict=True)), Fraction(0))
    optimality = max(v - w - inner for w, v in zip(p, z, strict=True))
    residuals = {
        "formula": max(abs(a - b) for a, b in zip(p, formula, strict=True)),
        "oracle": max(abs(a - b) for a, b in zip(p, oracle.sparsemax(r, tau), strict=True)),
        "optimality": max(optimality, Fraction(0)),
        "simplex": abs(sum(p, Fraction(0)) - 1) + max(-min(p), Fraction(0)),
    }
    return Measured(max(residuals.values()), Fraction(0), answers={"weights": p, **residuals})


def kappa(r: list[Fraction], tau: Fraction) -> Fraction:
    """The threshold in closed form: with r in ascending order, the support has as many members s
    as there are j with sum_{i <= j} (r_(j) - r_(i)) < tau."""
    ascending = sorted(r)
    s = sum(
        sum((ascending[j] - v for v in ascending[:j]), Fraction(0)) < tau for j in range(len(r))
    )
    return -(1 + sum(ascending[:s], Fraction(0)) / tau) / s


def measure_sparsity(case: Case) -> Measured:
    """Center j has weight zero iff sum_i max(r_j - r_i, 0) >= tau; for all j together."""
    r, tau = case["r"], case["tau"]
    zero = [p == 0 for p in exact_weights(r, tau)]
    far = [sum((max(v - w, Fraction(0)) for w in r), Fraction(0)) >= tau for v in r]
    return Measured(zero == far, True, answers={"weight zero": zero, "far": far})


def projection(run: Run) -> Iterator[Step]:
    """Coordinate by coordinate, so for every k: the formula satisfies the optimality condition of
    the projection of z = -r / tau, and that projection minimizes <p, r> + tau/2 |p|^2."""
    z, kappa, p, other = z3.Reals("z kappa p other")
    threshold = [p == z3.If(z > kappa, z - kappa, 0), other >= 0]
    yield smt.decide("(z_j - P_j - kappa) P_j = 0", threshold, (z - p - kappa) * p == 0)
    yield smt.decide(
        "(z_j - P_j - kappa) q_j <= 0 for q_j >= 0", threshold, (z - p - kappa) * other <= 0
    )
    Z, P, Q, K = sympy.symbols("z P q kappa")
    term = (Z - P) * (Q - P) - ((Z - P - K) * Q - (Z - P - K) * P + K * (Q - P))
    square = (Z - Q) ** 2 - ((Z - P) ** 2 + (Q - P) ** 2 - 2 * (Z - P) * (Q - P))
    R, T = sympy.symbols("r tau", positive=True)
    objective = sympy.expand(T / 2 * (Q + R / T) ** 2 - (Q * R + T / 2 * Q**2))
    steps = {
        "so <z - P, q - P> <= kappa (sum q - sum P) = 0": sympy.expand(term) == 0,
        "so |z - q|^2 >= |z - P|^2 + |q - P|^2 for every q": sympy.expand(square) == 0,
        "tau/2 |q - z|^2 = <q, r> + tau/2 |q|^2 + const": Q not in objective.free_symbols,
    }
    for scope, holds in steps.items():
        yield Step(scope, "proved" if holds else "refuted")


def sparsity(run: Run) -> Iterator[Step]:
    """With F(t) = sum_i max(t - r_i, 0), the threshold t in units of r solves F(t) = tau. F is
    increasing, so r_j < t iff F(r_j) < tau. Term by term, so for every k."""
    t, rj, ri = z3.Reals("t r_j r_i")

    def term(at: z3.ArithRef, v: z3.ArithRef) -> z3.ArithRef:
        return z3.If(at > v, at - v, 0)

    yield smt.decide("r_j < t: no term of F falls", [rj < t], term(rj, ri) <= term(t, ri))
    yield smt.decide("r_j < t: its own term rises", [rj < t], term(rj, rj) < term(t, rj))
    yield smt.decide("r_j >= t: no term of F is smaller", [rj >= t], term(rj, ri) >= term(t, ri))


def small_grid(run: Run) -> Iterator[Case]:
    for k in range(1, 5):
        for r in itertools.product(range(5), repeat=k):
            for tau in (Fraction(1), Fraction(5, 2), Fraction(4)):
                yield Case(r=[Fraction(v) for v in r], tau=tau)


def support_sizes(claim: Claim, run: Run, e: Evidence) -> None:
    """How many of 25 centers have a positive weight. Point by point the support never shrinks as
    the temperature rises, and a larger exponent never has the larger support."""
    rng = np.random.default_rng(e.seed)
    points, centers = rng.random((200, 1, 4)), rng.random((25, 4))
    r = ((points - centers) ** 2).sum(-1)
    rows: list[list[float]] = []
    before = np.zeros((3, len(r)))
    for tau in np.logspace(-2.5, 1, 15):
        sizes = np.array([(surrogate_weights(r, float(tau), a) > 0).sum(-1) for a in (1, 1.5, 2)])
        e.cases += len(r)
        shrunk, misordered = (sizes < before).any(0), (sizes[1:] > sizes[:-1]).any(0)
        e.violated += int((shrunk | misordered | (sizes[0] < 25)).sum())
        before = sizes
        rows.append([float(tau), *sizes.mean(-1).tolist()])
    names = ("entropy", "entmax 1.5", "L2")
    e.tables.append(
        Table(
            "support-size",
            "Mean number of centers with positive weight, k = 25",
            ("temperature", *names),
            rows,
            Plot(
                x="temperature",
                lines=names,
                x_label="temperature",
                y_label="centers with positive weight",
                log_x=True,
                caption="200 uniform points and 25 uniform centers in the unit cube, d = 4. "
                "Softmax weights are never zero.",
            ),
        )
    )


CLAIM = Claim(
    id="sparsemax-formula",
    title="L2 weights are a projection onto the simplex, given by a threshold",
    says="The L2-regularized weights are the Euclidean projection of the negative scaled distances "
    "onto the simplex. They come from one threshold and can be exactly zero.",
    statement=r"P_{L2}(r/\tau)_j = \left[-\tfrac{r_j}{\tau} - \kappa\!\left(-\tfrac{r}{\tau}"
    r"\right)\right]_+ = \Pi_{\Delta}\!\left(-\tfrac{r}{\tau}\right)_j",
    sources=(Source("review", "design 3"), Source("summary", "App. H, pp. 32-33")),
    kind=Kind.EQUALITY,
    bound=r"\left\|P - \Pi_\Delta(-r/\tau)\right\|_\infty = 0, \qquad "
    r"P_j = 0 \iff \textstyle\sum_i [r_j - r_i]_+ \ge \tau",
    measure=measure,
    checks=(
        Proof("projection", Method.SMT, projection, scope="every k, r and tau", decides_all=True),
        Proof("sparsity", Method.SMT, sparsity, scope="every k, r and tau"),
        Exhaustive(
            "small-grid",
            scope="k <= 4, integers 0 to 4, temperatures 1, 5/2, 4",
            cases=small_grid,
        ),
        Property("random", scope="k <= 12, rational r", strategy=distances(12), count=400),
        Property(
            "zero-weights",
            scope="k <= 12, rational r, many at a threshold",
            strategy=distances(12),
            count=400,
            measure=measure_sparsity,
            kind=Kind.IFF,
            variant="which weights are zero",
        ),
        Study(
            "support-size",
            Method.PROPERTY,
            support_sizes,
            scope="200 points, 15 temperatures",
            variant="how sparse the weights are",
            arithmetic="numpy float64",
        ),
    ),
    falsify="rational distances where the weights differ from the formula or from the projection",
    theory="surrogates.md#the-sparsemax-formula",
    script=SCRIPT,
)
