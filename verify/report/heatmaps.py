"""Heat maps of evidence tables: a matrix in shades, dark where values are large.

Rows whose names differ in a number at the end only ("normal 1", "normal 2") belong to a block, and
blocks are named and set apart. Rows named by numbers make an axis. A small matrix has its numbers
written into its cells.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, NullFormatter

from verify.report.text import decimal, number, typeset

PALETTE = "cividis_r"
"""Even steps of lightness, and the same for color-blind readers; legible on light and on dark."""

_SIDE, _LEFT, _RIGHT, _TOP = 3.6, 0.95, 1.15, 0.1  # inches
SHADES = 32
_WRITTEN = 8  # columns of the widest matrix with numbers in its cells


def draw(table: Mapping[str, Any]) -> Figure:
    """The figure of a table whose plot has `cells`: its first row on top."""
    plot = table["plot"]
    columns = list(table["columns"])
    names = [str(row[columns.index(plot["x"])]) for row in table["rows"]]
    picked = [columns.index(name) for name in plot["cells"]]
    values = np.array([[_float(row[i]) for i in picked] for row in table["rows"]])
    rows, cols = values.shape
    width, height, bottom = _SIDE, _SIDE * min(1.0, rows / cols), 0.5 if plot["x_label"] else 0.3
    figure = Figure(figsize=(_LEFT + width + _RIGHT, bottom + height + _TOP))
    FigureCanvasSVG(figure)

    def place(left: float, across: float) -> Any:
        w, h = figure.get_size_inches()
        return figure.add_axes((left / w, bottom / h, across / w, height / h))

    axes = place(_LEFT, width)
    norm = _scale(values, plot["log_y"])
    palette = colormaps[PALETTE].resampled(SHADES)
    _paint(axes, values, norm, palette)
    axes.set(xlim=(0, cols), ylim=(rows, 0))
    _name(axes, "y", names)
    _name(axes, "x", list(plot["cells"]))
    if plot["x_label"]:
        axes.set(xlabel=typeset(plot["x_label"]), ylabel=typeset(plot["x"]))
    if cols <= _WRITTEN:
        _write(axes, values, norm)
    bar: Any = figure.colorbar(ScalarMappable(norm, palette), cax=place(_LEFT + width + 0.18, 0.16))
    bar.solids.set(rasterized=False, edgecolors="face", linewidth=0.3)
    bar.outline.set_linewidth(0.8)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: number(float(f"{v:.3g}"))))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.set_label(typeset(plot["y_label"]))
    return figure


def _scale(values: Any, log: bool) -> Normalize:
    good = values[np.isfinite(values) & ((values > 0) | (not log))]
    low, high = (float(good.min()), float(good.max())) if good.size else (1.0, 1.0)
    return LogNorm(low, high) if log else Normalize(low, high)


def _paint(axes: Any, values: Any, norm: Normalize, palette: Any) -> None:
    """All cells of one shade as one shape, which makes files a third as long. Without strokes in
    the color of the cells, renderers would show the page between them."""
    shades = np.full(values.shape, -1)
    drawn = np.isfinite(values) & ((values > 0) | (not isinstance(norm, LogNorm)))
    shades[drawn] = np.minimum(norm(values[drawn]) * SHADES, SHADES - 1).astype(int)
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])
    for shade in sorted(set(shades[drawn].tolist())):
        places = np.argwhere(shades == shade)[:, ::-1]
        cells = [Path(corners + place, closed=True) for place in places]
        shape, color = Path.make_compound_path(*cells), palette(shade)
        axes.add_patch(PathPatch(shape, facecolor=color, edgecolor=color, linewidth=0.3))


def _name(axes: Any, which: str, names: Sequence[str]) -> None:
    """Tick labels: an axis of numbers, or one label a block, with lines between the blocks."""
    axis = getattr(axes, f"{which}axis")
    axis.set_tick_params(length=0)
    if len(names) > 1 and all(math.isfinite(_float(name)) for name in names):
        chosen = sorted({round(i * (len(names) - 1) / 4) for i in range(5)})
        axis.set_ticks([i + 0.5 for i in chosen], [typeset(number(names[i])) for i in chosen])
        return
    sizes = [
        (b, len(list(g))) for b, g in itertools.groupby(re.sub(r" \d+$", "", n) for n in names)
    ]
    ends = list(itertools.accumulate(size for _, size in sizes))
    middles = [end - size / 2 for end, (_, size) in zip(ends, sizes, strict=True)]
    axis.set_ticks(middles, [typeset(block) for block, _ in sizes])
    line = axes.axvline if which == "x" else axes.axhline
    for end in ends[:-1] if len(ends) < len(names) else ():
        line(end, color="white", linewidth=1.2)


def _write(axes: Any, values: Any, norm: Normalize) -> None:
    for (i, j), value in np.ndenumerate(values):
        if math.isfinite(value):
            ink = "white" if norm(value) > 0.5 else "black"
            text = number(float(f"{value:.2g}"))
            axes.text(j + 0.5, i + 0.5, text, color=ink, ha="center", va="center")


def _float(value: Any) -> float:
    parsed = decimal(value)
    return math.nan if parsed is None else float(parsed)
