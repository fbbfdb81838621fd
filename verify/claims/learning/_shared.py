"""What the learning claims share: the cells of a row, numbers of theirs, statements and figures.

A claim is a list of statements at each scale; `verify.claims.learning._deciding` decides them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from verify.claim import Check, Claim, Evidence, Kind, Method, Plot, Run, Source, Table
from verify.claims.learning._deciding import ALIKE as ALIKE
from verify.claims.learning._deciding import NOT_ABOVE as NOT_ABOVE
from verify.claims.learning._deciding import Statement as Statement
from verify.claims.learning._deciding import Values as Values
from verify.claims.learning._deciding import judge, two_seeds
from verify.claims.learning._deciding import rounded as rounded
from verify.experiments.cells import Cell
from verify.experiments.grids import cells
from verify.experiments.results import Results, reference_results
from verify.search import Study

NAMES = {
    "one_hot": "one-hot",
    "binary": "binary",
    "none": "no code",
    "scalar": "scalar",
    "circle": "circle",
    "half": "half",
}
_SYMBOLS = {"temperature": "τ", "learning_rate": "learning rate"}
SCALES_SHOWN = ("paper", "laptop")  # from the largest to the smallest
THEORY = "learning.md"
LATE_AVERAGE = 0.05  # the mean over a curve leaves out this first share of the steps


def label(cell: Cell, *fields: str) -> str:
    """The configuration in words: code, regularizer, and more settings if wanted."""
    s = cell.settings
    penalty = s.regularizer.upper() if isinstance(s.regularizer, str) else f"{s.regularizer}-entmax"
    parts = [NAMES[s.code], penalty]
    for field in fields:
        value = getattr(s, field)
        text = f"{value:g}" if isinstance(value, float) else str(value)
        parts.append(text if field == "family" else f"{_SYMBOLS.get(field, field)} = {text}")
    return ", ".join(parts)


def find(row: str, scale: str, **settings: Any) -> list[Cell]:
    """The cells of a row of the grids with these settings."""
    return [
        cell
        for cell in cells(row, scale)
        if all(getattr(cell.settings, name) == value for name, value in settings.items())
    ]


def one(row: str, scale: str, **settings: Any) -> Cell:
    """The only cell of a row with these settings; raises ValueError if there are more or none."""
    (cell,) = find(row, scale, **settings)
    return cell


def final(cell: Cell, column: str = "relative") -> Values:
    """The loss at the end of the training."""
    return lambda results: results.final(cell, column)


def ends(cell: Cell, side: str, name: str, bound: float = 1.0) -> Statement:
    """The final loss of a cell is below or above a bound, one Lloyd step if not said otherwise."""
    return Statement(f"final loss, {name}", side, bound, (cell,), final(cell))


def apart(cell: Cell, base: Cell, side: str, name: str, bound: float = 0.0) -> Statement:
    """The final loss of a cell less that of another is below or above a bound."""
    less = difference(final(cell), final(base))
    return Statement(f"final loss, {name}", side, bound, (cell, base), less)


def same(a: Cell, b: Cell, side: str, said: str, values: Callable[[Cell], Values]) -> Statement:
    """A number of two cells is alike, or that of the first not above, as far as seeds can tell."""
    less, spread = difference(values(a), values(b)), two_seeds(values(a), values(b))
    return Statement(said, side, 0.0, (a, b), less, spread=spread)


def average(cell: Cell) -> Values:
    """The mean of the relative loss over the training: the larger, the slower."""

    def values(results: Results) -> list[float]:
        curve = results.curve(cell)
        late = [v for step, v in curve.items() if step > LATE_AVERAGE * cell.steps]
        return [sum(each) / len(each) for each in zip(*late, strict=True)]

    return values


def after(cell: Cell, test: str, method: str, step: int) -> Values:
    """The mean log objective of a test after so many steps."""
    return lambda results: results.evaluation(cell, test, method)[step]


def over_lloyd(cell: Cell, test: str, step: int, method: str = "re-embedding") -> Values:
    """How far the mean log objective is above that of Lloyd's algorithm after as many steps."""

    def values(results: Results) -> list[float]:
        (lloyd,) = results.evaluation(cell, test, "lloyd")[step]
        return [v - lloyd for v in results.evaluation(cell, test, method)[step]]

    return values


def difference(a: Values, b: Values) -> Values:
    """Seed by seed: models of the same seed see the same tasks."""

    def values(results: Results) -> list[float]:
        return [x - y for x, y in zip(a(results), b(results), strict=True)]

    return values


Statements = Callable[[str], list[Statement]]  # scale -> statements


def study(
    statements: Statements,
    figures: Callable[[str, Results], list[Table]] | None = None,
    name: str = "trained",
    variant: str = "",
    scales: Sequence[str] = SCALES_SHOWN,
) -> Study:
    """The check that decides statements, each at the largest scale that has it; figures without
    data are left out."""
    by_scale = {scale: statements(scale) for scale in scales}

    def examine(claim: Claim, run: Run, e: Evidence) -> None:
        judge(e, by_scale, reference_results())
        if figures is not None and e.cases:
            for scale in scales:
                e.tables += [t for t in figures(scale, reference_results()) if t.rows]

    return Study(
        name,
        Method.EXPERIMENT,
        examine,
        scope=", else ".join(_scope(scale, found) for scale, found in by_scale.items()),
        variant=variant,
        arithmetic="torch float32",
    )


def _scope(scale: str, statements: Sequence[Statement]) -> str:
    """How large the runs are that the statements are about."""
    needs = [cell for s in statements for cell in s.needs]
    sizes = ({c.settings.n for c in needs}, {c.steps for c in needs}, {len(c.seeds) for c in needs})
    n, steps, seeds = (" or ".join(f"{v:,}" for v in sorted(size)) for size in sizes)
    return f"{scale} scale: n = {n}, {steps} steps, {seeds} seeds a configuration"


def learning_claim(
    id: str,  # noqa: A002 - the name of the field
    title: str,
    says: str,
    statement: str,
    sources: tuple[Source, ...],
    statements: Statements,
    falsify: str,
    bound: str = r"\text{see the table}",
    figures: Callable[[str, Results], list[Table]] | None = None,
    variants: tuple[Check, ...] = (),
    conflict: str = "",
) -> Claim:
    """A claim decided by experiments."""
    return Claim(
        id=id,
        title=title,
        says=says,
        statement=statement,
        sources=sources,
        kind=Kind.TREND,
        bound=bound,
        checks=(study(statements, figures), *variants),
        falsify=falsify,
        theory=f"{THEORY}#{id.replace('.', '')}",
        conflict=conflict,
    )


def curves(
    name: str,
    title: str,
    series: dict[str, Cell],
    results: Results,
    column: str = "relative",
    caption: str = "",
    log_y: bool = False,
    clock: bool = False,
) -> Table:
    """Training curves: median over the seeds with a band between the quartiles.

    Over training steps, or over the processor seconds that all seeds of a cell took together.
    """
    found = {
        n: _thinned(results.curve(cell, column), results.curve(cell, "seconds") if clock else {})
        for n, cell in series.items()
        if results.has(cell)
    }
    lloyd = ("one Lloyd step",) if column == "relative" else ()
    x, x_label = ("seconds", "processor seconds") if clock else ("step", "training step")
    columns = [x, *lloyd, *(f"{n}{end}" for n in found for end in ("", ", low", ", high"))]
    rows = [
        [
            place,
            *([1.0] if lloyd else []),
            *(v for curve in found.values() for v in quartiles(curve.get(place, ()))),
        ]
        for place in sorted({place for curve in found.values() for place in curve})
    ]
    y_label = "loss in units of one Lloyd step" if lloyd else "training loss"
    plot = Plot(
        x, (*lloyd, *found), (), x_label=x_label, y_label=y_label, caption=caption, log_y=log_y
    )
    return Table(name, title, tuple(columns), rows, plot)


def _thinned(
    curve: dict[int, list[float]], seconds: dict[int, list[float]]
) -> dict[float, list[float]]:
    """About 25 points of a curve, over steps, or over seconds if there are any."""
    steps = sorted(curve)
    return {
        float(f"{seconds[step][0]:.4g}") if seconds else step: curve[step]
        for step in steps[:: max(1, len(steps) // 25)]
    }


def iterations(
    name: str,
    title: str,
    series: dict[str, tuple[Cell, str, str]],
    results: Results,
    caption: str = "",
) -> Table:
    """Mean log objective by step of the iteration, Lloyd and (cell, test, method) by name."""
    found: dict[str, dict[int, list[float]]] = {}
    for label_, (cell, test, method) in series.items():
        values = results.evaluation(cell, test, method)
        if values:
            found.setdefault("Lloyd", results.evaluation(cell, test, "lloyd"))
            found[label_] = values
    steps = sorted({step for curve in found.values() for step in curve})
    columns = ["step", "Lloyd"]
    columns += [f"{n}{end}" for n in found if n != "Lloyd" for end in ("", ", low", ", high")]
    rows = [
        [
            step,
            rounded(found["Lloyd"][step][0]),
            *(v for n, c in found.items() if n != "Lloyd" for v in quartiles(c.get(step, ()))),
        ]
        for step in steps
    ]
    y_label = "mean log objective"
    plot = Plot("step", tuple(found), (), x_label="step", y_label=y_label, caption=caption)
    return Table(name, title, tuple(columns), rows, plot)


def quartiles(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Median and quartiles; a diverged model is worse than all others."""
    ordered = sorted(math.inf if math.isnan(v) else v for v in values)
    if not ordered:
        return None, None, None

    def at(share: float) -> float | None:
        place = share * (len(ordered) - 1)
        low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
        return rounded(low + (high - low) * (place % 1) if math.isfinite(high) else high)

    return at(0.5), at(0.25), at(0.75)
