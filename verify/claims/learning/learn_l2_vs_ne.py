"""Does the L2 regularizer give the lower training loss and the tighter bound?"""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    Statement,
    after,
    curves,
    difference,
    final,
    find,
    label,
    learning_claim,
    one,
)
from verify.experiments.evaluate import GAP
from verify.experiments.results import Results

ROW = "learn-l2-vs-ne"


def statements(scale: str) -> list[Statement]:
    found = []
    for cell in find(ROW, scale, regularizer="l2"):
        s = cell.settings
        other = one(ROW, scale, regularizer="ne", code=s.code, temperature=s.temperature)
        name = f"L2 less NE, {label(cell, 'temperature').replace('L2, ', '')}"
        loss = difference(final(cell, "loss"), final(other, "loss"))
        gap = difference(
            after(cell, GAP, "gap, absolute", 1), after(other, GAP, "gap, absolute", 1)
        )
        found.append(Statement(f"training loss, {name}", "<", 0.0, (cell, other), loss))
        found.append(Statement(f"gap after training, {name}", "<", 0.0, (cell, other), gap))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for tau in (0.1, 0.25, 1.0):
        series = {label(cell): cell for cell in find(ROW, scale, temperature=tau)}
        for column, what in (("loss", "Training loss"), ("relative", "Loss on held-out tasks")):
            title = f"{what}, τ = {tau:g}: median and quartiles of the seeds"
            name = f"{column}-{tau:g}-{scale}"
            found.append(curves(name, title, series, results, column, log_y=True))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="L2 against NE",
    says="For every temperature, the L2 regularizer gives a lower training loss than NE and a "
    "tighter upper bound of the k-means loss.",
    statement=r"\tilde{\mathcal{L}}_{L2}^\tau < \tilde{\mathcal{L}}_{NE}^\tau, \qquad"
    r" \mathrm{gap}_{L2} < \mathrm{gap}_{NE}",
    sources=(Source("summary", "Section 3, p. 8; Fig. 10, p. 23"),),
    statements=statements,
    figures=figures,
    falsify="a temperature and a code with the difference in the other direction",
)
