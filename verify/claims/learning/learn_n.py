"""Does the number of points of the training tasks matter?"""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    Statement,
    apart,
    curves,
    ends,
    find,
    label,
    learning_claim,
    one,
)
from verify.experiments.grids import SCALES
from verify.experiments.results import Results

ROW = "learn-n"
SAME = 0.05  # of one Lloyd step: a smaller difference does not count


def statements(scale: str) -> list[Statement]:
    found = []
    for cell in find(ROW, scale):
        s = cell.settings
        name = label(cell, "n")
        found.append(ends(cell, "<", name))
        if s.n != SCALES[scale].n:
            base = one(ROW, scale, code=s.code, n=SCALES[scale].n)
            found.append(apart(cell, base, "within", f"{name} less n = {base.settings.n}", SAME))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    series = {label(cell, "n"): cell for cell in find(ROW, scale, code="one_hot")}
    title = "Loss on held-out tasks by the n of training and test: median and quartiles"
    return [curves(f"curves-{scale}", title, series, results, log_y=True)]


CLAIM = learning_claim(
    id=ROW,
    title="The number of points in training",
    says="The number of points of the training tasks has no significant effect on convergence "
    "and generalization.",
    statement=r"n = 128, 256, 512, 1024",
    sources=(Source("summary", "App. F, p. 25; Fig. 13"),),
    statements=statements,
    figures=figures,
    falsify="a median above 1, or two that differ by more than 0.05",
)
