"""Temperature 1: which regularizers learn, and which of two sources is right?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    Statement,
    Values,
    curves,
    ends,
    find,
    label,
    learning_claim,
    study,
)
from verify.experiments.cells import Cell
from verify.experiments.results import Results

ROW = "learn-tau-1"
EARLY = 0.1  # share of the steps after which "during the training" begins


def change(cell: Cell) -> Values:
    """The final loss less that after a tenth of the training."""

    def values(results: Results) -> Sequence[float]:
        curve = results.curve(cell)
        early = curve[min(step for step in curve if step >= EARLY * cell.steps)]
        return [b - a for a, b in zip(early, results.final(cell), strict=True)]

    return values


def statements(scale: str) -> list[Statement]:
    found = []
    for cell in find(ROW, scale):
        name = label(cell)
        if cell.settings.regularizer == "ne":
            found.append(ends(cell, ">", name))
        side = ">" if cell.settings.regularizer == "ne" else "<"
        said = f"change of the loss after a tenth of the training, {name}"
        found.append(Statement(said, side, 0.0, (cell,), change(cell)))
    return found


def l2(side: str) -> Callable[[str], list[Statement]]:
    def statements(scale: str) -> list[Statement]:
        return [ends(cell, side, label(cell)) for cell in find(ROW, scale, regularizer="l2")]

    return statements


def figures(scale: str, results: Results) -> list[Table]:
    series = {label(cell): cell for cell in find(ROW, scale)}
    title = "Loss on held-out tasks during training, τ = 1: median and quartiles of the seeds"
    caption = "The summary: no configuration comes below one Lloyd step. The review: L2 does."
    return [curves(f"curves-{scale}", title, series, results, caption=caption, log_y=True)]


CLAIM = learning_claim(
    id=ROW,
    title="Learning at temperature 1",
    says="With d = 4 and temperature 1, the loss of NE-trained transformers on held-out tasks "
    "rises during the training and ends above one Lloyd step; that of L2-trained ones falls.",
    statement=r"\text{NE} > 1 \text{ and rising}, \qquad \text{L2 falling}",
    sources=(
        Source("summary", "Section 3, p. 8; App. F, p. 26"),
        Source("review", "ablation table"),
    ),
    statements=statements,
    figures=figures,
    variants=(
        study(l2("<"), name="review", variant="the review: L2 comes below 1"),
        study(l2(">"), name="summary", variant="the summary: L2 stays above 1"),
    ),
    falsify="an NE median below 1, or a change in the other direction",
    conflict="The review puts L2 below one Lloyd step, the summary says it never matches it.",
)
