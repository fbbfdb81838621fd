"""Tables of evidence, and how to draw them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verify.case import from_json


@dataclass(frozen=True)
class Table:
    """Measured rows for the report, with an optional plot of them.

    Attributes
    ----------
    name : file-name-safe name
    title : caption
    columns : names, with units where there are any
    rows : lists as long as `columns`
    plot : None, or how to draw it
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[list[Any]]
    plot: Plot | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Table:
        """What `to_json` made of a table."""
        plot = data["plot"]
        return cls(
            data["name"],
            data["title"],
            tuple(data["columns"]),
            from_json(data["rows"]),
            plot and Plot.from_json(plot),
        )


@dataclass(frozen=True)
class Plot:
    """Columns to draw: `x` against each of `lines` (bounds, drawn as lines) and `points`
    (measured, drawn as markers); or else `cells` as a heat map, whose rows are named by `x`."""

    x: str
    lines: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    caption: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plot:
        """What `to_json` made of a plot; an older one may lack `cells`."""
        names = {name: tuple(data.get(name, ())) for name in ("lines", "points", "cells")}
        return cls(**{**data, **names})
