"""Which families have similar tasks? Earth mover's distances between what their points see.

A task is taken for the distribution of the squared distances of its n points to its k initial
centers, and two tasks are as far apart as these distributions (earth mover's distance, one
dimension). What a matrix of such distances shows are blocks, one for each pair of families; here a
block is its median. Each statement is a ratio of blocks, and is put to many sets of tasks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import wasserstein_distance

from constructions.arrays import checked
from constructions.attention import squared_distances
from constructions.tasks import FAMILIES, SCALINGS, TaskDistribution
from verify.claim import (
    Case,
    Claim,
    Evidence,
    Kind,
    Measured,
    Method,
    Plot,
    Run,
    Source,
    Table,
)
from verify.claims.surrogates._task_gaps import LEVEL, median
from verify.search import Study, Tally

SIZES = (4, 16)  # tasks of each family in one matrix, as in the paper's two
PLAIN, SHAPE = "as it is", "mean of the task"  # the units of a task's distances
CUBE = "squared edges of the cube"
NEAR = 2.0  # families are near when between them it is at most this many times as far as within
AGREEMENT = 5e-12  # two sums to at most d = 4, of 3072 and 6143 terms: errors below 4 * 9215 u

CAUCHY, LAPLACE = FAMILIES.index("cauchy"), FAMILIES.index("laplace")
OTHERS = [i for i in range(len(FAMILIES)) if i != CAUCHY]
JUDGED = (
    *("cases", "violated", "undecided", "excluded", "bound", "measured", "ratio"),
    *("witness", "counterexample", "card"),
)


def _far(blocks: Any) -> float:
    pairs = [blocks[f, g] for f, g in itertools.combinations(OTHERS, 2)]
    return float(blocks[CAUCHY, OTHERS].min() / max(pairs))


def _near(blocks: Any) -> float:
    within = np.diag(blocks)
    pairs = itertools.combinations(OTHERS, 2)
    return NEAR / max(float(blocks[f, g] / max(within[f], within[g])) for f, g in pairs)


def _alike(blocks: Any) -> float:
    return float(blocks[CAUCHY, OTHERS].min() / blocks[CAUCHY, CAUCHY])


def _laplace(blocks: Any) -> float:
    rest = [i for i in OTHERS if i != LAPLACE]
    return float(blocks[CAUCHY, rest].min() / blocks[CAUCHY, LAPLACE])


STATEMENTS: dict[str, tuple[str, Callable[[Any], float]]] = {
    "cauchy-is-far": (
        "every block of Cauchy with another family is above every block of two other families",
        _far,
    ),
    "others-are-near": (
        f"the block of two other families is at most {NEAR:g} times the larger of the two blocks "
        "within them",
        _near,
    ),
    "cauchy-is-like-cauchy": (
        "the block within Cauchy is below every block of Cauchy with another family",
        _alike,
    ),
    "laplace-is-nearest": (
        "of the blocks of Cauchy with another family, that of Laplace is the lowest",
        _laplace,
    ),
}
"""What is said, and a ratio of blocks that is at least 1 where it is so."""


def distances(family: str, scaling: str, tasks: int, seed: int) -> Any:
    """The squared point-to-center distances of tasks (n = 512, d = 4, k = 6, scale 0.1), each
    task's in ascending order: (tasks, n k). Both scalings see the same draws."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    X, C, _ = TaskDistribution(family, scaling=scaling).sample(rng, tasks)
    r = squared_distances(X, C, checked(X=X)[0])
    return np.sort(r.reshape(tasks, -1), axis=1)


def earth_movers(sorted_rows: Any) -> Any:
    """All pairwise earth mover's distances of samples of one size, given in order.

    In one dimension an optimal plan moves the i-th smallest to the i-th smallest.
    """
    return squareform(pdist(sorted_rows, "cityblock")) / sorted_rows.shape[1]


def block_medians(matrix: Any) -> Any:
    """(5, 5): the median of each block, on the diagonal without a task's distance to itself."""
    per = len(matrix) // len(FAMILIES)
    cells = matrix.reshape(len(FAMILIES), per, len(FAMILIES), per).swapaxes(1, 2)
    found = np.median(cells, axis=(2, 3))
    upper = np.triu_indices(per, 1)
    for i in range(len(FAMILIES)):
        found[i, i] = np.median(cells[i, i][upper])
    return found


@cache
def matrix(scaling: str, unit: str, seed: int) -> Any:
    """The distances between 16 tasks of each family, (80, 80)."""
    rows = np.concatenate([distances(f, scaling, max(SIZES), seed) for f in FAMILIES])
    return earth_movers(rows / rows.mean(axis=1, keepdims=True) if unit == SHAPE else rows)


def of_size(whole: Any, per: int) -> Any:
    """The matrix of the first `per` tasks of each family."""
    kept = [i for i in range(len(whole)) if i % max(SIZES) < per]
    return whole[np.ix_(kept, kept)]


@cache
def blocks(scaling: str, unit: str, per: int, sets: int, seed: int) -> Any:
    """Block medians of many sets of tasks, (sets, 5, 5)."""
    return np.array(
        [block_medians(of_size(matrix(scaling, unit, seed + i), per)) for i in range(sets)]
    )


def over_sets(case: Case) -> Measured:
    """log10 of the ratio of a statement: the median over sets of tasks, with its interval."""
    ratio = STATEMENTS[case["statement"]][1]
    per_set = blocks(case["scaling"], case["unit"], case["per_family"], case["sets"], case["seed"])
    ratios = [ratio(b) for b in per_set]
    value, low, high = (math.log10(v) for v in median(np.array(ratios)))
    return Measured(
        value,
        0.0,
        error=value - low if value >= 0 else high - value,  # the end that the bound may lie beyond
        answers={
            "ratio": 10**value,
            f"interval of level {(1 + LEVEL) / 2}": [10**low, 10**high],
            "share of the sets with a ratio of at least 1": np.mean(np.array(ratios) >= 1).item(),
        },
        note=f"the ratio is {10**value:.3g}, below 1" if value < 0 else "",
    )


def sets_and_seed(run: Run) -> tuple[int, int]:
    """The same sets of tasks for all checks; fewer than 12 give an interval that decides little."""
    return run.count(24, 12), run.stream("family-distances", "tasks") % 2**31


def judged(statements: tuple[str, ...], unit: str) -> Callable[[Claim, Run, Evidence], None]:
    """Put statements to both scalings and both sizes of the matrix."""

    def examine(claim: Claim, run: Run, e: Evidence) -> None:
        tally = Tally(claim, (), None)
        sets, seed = sets_and_seed(run)
        rows: list[list[Any]] = []
        for statement, scaling, per in itertools.product(statements, SCALINGS, SIZES):
            case = Case(
                statement=statement,
                scaling=scaling,
                per_family=per,
                unit=unit,
                sets=sets,
                seed=seed,
            )
            answer, m = tally.judge(case)
            ratio, (low, high), share = m.answers.values()
            rows.append([statement, scaling, per, ratio, low, high, share, answer])
        for name in JUDGED:
            setattr(e, name, getattr(tally.evidence, name))
        columns = ("statement", "scaling", "tasks a family", "ratio", "low", "high")
        e.tables.append(
            Table(
                e.check,
                f"Ratio of blocks: median of {sets} sets of tasks, with an interval for it",
                (*columns, "share of sets", "at least 1"),
                rows,
            )
        )
        low, high = min(row[3] for row in rows), max(row[3] for row in rows)
        e.note = f"the ratio is {low:.3g} to {high:.3g}"

    return examine


def draw_matrices(claim: Claim, run: Run, e: Evidence) -> None:
    """The first set as matrices, and the medians of all sets. It judges nothing."""
    sets, seed = sets_and_seed(run)
    for scaling in SCALINGS:
        few = of_size(matrix(scaling, PLAIN, seed), min(SIZES))
        e.problem = e.problem or _disagreement(few, scaling, seed)
        names = [f"{family} {i}" for family in FAMILIES for i in range(1, min(SIZES) + 1)]
        title = f"{len(few)} tasks, {scaling} scaling"
        e.tables.append(_table(f"tasks-{scaling}", title, CUBE, names, few))
        for unit, name in ((PLAIN, "blocks"), (SHAPE, "shapes")):
            found = np.median(blocks(scaling, unit, max(SIZES), sets, seed), axis=0)
            title = f"{max(SIZES)} tasks a family, {scaling} scaling"
            measure = CUBE
            if unit == SHAPE:
                title, measure = f"{title}, in units of the {unit}", f"units of the {unit}"
            e.tables.append(_table(f"{name}-{scaling}", title, measure, FAMILIES, found, sets))
    shares = [_explained_by_means(scaling, seed) for scaling in SCALINGS]
    e.note = (
        "the difference of the mean squared distances alone makes at least "
        f"{math.floor(1e4 * min(shares)) / 1e4} of the distance in the median pair of a Cauchy "
        "task and another one"
    )


def _table(
    name: str, title: str, unit: str, names: Sequence[str], values: Any, sets: int = 0
) -> Table:
    rows = [[n, *(float(f"{v:.3g}") for v in row)] for n, row in zip(names, values, strict=True)]
    of = f"median block of {sets} sets, " if sets else ""
    plot = Plot("family", cells=tuple(names), y_label=f"earth mover's distance, {unit}")
    return Table(name, f"Earth mover's distances: {of}{title}", ("family", *names), rows, plot)


def _disagreement(few: Any, scaling: str, seed: int) -> str:
    """What scipy's own earth mover's distance says otherwise, or ""."""
    kept = [distances(f, scaling, max(SIZES), seed)[: min(SIZES)] for f in FAMILIES]
    rows = np.concatenate(kept)
    pairs = itertools.combinations(range(len(rows)), 2)
    worst = max(abs(few[i, j] - wasserstein_distance(rows[i], rows[j])) for i, j in pairs)
    return "" if worst <= AGREEMENT else f"scipy.stats.wasserstein_distance differs by {worst:.3g}"


def _explained_by_means(scaling: str, seed: int) -> float:
    """|difference of the means| / distance, never above 1: the median over all pairs of a Cauchy
    task and another one."""
    means = np.array([distances(f, scaling, max(SIZES), seed).mean(axis=1) for f in FAMILIES])
    cauchy, others = means[CAUCHY], means[OTHERS].ravel()
    family = np.repeat(np.arange(len(FAMILIES)), max(SIZES))
    far = matrix(scaling, PLAIN, seed)[np.ix_(family == CAUCHY, family != CAUCHY)]
    return float(np.median(np.abs(cauchy[:, None] - others) / far))


def study(name: str) -> Study:
    return Study(
        name,
        Method.EXPERIMENT,
        judged((name,), PLAIN),
        scope=f"{STATEMENTS[name][0]}; 4 and 16 tasks a family, both scalings",
        arithmetic="numpy float64; rounding is far below the statistical intervals",
    )


CLAIM = Claim(
    id="family-distances",
    title="Cauchy tasks are far from the others",
    says="Cauchy tasks are far from those of the other four families and similar to each other "
    "only, Laplace is the nearest to them, and the four are near each other.",
    statement=r"W(r, r') = \int_0^\infty |F_r(u) - F_{r'}(u)| \, du, \qquad \min_{g \neq"
    r" \text{Cauchy}} W_{\text{Cauchy}, g} \geq \max_{f, g \neq \text{Cauchy}} W_{f, g}",
    sources=(Source("summary", "Fig. 9, p. 12; Fig. 19, p. 31"),),
    kind=Kind.TREND,
    bound=r"\log_{10} (\text{ratio of blocks}) \geq 0",
    measure=over_sets,
    checks=(
        *(study(name) for name in STATEMENTS),
        Study(
            "in-units-of-the-mean",
            Method.EXPERIMENT,
            judged(tuple(STATEMENTS), SHAPE),
            scope="the four statements; 4 and 16 tasks a family, both scalings",
            variant="each task's distances in units of their mean",
            arithmetic="numpy float64",
        ),
        Study(
            "matrices",
            Method.EXPERIMENT,
            draw_matrices,
            scope="one set of tasks, and medians over all sets; both scalings",
            arithmetic="numpy float64, against scipy.stats.wasserstein_distance",
        ),
    ),
    falsify="a ratio of blocks whose interval over sets of tasks lies below 1",
    theory="tasks.md#distances-between-tasks",
)
