"""Without code dimensions, one layer cannot execute a Lloyd step."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from verify.claim import Case, Claim, Evidence, Kind, Method, Run, Source, Table
from verify.oracles import clustering as oracle
from verify.search import Study

SETTINGS = np.array(list(itertools.product((-1, 0, 1), repeat=3)), dtype=np.int64)
"""Query, key and value of one attention module at d_emb = 1: 27 settings."""

N, SIZE = 6, 3
"""Points, and points in each of the two clusters, of the instances under test."""


def module(queries: Any, keys: Any, scale: int) -> Any:
    """`scale` times the output of averaging attention for all 27 settings.

    queries (..., q), keys (..., n) -> (..., 27, q), in integers: `scale` is a multiple of every
    number of keys that can be tied.
    """
    query, key, value = (SETTINGS[:, part, None, None] for part in range(3))
    gaps = query * queries[..., None, :, None] - key * keys[..., None, None, :]
    nearest = np.abs(gaps) == np.abs(gaps).min(axis=-1, keepdims=True)
    sums = (nearest * keys[..., None, None, :]).sum(axis=-1)
    return value[..., 0] * sums * (scale // nearest.sum(axis=-1))


def matches(X: list[int], C: list[int]) -> Any:
    """Which of the 27^4 = 531,441 settings turn C into Lloyd's centers on this instance.

    Axes: cross-attention of points, self-attention of points, cross-attention of centers,
    self-attention of centers.
    """
    points, centers = np.array(X), np.array(C)
    scale = lcm(*range(1, len(X) + 1))
    cross, own = module(points, centers, scale), module(points, points, scale)
    new = scale * points + cross[:, None] + own[None]  # (27, 27, n), times `scale`
    read = module(np.broadcast_to(scale * centers, (27, 27, len(C))), new, scale)
    kept = scale**2 * centers + scale * module(centers, centers, scale)
    found = read[:, :, :, None] + kept  # (27, 27, 27, 27, k), times `scale` squared
    want = oracle.lloyd([[Fraction(x)] for x in X], [[Fraction(c)] for c in C])
    return (found == np.array([int(scale**2 * row[0]) for row in want])).all(axis=-1)


def labels(X: list[int], C: list[int]) -> Any:
    """Nearest of the two centers for each point; 2 where both are equally near."""
    gap = np.abs(np.subtract.outer(X, C))
    return np.where(gap[:, 0] == gap[:, 1], 2, gap.argmin(axis=1))


def balanced(generator: Any, size: int, reach: int) -> tuple[list[int], list[int]]:
    """A random instance with two clusters of `size` distinct points each, without ties."""
    while True:
        X = generator.integers(-reach, reach + 1, 2 * size).tolist()
        C = generator.integers(-reach, reach + 1, 2).tolist()
        if len(set(X)) == len(X) and sorted(labels(X, C)) == [0] * size + [1] * size:
            return X, C


def neighbors(generator: Any, size: int, count: int) -> list[tuple[list[int], list[int]]]:
    """Instances close to one another, with the same assignments."""
    while True:
        X, C = balanced(generator, size, 1000)
        found = []
        for _ in range(count):
            near = [[1000 * u + int(generator.integers(-9, 10)) for u in row] for row in (X, C)]
            found.append((near[0], near[1]))
        if all((labels(*near) == labels(X, C)).all() for near in found):
            return found


def brute_force(claim: Claim, run: Run, e: Evidence) -> None:
    """All settings on instances with three points in each cluster."""
    generator = np.random.default_rng(e.seed)
    count = run.count(24, 4)
    score = sum(matches(*balanced(generator, SIZE, 50)).astype(np.int64) for _ in range(count))
    e.cases = int(np.size(score))
    e.violated = int((score == count).sum())
    e.measured, e.bound = e.violated, 0
    if e.violated:
        e.counterexample = _setting(np.argwhere(score == count)[0])
    e.note = f"the best setting reproduces {int(np.max(score))} of {count} instances"


def _setting(place: Any) -> Case:
    names = ("points_from_centers", "points_from_points", "centers_from_points", "centers")
    return Case(**{n: SETTINGS[i].tolist() for n, i in zip(names, place, strict=True)})


def control(claim: Claim, run: Run, e: Evidence) -> None:
    """The same search where it ought to succeed: clusters of one point, on small open sets."""
    generator = np.random.default_rng(e.seed)
    rows = []
    for size, sets in ((1, run.count(40, 10)), (2, run.count(15, 5)), (3, run.count(15, 5))):
        somewhere, most = np.zeros((27,) * 4, dtype=bool), 0
        for _ in range(sets):
            here = np.ones((27,) * 4, dtype=bool)
            for X, C in neighbors(generator, size, 3):
                here &= matches(X, C)
                if not here.any():
                    break
            somewhere |= here
            most = max(most, int(here.sum()))
        rows.append([size, sets, most, int(somewhere.sum())])
        e.cases += sets
    e.tables.append(
        Table(
            "by-cluster-size",
            "Settings in {-1, 0, 1}^12 that reproduce the Lloyd step on a whole small open set",
            ("points a cluster", "open sets tried", "most on one set", "on some set"),
            rows,
        )
    )
    if not rows[0][3]:
        e.problem = "the search finds nothing even for clusters of one point, so it proves nothing"
    e.note = f"one point a cluster: {rows[0][3]} settings work on some open set"


ROOTS = sorted(
    {Fraction(0), Fraction(-2)}
    | {sign * Fraction(1, m) for m in range(1, N + 1) for sign in (1, -1)}
    | {-Fraction(N, m) for m in range(1, N + 1)}
)
"""All values of the self-attention's V where two coefficients in `consistent` can coincide or
vanish by accident; see there."""

GENERIC = Fraction(1000)
"""Stands for every other value: no coincidence happens at any of them."""


def patterns(claim: Claim, run: Run, e: Evidence) -> None:
    """All real weights at d = 1: every pattern of argmin sets instead of every weight.

    On a small open set of inputs all argmin sets are constant. Write S(i) for the set that point i
    attends to in the self-attention, v for the value weight there, T for the set that the first
    center attends to, q for the key weight there. Cluster 0 consists of points 0, 1, 2.

    If q = 0, T is all points for both centers, and both would move alike with every point, which
    they do not in a Lloyd step. If the self-attention's key weight is 0, S(i) is all points.
    Otherwise S(i) is a single point: two keys that stay tied would have to be the same square.
    Members of T stay tied too, so (as q is not 0) the squares of their new places agree as
    polynomials in the points, up to terms of lower degree. What is left is finite.
    """
    for size in range(1, N + 1):
        targets = np.array(list(itertools.product(range(N), repeat=size)))
        for T in itertools.combinations(range(N), size):
            for v in (*ROOTS, GENERIC):
                for pattern in (targets, None):
                    found = consistent(T, pattern, v)
                    e.cases += len(found)
                    e.violated += int(found.sum())
    e.note = "no pattern of argmin sets is consistent with a Lloyd step, whatever the real weights"


def consistent(T: tuple[int, ...], targets: Any, v: Fraction) -> Any:
    """Which patterns can give the first center the derivatives of a Lloyd step.

    `targets` (m, |T|) lists S(i) for i in T; None means that S(i) is all points. Returns (m,).

    The new place of point i has coefficients 1 at i and v at S(i) (v/n everywhere for None). All
    are multiplied by the denominator, so that integers decide. Two places are tied if their
    coefficients agree up to sign. The center moves with the sum of the coefficients over T, which
    has to be one nonzero number for the points of the cluster and 0 for the others.

    Coefficients are 0, 1, v, 1 + v and sums a + b v with a in {0, 1}, b = 0 ... 6 (for None: v/6
    and 1 + v/6, sums a + |T| v/6): `ROOTS` has every v where one of them vanishes or two agree up
    to sign.
    """
    rows = 1 if targets is None else len(targets)
    places = np.zeros((rows, len(T), N), dtype=np.int64)
    for slot, i in enumerate(T):
        if targets is None:
            places[:, slot, :] += v.numerator
            places[:, slot, i] += v.denominator * N
        else:
            places[np.arange(rows), slot, targets[:, slot]] += v.numerator
            places[:, slot, i] += v.denominator
    first = places[:, :1]
    tied = (places == first).all(axis=2) | (places == -first).all(axis=2)
    slope = places.sum(axis=1)
    inside, outside = slope[:, :SIZE], slope[:, SIZE:]
    moves = (inside == inside[:, :1]).all(axis=1) & (inside[:, 0] != 0) & (outside == 0).all(axis=1)
    return tied.all(axis=1) & moves


CLAIM = Claim(
    id="p0-impossible",
    title="Without extra dimensions it is impossible",
    says="With no code dimensions at all (token width d), no weights whatsoever make one layer at "
    "infinite inverse temperature execute a Lloyd step, not even near a single instance, as soon "
    "as every cluster has three points. One extra dimension is enough (claim any-code), so d + 1 "
    "is the smallest width. For exact execution this answers the question that the paper leaves "
    "open.",
    statement=r"d_{\mathrm{emb}} = d,\ \gamma = \infty:\quad \nexists\, (Q_m, K_m, V_m)_{m = 1}^4,"
    r"\ U \text{ open}:\ C^{(1)} = \mathrm{Lloyd}(X, C)\ \ \forall (X, C) \in U \qquad (k \ge 2,"
    r"\ \text{clusters of at least 3 points})",
    sources=(
        Source("summary", "App. A, p. 17: theoretically unresolved"),
        Source("review", "ablation table: confirmed necessary"),
        Source("beyond", "the answer for exact execution"),
    ),
    kind=Kind.LIMITATION,
    bound=r"\#\{\text{settings that reproduce the step}\} = 0",
    checks=(
        Study(
            "brute-force",
            Method.EXHAUSTIVE,
            brute_force,
            scope="d = 1, k = 2, n = 6: all 3^12 settings of the weights in {-1, 0, 1}, on "
            "instances with three points in each cluster",
            arithmetic="integers (numpy int64)",
        ),
        Study(
            "argmin-patterns",
            Method.EXHAUSTIVE,
            patterns,
            scope="d = 1, k = 2, n = 6, three points in each cluster: all real weights, by "
            "patterns of argmin sets",
            arithmetic="integers (numpy int64)",
        ),
        Study(
            "control",
            Method.PROPERTY,
            control,
            scope="d = 1, k = 2: open sets of inputs with one, two or three points in each cluster",
            variant="the search finds weights where there are some",
            arithmetic="integers (numpy int64)",
        ),
    ),
    falsify="weights of width d that reproduce a Lloyd step on an open set of inputs with at least "
    "three points in each cluster",
    theory="expressivity.md#one-layer-without-codes",
    conflict="The summary calls the necessity of the extra dimensions theoretically unresolved; "
    "the review says that an experiment confirms it.",
)
