"""Does a higher temperature converge faster, and to worse solutions?"""

from __future__ import annotations

from collections.abc import Sequence

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    NAMES,
    Statement,
    Values,
    apart,
    curves,
    difference,
    find,
    label,
    learning_claim,
    one,
)
from verify.experiments.cells import Cell
from verify.experiments.grids import CODES
from verify.experiments.results import Results

ROW = "learn-tau-speed"
REST = 0.05  # of the way from the first to the final training loss


def arrival(cell: Cell) -> Values:
    """The first validation at which only a twentieth of the decrease of the training loss is left,
    as a share of the steps."""

    def values(results: Results) -> Sequence[float]:
        curve = results.curve(cell, "loss")
        ends = results.final(cell, "loss")
        steps = sorted(curve)
        found = []
        for i, end in enumerate(ends):
            limit = end + REST * (curve[steps[0]][i] - end)
            found.append(next(s for s in steps if curve[s][i] <= limit or s == steps[-1]))
        return [step / cell.steps for step in found]

    return values


def statements(scale: str) -> list[Statement]:
    found = []
    for hot in find(ROW, scale, temperature=1.0):
        s = hot.settings
        cold = one(ROW, scale, temperature=0.1, code=s.code, regularizer=s.regularizer)
        name = f"τ = 1 less τ = 0.1, {label(hot)}"
        pair = (hot, cold)
        sooner = difference(arrival(hot), arrival(cold))
        found.append(Statement(f"share of the steps to converge, {name}", "<", 0.0, pair, sooner))
        found.append(apart(hot, cold, ">", name))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for code in CODES:
        cells = find(ROW, scale, code=code, regularizer="l2")
        series = {label(cell, "temperature"): cell for cell in cells}
        title = f"Training loss by temperature, {NAMES[code]}, L2: median and quartiles"
        name = f"loss-{NAMES[code]}-{scale}"
        found.append(curves(name, title, series, results, "loss", log_y=True))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="Temperature: speed against quality",
    says="A higher temperature lets the training loss converge in fewer steps, to worse solutions.",
    statement=r"\tau = 1 \text{ against } \tau = 0.1: \text{ fewer steps, larger final loss}",
    sources=(Source("summary", "Section 3, p. 9; App. F, p. 23"),),
    statements=statements,
    figures=figures,
    falsify="a code and a regularizer with a difference in the other direction",
)
