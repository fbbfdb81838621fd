"""Figures of evidence tables: bounds as lines, measured values as markers, or heat maps.

One drawing serves two places: the file, with axes in a gray that is legible on light and on dark,
and the page, where that gray becomes the color of the text. The bytes are the same on every run.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from matplotlib import style
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from verify.report import heatmaps
from verify.report.text import decimal, number, superscript, typeset

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""The palette of Okabe and Ito, which color-blind readers can tell apart."""

NEUTRAL = "#777b80"
"""Axes and labels in the files: 4.2 to 1 on white and on the dark page of a code host."""

_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_CODES = {"one-hot": 0, "binary": 1, "no code": 2, "scalar": 3, "circle": 4, "half": 5}
_PENALTIES = {"L2": 0, "NE": 1, "1.5-entmax": 2, "log-loss": 3}
"""A trained model has the color of its code and the dashes of its regularizer, in all figures."""
_MARKERS = ("o", "s", "^", "D", "v", "P")
_FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
_SETTINGS = {
    "svg.hashsalt": "leanlloyd",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.unicode_minus": True,
    "axes.linewidth": 0.8,
    "text.color": NEUTRAL,
    "axes.edgecolor": NEUTRAL,
    "axes.labelcolor": NEUTRAL,
    "xtick.color": NEUTRAL,
    "ytick.color": NEUTRAL,
}
_WIDTH, _HEIGHT, _LABEL_CHARACTERS = 7.2, 3.4, 20


def drawable(table: Mapping[str, Any]) -> bool:
    """Whether the table has a plot, rows, and the columns that its plot names."""
    plot = table.get("plot")
    if not plot or not table["rows"]:
        return False
    wanted = [plot["x"], *plot["lines"], *plot["points"], *plot.get("cells", ())]
    return len(wanted) > 1 and set(wanted) <= set(table["columns"])


def svg_file(table: Mapping[str, Any]) -> bytes:
    """The figure of a table as an SVG file. Raises ValueError when the table is not `drawable`."""
    if not drawable(table):
        raise ValueError(f"table {table.get('name')!r} has nothing to draw")
    with style.context(["default", _SETTINGS]):  # whatever the user's own settings are
        figure = heatmaps.draw(table) if table["plot"].get("cells") else _draw(table)
        buffer = io.StringIO()
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Title": typeset(table["title"])},
        )
    text = re.sub(r"(font: [^'\"]*)'DejaVu Sans'[^;\"]*", rf"\g<1>{_FONT}", buffer.getvalue())
    return text.encode()


def inline(content: bytes, label: str, prefix: str) -> str:
    """The file made part of a page: no prolog, the text's color, names that are unique there."""
    text = content.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = text.replace(NEUTRAL, "currentColor")
    for i, color in enumerate(COLORS):  # the style sheet has brighter ones for dark pages
        text = text.replace(color.lower(), f"var(--series-{i})")
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    text = re.sub(r'(xlink:)?href="#', f'href="#{prefix}-', text)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    head = f'<svg class="figure" role="img" aria-label="{escape(label)}"'
    return re.sub(r"\A<svg", head, text).rstrip()


def _draw(table: Mapping[str, Any]) -> Figure:
    plot = table["plot"]
    figure = Figure(figsize=(_WIDTH, _HEIGHT))
    FigureCanvasSVG(figure)
    axes = figure.add_axes((0.105, 0.155, 0.625, 0.81))  # moved when its tick labels are known
    xs, names = _positions(_column(table, plot["x"]), plot["log_x"])
    for log, scale in ((plot["log_x"] and not names, "x"), (plot["log_y"], "y")):
        if log:
            getattr(axes, f"set_{scale}scale")("log", nonpositive="mask")
    conventional = _conventional(plot["lines"])
    series = []
    for i, name in enumerate((*plot["lines"], *plot["points"])):
        is_line = i < len(plot["lines"])
        look: dict[str, Any] = (
            {"linestyle": _DASHES[i % len(_DASHES)], "linewidth": 1.7}
            if is_line
            else {
                "linestyle": "none",
                "marker": _MARKERS[(i - len(plot["lines"])) % len(_MARKERS)],
                "markersize": 5,
                "markeredgewidth": 0,
            }
        )
        data = _pairs(xs, _column(table, name), plot["log_y"])
        if data:
            look["color"] = COLORS[i % len(COLORS)]
            look |= conventional.get(name, {})
            if f"{name}, low" in table["columns"]:
                _band(axes, table, name, xs, plot["log_y"], look["color"])
            axes.plot(*zip(*data, strict=True), **look)
            series.append((name, data[-1][1], look))
    _decorate(axes, plot, names, xs)
    left = _left_margin(axes)
    axes.set_position((left, 0.155, 0.73 - left, 0.81))
    _label_directly(axes, series)
    return figure


def _conventional(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The looks of series named "code, regularizer, ..." and of Lloyd; none that would make two
    series look the same."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        code, *rest = name.split(", ")
        if code in ("Lloyd", "one Lloyd step"):
            found[name] = {"color": NEUTRAL, "linestyle": "-"}
        elif code in _CODES:
            dashes = [_PENALTIES[word] for word in rest if word in _PENALTIES]
            found[name] = {
                "color": COLORS[_CODES[code]],
                "linestyle": _DASHES[dashes[-1] if dashes else 0],
            }
    looks = [tuple(look.values()) for look in found.values()]
    return {n: look for n, look in found.items() if looks.count(tuple(look.values())) == 1}


def _band(
    axes: Any, table: Mapping[str, Any], name: str, xs: list[float], log: bool, color: str
) -> None:
    """The band between the columns "NAME, low" and "NAME, high"."""
    ends = [_column(table, f"{name}, {end}") for end in ("low", "high")]
    low, high = (dict(_pairs(xs, end, log)) for end in ends)
    both = sorted(set(low) & set(high))
    axes.fill_between(
        both, [low[x] for x in both], [high[x] for x in both], color=color, alpha=0.18, linewidth=0
    )


def _left_margin(axes: Any) -> float:
    """Room for the tick labels and the axis label, as a share of the figure."""
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    places, labels = axes.get_yticks(), axes.get_yticklabels()
    shown = [t.get_text() for v, t in zip(places, labels, strict=True) if low <= v <= high]
    lines = axes.get_ylabel().count("\n") + 1 if axes.get_ylabel() else 0
    inches = 0.2 + 0.17 * lines + 0.075 * max(map(len, shown), default=1)
    return inches / _WIDTH


def _decorate(axes: Any, plot: Mapping[str, Any], names: list[str], xs: list[float]) -> None:
    axes.set_xlabel(typeset(plot["x_label"] or plot["x"]))
    axes.set_ylabel(textwrap.fill(typeset(plot["y_label"]), 36))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=NEUTRAL, alpha=0.22, linewidth=0.7)
    axes.tick_params(length=3, width=0.8)
    axes.margins(x=0.03)
    for axis, log in ((axes.xaxis, plot["log_x"] and not names), (axes.yaxis, plot["log_y"])):
        axis.set_major_formatter(FuncFormatter(lambda v, _: _tick(v)))
        if log:
            low, high = sorted(axis.get_view_interval())
            few = high / low < 150
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
            axis.set_minor_formatter(NullFormatter())
    if names:
        axes.xaxis.set_major_locator(FixedLocator(range(len(names))))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda v, _: names[int(v)] if 0 <= int(v) < len(names) else "")
        )
        if max(map(len, names)) * len(names) > 50:
            axes.tick_params(axis="x", rotation=20)


def _tick(value: float) -> str:
    """A number for an axis: short, so a large or small power of ten is a power."""
    text = f"{value:.6g}"
    mantissa, _, exponent = f"{float(text):e}".partition("e")
    if float(mantissa) == 1 and not -4 <= int(exponent) <= 5:
        return "10" + superscript(int(exponent))
    return number(float(text))


@dataclass
class _Label:
    """The name of a series, and where it goes: heights are shares of the axes."""

    text: str
    look: dict[str, Any]
    place: float

    @property
    def half(self) -> float:
        return 0.026 * (self.text.count("\n") + 1) + 0.0125


def _label_directly(axes: Any, series: list[tuple[str, float, dict[str, Any]]]) -> None:
    """The name of each series beside its last value, with a sample of its line or marker."""
    to_axes = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    labels = [
        _Label(
            textwrap.fill(typeset(name), _LABEL_CHARACTERS),
            look,
            float(to_axes.transform((x, last))[1]),
        )
        for name, last, look in series
    ]
    labels.sort(key=lambda label: -label.place)
    ceiling = 1.04
    for label in labels:  # downwards: none in another's place
        label.place = min(label.place, ceiling - label.half)
        ceiling = label.place - label.half
    floor = 0.0
    for label in reversed(labels):  # and up again: none below the axes
        label.place = max(label.place, floor + label.half)
        floor = label.place + label.half
    options = {"transform": axes.transAxes, "clip_on": False}
    for label in labels:
        xs = [1.025, 1.07] if "linewidth" in label.look else [1.0475]
        axes.add_artist(Line2D(xs, [label.place] * len(xs), **options, **label.look))
        axes.text(1.085, label.place, label.text, va="center", linespacing=1.15, **options)


def _column(table: Mapping[str, Any], name: str) -> list[Any]:
    i = list(table["columns"]).index(name)
    return [row[i] for row in table["rows"]]


def _positions(values: list[Any], log: bool) -> tuple[list[float], list[str]]:
    """Numbers, or places 0, 1, ... and their names where the column is not numeric."""
    numbers = [_float(v) for v in values]
    if all(math.isfinite(v) and (v > 0 or not log) for v in numbers):
        return numbers, []
    names = list(dict.fromkeys(number(v) for v in values))
    return [float(names.index(number(v))) for v in values], names


def _pairs(xs: list[float], values: list[Any], log: bool) -> list[tuple[float, float]]:
    """Points that can be drawn, by x."""
    ys = [_float(v) for v in values]
    good = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(y) and (y > 0 or not log)]
    return sorted(good, key=lambda pair: pair[0])


def _float(value: Any) -> float:
    parsed = decimal(value)
    return math.nan if parsed is None else float(parsed)
