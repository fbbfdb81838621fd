"""Trained on one kind of normal mixtures, used on others."""

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
from verify.experiments.evaluate import SHIFTS, STEPS, TESTS
from verify.experiments.results import Results

ROW = "shifted-normal"
EARLY = 3  # the step at which "initially" is looked at, for the larger scale


def statements(scale: str) -> list[Statement]:
    found = []
    for cell in find(ROW, scale):
        for test in SHIFTS:
            said = f"re-embedding less Lloyd after {{}} steps, {label(cell)}, {test}"
            end = over_lloyd(cell, test, STEPS)
            found.append(Statement(said.format(STEPS), "<", 0.0, (cell,), end))
            if test == "larger scale":
                start = over_lloyd(cell, test, EARLY)
                found.append(Statement(said.format(EARLY), ">", 0.0, (cell,), start))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for test in SHIFTS:
        series = {label(c): (c, test, "re-embedding") for c in find(ROW, scale)}
        size = f", scale {TESTS[test]['scale']}" if "scale" in TESTS[test] else ""
        title = f"Tested with {test}{size}: mean log objective, median and quartiles of the seeds"
        found.append(iterations(f"{test.replace(' ', '-')}-{scale}", title, series, results))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="Other normal mixtures",
    says="Transformers trained on equally weighted isotropic mixtures beat Lloyd's algorithm with "
    "unequal weights, anisotropic components and a smaller scale; with a larger scale they trail "
    "at first and overtake it with more steps.",
    statement=r"T = 20",
    sources=(Source("summary", "Section 4, pp. 10-11; Fig. 7"),),
    statements=statements,
    figures=figures,
    falsify="a shift with which the median ends above Lloyd",
)
