"""Trained on one family of task distributions, used on another."""

from __future__ import annotations

from typing import Any

from constructions.tasks import FAMILIES
from verify.claim import Plot, Source, Table
from verify.claims.learning._shared import (
    Statement,
    find,
    label,
    learning_claim,
    over_lloyd,
    quartiles,
    rounded,
)
from verify.experiments.cells import Cell
from verify.experiments.evaluate import STEPS
from verify.experiments.grids import CODES
from verify.experiments.results import Results, interval

ROW = "cross-family"


def statements(scale: str) -> list[Statement]:
    found = []
    for cell in find(ROW, scale):
        for test in FAMILIES:
            fails = "cauchy" in (cell.settings.family, test)
            said = f"trained on {cell.settings.family}, tested on {test}, {label(cell)}"
            values = over_lloyd(cell, f"family {test}", STEPS)
            found.append(Statement(said, ">" if fails else "<", 0.0, (cell,), values))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    found = [_grid(scale, results, code) for code in CODES]
    found += [_steps(cell, scale, results) for cell in find(ROW, scale)]
    return found


def _grid(scale: str, results: Results, code: str) -> Table:
    """The 5 x 5 table of one code."""
    rows = []
    for cell in find(ROW, scale, code=code):
        row: list[Any] = [cell.settings.family]
        for test in FAMILIES:
            try:
                row.append(rounded(interval(over_lloyd(cell, f"family {test}", STEPS)(results))[0]))
            except KeyError:
                row.append(None)
        rows += [row] * any(v is not None for v in row[1:])
    title = (
        f"Mean log objective less that of Lloyd after {STEPS} steps, {code.replace('_', '-')} "
        "code; rows: family of the training, columns: family of the test"
    )
    caption = "Below zero is better than Lloyd."
    plot = Plot("trained on", cells=FAMILIES, y_label="less Lloyd", caption=caption)
    return Table(f"grid-{code}-{scale}", title, ("trained on", *FAMILIES), rows, plot)


def _steps(cell: Cell, scale: str, results: Results) -> Table:
    """One model on the five families, in units of Lloyd, by step."""
    columns, series = ["step", "Lloyd"], []
    for test in FAMILIES:
        if results.evaluation(cell, f"family {test}", "re-embedding"):
            series.append(test)
            columns += [test, f"{test}, low", f"{test}, high"]
    rows: list[list[Any]] = []
    for step in range(STEPS + 1) if series else ():
        row: list[Any] = [step, 0.0]
        for test in series:
            row += quartiles(over_lloyd(cell, f"family {test}", step)(results))
        rows.append(row)
    s = cell.settings
    title = (
        f"Trained on {s.family}, {label(cell)}, tested on five families: mean log objective less "
        "that of Lloyd, median and quartiles of the seeds"
    )
    lines = ("Lloyd", *series)
    plot = Plot("step", lines, x_label="step", y_label="mean log objective less Lloyd")
    return Table(f"steps-{s.family}-{s.code}-{scale}", title, tuple(columns), rows, plot)


CLAIM = learning_claim(
    id=ROW,
    title="Across families",
    says="Transformers trained on one of the four families other than Cauchy beat Lloyd's "
    "algorithm over 20 steps on all four; trained or tested on Cauchy they do not.",
    statement=r"5 \times 5 \text{ families}, \qquad T = 20",
    sources=(Source("summary", "Section 4, p. 11; Fig. 8; App. G, p. 30; Fig. 18"),),
    statements=statements,
    figures=figures,
    falsify="a pair of families whose median is on the other side of Lloyd",
)
