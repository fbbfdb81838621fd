"""Which scalings keep the k-means problem: one common factor does, one factor a coordinate does
not."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from constructions.arrays import checked
from constructions.attention import squared_distances
from constructions.tasks import FAMILIES, TaskDistribution, scale_to_unit_cube
from verify.claim import Case, Claim, Evidence, Kind, Method, Plot, Run, Source, Table
from verify.claims.tasks._shared import (
    ASSIGNMENT,
    PARTITION,
    SCRIPT,
    equivariance,
    growing,
    instances,
    price_of_scaling,
    surrogate_at_one_temperature,
)
from verify.search import Exhaustive, Proof, Property, Step, Study, proved

COMMON = "one common factor and any shift"


def known_example(run: Run) -> Iterator[Case]:
    """Three points of different heights, for both questions."""
    X = [[0, 0], [1, 10], [1, 1]]
    rows = [[Fraction(u) for u in x] for x in X]
    for question in (PARTITION, ASSIGNMENT):
        yield Case(X=rows, C=rows[:2], scaling="per-dimension", question=question)


def tall_triangles(run: Run) -> Iterator[Case]:
    """(0,0), (0,m), (1,1): the pair (0,0), (1,1) costs 1. After scaling its squared distance is
    1 + 1/m^2, and that of (0,0), (0,m) is 1, so the pair that costs m^2/2 is the best one."""
    for m in (2, 4, 8, 16, 32, 64):
        rows = [[Fraction(u) for u in x] for x in ([0, 0], [0, m], [1, 1])]
        yield Case(X=rows, C=rows[:2], scaling="per-dimension", question=PARTITION)


RATIONALS = st.builds(Fraction, st.integers(-30, 30), st.integers(1, 6))


@st.composite
def moved_instances(draw: st.DrawFn) -> Case:
    """Up to 5 points, 3 centers among them and 3 coordinates, with a factor and a shift."""
    d, n = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    k = draw(st.integers(1, min(3, n)))
    coordinate = st.one_of(st.integers(0, 2).map(Fraction), RATIONALS)
    X = draw(st.lists(st.lists(coordinate, min_size=d, max_size=d), min_size=n, max_size=n))
    return Case(
        X=X,
        C=X[:k],
        factor=draw(st.builds(Fraction, st.integers(1, 40), st.integers(1, 40))),
        shift=draw(st.lists(RATIONALS, min_size=d, max_size=d)),
    )


def same_temperature(run: Run) -> Iterator[Case]:
    for top in range(1, 4):
        for temperature in (1, 2):
            r = [Fraction(0), Fraction(top)]
            yield Case(r=r, factor=Fraction(2), temperature=Fraction(temperature))


def symbolic(run: Run) -> Iterator[Step]:
    """The cost of a cluster is a function of the squared distances between its points, and these
    are multiplied by factor^2. Everything adds over coordinates, so one coordinate is enough."""
    c, b, x, y = sp.symbols("c b x y", real=True)
    moved = sp.expand((c * x + b - c * y - b) ** 2 - c**2 * (x - y) ** 2)
    yield proved("squared distances are multiplied by factor^2", moved == 0)
    tau = sp.symbols("tau", positive=True)
    r = sp.symbols("r:3", real=True)
    weights, same = (
        [sp.exp(-s * u / (s * tau)) for u in r] for s in (sp.Symbol("c", positive=True) ** 2, 1)
    )
    softmax = sum(sp.simplify(u - v) ** 2 for u, v in zip(weights, same, strict=True))
    yield proved(
        "softmax weights stay when the temperature is multiplied by factor^2", softmax == 0
    )
    m, first, second = sp.symbols("m sum sum_of_squares", real=True)
    # both sides in the sum and the sum of squares of m numbers: of (x - mean)^2, and of
    # (x - y)^2 / (2 m) over all ordered pairs
    cost = second - 2 * (first / m) * first + m * (first / m) ** 2
    pairs = (m * second - 2 * first**2 + m * second) / (2 * m)
    yield proved(
        "the cost of a cluster of any size m is the sum of its squared distances over m",
        sp.simplify(cost - pairs) == 0,
    )


def reassigned(X: Any, C: Any, scaling: str) -> tuple[Any, Any]:
    """Per task, the share of points whose nearest center changes when the task is scaled, and
    what the new assignment costs in the original, relative to the least cost.

    A point counts when its new center is farther in the original by more than rounding explains:
    a squared distance of d coordinates has a relative error below (d + 2) 2^-53.
    """
    system = checked(X=X, C=C)[0]
    r = squared_distances(X, C, system)
    points, centers = scale_to_unit_cube(X, C, scaling)
    after = squared_distances(points, centers, system)
    least = r.min(axis=-1)
    chosen = np.take_along_axis(r, after.argmin(axis=-1)[..., None], axis=-1)[..., 0]
    moved = chosen > least * (1 + (X.shape[-1] + 3) * 2.0**-51)
    return moved.mean(axis=-1), chosen.sum(axis=-1) / least.sum(axis=-1)


def on_paper_tasks(claim: Claim, run: Run, e: Evidence) -> None:
    """How many points of the paper's tasks change their nearest initial center."""
    count = run.count(150, 15)
    rows: list[list[Any]] = []
    for family in FAMILIES:
        distribution = TaskDistribution(family)
        rng = np.random.default_rng(run.stream(claim.id, e.check, family))
        X, _ = distribution.points(rng, count)
        C = X[:, : distribution.k]
        share, price = reassigned(X, C, "per-dimension")
        control, _ = reassigned(X, C, "common")
        e.cases += count
        e.violated += int(np.sum(share > 0))
        quantiles = [float(v) for v in np.quantile(share, (0.1, 0.5, 0.9))]
        rows.append([family, *quantiles, float(np.median(price)), float(control.max())])
    e.tables.append(
        Table(
            "reassigned",
            "Share of the points of a task whose nearest initial center changes by per-dimension "
            "scaling, what the new assignment costs in the original (least cost = 1), and the "
            "largest share that changes by scaling with one common factor",
            ("family", "share, 10 %", "share, median", "share, 90 %", "cost", "common factor"),
            rows,
            Plot(
                "family",
                points=("share, 10 %", "share, median", "share, 90 %"),
                y_label="share of points",
                caption="Share of points that per-dimension scaling gives to another center",
            ),
        )
    )
    rows = sorted(rows, key=lambda row: float(row[2]))
    e.note = (
        f"in the median task, from {rows[0][2]:.1%} ({rows[0][0]}) to {rows[-1][2]:.1%} "
        f"({rows[-1][0]}) of the points change their nearest initial center; with one common "
        f"factor, at most {max(row[5] for row in rows):.1%}"
    )


CLAIM = Claim(
    id="kmeans-invariance",
    title="Scaling into the unit cube keeps the k-means problem",
    says="Min-max scaling of every coordinate changes neither which partitions are optimal nor "
    "which center is nearest to a point, so that general tasks can be mapped into the unit cube.",
    statement=r"\operatorname*{arg\,min}_{\mathcal P} \mathrm{cost}(\mathcal P; X) ="
    r" \operatorname*{arg\,min}_{\mathcal P} \mathrm{cost}(\mathcal P; X'), \quad"
    r" x'_{i} = \frac{x_{i} - \min x_{i}}{\max x_{i} - \min x_{i}} \ (i = 1, \ldots, d)",
    sources=(Source("summary", "App. D, pp. 21-22"),),
    kind=Kind.EQUALITY,
    bound=r"\mathrm{cost}(\mathcal P'; X) = \min_{\mathcal P} \mathrm{cost}(\mathcal P; X)"
    r" \text{ for an optimal } \mathcal P' \text{ of } X'",
    measure=price_of_scaling,
    checks=(
        Exhaustive(
            "partition",
            scope="every integer instance from the smallest up, d <= 2, n <= 3, k = 2",
            cases=lambda run: growing(PARTITION),
            until_violation=True,
        ),
        Exhaustive(
            "assignment",
            scope="every integer instance from the smallest up, d <= 2, n <= 3, k = 2",
            cases=lambda run: growing(ASSIGNMENT),
            until_violation=True,
        ),
        Exhaustive(
            "small-grid",
            scope="d = 2, n = 3, k = 2, coordinates 0 to 3, best partitions",
            cases=lambda run: instances(2, 3, 3, "per-dimension", PARTITION),
        ),
        Exhaustive(
            "known-example",
            scope="X = (0,0), (1,10), (1,1): both questions",
            cases=known_example,
        ),
        Exhaustive(
            "unbounded-price",
            scope="X = (0,0), (0,m), (1,1) for m = 2, 4, ..., 64: the cost ratio is m^2/2",
            cases=tall_triangles,
        ),
        Study(
            "paper-tasks",
            Method.EXPERIMENT,
            on_paper_tasks,
            scope="n = 512, d = 4, k = 6, scale 0.1, five families, initial centers",
            arithmetic="numpy float64; a point counts only beyond the rounding bound",
        ),
        Exhaustive(
            "common-grid",
            scope="d <= 2, n = 3, k = 2, coordinates 0 to 2, scaled into the unit square",
            variant=COMMON,
            measure=equivariance,
            cases=lambda run: (c for d in (1, 2) for c in instances(d, 3, 2, "common", ASSIGNMENT)),
        ),
        Property(
            "common-random",
            scope="d <= 3, n <= 5, k <= 3, rational factors and shifts; all partitions, a Lloyd "
            "step, nearest centers, and the L2 surrogate at factor^2 times the temperature",
            variant=COMMON,
            measure=equivariance,
            strategy=moved_instances(),
            count=300,
        ),
        Proof("common-symbolic", Method.SYMBOLIC, symbolic, variant=COMMON),
        Exhaustive(
            "surrogate-temperature-kept",
            scope="r = (0, t), factor 2, L2 surrogate, temperature 1 or 2, from the smallest up",
            variant="the surrogate under one common factor, its temperature kept",
            measure=surrogate_at_one_temperature,
            cases=same_temperature,
            until_violation=True,
        ),
    ),
    falsify="an instance whose best partition, or a nearest center, is another one after scaling",
    theory="tasks.md#invariance",
    conflict="The summary names both the per-dimension MinMaxScaler and one division by the "
    "largest shifted value, and says that the k-means problem is kept. Only the second keeps it.",
    script=SCRIPT,
)
