"""What the claims about tasks have in common: small instances, and the two k-means questions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from constructions import rational_array, surrogate
from constructions.rationals import as_fractions
from constructions.tasks import scale_to_unit_cube
from verify.claim import Case, Measured, Script
from verify.oracles import clustering, partitions

Rows = list[list[Fraction]]

SCRIPT = Script("partitions", lambda case: {"X": case["X"], "C": case["C"]})

PARTITION, ASSIGNMENT = "best partition", "nearest centers"  # the two questions of k-means


def instances(
    d: int, n: int, top: int, scaling: str, question: str, k: int = 2, least_top: int = 0
) -> Iterator[Case]:
    """Instances whose largest coordinate is least_top ... top and whose smallest is at least 0,
    one for each multiset of points.

    The best partition does not depend on the centers, so they are the first k points there; for
    the assignment they are every ordered choice of k distinct points.
    """
    places = list(itertools.product(range(top + 1), repeat=d))
    for X in itertools.combinations_with_replacement(places, n):
        if max(map(max, X)) < least_top:
            continue
        distinct = sorted(set(X))
        for C in itertools.permutations(distinct, k) if question == ASSIGNMENT else [X[:k]]:
            yield Case(X=_rows(X), C=_rows(C), scaling=scaling, question=question)


def growing(question: str, scaling: str = "per-dimension") -> Iterator[Case]:
    """Instances from the smallest up: by coordinates, points, then size of the numbers."""
    for d in (1, 2):
        for n in (2, 3):
            for top in range(1, 4):
                yield from instances(d, n, top, scaling, question, least_top=top)


def _rows(rows: tuple[tuple[int, ...], ...]) -> Rows:
    return [[Fraction(u) for u in row] for row in rows]


def scaled(case: Case) -> tuple[Rows, Rows]:
    """Points and centers in the unit cube: the project's own scaling, in exact rationals."""
    X, C = scale_to_unit_cube(rational_array(case["X"]), rational_array(case["C"]), case["scaling"])
    return as_fractions(X), as_fractions(C)


def price_of_scaling(case: Case) -> Measured:
    """What the answer to the scaled problem costs in the original one, and the least cost there.

    Ties are settled in favor of the scaled problem: of its best partitions the one that is
    cheapest in the original counts. An assignment takes the center of lowest index, both times.
    """
    X, C = case["X"], case["C"]
    points, centers = scaled(case)
    answers: dict[str, Any]
    if case["question"] == PARTITION:
        before = partitions.optimal_partitions(X, len(C))
        after = partitions.optimal_partitions(points, len(C))
        least = partitions.cost(X, before[0])
        price = min(partitions.cost(X, p) for p in after)
        answers = {"best partitions": before, "best partitions after scaling": after}
    else:
        first, second = (
            [js[0] for js in partitions.nearest(*pair)] for pair in ((X, C), (points, centers))
        )
        least, price = (partitions.assignment_cost(X, C, labels) for labels in (first, second))
        answers = {"nearest centers": first, "nearest centers after scaling": second}
    answers["points after scaling"] = points
    note = "the answers agree"
    if price != least:
        note = f"the answer to the scaled problem costs {price} where {least} is possible"
    return Measured(price, least, answers=answers, note=note)


def equivariance(case: Case) -> Measured:
    """How far X -> factor X + shift is from changing nothing but the unit of length.

    The largest deviation, over all partitions, of the cost from factor^2 times what it was; of a
    Lloyd step from factor times its centers plus the shift; of the L2 surrogate at temperature
    factor^2 tau from factor^2 times what it was. Plus the number of points whose nearest centers
    change. Without a factor in the case, it is the scaling into the unit cube.
    """
    X, C = case["X"], case["C"]
    if "factor" in case:
        factor, shift = case["factor"], case["shift"]
        points, centers = (
            [[factor * u + b for u, b in zip(row, shift, strict=True)] for row in rows]
            for rows in (X, C)
        )
    else:
        points, centers = scaled(case)
        columns = list(zip(*X, *C, strict=True))
        factor = 1 / (max(max(c) - min(c) for c in columns) or Fraction(1))
        shift = [-factor * min(c) for c in columns]
    square = factor**2
    deviations = [
        abs(partitions.cost(points, p) - square * partitions.cost(X, p))
        for p in partitions.partitions(len(X), len(C))
    ]
    step = zip(clustering.lloyd(X, C), clustering.lloyd(points, centers), strict=True)
    deviations += [
        abs(v - factor * u - b) for p, q in step for u, v, b in zip(p, q, shift, strict=True)
    ]
    values = zip(_surrogate(X, C, Fraction(1)), _surrogate(points, centers, square), strict=True)
    deviations += [abs(v - square * u) for u, v in values]
    before, after = partitions.nearest(X, C), partitions.nearest(points, centers)
    moved = sum(a != b for a, b in zip(before, after, strict=True))
    return Measured(max(deviations) + moved, Fraction(0))


def _surrogate(X: Rows, C: Rows, temperature: Fraction) -> list[Fraction]:
    distances = [[clustering.squared_distance(x, c) for c in C] for x in X]
    return as_fractions(surrogate(rational_array(distances), temperature, "l2"))


def surrogate_at_one_temperature(case: Case) -> Measured:
    """The L2 surrogate of distances in a unit of length 1/factor, brought back to the old unit."""
    square = case["factor"] ** 2
    value, bound = (
        as_fractions(
            surrogate(rational_array([s * u for u in case["r"]]), case["temperature"], "l2")
        )
        for s in (square, Fraction(1))
    )
    return Measured(value / square, bound)
