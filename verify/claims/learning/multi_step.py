"""Twenty steps of a transformer that was trained for one."""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    Statement,
    after,
    difference,
    iterations,
    label,
    learning_claim,
    one,
    over_lloyd,
    study,
)
from verify.experiments.evaluate import PLUSPLUS, STEPS
from verify.experiments.grids import CODES
from verify.experiments.results import Results

ROW = "multi-step"
T = STEPS


def statements(scale: str) -> list[Statement]:
    found = []
    for code in (*CODES, "none"):
        cell = one(ROW, scale, code=code)
        name = label(cell)
        gain = difference(
            after(cell, "same", "re-embedding", T), after(cell, "same", "re-embedding", 1)
        )
        side = ">" if code == "none" else "<"
        found += [
            Statement(f"step {T} less step 1, re-embedding, {name}", "<", 0.0, (cell,), gain),
            Statement(
                f"re-embedding less Lloyd after {T} steps, {name}",
                side,
                0.0,
                (cell,),
                over_lloyd(cell, "same", T),
            ),
            Statement(
                f"step {T} less step 1, naive iteration, {name}",
                ">",
                0.0,
                (cell,),
                difference(after(cell, "same", "naive", T), after(cell, "same", "naive", 1)),
            ),
        ]
    return found


def plusplus(scale: str) -> list[Statement]:
    cells = [one(ROW, scale, code=code) for code in CODES]
    return [
        Statement(
            f"re-embedding less Lloyd after {T} steps, {label(cell)}, k-means++ start",
            "<",
            0.0,
            (cell,),
            over_lloyd(cell, PLUSPLUS, T),
        )
        for cell in cells
    ]


def figures(scale: str, results: Results) -> list[Table]:
    cells = [one(ROW, scale, code=code) for code in (*CODES, "none")]
    found = []
    for test, method in (("same", "re-embedding"), ("same", "naive"), (PLUSPLUS, "re-embedding")):
        start = "k-means++ centers" if test == PLUSPLUS else "random points as centers"
        way = "re-embedding" if method == "re-embedding" else "naive iteration"
        title = f"{T} steps, {way}, {start}: mean log objective, median and quartiles of the seeds"
        series = {label(cell): (cell, test, method) for cell in cells}
        name = f"{test.replace(' ', '-').replace('+', 'p')}-{method}-{scale}"
        found.append(iterations(name, title, series, results))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="Many steps with re-embedding",
    says="A transformer trained for one step improves over 20 steps with re-embedding; with a "
    "code it ends below Lloyd's algorithm, without one above; naive iteration diverges.",
    statement=r"\overline{\log \mathcal{L}}(C^{(20)}) < \overline{\log \mathcal{L}}"
    r"(C_{\mathrm{Lloyd}}^{(20)})",
    sources=(Source("summary", "Section 4, p. 10; Fig. 6; App. C, p. 21"),),
    statements=statements,
    figures=figures,
    variants=(study(plusplus, name="plusplus", variant="k-means++ initial centers"),),
    falsify="a code with which re-embedding ends above Lloyd, or naive iteration that improves",
)
