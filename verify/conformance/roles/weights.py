"""Weights (r, temperature) -> p: softmax, sparsemax, entmax of squared distances r.

Weights of distances: the nearest gets the most. A library that takes scores is wrapped as
`lambda r, tau: softmax(-r / tau)`. Rounding bounds: `verify.conformance.roles._regularized`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from verify.claim import Case, Kind, Measured
from verify.conformance.property import Explanation, Property, Role, Sort
from verify.conformance.roles import _regularized as reg
from verify.conformance.subject import Subject, WrongAnswer, excess, flat
from verify.oracles import entmax

Row = list[Fraction]


def _case(case: Case) -> tuple[list[float], float, int]:
    return case["r"], case["tau"], len(case["r"])


def _ask(s: Subject, case: Case) -> list[float]:
    r, tau, k = _case(case)
    return s(r, tau, shape=(k,))


def right(case: Case, alpha: Fraction) -> Row:
    return entmax.weights(reg.exact(case["r"]), Fraction(case["tau"]), alpha)


def allowed(s: Subject, case: Case, alpha: Fraction) -> list[float]:
    r, tau = reg.exact(case["r"]), Fraction(case["tau"])
    return reg.weight_errors(r, tau, alpha, entmax.weights(r, tau, alpha), s.eps)


def _value(s: Subject, case: Case, alpha: Fraction) -> Measured:
    found, expected = _ask(s, case), right(case, alpha)
    error, most = excess(found, expected, allowed(s, case, alpha))
    return Measured(error, most, answers={"answer": found, "right": [float(v) for v in expected]})


def _nonnegative(s: Subject, case: Case, alpha: Fraction) -> Measured:
    found = _ask(s, case)
    return Measured(_low(found), 0.0, answers={"answer": found})


def _low(found: list[float]) -> float:
    return min((v if math.isfinite(v) else -math.inf) for v in flat(found))


def _sum(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """k weights whose own errors, and not the common one, add up: dividing by the sum leaves
    (k + 2) eps; a threshold that was found with error e leaves k e."""
    found = _ask(s, case)
    k = len(found)
    most = (k + 4) * s.eps if alpha == 1 else sum(allowed(s, case, alpha)) + k * s.eps
    total = sum(Fraction(v) for v in found) if all(map(math.isfinite, found)) else math.inf
    return Measured(float(abs(total - 1)), most, answers={"answer": found, "sum": float(total)})


def _support(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """How much weight is where there must be none, or none where there must be more than rounding
    can take away."""
    found, expected, most = _ask(s, case), right(case, alpha), allowed(s, case, alpha)
    worst = (0.0, 0.0)
    for f, p, e in zip(found, expected, most, strict=True):
        wrong = abs(f) if p == 0 else (float(p) if f == 0 else 0.0)
        wrong = wrong if math.isfinite(f) else math.inf
        # far outside, zero is zero: no rounding brings an entry back that is a whole unit away
        worst = max(worst, (wrong, e), key=lambda pair: pair[0] - pair[1])
    return Measured(*worst, answers={"answer": found, "right": [float(v) for v in expected]})


def _order(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """Nearer gets at least as much, and equal distances get bitwise equal weights."""
    found = _ask(s, case)
    if not all(map(math.isfinite, found)):
        return Measured(math.inf, 0.0, answers={"answer": found})
    worst, most = 0.0, 0.0
    for i, a in enumerate(case["r"]):
        for j, b in enumerate(case["r"]):
            if a <= b and found[j] - found[i] > worst:
                worst, most = found[j] - found[i], 2 * s.eps * found[j]
    return Measured(worst, most, answers={"answer": found})


def _same(change: Callable[[Case], tuple[Case, Callable[[Any], Any]]]) -> Any:
    """A change of the case under which the answer is known to change in a known way."""

    def measure(s: Subject, case: Case, alpha: Fraction) -> Measured:
        other, undo = change(case)
        before, after = _ask(s, case), undo(_ask(s, other))
        most = [
            a + b
            for a, b in zip(allowed(s, case, alpha), undo(allowed(s, other, alpha)), strict=True)
        ]
        error, bound = excess(after, before, most)
        return Measured(error, bound, answers={"answer": before, "after the change": after})

    return measure


def _shift(case: Case) -> tuple[Case, Callable[[Any], Any]]:
    return Case(r=[v + case["by"] for v in case["r"]], tau=case["tau"]), lambda p: p


def _scale(case: Case) -> tuple[Case, Callable[[Any], Any]]:
    f = case["by"]
    return Case(r=[v * f for v in case["r"]], tau=case["tau"] * f), lambda p: p


def _permute(case: Case) -> tuple[Case, Callable[[Any], Any]]:
    return Case(r=case["r"][::-1], tau=case["tau"]), lambda p: p[::-1]


@st.composite
def _changed(draw: st.DrawFn, by: tuple[float, ...]) -> Case:
    case = draw(reg.rows())
    return Case(r=case["r"], tau=case["tau"], by=draw(st.sampled_from(by)))


def _cold(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """At 2^-14 of the smallest excess, only the nearest have weight, in equal parts: others have
    at most exp(-16384)."""
    r = case["r"]
    rest = [v - min(r) for v in r if v > min(r)]
    cold = Case(r=r, tau=min(rest, default=1.0) * 2.0**-14)
    found, m = _ask(s, cold), r.count(min(r))
    expected = [1 / m if v == min(r) else 0.0 for v in r]
    error, most = excess(found, expected, allowed(s, cold, alpha))
    return Measured(error, most, answers={"answer": found, "limit": expected})


def _hot(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """At a temperature of 2^20 times the largest excess: near 1/k the slope of a weight in r is
    k^(alpha - 2) (1 - 1/k) / temperature at most, so weights are within 2^-20 max(1, k^(alpha - 2))
    of 1/k."""
    r, k = case["r"], len(case["r"])
    hot = Case(r=r, tau=max(1.0, max(r) - min(r)) * 2.0**20)
    found = _ask(s, hot)
    most = [e + 2.0**-20 * max(1.0, k ** (float(alpha) - 2)) for e in allowed(s, hot, alpha)]
    error, bound = excess(found, [1 / k] * k, most)
    return Measured(error, bound, answers={"answer": found, "limit": [1 / k] * k})


def _batch(s: Subject, case: Case, alpha: Fraction) -> Measured:
    rows, tau, k = case["rows"], case["tau"], len(case["rows"][0])
    together = s(rows, tau, shape=(len(rows), k))
    alone = [s(row, tau, shape=(k,)) for row in rows]
    most = [[2 * e for e in allowed(s, Case(r=row, tau=tau), alpha)] for row in rows]
    error, bound = excess(together, alone, most)
    return Measured(error, bound, answers={"batch": together, "one by one": alone})


@st.composite
def _batches(draw: st.DrawFn) -> Case:
    case = draw(reg.rows(max_k=3))
    n = draw(st.integers(1, 3))
    k = len(case["r"])
    entry = st.integers(0, 32).map(lambda i: i / 16)
    more = draw(st.lists(st.lists(entry, min_size=k, max_size=k), min_size=n, max_size=n))
    return Case(rows=[case["r"], *more], tau=case["tau"])


def _kept(s: Subject, case: Case, alpha: Fraction) -> Measured:
    """The element type of the answer is that of the input, counted as 0 or 1 differences."""
    answer = s.raw(case["r"], case["tau"])
    if s.library == "lists":
        return Measured(0, 0)
    kind = str(getattr(answer, "dtype", type(answer).__name__)).removeprefix("torch.")
    return Measured(int(kind != s.dtype), 0, note=f"{s.dtype} in, {kind} out")


def _untouched(s: Subject, case: Case, alpha: Fraction) -> Measured:
    x = s.array(list(case["r"]))
    before = s.plain(x)
    s.function(x, case["tau"])
    return Measured(sum(a != b for a, b in zip(before, s.plain(x), strict=True)), 0)


def _repeat(s: Subject, case: Case, alpha: Fraction) -> Measured:
    first, second = _ask(s, case), _ask(s, case)
    differ = sum(a != b for a, b in zip(first, second, strict=True))
    return Measured(differ, 0, answers={"first": first, "second": second})


def _gradient(s: Subject, case: Case, alpha: Fraction) -> Measured:
    r, tau, g = case["r"], case["tau"], case["g"]
    found = s.pulled_back(r, tau, g)
    p = right(case, alpha)
    exact_r, top = reg.exact(r), max(map(abs, g))
    most = [reg.derivative_error(exact_r, Fraction(tau), alpha, p, s.eps, top)] * len(r)
    answers: dict[str, Any] = {"gradient": found}
    best = (math.inf, 0.0)
    for support in reg.supports(exact_r, Fraction(tau), alpha, p):
        exact = entmax.pulled_back(p, Fraction(tau), alpha, reg.exact(g), support)
        pair = excess(found, exact, most)
        if pair[0] - pair[1] < best[0] - best[1]:
            best = pair
            answers["right"] = [float(v) for v in exact]
    return Measured(*best, answers=answers)


@st.composite
def _upstream(draw: st.DrawFn) -> Case:
    case = draw(reg.rows())
    k = len(case["r"])
    g = draw(st.lists(st.integers(-4, 4).map(float), min_size=k, max_size=k))
    return Case(r=case["r"], tau=case["tau"], g=g)


ALL = reg.rows()
PROPERTIES = (
    Property("repeatable", "The same input gives the same bits.", ALL, _repeat, Kind.EQUALITY),
    Property("simplex-nonnegative", "No weight is negative.", ALL, _nonnegative, Kind.LOWER),
    Property("simplex-sum", "The weights sum to 1, within rounding.", ALL, _sum),
    Property("value", "The weights minimize <p, r> + temperature * Omega(p).", ALL, _value),
    Property("support", "A weight is zero exactly where it must be.", ALL, _support),
    Property("order", "What is nearer gets at least as much.", ALL, _order),
    Property("one-entry", "A single entry gets all the weight.", reg.rows(1, 1), _value),
    Property(
        "all-equal",
        "Equal entries share equally.",
        st.builds(
            lambda k, v, t: Case(r=[v] * k, tau=t),
            st.integers(1, 5),
            st.sampled_from([0.0, 1.0, 40.0]),
            st.sampled_from([1.0, 0.25, 4.0]),
        ),
        _value,
    ),
    Property("cold-limit", "At low temperature the nearest share all weight.", ALL, _cold),
    Property("hot-limit", "At high temperature all have the same weight.", ALL, _hot),
    Property(
        "shift",
        "One number added to all distances changes nothing.",
        _changed((1.0, -1.0, 8.0, 1024.0, -4096.0)),
        _same(_shift),
    ),
    Property(
        "scaling",
        "Distances and temperature scaled by one power of two: nothing changes.",
        _changed((2.0, 0.5, 2.0**20, 2.0**-20)),
        _same(_scale),
    ),
    Property("permutation", "Permuting distances permutes weights.", ALL, _same(_permute)),
    Property(
        "huge-spread", "Nothing overflows when r / temperature is huge.", reg.spreads(), _value
    ),
    Property("batch", "A batch is its rows.", _batches(), _batch, needs="batches"),
    Property("dtype", "The element type is kept.", ALL, _kept, Kind.EQUALITY),
    Property("untouched", "The input is left as it was.", ALL, _untouched, Kind.EQUALITY),
    Property(
        "gradient",
        "The gradient is that of the weights.",
        _upstream(),
        _gradient,
        needs="gradient",
    ),
)


def _in_type(s: Subject, formula: Callable[[Any, Any], Any]) -> Callable[[Case], Any]:
    def answer(case: Case) -> Any:
        with np.errstate(all="ignore"):
            r = np.asarray(case["r"], dtype=s.dtype)
            return np.asarray(formula(r, r.dtype.type(case["tau"])), np.float64).tolist()

    return answer


def _formula(name: str, sort: Sort, formula: Callable[[Any, Any], Any]) -> Explanation:
    return Explanation(name, sort, lambda s, case, alpha: _in_type(s, formula)(case))


def _kind(name: str, sort: Sort, change: Callable[[Row, Fraction], tuple[Row, Fraction]]) -> Any:
    """The right weights of something else."""

    def answer(s: Subject, case: Case, alpha: Fraction) -> Any:
        r, tau = change(reg.exact(case["r"]), Fraction(case["tau"]))
        return [float(v) for v in entmax.weights(r, tau, alpha)]

    return Explanation(name, sort, answer)


def _other(alpha: Fraction) -> Explanation:
    def answer(s: Subject, case: Case, kind: Fraction) -> Any:
        return None if kind == alpha else [float(v) for v in right(case, alpha)]

    return Explanation(f"the weights of {reg.name_of(alpha)}", Sort.CONVENTION, answer)


def _half(s: Subject, case: Case, alpha: Fraction) -> Any:
    with np.errstate(all="ignore"):
        z = (-np.asarray(case["r"], np.float16) / np.float16(case["tau"])).astype(np.float16)
        w = np.exp(z - z.max())
        return np.asarray(w / w.sum(dtype=np.float16), np.float64).tolist()


def _plain_softmax(r: Any, tau: Any) -> Any:
    w = np.exp(-r / tau)
    return w / w.sum()


EXPLANATIONS = (
    _formula("overflow: the smallest is not subtracted before exp", Sort.BUG, _plain_softmax),
    _formula(
        "not divided by the sum: exp(-(r - min r) / tau)",
        Sort.BUG,
        lambda r, tau: np.exp(-(r - r.min()) / tau),
    ),
    _formula("not divided by the sum: exp(-r / tau)", Sort.BUG, lambda r, tau: np.exp(-r / tau)),
    _kind(
        "the temperature is inverted: weights of r * tau",
        Sort.CONVENTION,
        lambda r, tau: (r, 1 / tau),
    ),
    _kind("the temperature is not used", Sort.BUG, lambda r, tau: (r, Fraction(1))),
    _kind("the temperature is squared", Sort.BUG, lambda r, tau: (r, tau * tau)),
    _kind(
        "the temperature is halved: weights of 2 r / tau",
        Sort.CONVENTION,
        lambda r, tau: (r, tau / 2),
    ),
    _kind(
        "the temperature is doubled: weights of r / (2 tau)",
        Sort.CONVENTION,
        lambda r, tau: (r, 2 * tau),
    ),
    _kind(
        "r is taken for scores: the farthest gets the most",
        Sort.CONVENTION,
        lambda r, tau: ([-v for v in r], tau),
    ),
    Explanation("computed in float16", Sort.ROUNDING, _half),
    *map(_other, reg.NAMES),
)


def _main(s: Subject, case: Case, alpha: Fraction) -> Any:
    return _ask(s, case) if "r" in case else None


def _allowed(s: Subject, case: Case, alpha: Fraction) -> float:
    return max(allowed(s, case, alpha))


def _recognize(s: Subject) -> Fraction:
    try:
        return reg.recognize(lambda r, tau: s(r, tau, shape=(len(r),)))
    except WrongAnswer:
        return reg.SOFTMAX


def _simply(s: Subject) -> Any:
    answer = s.raw([0.0, 0.5, 1.0], 1.0)
    found = s.plain(answer, (3,))
    if not all(map(math.isfinite, found)):
        raise WrongAnswer(f"the answer is not finite: {found}")
    return answer


def _batched(s: Subject) -> bool:
    return bool(np.shape(s([[0.0, 0.5, 1.0], [1.0, 0.0, 2.0]], 1.0)) == (2, 3))


ROLE = Role(
    "weights",
    "(r, tau) -> weights",
    PROPERTIES,
    (frozenset({"r", "distances", "d2", "excess"}), frozenset({"tau", "temperature", "t"})),
    EXPLANATIONS,
    _recognize,
    {name: alpha for alpha, name in reg.NAMES.items()},
    _main,
    lambda s, case, alpha: [float(v) for v in right(case, alpha)],
    _allowed,
    reg.PROBES,
    _simply,
    _batched,
)
