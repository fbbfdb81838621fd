"""Trained with one number of points, used with others."""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    Statement,
    find,
    iterations,
    label,
    learning_claim,
    over_lloyd,
)
from verify.experiments.evaluate import SIZES, STEPS
from verify.experiments.results import Results

ROW = "length-generalization"


def statements(scale: str) -> list[Statement]:
    return [
        Statement(
            f"re-embedding less Lloyd after {STEPS} steps, {label(cell)}, tested with n = {n}",
            "<",
            0.0,
            (cell,),
            over_lloyd(cell, f"n = {n}", STEPS),
        )
        for n in SIZES
        for cell in find(ROW, scale)
    ]


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for n in SIZES:
        series = {label(c): (c, f"n = {n}", "re-embedding") for c in find(ROW, scale)}
        title = f"Tested with n = {n}: mean log objective, median and quartiles of the seeds"
        found.append(iterations(f"n{n}-{scale}", title, series, results))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="Length generalization",
    says="Transformers trained with one number of points beat Lloyd's algorithm over 20 steps on "
    "tasks with 128 to 2048 points.",
    statement=r"n = 128, 256, 512, 1024, 2048, \qquad T = 20",
    sources=(Source("summary", "App. F, pp. 24-25; Fig. 12"),),
    statements=statements,
    figures=figures,
    falsify="a number of points at which the median is above Lloyd",
)
