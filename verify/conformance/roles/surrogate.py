"""Surrogate (r, temperature) -> value: the regularized minimum <P(r / temperature), r>.

With P softmax, sparsemax or entmax weights. Rounding: the value is a sum of k products, so it is
off by sum_j |r_j| (error of P_j) and by (k + 6) eps of sum_j P_j |r_j|; subtracting the smallest
first, as ours does, only makes that smaller.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
from hypothesis import strategies as st

from verify.claim import Case, Kind, Measured
from verify.conformance.property import Explanation, Property, Role, Sort
from verify.conformance.roles import _regularized as reg
from verify.conformance.subject import Subject, WrongAnswer, excess
from verify.oracles import entmax

Row = list[Fraction]


def _ask(s: Subject, case: Case) -> float:
    value = s(case["r"], case["tau"], shape=())
    if not math.isfinite(value):
        raise WrongAnswer(f"the answer is {value}")
    return float(value)


def _parts(case: Case, alpha: Fraction) -> tuple[Row, Fraction, Row]:
    r, tau = reg.exact(case["r"]), Fraction(case["tau"])
    return r, tau, entmax.weights(r, tau, alpha)


def right(case: Case, alpha: Fraction) -> Fraction:
    r, _, p = _parts(case, alpha)
    return sum((a * b for a, b in zip(p, r, strict=True)), Fraction(0))


def allowed(s: Subject, case: Case, alpha: Fraction) -> float:
    """How far rounding may take the value. Derivation: top of this module."""
    r, tau, p = _parts(case, alpha)
    errors = reg.weight_errors(r, tau, alpha, p, s.eps)
    size = sum(float(w * abs(v)) for w, v in zip(p, r, strict=True))
    moved = sum(e * abs(float(v)) for e, v in zip(errors, r, strict=True))
    return moved + (len(r) + 6) * s.eps * size


def _value(s: Subject, case: Case, alpha: Fraction) -> Measured:
    found, expected = _ask(s, case), right(case, alpha)
    return Measured(
        float(abs(Fraction(found) - expected)),
        allowed(s, case, alpha),
        answers={"answer": found, "right": float(expected)},
    )


def _above(s: Subject, case: Case, alpha: Fraction) -> Measured:
    found, low = _ask(s, case), min(case["r"])
    return Measured(low - found, allowed(s, case, alpha), answers={"answer": found, "min r": low})


@lru_cache(maxsize=64)
def sharp_gap(k: int, alpha: Fraction) -> float:
    """Largest gap in units of the temperature: W0((k - 1)/e) for alpha = 1, (k - 1)/(4 k) for 2."""
    if alpha == 2:
        return (k - 1) / (4 * k)
    with mpmath.workdps(30):
        return float(mpmath.lambertw((k - 1) / mpmath.e).real) * (1 + 1e-15)


def _sharp(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """For alpha between 1 and 2 the gap of softmax, which is the larger, is what is asked for."""
    found, k = _ask(s, case), len(case["r"])
    if alpha > 2:
        top = max(case["r"])
    else:
        top = min(case["r"]) + case["tau"] * sharp_gap(k, alpha if alpha == 2 else Fraction(1))
    return Measured(found - top, allowed(s, case, alpha), answers={"answer": found, "bound": top})


def _zero_gap(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """The condition: the next entry is tau / (m (alpha - 1)) m^(2 - alpha) or more above the
    minimum that m entries share. There the gap is zero; elsewhere it is that of the exact value,
    and an answer that rounding cannot tell from zero is only wrong if the right one can be told.
    """
    r, found = case["r"], _ask(s, case)
    expected = right(case, alpha)
    error = allowed(s, case, alpha)
    gap, true = found - min(r), float(expected - Fraction(min(r)))
    if true == 0:
        return Measured(abs(gap), error, answers={"gap": gap, "right gap": 0.0})
    lost = true if gap <= 0 else 0.0
    return Measured(lost, error, answers={"gap": gap, "right gap": true})


def _monotone(s: Subject, case: Case, alpha: Fraction) -> Measured:
    hotter = Case(r=case["r"], tau=2 * case["tau"])
    low, high = _ask(s, case), _ask(s, hotter)
    most = allowed(s, case, alpha) + allowed(s, hotter, alpha)
    return Measured(low - high, most, answers={"at tau": low, "at 2 tau": high})


def _shift(s: Subject, case: Case, alpha: Fraction) -> Measured:
    by = 64.0
    other = Case(r=[v + by for v in case["r"]], tau=case["tau"])
    before, after = _ask(s, case), _ask(s, other)
    most = allowed(s, case, alpha) + allowed(s, other, alpha)
    answers = {"answer": before, "after the shift by 64": after}
    return Measured(abs(after - by - before), most, answers=answers)


def _scaling(s: Subject, case: Case, alpha: Fraction) -> Measured:
    other = Case(r=[v * 4 for v in case["r"]], tau=4 * case["tau"])
    before, after = _ask(s, case), _ask(s, other)
    most = allowed(s, case, alpha) + allowed(s, other, alpha) / 4
    return Measured(abs(after / 4 - before), most, answers={"answer": before, "scaled by 4": after})


def _permutation(s: Subject, case: Case, alpha: Fraction) -> Measured:
    other = Case(r=case["r"][::-1], tau=case["tau"])
    before, after = _ask(s, case), _ask(s, other)
    most = 2 * allowed(s, case, alpha)
    return Measured(abs(after - before), most, answers={"answer": before, "reversed": after})


def _batch(s: Subject, case: Case, alpha: Fraction) -> Measured:
    rows, tau = case["rows"], case["tau"]
    together = s(rows, tau, shape=(len(rows),))
    alone = [s(row, tau, shape=()) for row in rows]
    most = [2 * allowed(s, Case(r=row, tau=tau), alpha) for row in rows]
    answers = {"batch": together, "one by one": alone}
    return Measured(*excess(together, alone, most), answers=answers)


def _repeat(s: Subject, case: Case, alpha: Fraction) -> Measured:
    first, second = _ask(s, case), _ask(s, case)
    return Measured(int(first != second), 0, answers={"first": first, "second": second})


def _untouched(s: Subject, case: Case, alpha: Fraction) -> Measured:
    x = s.array(list(case["r"]))
    before = s.plain(x)
    s.function(x, case["tau"])
    return Measured(sum(a != b for a, b in zip(before, s.plain(x), strict=True)), 0)


def _gradient(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """P + (dP/dr)^T r. The second part is what is missing when weights are taken for constants."""
    r, tau, p = _parts(case, alpha)
    found = s.pulled_back(case["r"], case["tau"], 1.0)
    excesses = [v - min(r) for v in r]  # the derivative does not see a shift
    errors = reg.weight_errors(r, tau, alpha, p, s.eps)
    top = max(map(abs, case["r"]))
    pulled = reg.derivative_error(r, tau, alpha, p, s.eps, top)
    best, answers = (math.inf, 0.0), {"gradient": found}
    for support in reg.supports(r, tau, alpha, p):
        moved = entmax.pulled_back(p, tau, alpha, excesses, support)
        exact = [float(a + b) for a, b in zip(p, moved, strict=True)]
        pair = excess(found, exact, [e + pulled + 4 * s.eps for e in errors])
        if pair[0] - pair[1] < best[0] - best[1]:
            best, answers["right"] = pair, exact
    forgotten = excess(found, [float(v) for v in p], [e + 4 * s.eps for e in errors])
    note = (
        "it equals the weights: it forgets that they move" if forgotten[0] <= forgotten[1] else ""
    )
    return Measured(*best, answers=answers, note=note)


@st.composite
def _batches(draw: st.DrawFn) -> Case:
    k, n = draw(st.integers(1, 3)), draw(st.integers(2, 3))
    entry = st.integers(0, 32).map(lambda i: i / 16)
    rows = draw(st.lists(st.lists(entry, min_size=k, max_size=k), min_size=n, max_size=n))
    return Case(rows=rows, tau=draw(st.sampled_from([1.0, 0.25, 2.0])))


ALL = reg.rows()
PROPERTIES = (
    Property("repeatable", "The same input gives the same bits.", ALL, _repeat, Kind.EQUALITY),
    Property("value", "The value is <P(r / temperature), r>.", ALL, _value),
    Property("above-minimum", "It is never below the minimum.", ALL, _above),
    Property("sharp-gap", "It is above the minimum by the sharp gap at most.", ALL, _sharp),
    Property("zero-gap", "The gap is zero exactly when the condition holds.", ALL, _zero_gap),
    Property("monotone", "It rises with the temperature.", ALL, _monotone),
    Property("one-entry", "Of a single entry it is that entry.", reg.rows(1, 1), _value),
    Property("shift", "A number added to all entries is added to it.", ALL, _shift),
    Property("scaling", "It scales with distances and temperature.", ALL, _scaling),
    Property("permutation", "The order of entries does not matter.", ALL, _permutation),
    Property(
        "huge-spread", "Nothing overflows when r / temperature is huge.", reg.spreads(), _value
    ),
    Property("batch", "A batch is its rows.", _batches(), _batch, needs="batches"),
    Property("untouched", "The input is left as it was.", ALL, _untouched, Kind.EQUALITY),
    Property("gradient", "The gradient is that of the value.", ALL, _gradient, needs="gradient"),
)


def _logsumexp(sign: float, mean: bool) -> Any:
    """-tau log sum exp(-r / tau), with 1/k inside if `mean`."""

    def answer(s: Subject, case: Case, alpha: Fraction) -> float:
        r, tau = np.asarray(case["r"]), case["tau"]
        low = r.min()
        total = np.exp(-(r - low) / tau)
        return float(low - sign * tau * np.log(total.mean() if mean else total.sum()))

    return answer


def _regularized_value(sign: int) -> Any:
    """<P, r> + sign tau Omega(P), for softmax and sparsemax."""

    def answer(s: Subject, case: Case, alpha: Fraction) -> float | None:
        _, tau, p = _parts(case, alpha)
        if alpha == 1:
            omega = sum(float(w) * math.log(float(w)) for w in p if float(w) > 0)
        elif alpha == 2:
            omega = float(sum(w * w for w in p)) / 2
        else:
            return None
        return float(right(case, alpha)) + sign * float(tau) * omega

    return answer


def _of(change: Any) -> Any:
    def answer(s: Subject, case: Case, alpha: Fraction) -> float:
        r, tau, _ = _parts(case, alpha)
        other, heat = change(r, tau)
        p = entmax.weights(other, heat, alpha)
        return float(sum(a * b for a, b in zip(p, r, strict=True)))

    return answer


def _other(alpha: Fraction) -> Explanation:
    def answer(s: Subject, case: Case, kind: Fraction) -> Any:
        return None if kind == alpha else float(right(case, alpha))

    return Explanation(f"the value with {reg.name_of(alpha)} weights", Sort.CONVENTION, answer)


def _doubled(alpha: Fraction) -> Explanation:
    def answer(s: Subject, case: Case, kind: Fraction) -> float:
        return float(right(Case(r=case["r"], tau=2 * case["tau"]), alpha))

    name = f"the temperature is doubled: {reg.name_of(alpha)} weights of r / (2 tau)"
    return Explanation(name, Sort.CONVENTION, answer)


EXPLANATIONS = (
    Explanation(
        "the soft minimum -tau log sum exp(-r / tau), which is below the minimum",
        Sort.CONVENTION,
        _logsumexp(1, False),
    ),
    Explanation(
        "the soft minimum with 1/k inside the logarithm", Sort.CONVENTION, _logsumexp(1, True)
    ),
    Explanation(
        "the regularized value <P, r> + tau Omega(P)", Sort.CONVENTION, _regularized_value(1)
    ),
    Explanation("<P, r> - tau Omega(P): the entropy is added", Sort.BUG, _regularized_value(-1)),
    Explanation(
        "the minimum itself: no smoothing", Sort.BUG, lambda s, case, alpha: min(case["r"])
    ),
    Explanation("the mean of r", Sort.BUG, lambda s, case, alpha: float(np.mean(case["r"]))),
    Explanation(
        "the temperature is inverted: weights of r * tau",
        Sort.CONVENTION,
        _of(lambda r, tau: (r, 1 / tau)),
    ),
    Explanation("the temperature is not used", Sort.BUG, _of(lambda r, tau: (r, Fraction(1)))),
    *map(_doubled, reg.NAMES),
    *map(_other, reg.NAMES),
)


def _recognize(s: Subject) -> Fraction:
    """The exponent whose value is nearest at (0, 1/8, 1/4), temperature 1."""
    case = Case(r=[0.0, 0.125, 0.25], tau=1.0)
    try:
        found = _ask(s, case)
    except WrongAnswer:
        return reg.SOFTMAX
    known = min(reg.NAMES, key=lambda a: abs(found - float(right(case, a))))
    if abs(found - float(right(case, known))) < 1e-6:
        return known
    grid = [Fraction(i, 20) for i in range(21, 81)]
    other = min(grid, key=lambda a: abs(found - float(right(case, a))))
    return other if abs(found - float(right(case, other))) < 1e-6 else known


def _simply(s: Subject) -> Any:
    answer = s.raw([0.0, 0.5, 1.0], 1.0)
    if not math.isfinite(s.plain(answer, ())):
        raise WrongAnswer(f"the answer is not finite: {s.plain(answer)}")
    return answer


def _batched(s: Subject) -> bool:
    return bool(np.shape(s([[0.0, 0.5, 1.0], [1.0, 0.0, 2.0]], 1.0)) == (2,))


ROLE = Role(
    "surrogate",
    "(r, tau) -> value",
    PROPERTIES,
    (frozenset({"r", "distances", "d2", "excess"}), frozenset({"tau", "temperature", "t"})),
    EXPLANATIONS,
    _recognize,
    {name: alpha for alpha, name in reg.NAMES.items()},
    lambda s, case, alpha: _ask(s, case) if "r" in case else None,
    lambda s, case, alpha: float(right(case, alpha)),
    allowed,
    reg.PROBES,
    _simply,
    _batched,
)
