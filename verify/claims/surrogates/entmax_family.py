"""Between entropy and L2: what changes with the entmax exponent."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np

from constructions import surrogate_weights
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
)
from verify.claims.surrogates._entmax_proofs import steps
from verify.claims.surrogates._family import (
    EXPONENTS,
    decided,
    digits_error,
    evolve,
    float_gap,
    floats,
    gap_constant,
    label,
    precise,
    precise_gap,
    precise_weights,
    vectors,
)
from verify.claims.surrogates._shared import ARITHMETIC, DIGITS
from verify.claims.surrogates._slopes import (
    ENTMAX,
    distances_of,
    fastest_turn,
    smoothness,
    turn,
    weights_at,
)
from verify.search import Adversarial, Proof, Property, Study

INNER = EXPONENTS[1:-1]


def measure(case: Case) -> Measured:
    """The gap against tau times the sharp constant of the exponent."""
    r, tau, alpha = case["r"], case["tau"], case["alpha"]

    def careful() -> Measured:
        with mpmath.workdps(DIGITS + 10):
            value = precise_gap(r, tau, alpha)
            bound = precise(tau) * gap_constant(alpha, len(r))
            return Measured(value, bound, digits_error(value, bound))

    value, error = float_gap(r, tau, alpha)
    bound = float(tau) * float(gap_constant(alpha, len(r)))
    return decided(Kind.TIGHT, Measured(value, bound, error + 2.0**-51 * bound), careful)


def weights_agree(case: Case) -> Measured:
    """The construction's weights in float64 against those of mpmath: the largest difference, and
    how much of it rounding explains (see `float_gap`)."""
    r, tau, alpha = case["r"], case["tau"], case["alpha"]
    k, eps = len(r), 2.0**-52
    found = surrogate_weights(floats(r), float(tau), float(alpha))
    with mpmath.workdps(DIGITS + 10):
        want = precise_weights(r, tau, alpha)
        off = float(max(abs(float(a) - b) for a, b in zip(found, want, strict=True)))
    if alpha == 1:
        return Measured(off, (3 * k + 12) * eps)
    return Measured(off, 32 * eps * (1 / (float(alpha) - 1) + k + 4) ** 2)


def zero_gap(case: Case) -> Measured:
    """The gap is zero iff every other distance exceeds the minimum by tau m^(1-alpha)/(alpha-1),
    m the multiplicity of the minimum.

    Threshold and gap carry 50 digits and are cut at 40. A distance too near an irrational threshold
    for that would come out as a disagreement, so as a violation, not as a pass.
    """
    r, tau, alpha = case["r"], case["tau"], case["alpha"]
    with mpmath.workdps(DIGITS + 10):
        a, least = precise(alpha), min(r)
        threshold = precise(tau) * mpmath.mpf(r.count(least)) ** (1 - a) / (a - 1)
        slack = threshold * mpmath.mpf(10) ** -DIGITS
        far = all(precise(v - least) >= threshold - slack for v in r if v != least)
        zero = precise_gap(r, tau, alpha) <= precise(tau) * mpmath.mpf(10) ** -DIGITS
        return Measured(zero, far, answers={"gap is zero": zero, "all others far": far})


def ascent(run: Run, seed: int) -> Iterator[tuple[str, Case]]:
    """The largest gap by evolution of the weights, judged from the distances that have them."""
    rng = np.random.default_rng(seed)
    for alpha in INNER:
        for k in (2, 6, 12):

            def fitness(x: Any, alpha: Fraction = alpha) -> Any:
                p = weights_at(x)
                return (p * distances_of(p, alpha)).sum(-1)

            for _ in range(run.count(1)):
                best = weights_at(evolve(fitness, [0.1] * k, [1.0] * k, rng, 200))
                r = [Fraction(round(v * 2**24), 2**24) for v in distances_of(best, alpha)]
                yield f"{k}, exponent {float(alpha):g}", Case(r=r, tau=Fraction(1), alpha=alpha)


def turning(claim: Claim, run: Run, e: Evidence) -> None:
    """Exponent 3/2: the gradient turns by at most k / tau, and nearly that fast somewhere."""
    rng = np.random.default_rng(e.seed)
    rows = []
    for k in (2, 3, 4, 6, 10):
        r, d = fastest_turn(ENTMAX, k, rng)
        value = turn(r, d, 1.0, ENTMAX)
        e.cases += 1
        e.violated += value > k * (1 + 1e-9)  # rounding over step: 1e-15 / 1.5e-5 at most
        for _ in range(run.count(40, 10)):
            d, r = rng.normal(size=k), rng.uniform(0, 2.2, k)
            e.cases += 1
            e.violated += turn(r, d / np.linalg.norm(d), 1.0, ENTMAX) > k * (1 + 1e-9)
        if value < 0.97 * k:
            e.problem = f"k = {k}: reached {value} of {k}"
        rows.append([k, smoothness(ENTMAX, k), value, value / k])
    e.note = f"reaches at least {min(row[3] for row in rows):.6f} of k for every k"
    e.tables.append(
        Table(
            "smoothness",
            "1.5-entmax at temperature 1: fastest change of the gradient found",
            ("k", "bound", "measured", "ratio"),
            rows,
        )
    )


def exponents(claim: Claim, run: Run, e: Evidence) -> None:
    """Where a second center enters the support, from h outside to h inside, the gradient changes
    like h to the power (2-alpha)/(alpha-1). Lipschitz needs 1, so alpha <= 3/2."""
    rows = []
    for n in range(5, 17):
        alpha = 1 + Fraction(n, 20)
        change = [_entering_gradient(alpha, Fraction(1, 2**m)) for m in (60, 64)]
        fitted = float(mpmath.log(change[0] / change[1], 2) / 4)
        stated = float((2 - alpha) / (alpha - 1))
        rows.append([float(alpha), stated, fitted, 1.0])
        e.cases += 1
        e.violated += abs(fitted - stated) > 0.001  # what is left at h = 2^-60 of h^(1/4)
    e.tables.append(
        Table(
            "gradient-exponent",
            "Exponent of h in the change of the gradient where a center enters the support, k = 2",
            ("alpha", "(2 - alpha)/(alpha - 1)", "fitted", "beta-smooth needs 1"),
            rows,
            Plot(
                x="alpha",
                lines=("(2 - alpha)/(alpha - 1)", "beta-smooth needs 1"),
                points=("fitted",),
                x_label="entmax exponent alpha",
                y_label="exponent of the step",
                caption="The gradient is Lipschitz up to alpha = 3/2, only Hoelder beyond, and "
                "jumps at alpha = 2.",
            ),
        )
    )


def _entering_gradient(alpha: Fraction, h: Fraction) -> Any:
    """Size of the entry of a second center that is h inside the support, temperature 1."""
    with mpmath.workdps(DIGITS + 10):
        excess = 1 / (alpha - 1) - h
        first, second = precise_weights([Fraction(0), excess], Fraction(1), alpha)
        near, far = (p ** precise(2 - alpha) for p in (first, second))
        return abs(second - far * near / (near + far) * precise(excess))


def constants(claim: Claim, run: Run, e: Evidence) -> None:
    """The sharp gap by k and exponent; it decreases in the exponent and increases in k."""
    shown = (Fraction(1), Fraction(11, 10), *INNER, Fraction(2))
    rows: list[list[float]] = []
    for k in (2, 3, 4, 6, 10, 16, 25, 40, 64, 100, 250, 1000, 10000):
        row = [k, *(float(gap_constant(alpha, k)) for alpha in shown)]
        e.cases += len(shown)
        e.violated += sum(b >= a for a, b in pairwise(row[1:]))
        e.violated += sum(b <= a for a, b in zip(rows[-1][1:], row[1:], strict=True)) if rows else 0
        limits = [float(a - 1) ** float(a - 2) * float(a) ** -float(a) for a in shown[1:]]
        e.violated += sum(value >= top for value, top in zip(row[2:], limits, strict=True))
        rows.append(row)
    names = [label(a) for a in shown]
    e.note = "limits as k grows: " + ", ".join(
        f"{label(a)} {x:.5f}" for a, x in zip(shown[1:], limits, strict=True)
    )
    e.tables.append(
        Table(
            "sharp-gaps",
            "Largest gap over the temperature, by exponent",
            ("k", *names),
            rows,
            Plot(
                x="k",
                lines=tuple(names),
                x_label="number of centers k",
                y_label="largest gap / temperature",
                log_x=True,
                log_y=True,
                caption="Bounded in k for every exponent above 1, unbounded for entropy only.",
            ),
        )
    )


CLAIM = Claim(
    id="entmax-family",
    title="Entmax exponents between entropy and L2, and 1.5 as the smooth sparse one",
    says="For every entmax exponent from 1 to 2 the gap has a sharp bound, which shrinks as the "
    "exponent grows. Exponent 1.5 is the largest, so the sparsest, whose surrogate has a Lipschitz "
    "gradient, with constant k over the temperature.",
    statement=r"\sup_r\, S_\alpha^\tau(r) - \min r = \tau\, c_\alpha(k), \quad c_\alpha(k) = "
    r"\max_{\frac1k \le m \le 1} \frac{m^{\alpha-1} - m^\alpha - (1-m)^\alpha (k-1)^{1-\alpha}}"
    r"{\alpha - 1}, \qquad S_\alpha^\tau \in C^{1,1} \iff \alpha \le \tfrac32",
    sources=(Source("beyond", "the paper has the two ends, entropy and L2, only"),),
    kind=Kind.TIGHT,
    bound=r"\tau\,c_\alpha(k), \quad c_1 = W_0\!\left(\tfrac{k-1}e\right), \quad c_{3/2} < 0.7699, "
    r"\quad c_2 = \tfrac{k-1}{4k}; \qquad \left\|\nabla^2 S_{3/2}^\tau\right\|_2 \le \tfrac k\tau",
    measure=measure,
    checks=(
        Proof(
            "steps",
            Method.SYMBOLIC,
            steps,
            scope="1 < alpha <= 2, every k",
            decides_all=True,
        ),
        Property(
            "random",
            scope="k <= 8, exponents 5/4, 3/2, 7/4",
            strategy=vectors(INNER, min_k=2),
            count=300,
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent",
            scope="k = 2, 6, 12, exponents 5/4, 3/2, 7/4",
            search=ascent,
            reach=0.97,
            arithmetic=ARITHMETIC,
        ),
        Property(
            "weights",
            scope="k <= 8, exponents 1 to 2: the construction against a second computation",
            strategy=vectors(EXPONENTS),
            count=200,
            measure=weights_agree,
            kind=Kind.UPPER,
            arithmetic="float64 against mpmath (50 digits)",
        ),
        Property(
            "zero-gap",
            scope="k <= 6, exponents 5/4, 3/2, 7/4, 2",
            strategy=vectors(EXPONENTS[1:], max_k=6),
            count=300,
            measure=zero_gap,
            kind=Kind.IFF,
            variant="zero gap iff the others are tau m^(1-alpha)/(alpha-1) away",
            arithmetic="mpmath (50 digits)",
        ),
        Study("constants", Method.EXACT, constants, scope="k to 10000", arithmetic="mpmath"),
        Study(
            "smoothness",
            Method.ADVERSARIAL,
            turning,
            scope="exponent 3/2, k = 2, 3, 4, 6, 10",
            arithmetic="numpy float64",
        ),
        Study(
            "exponent",
            Method.EXACT,
            exponents,
            scope="k = 2, 12 exponents from 1.25 to 1.8, steps 2^-60 and 2^-64",
            arithmetic="mpmath (50 digits)",
        ),
    ),
    falsify="an r whose gap is larger than the bound, a k and an exponent where none comes near "
    "it, or a gradient of exponent 3/2 that turns faster than k / tau",
    theory="surrogates.md#the-entmax-family",
)
