"""The L2-regularized minimum on plain lists of exact fractions, by sorting.

Written with the standard library alone: the report pastes this file in front of a counterexample
to make a script that runs anywhere.
"""

from fractions import Fraction

Row = list[Fraction]


def sparsemax(r: Row, tau: Fraction) -> Row:
    """argmin of <p, r> + tau/2 |p|^2 over the simplex.

    In ascending order the support is the longest beginning in which the excesses of its last
    member over the others add up to less than tau.
    """
    ascending = sorted(r)
    size = max(
        j
        for j in range(1, len(r) + 1)
        if sum((ascending[j - 1] - v for v in ascending[:j]), Fraction(0)) < tau
    )
    threshold = (tau + sum(ascending[:size], Fraction(0))) / size
    return [max(threshold - v, Fraction(0)) / tau for v in r]


def surrogate(r: Row, tau: Fraction) -> Fraction:
    return sum((p * v for p, v in zip(sparsemax(r, tau), r, strict=True)), Fraction(0))


def gap(r: Row, tau: Fraction) -> Fraction:
    return surrogate(r, tau) - min(r)


def zero_gap_threshold(r: Row, tau: Fraction) -> Fraction:
    """How far every larger entry must be above the minimum for the gap to be zero."""
    return tau / r.count(min(r))


def main(r: Row, tau: Fraction) -> None:
    """Print the quantities that the claims are about."""
    rest = [v - min(r) for v in r if v != min(r)]
    print("distances r       ", *r)
    print("temperature       ", tau)
    print("weights           ", *sparsemax(r, tau))
    print("surrogate         ", surrogate(r, tau))
    print("minimum           ", min(r))
    print("gap               ", gap(r, tau))
    print("next excess       ", min(rest) if rest else "none")
    print("zero-gap threshold", zero_gap_threshold(r, tau))
