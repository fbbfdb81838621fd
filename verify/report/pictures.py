"""Small pictures of counterexamples, as inline SVG: what the inputs are, and both answers.

Points on a line, points in a plane, or bars. A case that is none of these has no picture.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import cycle, pairwise
from typing import Any

from verify.report.text import decimal, exact

Table = list[list[float]]

_INKS = ("var(--first)", "var(--second)", "var(--third)", "var(--fourth)")


def picture(case: Mapping[str, Any], answers: Mapping[str, Any]) -> str:
    """The picture of a counterexample, or "" when it has no shape that can be drawn.

    Parameters
    ----------
    case : fields of the case; X (n, d) and C (k, d), or r (k,)
    answers : results by name; those that are places in R^d, or as long as r, are drawn
    """
    inks = {name: _INKS[i % len(_INKS)] for i, name in enumerate(answers)}
    X, C = _table(case.get("X")), _table(case.get("C"))
    if X and C and len(X[0]) == len(C[0]):
        drawn = {n: t for n, v in answers.items() if (t := _places(v, len(X[0])))}
        if len(X[0]) == 2:
            return _plane(X, C, drawn, inks)
        return _line(X, C, drawn, inks)
    r = _row(case.get("r"))
    if r and 2 <= len(r) <= 40 and any(r):
        same = {n: v for n, value in answers.items() if (v := _row(value)) and len(v) == len(r)}
        return _bars({"r": r, **same}, case["r"], inks)
    return ""


def _line(X: Table, C: Table, answers: dict[str, Table], inks: Mapping[str, str]) -> str:
    """Number lines, one above the other: points, centers, and each answer. With d > 2, the
    coordinate in which the answers differ most."""
    d = len(C[0])
    axis = max(range(d), key=lambda i: _spread([[row[i] for row in t] for t in answers.values()]))

    def column(t: Table) -> list[float]:
        return [row[axis] for row in t]

    rows = [("points", column(X), "dot"), ("centers", column(C), "ring")]
    rows += [(name, column(t), "diamond") for name, t in answers.items()]
    low, high = _range([v for _, values, _ in rows for v in values])
    left, right, step = 128, 540, 46
    height = step * len(rows) + 34

    def at(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    body = []
    for i, (name, values, mark) in enumerate(rows):
        y = 30 + step * i
        ink = inks.get(name, "currentColor") if i >= 2 else "currentColor"
        body.append(f'<line class="axis" x1="{left - 10}" y1="{y}" x2="{right + 10}" y2="{y}"/>')
        body.append(_label(y, name))
        for value, times in sorted(Counter(values).items()):
            body.append(_mark(mark, at(value), y, ink))
            if times > 1:
                body.append(_text(at(value) + 8, y - 7, f"×{times}", "small"))
    y = 30 + step * (len(rows) - 1) + 26
    ticks = {v for _, values, _ in rows for v in values}
    body += [
        f'<line class="guide" x1="{at(v):.1f}" y1="14" x2="{at(v):.1f}" y2="{y - 13}"/>'
        for v in sorted(ticks)
    ]
    body += _ticks(ticks, at, y + 4, False)
    if d > 2:
        body.append(_text(0, y + 4, f"coordinate {axis + 1} of {d}", "small"))
    names = ", ".join(name for name, _, _ in rows)
    return _svg(560, height, body, f"Number lines with {names}")


def _plane(X: Table, C: Table, answers: dict[str, Table], inks: Mapping[str, str]) -> str:
    """A scatter of points and centers; where the answers differ, a line joins the two."""
    everything = [*X, *C, *(row for t in answers.values() for row in t)]
    x_low, x_high = _range([p[0] for p in everything])
    y_low, y_high = _range([p[1] for p in everything])
    side, left, top = 280, 44, 14
    unit = side / max(x_high - x_low, y_high - y_low)
    x_low -= (side / unit - (x_high - x_low)) / 2
    y_high += (side / unit - (y_high - y_low)) / 2

    def at(p: Sequence[float]) -> tuple[float, float]:
        return left + (p[0] - x_low) * unit, top + (y_high - p[1]) * unit

    body = [f'<rect class="frame" x="{left}" y="{top}" width="{side}" height="{side}"/>']
    tables = list(answers.values())
    for a, b in pairwise(tables):
        for p, q in zip(a, b, strict=False):
            if p != q and len(a) == len(b):
                (x1, y1), (x2, y2) = at(p), at(q)
                body.append(
                    f'<line class="link" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
                )
    for point, times in sorted(Counter(map(tuple, X)).items()):
        x, y = at(point)
        body.append(_mark("dot", x, y, "currentColor"))
        if times > 1:
            body.append(_text(x + 7, y - 6, f"×{times}", "small"))
    body += [_mark("ring", *at(c), "currentColor") for c in C]
    marks = dict(zip(answers, cycle(("diamond", "square", "triangle")), strict=False))
    for name, t in answers.items():
        body += [_mark(marks[name], *at(c), inks[name]) for c in t]
    legend = [("dot", "currentColor", "points"), ("ring", "currentColor", "centers before")]
    legend += [(marks[name], inks[name], name) for name in answers]
    for i, (mark, ink, name) in enumerate(legend):
        body.append(_mark(mark, left + side + 28, top + 12 + 26 * i, ink))
        body.append(_text(left + side + 42, top + 16.5 + 26 * i, name))
    body += _ticks({p[0] for p in everything}, lambda v: at((v, y_high))[0], top + side + 17, False)
    body += _ticks({p[1] for p in everything}, lambda v: at((x_low, v))[1], left - 8, True)
    return _svg(560, top + side + 26, body, "Scatter of points, centers and answers")


def _bars(rows: dict[str, list[float]], labels: list[Any], inks: Mapping[str, str]) -> str:
    """One panel of bars per row."""
    k = max(len(values) for values in rows.values())
    left, width, tall = 124, 420, 74
    slot = width / k
    body = []
    for i, (name, values) in enumerate(rows.items()):
        top = 22 + i * (tall + 34)
        low, high = min(0.0, *values), max(0.0, *values)
        unit = tall / (high - low) if high > low else 0.0
        zero = top + tall + low * unit
        ink = inks.get(name, "currentColor") if i else "currentColor"
        body.append(_label(top + tall / 2, name))
        for j, value in enumerate(values):
            y = min(zero, zero - value * unit)
            body.append(
                f'<rect x="{left + slot * (j + 0.18):.1f}" y="{y:.1f}" '
                f'width="{slot * 0.64:.1f}" height="{max(abs(value) * unit, 0.6):.1f}" '
                f'style="fill:{ink}" opacity="0.8"/>'
            )
            text = exact(labels[j]) if i == 0 else _name(value)
            if len(text) * 7 < slot:
                body.append(_text(left + slot * (j + 0.5), y - 4, text, "tick"))
        body.append(
            f'<line class="axis" x1="{left}" y1="{zero:.1f}" x2="{left + width}" y2="{zero:.1f}"/>'
        )
    return _svg(560, 22 + len(rows) * (tall + 34) - 10, body, f"Bars of {', '.join(rows)}")


def _mark(kind: str, x: float, y: float, ink: str) -> str:
    at = f"{x:.1f},{y:.1f}"
    if kind == "dot":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" style="fill:{ink}"/>'
    if kind == "ring":
        return f'<circle class="hollow" cx="{x:.1f}" cy="{y:.1f}" r="7.5" style="stroke:{ink}"/>'
    shape = {
        "diamond": "m0,-8 8,8 -8,8 -8,-8z",
        "square": "m-6,-6 h12 v12 h-12z",
        "triangle": "m0,-8 8,14 h-16z",
    }[kind]
    return f'<path d="M{at} {shape}" style="fill:{ink}" fill-opacity="0.85"/>'


def _text(x: float, y: float, text: str, kind: str = "name") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _label(y: float, name: str) -> str:
    """A name in the left margin, on one or two lines."""
    lines = textwrap.wrap(name, 16, max_lines=2, placeholder=" …") or [""]
    first = y + 4.5 - 8 * (len(lines) - 1)
    return "".join(_text(0, first + 16 * i, line) for i, line in enumerate(lines))


def _ticks(
    values: set[float], at: Callable[[float], float], other: float, upright: bool
) -> list[str]:
    """Names of coordinates along an axis, as many as fit."""
    texts: list[str] = []
    last = -math.inf
    for value in sorted(values, key=at):
        name = _name(value)
        half = 8.0 if upright else 3.75 * len(name)
        if at(value) - half > last + 6:
            last = at(value) + half
            place = (other, at(value) + 4) if upright else (at(value), other)
            texts.append(_text(*place, name, "tick upright" if upright else "tick"))
    return texts


def _svg(width: float, height: float, body: list[str], label: str) -> str:
    return (
        f'<svg class="picture" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {width:g} {height:g}">{"".join(body)}</svg>'
    )


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = 0.08 * (high - low) or 1.0
    return low - pad, high + pad


def _spread(rows: list[list[float]]) -> float:
    if len({len(row) for row in rows}) != 1:
        return 0.0
    return max((max(c) - min(c) for c in zip(*rows, strict=True)), default=0.0)


def _places(value: Any, d: int) -> Table | None:
    """Rows of d numbers; one place may come as a bare list, places on a line as numbers."""
    table, row = _table(value), _row(value)
    if row:
        table = [[v] for v in row] if d == 1 else [row]
    return table if table and len(table[0]) == d else None


def _name(value: float) -> str:
    """A coordinate, as a short fraction where it is one."""
    for below in range(1, 13):
        if abs(value * below - round(value * below)) < 1e-9 * max(1.0, abs(value)):
            text = f"{round(value * below)}" + (f"/{below}" if below > 1 else "")
            return text.replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def _row(value: Any) -> list[float] | None:
    """A list of finite numbers, or None."""
    if not isinstance(value, list) or not value:
        return None
    numbers = [decimal(v) for v in value]
    if any(v is None or not v.is_finite() for v in numbers):
        return None
    floats = [float(v) for v in numbers if v is not None]
    return floats if all(math.isfinite(v) for v in floats) else None


def _table(value: Any) -> Table | None:
    """Rows of finite numbers, all of one length, or None."""
    if not isinstance(value, list) or not value:
        return None
    rows = [_row(v) for v in value]
    if any(row is None or len(row) != len(rows[0] or ()) for row in rows):
        return None
    return [row for row in rows if row is not None]
