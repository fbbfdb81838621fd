"""Temperature 0.1: does every configuration with a code beat one Lloyd step?"""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    Statement,
    curves,
    ends,
    find,
    label,
    learning_claim,
)
from verify.experiments.results import Results

ROW = "learn-tau-0.1"


def statements(scale: str) -> list[Statement]:
    return [
        ends(cell, ">" if cell.settings.code == "none" else "<", label(cell))
        for cell in find(ROW, scale)
    ]


def figures(scale: str, results: Results) -> list[Table]:
    series = {label(cell): cell for cell in find(ROW, scale)}
    title = "Loss on held-out tasks during training, τ = 0.1: median and quartiles of the seeds"
    caption = "The paper: below one Lloyd step with a code, above it without."
    return [curves(f"curves-{scale}", title, series, results, caption=caption, log_y=True)]


CLAIM = learning_claim(
    id=ROW,
    title="Learning at temperature 0.1",
    says="With d = 4 and temperature 0.1, transformers trained with either regularizer beat one "
    "Lloyd step on held-out tasks, except those without a cluster code.",
    statement=r"\frac{\sum \mathcal{L}(X, \bar{C}(\Theta))}"
    r"{\sum \mathcal{L}(X, C_{\mathrm{Lloyd}})}"
    r" < 1 \text{ for one-hot and binary codes, } > 1 \text{ for no code}",
    sources=(Source("summary", "Section 3, p. 9"), Source("review", "ablation table")),
    statements=statements,
    figures=figures,
    falsify="a configuration with a code whose median is above 1, or one without whose median is "
    "below",
)
