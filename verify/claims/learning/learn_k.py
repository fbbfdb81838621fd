"""The number of clusters."""

from __future__ import annotations

from verify.claim import Source, Table
from verify.claims.learning._shared import (
    Statement,
    average,
    curves,
    difference,
    ends,
    final,
    find,
    label,
    learning_claim,
    one,
)
from verify.experiments.results import Results

ROW = "learn-k"


def statements(scale: str) -> list[Statement]:
    """What the paper says of each panel of its Fig. 15, which does not cover everything: a binary
    code with temperature 0.1 at d = 4 is only said to become slower with k."""
    found = []
    for cell in find(ROW, scale):
        s = cell.settings
        silent = (s.d, s.temperature) == (4, 0.1) and (s.code, s.regularizer) != ("one_hot", "l2")
        if silent or (s.d, s.temperature, s.regularizer) == (32, 1.0, "ne"):
            continue
        side = ">" if (s.d, s.temperature) == (4, 1.0) else "<"
        name = label(cell, "d", "temperature", "k")
        found.append(ends(cell, side, name))
    for tau, values, what in ((1.0, final, "final loss"), (0.1, average, "mean loss")):
        same = {"d": 4, "temperature": tau, "code": "binary", "regularizer": "l2"}
        many, few = one(ROW, scale, k=25, **same), one(ROW, scale, k=6, **same)
        said = f"{what}, k = 25 less k = 6, {label(few, 'd', 'temperature')}"
        slower = difference(values(many), values(few))
        found.append(Statement(said, ">", 0.0, (many, few), slower))
    return found


def figures(scale: str, results: Results) -> list[Table]:
    found = []
    for d, tau, k in ((d, tau, k) for d in (4, 32) for tau in (0.1, 1.0) for k in (6, 10, 16, 25)):
        cells = find(ROW, scale, d=d, temperature=tau, k=k)
        title = f"Loss on held-out tasks, d = {d}, τ = {tau:g}, k = {k}: median and quartiles"
        series = {label(cell): cell for cell in cells}
        found.append(curves(f"d{d}-tau{tau:g}-k{k}-{scale}", title, series, results, log_y=True))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="The number of clusters",
    says="With d = 4 and temperature 1 nothing matches one Lloyd step for any k; with "
    "temperature 0.1 a one-hot code with L2 beats it for all k, and a binary code becomes slower "
    "as k grows; with d = 32 both codes beat it.",
    statement=r"k = 6, 10, 16, 25; \qquad d = 4, 32; \qquad \tau = 1, 0.1",
    sources=(Source("summary", "App. F, pp. 26-28; Fig. 15"),),
    statements=statements,
    figures=figures,
    falsify="a median on the other side of 1, or a binary code that is not slower with more "
    "clusters",
)
