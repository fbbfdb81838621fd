"""Does the number of points of the training tasks matter?"""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    ALIKE,
    Statement,
    curves,
    ends,
    final,
    find,
    label,
    learning_claim,
    one,
    same,
)
from verify.experiments.results import Results

ROW = "learn-n"


def statements(scale: str) -> list[Statement]:
    """At temperature 1 whether a model beats one Lloyd step is the question of learn-tau-1."""
    found = []
    few = min(cell.settings.n for cell in find(ROW, scale))
    for cell in find(ROW, scale):
        s = cell.settings
        name = label(cell, "temperature", "n")
        if s.temperature == 0.1:
            found.append(ends(cell, "<", name))
        if s.n != few:
            options = {"code": s.code, "regularizer": s.regularizer, "temperature": s.temperature}
            base = one(ROW, scale, n=few, **options)
            said = f"final loss, {name} less n = {few}"
            found.append(same(cell, base, ALIKE, said, final))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for tau in (0.1, 1.0):
        for code in ("one_hot", "binary"):
            cells = find(ROW, scale, code=code, temperature=tau, regularizer="l2")
            series = {label(cell, "n"): cell for cell in cells}
            title = f"Loss on held-out tasks by n, τ = {tau:g}: median and quartiles of the seeds"
            name = f"curves-{code}-tau{tau:g}-{scale}"
            found.append(curves(name, title, series, results, log_y=True))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="The number of points in training",
    says="The number of points of the training tasks has no significant effect on convergence "
    "and generalization, at either temperature and with either regularizer.",
    statement=r"n = 128, 256, 512, 1024; \qquad \tau = 0.1, 1",
    sources=(Source("summary", "App. F, p. 25; Fig. 13"),),
    statements=statements,
    figures=figures,
    falsify="a median above 1 at temperature 0.1, or a difference between two numbers of points "
    "whose interval excludes 0 and that is larger than that of two seeds",
)
