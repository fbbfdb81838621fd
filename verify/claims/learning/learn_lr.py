"""Learning rates: slow and steady, or fast and worse?"""

from __future__ import annotations

from collections.abc import Sequence

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    Statement,
    Values,
    apart,
    average,
    curves,
    difference,
    find,
    label,
    learning_claim,
)
from verify.experiments.cells import Cell
from verify.experiments.results import Results

ROW = "learn-lr"


def rise(cell: Cell) -> Values:
    """The largest rise of the loss above what it had come down to."""

    def values(results: Results) -> Sequence[float]:
        found = []
        for curve in zip(*results.curve(cell).values(), strict=True):
            low, most = curve[0], 0.0
            for value in curve:
                low, most = min(low, value), max(most, value - low)
            found.append(most)
        return found

    return values


def statements(scale: str) -> list[Statement]:
    found = []
    for d in (4, 32):
        rates = {c.settings.learning_rate: c for c in find(ROW, scale, d=d, regularizer="l2")}
        usual, slow = rates[0.01], rates[0.001]
        found.append(
            Statement(
                f"mean loss over the training, rate 0.001 less 0.01, d = {d}",
                ">",
                0.0,
                (slow, usual),
                difference(average(slow), average(usual)),
            )
        )
        found.append(
            Statement(
                f"largest rise of the loss, rate 0.001 less 0.01, d = {d}",
                "<",
                0.0,
                (slow, usual),
                difference(rise(slow), rise(usual)),
            )
        )
        found += [
            apart(rates[rate], usual, ">", f"rate {rate:g} less 0.01, d = {d}")
            for rate in ((0.1, 1.0) if d == 32 else (1.0,))
        ]
    return found


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for d in (4, 32):
        series = {
            label(cell, "learning_rate").partition(", L2, ")[2]: cell
            for cell in find(ROW, scale, d=d, regularizer="l2")
        }
        title = f"Loss on held-out tasks by learning rate, d = {d}, one-hot, L2, τ = 0.1"
        found.append(curves(f"curves-{d}-{scale}", title, series, results, log_y=True))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="The learning rate",
    says="A rate of 0.001 converges steadily but more slowly than 0.01; rates of 0.1 and 1 lead "
    "to worse minima for d = 32, and 1 does for d = 4.",
    statement=r"\eta = 10^{-3}, 10^{-2}, 10^{-1}, 1",
    sources=(Source("summary", "App. F, pp. 23-24; Fig. 11"),),
    statements=statements,
    figures=figures,
    falsify="a difference in the other direction",
)
