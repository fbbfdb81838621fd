r"""Sampler (seed, n, k, d) -> (X, C): n points and k centers in the unit cube.

Tests of chance are exact, and each has a stated error probability: a right sampler fails one with
a probability of at most 2^-40, whatever its distribution is. Seeds are fixed, so that an answer
does not change from run to run.

- Streams: two rows of three float32 coordinates, uniform to 2^-24, coincide with probability
  2^-72. Less than 2^14 pairs are compared, so even with a density 2^6 times the uniform one in
  every coordinate some pair coincides with a probability of at most 2^-40.
- Exchangeable halves: which half of the seeds has the larger mean of the first coordinate is a
  fair coin. The number of "first half larger" among m independent seeds is binomial(m, 1/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from constructions.tasks import FAMILIES, TaskDistribution
from verify.claim import Case, Kind, Measured
from verify.conformance.property import Excluded, Property, Role
from verify.conformance.subject import Subject, WrongAnswer

POINTS, FREE = "centers are points", "free centers"
SCALINGS = ("per-dimension scaling", "common scaling", "no scaling")
KINDS = tuple(f"{centers}, {scaling}" for centers in (POINTS, FREE) for scaling in SCALINGS)

FAMILY_KINDS = {name: f"{POINTS}, per-dimension scaling, {name}" for name in FAMILIES}
"""What is meant by a family of the paper's tasks."""

CHANCE = 2.0**-40
"""Probability that a right sampler fails a test of chance."""


def _ask(s: Subject, seed: int, case: Case) -> tuple[Any, Any]:
    """X (n, d) and C (k, d) in float64."""
    n, k, d = case["n"], case["k"], case["d"]
    return _checked(s, s.raw(seed, n, k, d), n, k, d)


def _checked(s: Subject, answer: Any, n: int, k: int, d: int) -> tuple[Any, Any]:
    try:
        X, C = answer[0], answer[1]
    except (TypeError, KeyError, IndexError):
        kind = type(answer).__name__
        raise WrongAnswer(f"the answer is {kind}, expected the pair X, C") from None
    found = []
    for name, table, shape in (("X", X, (n, d)), ("C", C, (k, d))):
        rows = np.asarray(s.plain(table))
        if rows.shape == (1, *shape):  # a batch of one task
            rows = rows[0]
        if rows.shape != shape:
            raise WrongAnswer(f"{name} has shape {rows.shape}, expected {shape}")
        found.append(rows)
    return found[0], found[1]


def _shapes(s: Subject, case: Case, kind: str) -> Measured:
    """Numbers that are not finite; shapes are looked at on the way."""
    X, C = _ask(s, case["seed"], case)
    return Measured(int((~np.isfinite(X)).sum() + (~np.isfinite(C)).sum()), 0)


def _cube(s: Subject, case: Case, kind: str) -> Measured:
    X, C = _ask(s, case["seed"], case)
    both = np.concatenate([X, C])
    outside = float(np.max(np.maximum(both - 1, -both))) if np.isfinite(both).all() else math.inf
    return Measured(outside, 0.0, answers={"smallest": both.min(), "largest": both.max()})


def _same_seed(s: Subject, case: Case, kind: str) -> Measured:
    first, second = _ask(s, case["seed"], case), _ask(s, case["seed"], case)
    differ = sum(int((a != b).sum()) for a, b in zip(first, second, strict=True))
    return Measured(differ, 0, note="numbers that differ when the same seed is used twice")


def _streams(s: Subject, case: Case, kind: str) -> Measured:
    """How many rows strictly inside of the cube two seeds share, as workers of one run would.

    Coordinates that are 0 or 1 come from the scaling and are left out.
    """
    shared = 0
    for step in (1, 2, 1000):
        (X, _), (Y, _) = _ask(s, case["seed"], case), _ask(s, case["seed"] + step, case)
        shared += len(_inside(X) & _inside(Y))
    return Measured(shared, 0, note="rows that streams of different seeds share")


def _inside(X: Any) -> set[tuple[float, ...]]:
    return {tuple(row) for row in X.tolist() if all(0 < v < 1 for v in row)}


def _no_repeats(s: Subject, case: Case, kind: str) -> Measured:
    """Rows inside of the cube that one task has more than once."""
    X, _ = _ask(s, case["seed"], case)
    rows = [tuple(row) for row in X.tolist() if all(0 < v < 1 for v in row)]
    return Measured(len(rows) - len(set(rows)), 0)


def _global_state(s: Subject, case: Case, kind: str) -> Measured:
    """The caller's own numpy stream is left where it was, and does not matter."""
    state = np.random.get_state()
    try:
        np.random.seed(1)
        first = _ask(s, case["seed"], case)
        drawn = np.random.random_sample()
        np.random.seed(1)
        moved = int(drawn != np.random.random_sample())
        np.random.seed(2)
        second = _ask(s, case["seed"], case)
    finally:
        np.random.set_state(state)
    differ = sum(int((a != b).sum()) for a, b in zip(first, second, strict=True))
    return Measured(differ + moved, 0, note="numpy's global stream is read or moved")


def _centers_are_points(s: Subject, case: Case, kind: str) -> Measured:
    if not kind.startswith(POINTS):
        raise Excluded
    X, C = _ask(s, case["seed"], case)
    points = {tuple(row) for row in X.tolist()}
    return Measured(sum(tuple(row) not in points for row in C.tolist()), 0)


def _scaling_of(X: Any, C: Any) -> str:
    """Which scaling into the unit cube the ends of the coordinates show.

    One factor for all coordinates keeps the k-means problem. With a factor for each, as min-max
    scaling has it, every coordinate spans [0, 1], and the best clusters can be others.
    """
    both = np.concatenate([X, C])
    low, high = both.min(axis=0), both.max(axis=0)
    spans = (low == 0) & (high == 1)
    if spans.all():
        return SCALINGS[0]
    return SCALINGS[1] if spans.any() and (low == 0).all() else SCALINGS[2]


def _scaling(s: Subject, case: Case, kind: str) -> Measured:
    """What the tasks show, where it can be told: of one coordinate both scalings do the same, and
    equal points show none."""
    X, C = _ask(s, case["seed"], case)
    shown = _scaling_of(X, C)
    return Measured(int(shown not in kind), 0, note=f"this task has {shown}")


def _halves(s: Subject, case: Case, kind: str) -> Measured:
    """Points are exchangeable: their order says nothing about where they are.

    Over m seeds, the first half of the points has the larger mean in a fair half of the seeds.
    The bound is the smallest t with P(|B - m/2| > t) <= 2^-40 for B binomial(m, 1/2), exactly.
    Seeds with equal means are left out, which keeps the coin fair.
    """
    larger = m = 0
    for i in range(case["seeds"]):
        X, _ = _ask(s, case["seed"] + i, case)
        h = case["n"] // 2
        one, two = X[:h, 0].mean(), X[h : 2 * h, 0].mean()
        larger, m = larger + int(one > two), m + int(one != two)
    return Measured(abs(larger - m / 2), fair_deviation(m), note=f"{larger} of {m} seeds")


def _quantiles(s: Subject, case: Case, kind: str) -> Measured:
    """The largest distance between two empirical distributions of a number that a task has: from
    this sampler, and from ours for the declared family. Tasks are independent, so each distribution
    is within e / 2 of the true one but for a probability of 2 exp(-m e^2 / 2) (Dvoretzky, Kiefer,
    Wolfowitz, with Massart's constant); with three numbers and two sides, e is 12 times that."""
    family, m = kind.rpartition(", ")[2], case["seeds"]
    n, k, d = case["n"], case["k"], case["d"]
    mine = np.stack([_ask(s, seed, case)[0] for seed in range(m)])
    ours = TaskDistribution(family, n=n, k=k, d=d).sample(np.random.default_rng(0), m).X
    worst, which = 0.0, ""
    for name, number in NUMBERS.items():
        a, b = np.sort(number(mine)), np.sort(number(np.asarray(ours)))
        places = np.concatenate([a, b])
        gap = np.searchsorted(a, places, "right") - np.searchsorted(b, places, "right")
        apart = float(np.abs(gap).max()) / m
        worst, which = max((worst, which), (apart, name))
    bound = math.sqrt(2 * math.log(12 / CHANCE) / m)
    return Measured(worst, bound, note=f"the {which} is distributed otherwise than for {family}")


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "mean coordinate": lambda X: X.mean((1, 2)),
    "median coordinate": lambda X: np.median(X, (1, 2)),
    "variance": lambda X: X.var(1).mean(1),
}
"""Numbers that a task has, (m, n, d) -> (m,)."""


def fair_deviation(m: int, chance: float = CHANCE) -> float:
    """The smallest t with P(|B - m/2| > t) <= chance, B binomial(m, 1/2): by counting."""
    tail = 0
    for b in range(m // 2 + 1):
        tail += math.comb(m, b)
        if 2 * tail > chance * 2**m:
            return m / 2 - b
    return 0.0


@st.composite
def _settings(draw: st.DrawFn) -> Case:
    k = draw(st.integers(1, 4))
    n = k + draw(st.integers(0, 12))
    return Case(seed=draw(st.integers(0, 50)), n=n, k=k, d=draw(st.integers(1, 3)))


ONE = _settings()
MANY = st.builds(
    lambda seed, k: Case(seed=seed, n=64, k=k, d=3), st.integers(0, 50), st.integers(1, 4)
)
PROPERTIES = (
    Property("finite", "X is (n, d) and C is (k, d), all finite.", ONE, _shapes, Kind.EQUALITY),
    Property("unit-cube", "Points and centers are in the unit cube.", ONE, _cube),
    Property("same-seed", "The same seed gives the same task.", ONE, _same_seed, Kind.EQUALITY),
    Property(
        "streams",
        "Different seeds, as workers have them, share no point.",
        MANY,
        _streams,
        Kind.EQUALITY,
    ),
    Property("no-repeats", "A task does not repeat points.", MANY, _no_repeats, Kind.EQUALITY),
    Property(
        "own-stream", "Only the seed matters: no global stream.", ONE, _global_state, Kind.EQUALITY
    ),
    Property(
        "centers-are-points",
        "The initial centers are points of the task.",
        ONE,
        _centers_are_points,
        Kind.EQUALITY,
    ),
    Property(
        "scaling",
        "Every task is scaled into the cube in the one way that is declared.",
        MANY,
        _scaling,
        Kind.EQUALITY,
    ),
    Property(
        "exchangeable",
        "The order of points says nothing about where they are (error probability 2^-40).",
        st.just(Case(seed=0, n=32, k=4, d=2, seeds=200)),
        _halves,
    ),
    Property(
        "quantiles",
        "Tasks are distributed as those of the declared family (error probability 2^-40).",
        st.just(Case(n=32, k=3, d=2, seeds=1024)),
        _quantiles,
        needs="family",
    ),
)


def _simply(s: Subject) -> Any:
    answer = s.raw(0, 8, 2, 2)
    _checked(s, answer, 8, 2, 2)
    return answer


def _recognize(s: Subject) -> str:
    """Centers are meant to be points if most of them are, at three seeds; the scaling is the one
    that the first task shows."""
    case, hits = Case(n=16, k=3, d=2), 0
    for seed in range(3):
        X, C = _ask(s, seed, case)
        hits += sum(tuple(row) in set(map(tuple, X.tolist())) for row in C.tolist())
    return f"{POINTS if hits > 4 else FREE}, {_scaling_of(*_ask(s, 0, case))}"


ROLE = Role(
    "sampler",
    "(seed, n, k, d) -> X, C",
    PROPERTIES,
    (frozenset({"seed", "rng", "key"}), frozenset({"n"}), frozenset({"k"}), frozenset({"d"})),
    recognize=_recognize,
    kinds={name: name for name in KINDS} | FAMILY_KINDS,
    ask=_simply,
)
