"""Beyond the paper: one or two extra dimensions, 1.5-entmax, and the logarithm of the loss."""

from __future__ import annotations

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
    over_lloyd,
    study,
)
from verify.experiments.cells import Cell
from verify.experiments.evaluate import STEPS
from verify.experiments.results import Results

ROW = "leaner-still"


def named(cell: Cell) -> str:
    return label(cell) + (", log-loss" if cell.settings.log_loss else "")


def others(scale: str) -> list[Cell]:
    """The cells that the paper does not have."""
    usual = find(ROW, scale, regularizer="l2", log_loss=False)
    usual = [cell for cell in usual if cell.settings.code in ("one_hot", "binary")]
    return [cell for cell in find(ROW, scale) if cell not in usual]


def statements(scale: str) -> list[Statement]:
    return [ends(cell, "<", named(cell)) for cell in others(scale)]


def as_well(scale: str) -> list[Statement]:
    base = one(ROW, scale, code="binary", regularizer="l2", log_loss=False)
    return [apart(cell, base, "<", f"{named(cell)} less {named(base)}") for cell in others(scale)]


def many_steps(scale: str) -> list[Statement]:
    return [
        Statement(
            f"re-embedding less Lloyd after {STEPS} steps, {named(cell)}",
            "<",
            0.0,
            (cell,),
            over_lloyd(cell, "same", STEPS),
        )
        for cell in others(scale)
    ]


def figures(scale: str, results: Results) -> list[Table]:
    leaner = find(ROW, scale, regularizer="l2", log_loss=False)
    losses = [c for c in find(ROW, scale) if c.settings.code in ("one_hot", "binary")]
    found = []
    for name, title, cells in (
        ("codes", "Codes of 1, 2, 3 and 6 dimensions", leaner),
        ("losses", "L2, 1.5-entmax and log-loss", losses),
    ):
        full = f"{title}, τ = 0.1: loss on held-out tasks, median and quartiles of the seeds"
        series = {named(cell): cell for cell in cells}
        found.append(curves(f"{name}-{scale}", full, series, results, log_y=True))
    return found


CLAIM = learning_claim(
    id=ROW,
    title="Leaner still",
    says="Transformers with a code of one dimension (scalar) or two (circle) learn too: they beat "
    "one Lloyd step, as do those trained with 1.5-entmax or on the logarithm of the loss.",
    statement=r"d_{\mathrm{emb}} = d + 1, \; d + 2",
    sources=(Source("beyond", "the paper leaves open how few dimensions suffice to learn"),),
    statements=statements,
    figures=figures,
    variants=(
        study(as_well, name="as-well", variant="better than the binary code with L2"),
        study(many_steps, name="many-steps", variant="below Lloyd's algorithm after 20 steps"),
    ),
    falsify="a configuration whose median is above 1",
)
