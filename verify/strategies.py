"""Hypothesis strategies that hit the hard cases on purpose."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from verify.claim import Case

SMALL = st.integers(-3, 3).map(Fraction)
"""Coordinates that coincide and tie all the time."""

WIDE = st.builds(Fraction, st.integers(-9999, 9999), st.integers(1, 7))
"""Coordinates in general position most of the time."""


@st.composite
def instances(
    draw: st.DrawFn,
    coordinates: st.SearchStrategy[Fraction] = WIDE,
    codes: tuple[str, ...] = ("binary",),
    max_d: int = 5,
    max_k: int = 9,
    max_n: int = 24,
    max_steps: int = 5,
    free_centers: bool = False,
) -> Case:
    """A clustering instance: points X, centers C, a code name and a number of steps.

    Points repeat on purpose. Centers are k distinct points of the data, as in the paper's tasks,
    so that no cluster starts empty; with `free_centers` they are anywhere, repeated or far away.
    One cluster, and as many clusters as points, are possible but not the rule: both leave Lloyd's
    algorithm nothing to do.
    """
    d = draw(st.integers(1, max_d))
    k = draw(st.sampled_from([*range(2, max_k + 1), 1]))
    n = k + draw(st.sampled_from([*range(1, max_n - k + 1), 0]))
    places = 5**d if coordinates is SMALL else n  # of 7^d: so many different ones are soon found
    least = 1 if free_centers else min(k, places)
    distinct = draw(st.sampled_from(range(min(n, places), least - 1, -1)))
    row = st.tuples(*[coordinates] * d)
    pool = draw(st.lists(row, min_size=distinct, max_size=distinct, unique=True))
    if free_centers:
        C = draw(st.lists(row, min_size=k, max_size=k))
    else:
        C = [pool[j % distinct] for j in range(k)]
    repeats = draw(st.lists(st.sampled_from(pool), min_size=n - distinct, max_size=n - distinct))
    return Case(
        X=pool + repeats,
        C=C,
        code=draw(st.sampled_from(codes)),
        steps=draw(st.integers(1, max_steps)),
    )


@st.composite
def distances(
    draw: st.DrawFn, max_k: int = 8, min_k: int = 1, regularizers: tuple[Any, ...] = ("l2",)
) -> Case:
    """A vector r of k squared distances, a temperature and a regularizer, all rational.

    Values repeat, and some sit exactly at a support threshold of the sparsemax (min + tau/m).
    """
    k = draw(st.integers(min_k, max_k))
    tau = draw(st.builds(Fraction, st.integers(1, 60), st.integers(1, 12)))
    base = draw(st.builds(Fraction, st.integers(0, 50), st.integers(1, 12)))
    grid = st.builds(Fraction, st.integers(0, 24), st.integers(1, 12))
    steps = st.sampled_from([Fraction(0), tau / 4, tau / 3, tau / 2, tau, 2 * tau])
    r = draw(st.lists(st.one_of(grid, steps), min_size=k, max_size=k))
    return Case(r=[base + e for e in r], tau=tau, regularizer=draw(st.sampled_from(regularizers)))


def grid_instances(
    d: int,
    n: int,
    k: int,
    top: int,
    codes: tuple[str, ...] = ("binary",),
    steps: int = 1,
    distinct_centers: bool = True,
    centers_from: int | None = None,
) -> Iterator[Case]:
    """Every instance with coordinates 0 ... top: multisets of n points, ordered sets of centers.

    `centers_from` gives centers a range 0 ... centers_from of their own.
    """
    places = list(itertools.product(range(top + 1), repeat=d))
    seats = (
        places
        if centers_from is None
        else list(itertools.product(range(centers_from + 1), repeat=d))
    )
    choose = (
        itertools.permutations
        if distinct_centers
        else (lambda s, r: itertools.product(s, repeat=r))
    )
    for X in itertools.combinations_with_replacement(places, n):
        for C in choose(seats, k):
            for code in codes:
                yield Case(X=_rows(X), C=_rows(C), code=code, steps=steps)


def growing_grids(max_d: int, max_n: int, max_k: int, top: int, **options: Any) -> Iterator[Case]:
    """`grid_instances` from the smallest size up, so that the first hit is minimal."""
    sizes = [
        (d, n, k)
        for d in range(1, max_d + 1)
        for n in range(1, max_n + 1)
        for k in range(1, min(n, max_k) + 1)
    ]
    for d, n, k in sorted(sizes, key=lambda s: (s[0] * (s[1] + s[2]), s)):
        yield from grid_instances(d, n, k, top, **options)


def _rows(rows: Iterable[Iterable[int]]) -> list[list[Fraction]]:
    return [[Fraction(u) for u in row] for row in rows]
