"""The trained side of the Cauchy question: the gap of the surrogate before and after a step.

The medians over tasks are those of the models of a cell, and of the initial centers.
"""

from __future__ import annotations

import math

from verify.claim import Table
from verify.claims.learning._shared import Statement, Values, find, one
from verify.experiments.cells import Cell
from verify.experiments.evaluate import GAP
from verify.experiments.results import Results, interval

ROW = "cauchy-gap"
SCALINGS = {"per-dimension": "scaled per dimension", "common": "scaled by a common factor"}


def ratio(cauchy: Cell, normal: Cell, method: str, step: int) -> Values:
    """log10 of the gap on Cauchy tasks over that on normal tasks, seed by seed."""

    def values(results: Results) -> list[float]:
        above = results.evaluation(cauchy, GAP, method)[step]
        below = results.evaluation(normal, GAP, method)[step]
        return [math.log10(a / b) for a, b in zip(above, below, strict=True)]

    return values


def statements(scale: str) -> list[Statement]:
    found = []
    for scaling, words in SCALINGS.items():
        cauchy, normal = (
            one(ROW, scale, family=family, scaling=scaling, regularizer="l2", temperature=0.1)
            for family in ("cauchy", "normal")
        )
        for kind in ("absolute", "relative"):
            said = f"log10 of the {kind} gap of trained models, Cauchy over normal, {words}"
            values = ratio(cauchy, normal, f"gap, {kind}", 1)
            found.append(Statement(said, ">", 1.0, (cauchy, normal), values))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    """The gaps before and after a step of the trained models."""
    rows: list[list[object]] = []
    for cell in find(ROW, scale):
        s = cell.settings
        remedy = "relative to the distances" if s.relative_temperature else "as it is"
        for kind in ("absolute", "relative"):
            found = results.evaluation(cell, GAP, f"gap, {kind}")
            if found:
                before, after = (interval(found[t]) for t in (0, 1))
                numbers = [float(f"{v:.4g}") for v in (before[0], *after[:3])]
                rows.append([s.family, s.scaling, str(s.regularizer), remedy, kind, *numbers])
    columns = ("family", "scaling", "regularizer", "temperature", "gap")
    return [
        Table(
            f"trained-gaps-{scale}",
            "Median gap over the tasks, at the initial centers and after a step of trained models",
            (*columns, "initial", "trained", "low", "high"),
            rows,
        )
    ] * bool(rows)
