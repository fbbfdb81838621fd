"""Are the extra dimensions of the embedding needed?"""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import Statement, curves, ends, find, label, learning_claim, one
from verify.experiments.results import Results

ROW = "learn-code-needed"


def statements(scale: str) -> list[Statement]:
    stated = {"one_hot": ("<", 0.95), "binary": ("<", 0.95), "none": (">", 1.05)}
    found = []
    for code, (side, bound) in stated.items():
        cell = one(ROW, scale, code=code)
        found.append(ends(cell, side, label(cell), bound))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    series = {label(cell): cell for cell in find(ROW, scale)}
    title = "Loss on held-out tasks with and without a code, L2, τ = 0.1: median and quartiles"
    return [curves(f"curves-{scale}", title, series, results, log_y=True)]


CLAIM = learning_claim(
    id=ROW,
    title="A cluster code is needed to learn",
    says="With one-hot or binary codes the loss on held-out tasks comes below 0.95 of one Lloyd "
    "step; without a code it stays above 1.05.",
    statement=r"\text{OH, BN} < 0.95, \qquad \text{NA} > 1.05",
    sources=(Source("review", "ablation table"), Source("summary", "Section 3, p. 9")),
    statements=statements,
    figures=figures,
    falsify="a median on the other side of its bound",
)
