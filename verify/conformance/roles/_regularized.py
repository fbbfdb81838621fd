r"""What the roles `weights` and `surrogate` have in common: which regularizer it is, the right
answer, and how far rounding may take a good implementation from it.

An implementation may start from r / tau, from -r / tau, or from what remains after the smallest
entry was subtracted, may add in any order, and every operation may be off by eps, the distance
from 1 to the next number (twice what correct rounding does; exp and powers by a few eps). So

    z = r / tau      is off by at most  delta = 3 eps max |z_j|,  over the entries that matter,
    softmax          log P_j is off by 2 delta + (k + 12) eps,
    entmax, alpha>1  the threshold is off by 2 delta + (k + 12) eps (1 + max |z_j|) =: e, and a
                     weight by 2 e for alpha = 2; in general P = [t - (alpha-1) z]^(1/(alpha-1)),
                     by |x^q - y^q| <= q |x - y| for q >= 1 (alpha <= 2), by |x - y|^q for q < 1.

"Entries that matter" have weight, or are less than 2 above the smallest in z: the others are
beyond every support, by more than their own rounding. (For softmax all matter, by P_j times it.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from verify.claim import Case
from verify.oracles import entmax

SOFTMAX, SPARSEMAX, ENTMAX15 = Fraction(1), Fraction(2), Fraction(3, 2)
NAMES = {SOFTMAX: "softmax", SPARSEMAX: "sparsemax", ENTMAX15: "entmax 1.5"}

Row = list[Fraction]

PROBES = tuple(
    Case(r=r, tau=tau)
    for r in ([0.0, 0.25], [0.5, 1.0, 2.0], [1.0, 1.0, 1.25, 3.0])
    for tau in (0.5, 1.0, 4.0)
)
"""Cases that tell one formula from another."""


def name_of(alpha: Fraction) -> str:
    return NAMES.get(alpha, f"entmax {float(alpha):g}")


def exact(values: Sequence[Any]) -> Row:
    return [Fraction(v) for v in values]


@st.composite
def rows(draw: st.DrawFn, min_k: int = 1, max_k: int = 5, top: int = 64) -> Case:
    """r (k,) in sixteenths and a temperature that is a power of two: every float type holds them,
    and r / tau, exactly. Entries repeat, and sit at thresholds of the sparsemax."""
    k = draw(st.integers(min_k, max_k))
    tau = Fraction(2) ** draw(st.sampled_from([0, -1, 1, -2, 2, -3, 3]))
    steps = st.sampled_from([Fraction(0), tau / 4, tau / 2, tau, 2 * tau])
    entry = st.one_of(st.integers(0, top).map(lambda i: Fraction(i, 16)), steps)
    r = draw(st.lists(entry, min_size=k, max_size=k))
    return Case(r=[float(v) for v in r], tau=float(tau))


@st.composite
def spreads(draw: st.DrawFn) -> Case:
    """r / temperature up to 2^24."""
    k = draw(st.integers(1, 4))
    r = draw(st.lists(st.sampled_from([0.0, 1.0, 1e4, 16384.0]), min_size=k, max_size=k))
    return Case(r=r, tau=draw(st.sampled_from([1.0, 0.5, 0.125, 2.0**-10])))


def weight_errors(r: Row, tau: Fraction, alpha: Fraction, p: Row, eps: float) -> list[float]:
    """How far rounding may take each weight (k,). Derivation: top of this module."""
    k, low = len(r), min(r)
    z = [abs(float(v / tau)) for v in r]
    if alpha == 1:
        common = 6 * eps * max((a for a, w in zip(z, p, strict=True) if w > 2**-60), default=0.0)
        own = [6 * eps * a + common + (k + 12) * eps for a in z]
        return [float(w) * _grown(e) + 1e-37 for w, e in zip(p, own, strict=True)]
    near = [a for a, v in zip(z, r, strict=True) if v - low < 2 * tau]
    e = (6 * max(near) + (k + 12) * (1 + max(near))) * eps
    power = 1 / (float(alpha) - 1)
    return [2 * power * e if power >= 1 else (2 * e) ** power for _ in r]


def derivative_error(
    r: Row, tau: Fraction, alpha: Fraction, p: Row, eps: float, top: float
) -> float:
    """How far rounding may take a derivative pulled back from entries of size `top` at most.

    s = P^(2 - alpha) is off by E = e for alpha = 1, by e^(2 - alpha) in between (a concave power
    moves by no more than the power of its argument's error), by 0 for alpha = 2 off the edges, and
    for alpha > 2 by e times its largest slope. sum s >= 1 for alpha <= 2, so the share s / sum s is
    off by (k + 1) E, and the result by (top / tau) ((4 k + 4) E + (k + 12) eps).
    """
    k, a = len(r), float(alpha)
    e = max(weight_errors(r, tau, alpha, p, eps))
    if alpha == 1:
        moved = e
    elif alpha < 2:
        moved = e ** (2 - a)
    elif alpha == 2:
        moved = 0.0
    else:
        least = float(min(v for v in p if v > 0))
        moved = math.inf if least < 2 * e else e * (a - 2) * (least - e) ** (1 - a) * k
    return top / float(tau) * ((4 * k + 4) * moved + (k + 12) * eps)


def _grown(log: float) -> float:
    return math.expm1(log) if log < 700 else math.inf


def supports(r: Row, tau: Fraction, alpha: Fraction, p: Row) -> list[list[bool]]:
    """The sets of entries that a derivative may be taken on: the support, and with it those that
    sit exactly at the threshold, where the one-sided derivatives differ."""
    inside = [v > 0 for v in p]
    if alpha != 2:
        return [inside]
    edge = [
        w == 0 and sum((max(v - o, Fraction(0)) for o in r), Fraction(0)) == tau
        for v, w in zip(r, p, strict=True)
    ]
    if not any(edge):
        return [inside]
    return [inside, [a or b for a, b in zip(inside, edge, strict=True)]]


def recognize(answer: Callable[[list[float], float], Any]) -> Fraction:
    """The exponent whose weights come nearest at (0, 1/8, 1/4), temperature 1:
    all have weight there, for every exponent up to 5.

    Normalized first, and at temperature 1, so that a wrong sum or an inverted temperature does not
    hide which one is meant. `answer` gives weights (k,).
    """
    r = [0.0, 0.125, 0.25]
    found = [float(v) for v in answer(r, 1.0)]
    total = sum(found)
    if not (math.isfinite(total) and total > 0):
        return SOFTMAX
    found = [v / total for v in found]

    def off(alpha: Fraction) -> float:
        right = entmax.weights(exact(r), Fraction(1), alpha)
        return max(abs(a - float(b)) for a, b in zip(found, right, strict=True))

    known = min(NAMES, key=off)
    if off(known) < 1e-5:
        return known
    other = min((Fraction(i, 20) for i in range(21, 81)), key=off)
    return other if off(other) < 1e-5 else known
