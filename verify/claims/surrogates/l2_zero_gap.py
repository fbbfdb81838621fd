"""When the L2 surrogate equals the minimum at a positive temperature."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import z3

from verify.claim import Case, Claim, Kind, Measured, Method, Run, Source
from verify.claims.surrogates._shared import SCRIPT, exact_l2_gap
from verify.oracles import smt
from verify.oracles.surrogates import zero_gap_threshold
from verify.search import Exhaustive, Proof, Property, Step
from verify.strategies import distances


def measure(case: Case) -> Measured:
    """Left: the gap is zero. Right: every larger entry is at least tau/m above the minimum, m the
    number of minimizers."""
    r, least = case["r"], min(case["r"])
    threshold = zero_gap_threshold(r, case["tau"])
    gap = exact_l2_gap(case)
    separated = all(v == least or v - least >= threshold for v in r)
    return Measured(gap == 0, separated, answers={"gap": gap, "threshold tau/m": threshold})


def plain_margin(case: Case) -> Measured:
    """The condition without multiplicity: second smallest minus smallest is at least tau."""
    first, second, *_ = sorted(case["r"])
    gap = exact_l2_gap(case)
    return Measured(
        gap == 0,
        second - first >= case["tau"],
        answers={"gap": gap, "second minus first": second - first},
        note="the gap is zero although the second smallest is not tau above the smallest",
    )


def grid(run: Run) -> Iterator[Case]:
    for k in range(1, 5):
        for r in itertools.combinations_with_replacement(range(9), k):
            for tau in range(1, 13):
                yield Case(r=[Fraction(v) for v in r], tau=Fraction(tau))


def pairs_and_more(run: Run) -> Iterator[Case]:
    return (case for case in grid(run) if len(case["r"]) >= 2)


def solver(run: Run) -> Iterator[Step]:
    """At temperature 1 with ordered r, for every number of minimizers m."""
    for k in range(2, 6):
        for m in range(1, k + 1):
            e = z3.RealVector("e", k)
            p, weights = smt.sparsemax_of(e)
            shape = [*(v == 0 for v in e[:m]), *(v > 0 for v in e[m : m + 1])]
            ordered = smt.ascending(e)
            far = z3.And(*(v >= z3.Q(1, m) for v in e[m:]))
            goal = (smt.dot(p, e) == 0) == far
            yield smt.decide(f"k = {k}, m = {m}", [*shape, *ordered, *weights], goal, e)


CLAIM = Claim(
    id="l2-zero-gap",
    title="The L2 surrogate has no gap when the nearest center is near enough",
    says="The L2-regularized minimum equals the minimum exactly when every entry that is not "
    "minimal is at least tau/m larger than the minimum, where m entries are minimal. Then the "
    "smoothed loss is the true loss, at a positive temperature.",
    statement=r"\langle P_{L2}(r/\tau), r\rangle = \min_j r_j \iff r_j - \min r \ge \frac{\tau}{m}"
    r"\ \text{ for all } r_j \neq \min r,\quad m = \#\{j : r_j = \min r\}",
    sources=(Source("summary", "App. H, p. 33"), Source("review", "design 3")),
    kind=Kind.IFF,
    bound=r"r_{\mathrm{next}} - \min r \ge \tau / m",
    measure=measure,
    checks=(
        Proof(
            "solver",
            Method.SMT,
            solver,
            scope="k = 2 ... 5, every r and every number of minimizers",
            sharper="the exact condition, with multiplicity: a minimum that is reached m times "
            "needs a distance of tau/m only; the paper asks for separation without saying how much",
        ),
        Exhaustive(
            "grid",
            scope="k <= 4, integer r from 0 to 8, tau from 1 to 12",
            cases=grid,
        ),
        Property(
            "random",
            scope="k <= 8, rational r, thresholds hit on purpose",
            strategy=distances(8),
            count=600,
        ),
        Exhaustive(
            "without-multiplicity",
            scope="k = 2 ... 4 on the same grid",
            variant="iff the second smallest is at least tau above the smallest",
            measure=plain_margin,
            cases=pairs_and_more,
            until_violation=True,
        ),
    ),
    falsify="an r where one side of the equivalence holds and the other does not",
    theory="surrogates.md#zero-gap",
    script=SCRIPT,
)
