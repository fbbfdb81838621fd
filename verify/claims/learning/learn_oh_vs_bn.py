"""Does the difference between one-hot and binary codes vanish as d grows?"""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    ALIKE,
    Statement,
    Values,
    average,
    curves,
    difference,
    find,
    label,
    learning_claim,
    one,
    same,
)
from verify.experiments.cells import Cell
from verify.experiments.results import Results

ROW = "learn-oh-vs-bn"


def statements(scale: str) -> list[Statement]:
    def pair(d: int) -> tuple[tuple[Cell, ...], Values]:
        cells = tuple(one(ROW, scale, code=code, d=d) for code in ("binary", "one_hot"))
        return cells, difference(average(cells[0]), average(cells[1]))

    (four, at_4), (far, at_32) = pair(4), pair(32)
    what = "mean loss over the training, binary less one-hot"
    return [
        Statement(f"{what}, d = 4", ">", 0.0, four, at_4),
        same(far[0], far[1], ALIKE, f"{what}, d = 32", average),
        Statement(f"{what}, d = 4 less d = 32", ">", 0.0, (*four, *far), difference(at_4, at_32)),
    ]


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for d in (4, 8, 16, 32):
        series = {label(cell): cell for cell in find(ROW, scale, d=d)}
        title = f"Loss on held-out tasks, d = {d}, τ = 0.25: median and quartiles of the seeds"
        found.append(curves(f"curves-{d}-{scale}", title, series, results, log_y=True))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="One-hot against binary as d grows",
    says="At temperature 0.25 the difference in convergence between one-hot and binary codes "
    "vanishes as d grows from 4 to 32.",
    statement=r"|\mathrm{BN} - \mathrm{OH}| \to 0 \text{ for } d = 4, 8, 16, 32",
    sources=(Source("summary", "Section 3, p. 9"),),
    statements=statements,
    figures=figures,
    falsify="a difference at d = 32 larger than that of two seeds, or no smaller than at d = 4",
)
