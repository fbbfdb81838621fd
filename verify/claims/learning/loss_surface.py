"""What does the training loss look like around trained models?

A plane through a model is called unimodal when descent on its grid leads to one place from nearly
everywhere, and no other minimum lies inside. Surfaces of two codes cannot be laid on each other, as
their models have other parameters; what is compared is how the loss rises with the distance from
the model, in units of the loss there, and a difference counts beside that of two seeds of one code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from verify.claim import Plot, Source, Table
from verify.claims.learning._shared import (
    NOT_ABOVE,
    Statement,
    Values,
    difference,
    find,
    label,
    learning_claim,
    one,
)
from verify.experiments.cells import Cell
from verify.experiments.results import Results
from verify.experiments.surfaces import POINTS, Valleys, profile
from verify.experiments.surfaces import difference as distance

ROW = "loss-surface"
REACHED = 0.9  # share of a plane from which descent reaches its lowest point
OTHERS = 0.5  # other minima inside a plane
BENT = 0.1  # share of lines with another minimum inside
DRAWN = 3  # significant digits of the values that are drawn


def slices(results: Results, cell: Cell, kind: str) -> list[list[Any]]:
    """The planes or the lines of each seed."""
    return [
        [values for name, values in found.items() if name.startswith(kind)]
        for _, found in sorted(results.surfaces(cell).items())
    ]


def mean(cell: Cell, kind: str, number: Callable[[Valleys], float]) -> Values:
    """A number of each slice: the mean over the slices of a seed."""

    def values(results: Results) -> list[float]:
        each = slices(results, cell, kind)
        return [float(np.mean([number(Valleys.of(v)) for v in found])) for found in each]

    return values


def profiles(results: Results, cell: Cell) -> list[Any]:
    """How the loss rises around the model of each seed."""
    return [profile(lines) for lines in slices(results, cell, "line")]


def between(a: Cell, b: Cell) -> Values:
    """The distance of the profiles of two codes, seed by seed."""

    def values(results: Results) -> list[float]:
        pairs = zip(profiles(results, a), profiles(results, b), strict=True)
        return [distance(p, q) for p, q in pairs]

    return values


def within(*cells: Cell) -> Values:
    """The distance of the profiles of one seed and the next one: the mean over the cells."""

    def values(results: Results) -> list[float]:
        found = []
        for cell in cells:
            p = profiles(results, cell)
            found.append([distance(a, b) for a, b in zip(p, [*p[1:], p[0]], strict=True)])
        return [float(v) for v in np.mean(found, axis=0)]

    return values


def statements(scale: str) -> list[Statement]:
    found = []
    for cell in find(ROW, scale):
        what, needs = label(cell, "d"), (cell,)
        found += [
            Statement(
                f"share of a plane from which descent reaches the lowest point, {what}",
                ">",
                REACHED,
                needs,
                mean(cell, "plane", lambda v: v.share),
                ours=True,
            ),
            Statement(
                f"other minima inside a plane, {what}",
                "<",
                OTHERS,
                needs,
                mean(cell, "plane", lambda v: v.others),
                ours=True,
            ),
            Statement(
                f"share of lines with another minimum inside, {what}",
                "<",
                BENT,
                needs,
                mean(cell, "line", lambda v: v.others > 0),
                ours=True,
            ),
        ]
    four, far = (
        [one(ROW, scale, d=d, code=code) for code in ("one_hot", "binary")] for d in (4, 32)
    )
    excess = "distance of the profiles of two codes less that of two seeds"
    return [
        *found,
        Statement(
            f"{excess}, d = 4", ">", 0.0, tuple(four), difference(between(*four), within(*four))
        ),
        Statement(
            f"{excess}, d = 32", NOT_ABOVE, 0.0, tuple(far), difference(between(*far), within(*far))
        ),
        Statement(
            "distance of the profiles of two codes, d = 4 less d = 32",
            ">",
            0.0,
            (*four, *far),
            difference(between(*four), between(*far)),
        ),
    ]


def figures(scale: str, results: Results) -> list[Table]:
    cells = [cell for cell in find(ROW, scale) if _known(results, cell)]
    return [_plane(scale, results, cell) for cell in cells] + (
        [_rise(scale, results, cells)] if cells else []
    )


def _known(results: Results, cell: Cell) -> bool:
    try:
        return bool(results.surfaces(cell))
    except KeyError:
        return False


def _plane(scale: str, results: Results, cell: Cell) -> Table:
    """A plane through the model of the first seed."""
    values = slices(results, cell, "plane")[0][0]
    at = [f"{t:.3g}" for t in np.linspace(-1, 1, len(values))]
    name = f"plane-{cell.settings.code}-d{cell.settings.d}-{scale}"
    title = f"Training loss in a plane through a trained model, {label(cell, 'd')}"
    plot = Plot(
        "first direction",
        cells=tuple(at),
        x_label="second direction",
        y_label="training loss",
        log_y=True,
        caption="Seed 0. A coefficient of 1 changes every filter by its own length.",
    )
    rows = [[t, *_rounded(row)] for t, row in zip(at, values, strict=True)]
    return Table(name, title, ("first direction", *at), rows, plot)


def _rise(scale: str, results: Results, cells: Sequence[Cell]) -> Table:
    """The profiles: medians over the seeds."""
    found = {label(c, "d"): np.median(profiles(results, c), axis=0) for c in cells}
    columns = zip(*(_rounded(p) for p in found.values()), strict=True)
    half = POINTS // 2
    rows = [[i / half, *row] for i, row in enumerate(columns)][1:]  # at the model the rise is 0
    return Table(
        f"profiles-{scale}",
        "How the training loss rises around a model: median over directions and seeds",
        ("distance", *found),
        rows,
        Plot(
            "distance",
            tuple(found),
            x_label="distance; 1 moves each filter by its own length",
            y_label="loss / loss of the model − 1",
            log_y=True,
        ),
    )


def _rounded(values: Any) -> list[float]:
    return [float(f"{v:.{DRAWN}g}") for v in values]


CLAIM = learning_claim(
    id=ROW,
    title="Loss surfaces",
    says="Loss surfaces of L2-regularized training look unimodal; those of one-hot and binary "
    "codes differ at d = 4 and are alike at d = 32.",
    statement=r"L(\theta + a u + b v), \qquad -1 \leq a, b \leq 1",
    sources=(Source("summary", "Section 3, p. 9; Fig. 3"),),
    statements=statements,
    figures=figures,
    falsify="a plane with two valleys, or codes that differ at d = 32 and not at d = 4",
)
