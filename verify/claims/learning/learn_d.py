"""Does the number of coordinates have an adverse effect?"""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    NOT_ABOVE,
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

ROW = "learn-d"


def statements(scale: str) -> list[Statement]:
    found = []
    for cell in find(ROW, scale):
        s = cell.settings
        name = label(cell, "d")
        found.append(ends(cell, "<", name))
        if s.d != 4:
            base = one(ROW, scale, code=s.code, d=4)
            said = f"final loss, {name} less d = 4"
            found.append(same(cell, base, NOT_ABOVE, said, final))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    series = {label(cell, "d"): cell for cell in find(ROW, scale, code="one_hot")}
    title = "Loss on held-out tasks by d, τ = 0.1: median and quartiles of the seeds"
    return [curves(f"curves-{scale}", title, series, results, log_y=True)]


CLAIM = learning_claim(
    id=ROW,
    title="The number of coordinates",
    says="More coordinates, with quadratically more parameters, have no clear adverse effect on "
    "learning.",
    statement=r"d = 4, 8, 16, 32",
    sources=(Source("summary", "App. F, p. 25; Fig. 14, p. 26"),),
    statements=statements,
    figures=figures,
    falsify="a median above 1, or one above that of d = 4 by more than two seeds differ",
)
