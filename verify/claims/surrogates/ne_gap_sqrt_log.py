"""The entropy gap against tau sqrt(2 log k)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import sympy
from flint import arb, ctx

from constructions import surrogate_weights
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
from verify.claims.surrogates._family import (
    decided,
    digits_error,
    float_gap,
    floats,
    precise,
    precise_gap,
    precise_weights,
    vectors,
)
from verify.claims.surrogates._shared import ARITHMETIC, DIGITS, entropy_constant, l2_constant
from verify.search import Exhaustive, Proof, Property, Step, Study, proved

NE = Fraction(1)


def measure(case: Case) -> Measured:
    """The entropy gap at r = (0, x, ..., x), k entries, against tau sqrt(2 log k). A case without
    x stands for all r with k entries."""
    if "x" not in case:
        return largest(case)
    k, x, tau = case["k"], case["x"], case["tau"]
    r = [Fraction(0)] + [x] * (k - 1)

    def careful() -> Measured:
        with mpmath.workdps(DIGITS + 10):
            value, bound = precise_gap(r, tau, NE), precise(tau) * mpmath.sqrt(2 * mpmath.log(k))
            return Measured(value, bound, digits_error(value, bound), note=note(case))

    value, error = float_gap(r, tau, NE)
    bound = float(tau) * float(np.sqrt(2 * np.log(k)))
    quick = Measured(value, bound, error + 2.0**-50 * bound, note=note(case))
    return decided(Kind.UPPER, quick, careful)


def note(case: Case) -> str:
    return f"r = (0, x, ..., x) with {case['k'] - 1} entries x = {case['x']}"


def worst(k: int) -> Case:
    """Where the gap is largest, x = tau (1 + W0((k-1)/e)), to six decimals."""
    x = Fraction(round(10**6 * (1 + float(entropy_constant(k)))), 10**6)
    return Case(k=k, x=x, tau=Fraction(1))


def largest(case: Case) -> Measured:
    """The largest gap over all r, tau W0((k-1)/e), against tau sqrt(2 log k); interval balls."""
    with ctx.workdps(DIGITS):
        w, guess = _sides(case["k"])
        tau = float(case["tau"])
        value, bound = tau * float(w.mid()), tau * float(guess.mid())
        return Measured(value, bound, tau * float(w.rad() + guess.rad()) + 2.0**-51 * bound)


def _sides(k: int) -> tuple[Any, Any]:
    """W0((k-1)/e) and sqrt(2 log k) as balls; call within `workdps`."""
    return ((k - 1) / arb(1).exp()).lambertw(), (2 * arb(k).log()).sqrt()


UP_TO_252 = Hypothesis("k <= 252", "there are at most 252 centers", lambda c: c["k"] <= 252, True)


def weights_distance(case: Case) -> Measured:
    """|P - e_a|_1 = 2 (1 - P_a) against sqrt(2 log k): what Pinsker's inequality bounds."""
    r, tau = case["r"], case["tau"]
    a, k = r.index(min(r)), len(r)

    def careful() -> Measured:
        with mpmath.workdps(DIGITS + 10):
            value = 2 * (1 - precise_weights(r, tau, NE)[a])
            return Measured(value, mpmath.sqrt(2 * mpmath.log(k)), mpmath.mpf(10) ** -DIGITS)

    value = float(2 * (1 - surrogate_weights(floats(r), float(tau), "ne")[a]))
    quick = Measured(value, float(np.sqrt(2 * np.log(k))), (2 * k + 20) * 2.0**-51 * k)
    return decided(Kind.UPPER, quick, careful)


def crossing(run: Run) -> Iterator[Step]:
    """k <= 252 one by one with balls, k = 253 with balls, and from there on by monotonicity."""
    with ctx.workdps(DIGITS):
        sides = {k: _sides(k) for k in range(2, 254)}
        below = all(bool(w < guess) for k, (w, guess) in sides.items() if k <= 252)
        above = bool(sides[253][0] > sides[253][1])
        golden = bool(sides[253][0] > (1 + arb(5).sqrt()) / 2)
    yield proved("W0((k-1)/e) < sqrt(2 log k) for k = 2, ..., 252 (balls)", below)
    yield proved("W0(252/e) > sqrt(2 log 253) (balls)", above)
    # c = W0((k-1)/e) means k = 1 + c e^(c+1); h(c) = c^2 - 2 log k
    c = sympy.Symbol("c", positive=True)
    h = c**2 - 2 * sympy.log(1 + c * sympy.exp(c + 1))
    lower = 2 * c - 2 * (1 + c) / c  # h' without the 1 in its denominator
    excess = sympy.simplify((sympy.diff(h, c) - lower) * c * (1 + c * sympy.exp(c + 1)) / (1 + c))
    yield proved("h'(c) > 2 c - 2 (1 + c)/c", excess.is_positive is True)
    beyond = sympy.expand((lower * c / 2).subs(c, c + (1 + sympy.sqrt(5)) / 2))
    yield proved("which is positive for c > (1 + sqrt 5)/2", beyond.simplify().is_positive is True)
    yield proved("W0(252/e) > (1 + sqrt 5)/2 (balls), so h > 0 for every k >= 253", golden)


def loose(run: Run) -> Iterator[Step]:
    """The largest weight is at least 1/k, so the distance is at most 2 (1 - 1/k); that is below
    sqrt(2 log k) for every k."""
    with ctx.workdps(DIGITS):
        guesses = {k: _sides(k)[1] for k in range(2, 9)}
        small = all(bool(2 - arb(2) / k < guess) for k, guess in guesses.items())
        empty = bool(guesses[8] > 2)
    yield proved("2 (1 - 1/k) < sqrt(2 log k) for k = 2, ..., 8 (balls)", small)
    yield proved("sqrt(2 log 8) > 2, so it holds, and says nothing, for k >= 8", empty)


def curves(claim: Claim, run: Run, e: Evidence) -> None:
    sizes = sorted({*(round(10 ** (n / 8)) for n in range(3, 49)), 252, 253})
    rows = []
    for k in sizes:
        w, guess = float(entropy_constant(k)), float(np.sqrt(2 * np.log(k)))
        asymptotic = float(np.log(k) - np.log(np.log(k)) - 1) if k > 15 else None
        point = None
        if k <= 1000:
            point = float_gap([Fraction(0)] + [worst(k)["x"]] * (k - 1), Fraction(1), NE)[0]
            e.violated += abs(point - w) > 1e-9  # six decimals of x, squared, and rounding
        e.cases += 1
        e.violated += (w > guess) != (k >= 253)
        rows.append([k, w, guess, asymptotic, float(l2_constant(k)), point])
    names = ("entropy: W0((k-1)/e)", "sqrt(2 log k)", "log k - log log k - 1", "L2: (k-1)/(4k)")
    e.note = f"at k = 252: {_pair(252)}; at k = 253: {_pair(253)}"
    e.tables.append(
        Table(
            "gap-by-k",
            "Largest gap over the temperature by number of centers",
            ("k", *names, "entropy, measured"),
            rows,
            Plot(
                x="k",
                lines=names,
                points=("entropy, measured",),
                x_label="number of centers k",
                y_label="largest gap / temperature",
                log_x=True,
                caption="The entropy gap overtakes sqrt(2 log k) at k = 253 and leaves it behind; "
                "the L2 gap stays below 1/4.",
            ),
        )
    )


def _pair(k: int) -> str:
    return f"{float(entropy_constant(k)):.6f} against {float(np.sqrt(2 * np.log(k))):.6f}"


CLAIM = Claim(
    id="ne-gap-sqrt-log",
    title="Growth of the entropy gap with the number of centers",
    says="The gap of the entropy-regularized minimum grows with the number of centers like the "
    "square root of 2 log k, in units of the temperature.",
    statement=r"\langle P_{NE}(r/\tau), r\rangle - \min_j r_j \le \tau \sqrt{2 \log k}",
    sources=(
        Source("review", "design 3"),
        Source("summary", "App. H, p. 33: compares distances between weights"),
    ),
    kind=Kind.UPPER,
    bound=r"\tau\sqrt{2\log k}; \quad \text{in truth } \tau\,W_0\!\left(\tfrac{k-1}e\right) = "
    r"\tau\,(\log k - \log\log k - 1 + o(1)), \text{ larger for every } k \ge 253",
    hypotheses=(UP_TO_252,),
    measure=measure,
    checks=(
        Exhaustive(
            "as-stated",
            scope="k = 2, 3, 4, ... at r = (0, x, ..., x), x = 1 + W0((k-1)/e) to six decimals",
            assuming=(),
            cases=lambda run: (worst(k) for k in range(2, 1000)),
            until_violation=True,
            arithmetic=ARITHMETIC,
        ),
        Exhaustive(
            "every-k-up-to-252",
            scope="k = 2 ... 252, the largest gap over all r",
            cases=lambda run: (Case(k=k, tau=Fraction(1)) for k in range(2, 253)),
            arithmetic="interval balls (arb, 40 digits)",
        ),
        Proof(
            "crossing",
            Method.SYMBOLIC,
            crossing,
            scope="every k",
            variant="false for every k >= 253, true for every k <= 252",
        ),
        Property(
            "weights-distance",
            scope="k <= 8, rational r",
            strategy=vectors((NE,), min_k=2),
            count=200,
            assuming=(),
            measure=weights_distance,
            variant="read as a bound of the distance between weights: true",
            arithmetic=ARITHMETIC,
        ),
        Proof(
            "weights-distance-loose",
            Method.SYMBOLIC,
            loose,
            scope="every k",
            variant="read as a bound of the distance between weights: never reached",
        ),
        Study(
            "curves",
            Method.EXACT,
            curves,
            scope="k to 1,000,000",
            variant="growth with k",
            arithmetic="mpmath (50 digits); measured in float64",
        ),
    ),
    falsify="for the repaired form: a k <= 252 and an r whose gap is above tau sqrt(2 log k)",
    theory="surrogates.md#growth-with-k",
)
