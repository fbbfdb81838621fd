"""Five families of task distributions: which can be learned?"""

from __future__ import annotations

from constructions.tasks import FAMILIES
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
    study,
)
from verify.experiments.results import Results

ROW = "learn-families"
LIGHT = tuple(name for name in FAMILIES if name != "cauchy")


def statements(scale: str) -> list[Statement]:
    found = []
    for cell in find(ROW, scale):
        s = cell.settings
        hot_ne = s.temperature == 1.0 and s.regularizer == "ne"
        name = label(cell, "family", "temperature")
        if s.family == "cauchy" or (hot_ne and s.family in ("gumbel", "laplace")):
            found.append(ends(cell, ">", name))
        elif s.temperature == 0.1:
            found.append(ends(cell, "<", name))
        elif s.regularizer == "l2":
            same = {"family": s.family, "code": s.code, "temperature": 1.0}
            other = one(ROW, scale, regularizer="ne", **same)
            found.append(apart(cell, other, "<", f"L2 less NE, {name.replace(', L2', '')}"))
    return found


def remedies(scale: str) -> list[Statement]:
    """Does anything help with the Cauchy family?"""
    found = []
    for cell in find("cauchy-gap", scale, family="cauchy"):
        s = cell.settings
        what = [label(cell)]
        if s.scaling == "common":
            what.append("common scaling")
        if s.relative_temperature:
            what.append("temperature relative to the distances")
        if len(what) > 1 or s.regularizer == 1.5:
            found.append(ends(cell, "<", f"Cauchy, {', '.join(what)}"))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for tau in (0.1, 1.0):
        for family in FAMILIES:
            cells = find(ROW, scale, family=family, temperature=tau)
            title = f"Loss on held-out {family} tasks, τ = {tau:g}: median and quartiles"
            series = {label(cell): cell for cell in cells}
            name = f"{family}-tau{tau:g}-{scale}"
            found.append(curves(name, title, series, results, log_y=True))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="Five families",
    says="At temperature 0.1 both regularizers and both codes beat one Lloyd step on normal, "
    "Gumbel, Laplace and lognormal tasks, and fail on Cauchy tasks; at temperature 1 L2 is better "
    "than NE, which fails on Gumbel and Laplace tasks.",
    statement=r"\text{all but Cauchy} < 1, \qquad \text{Cauchy} > 1",
    sources=(Source("summary", "Section 3, p. 9; App. F, pp. 28-29; Fig. 16"),),
    statements=statements,
    figures=figures,
    variants=(study(remedies, name="remedies", variant="Cauchy tasks with a remedy"),),
    falsify="a median on the other side of 1",
)
