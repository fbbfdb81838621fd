"""Points and initial centers of every task lie in the unit cube, degenerate draws included."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from hypothesis import strategies as st

from constructions.tasks import FAMILIES, GAUSSIAN, SCALINGS, TaskDistribution, scale_to_unit_cube
from verify.claim import Case, Claim, Kind, Measured, Run, Source
from verify.search import Exhaustive, Property

PARAMETERS = ("family", "n", "d", "k", "scale", "equal_weights", "isotropic", "scaling")
LARGEST = float(np.finfo(np.float64).max)
SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
LOWEST_DRAW, HIGHEST_DRAW = 2.0**-53, 1 - 2.0**-53  # the ends of `open_uniform`


def distributions(n: Any, d: Any, k: Any, scales: tuple[float, ...]) -> st.SearchStrategy[Case]:
    """Parameters of a distribution, and a seed; every family, weights, anisotropy, scaling."""
    return st.builds(
        Case,
        family=st.sampled_from(FAMILIES),
        n=n,
        d=d,
        k=k,
        scale=st.sampled_from(scales),
        equal_weights=st.booleans(),
        isotropic=st.booleans(),
        scaling=st.sampled_from(SCALINGS),
        seed=st.integers(0, 2**32 - 1),
    )


SCALES = (1e-300, 1e-12, 0.01, 0.1, 1.0, 50.0, 1e3, 1e150, 1e308)
"""From far below the rounding of the places to far above what a lognormal can hold."""

EXTREMES = (LARGEST, -LARGEST, 1.5e308, -1.5e308, SMALLEST, -SMALLEST, 0.0, 1e-15)


@st.composite
def tables(draw: st.DrawFn) -> Case:
    """Points whose columns are constant, tiny, enormous or ordinary; the first k are centers."""
    n, d = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    ordinary = st.floats(allow_nan=False, allow_infinity=False)
    columns = []
    for _ in range(d):
        values = draw(st.sampled_from([ordinary, st.sampled_from(EXTREMES)]))
        pool = draw(st.lists(values, min_size=1, max_size=4))
        columns.append(draw(st.lists(st.sampled_from(pool), min_size=n, max_size=n)))
    return Case(
        points=list(zip(*columns, strict=True)),
        k=draw(st.integers(1, n)),
        scaling=draw(st.sampled_from(SCALINGS)),
    )


DEGENERATE = {
    "all points equal": [[4.0, 4.0]] * 3,
    "a constant coordinate": [[7.0, 1.0], [7.0, 2.0], [7.0, 5.0]],
    "one point": [[3.0, -2.0]],
    "a tiny range": [[0.0], [1e-15], [2e-15]],
    "a subnormal range": [[0.0], [SMALLEST], [2 * SMALLEST]],
    "a range beyond the largest float": [[-1.5e308, 0.0], [1.5e308, 1.0], [0.0, 0.5]],
    "the largest floats": [[-LARGEST], [LARGEST]],
    "neighbors far from the origin": [[1e16], [1e16 + 2.0]],
    "one unit above 1 if multiplied and shifted": [[0.41], [3.63]],
    "two units above 1 if multiplied and shifted": [[-4.72], [-3.76]],
}


def degenerate(run: Run) -> Iterator[Case]:
    """Degenerate points by name; and uniform draws at both ends, where quantiles are largest."""
    for scaling in SCALINGS:
        for name, points in DEGENERATE.items():
            yield Case(points=points, k=1, scaling=scaling, name=name)
        for family in FAMILIES:
            for scale, ends in itertools.product((0.1, 1e3), ("low", "high", "both")):
                if family not in GAUSSIAN:
                    parameters = TaskDistribution(family, 8, 2, 3, scale, scaling=scaling)
                    yield Case(**asdict(parameters), seed=0, ends=ends)


def task(case: Case) -> tuple[Any, Any, Any]:
    """Points before scaling (n, d); points and centers of the task."""
    if "points" in case:
        raw = np.array(case["points"], dtype=np.float64)
        return raw, *scale_to_unit_cube(raw, raw[: case["k"]], case["scaling"])
    distribution = TaskDistribution(**{name: case[name] for name in PARAMETERS})
    rng = np.random.default_rng(case["seed"])
    if "ends" in case:
        draws = distribution.draw(rng)
        draws.noise[..., 0] = LOWEST_DRAW if case["ends"] == "low" else HIGHEST_DRAW
        if case["ends"] == "both":
            draws.noise[:, ::2] = LOWEST_DRAW
        raw = distribution.assemble(draws)[0]
        return raw, *scale_to_unit_cube(raw, raw[: case["k"]], case["scaling"])
    raw, _ = distribution.points(np.random.default_rng(case["seed"]))
    tasks = distribution.sample(rng)
    return raw[0], tasks.X[0], tasks.C[0]


def broken_promises(case: Case) -> Measured:
    """How many numbers of the task are not where they should be, in these ways:

    not finite; outside [0, 1]; a coordinate that does not start at 0, or does not end where it
    should: at 0 if constant, else at 1 (with a common factor, the task as a whole); a center that
    is no point, or is drawn more often than there are points at its place.
    """
    raw, X, C = task(case)
    both = np.concatenate([X, C])
    axis = 0 if case["scaling"] == "per-dimension" else None
    constant = np.all(raw == raw[0], axis=axis)
    drawn = Counter(map(tuple, C.tolist()))
    drawn.subtract(Counter(map(tuple, X.tolist())))
    found = {
        "not finite": np.sum(~np.isfinite(both)),
        "outside the cube": np.sum(~((both >= 0) & (both <= 1))),
        "does not start at 0": np.sum(X.min(axis=0) != 0),
        "does not end where it should": np.sum(X.max(axis=axis) != np.where(constant, 0, 1)),
        "center that is no point": sum(max(count, 0) for count in drawn.values()),
    }
    broken = {name: int(count) for name, count in found.items() if count}
    return Measured(sum(broken.values()), 0, answers=broken, note="; ".join(broken))


CLAIM = Claim(
    id="tasks-unit-cube",
    title="Tasks lie in the unit cube",
    says="Points and initial centers of a sampled task lie in the unit cube, the centers are k of "
    "the points, and a task whose points are all equal becomes all zeros.",
    statement=r"X \in [0, 1]^{n \times d}, \qquad C = (x_{i_1}, \ldots, x_{i_k}),\ i_1, \ldots,"
    r" i_k \text{ distinct}",
    sources=(Source("summary", "App. D, pp. 21-22"),),
    kind=Kind.EQUALITY,
    bound=r"\#\{\text{numbers outside } [0, 1] \text{, or not where scaling should put them}\} = 0",
    measure=broken_promises,
    checks=(
        Property(
            "sampled",
            scope="five families, n <= 64, d <= 8, k <= 8, scales 1e-300 to 1e308, equal and "
            "unequal weights, isotropic and anisotropic, both scalings",
            strategy=st.integers(1, 8).flatmap(
                lambda k: distributions(st.integers(k, 64), st.integers(1, 8), st.just(k), SCALES)
            ),
            count=800,
            arithmetic="numpy float64, no tolerance",
        ),
        Property(
            "paper-settings",
            scope="five families, n = 512, (d, k) in {4, 32} x {6, 25}, scale 0.05 to 0.5, equal "
            "and unequal weights, isotropic and anisotropic, both scalings",
            strategy=distributions(
                st.just(512), st.sampled_from((4, 32)), st.sampled_from((6, 25)), (0.05, 0.1, 0.5)
            ),
            count=200,
            arithmetic="numpy float64, no tolerance",
        ),
        Property(
            "any-points",
            scope="n <= 9, d <= 4, columns of any finite floats: constant, subnormal, of a range "
            "beyond the largest float",
            strategy=tables(),
            count=600,
            arithmetic="numpy float64, no tolerance",
        ),
        Exhaustive(
            "degenerate",
            scope=f"{len(DEGENERATE)} tables of degenerate points; uniform draws at both ends for "
            "Cauchy, Gumbel and Laplace, scale 0.1 and 1000; both scalings",
            cases=degenerate,
            arithmetic="numpy float64, no tolerance",
        ),
    ),
    falsify="a task with a number that is not finite or outside [0, 1], with a coordinate that "
    "is not constant and does not span [0, 1], or with a center that is no point",
    theory="tasks.md#degenerate-draws",
)
