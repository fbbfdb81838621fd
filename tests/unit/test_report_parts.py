"""The parts of the report: numbers, sentences, formulas, figures and pictures."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pytest

from verify import claims
from verify.report import figures, formulas, heatmaps
from verify.report import text as words
from verify.report.pictures import picture

LINE = {"X": [["0"], ["1"], ["2"]], "C": [["0"], ["2"]], "code": "binary"}
TABLE: dict[str, Any] = {
    "name": "by-k",
    "title": "Gap by k",
    "columns": ["k", "bound", "measured"],
    "rows": [[2, "1/8", 0.12], [10, "9/40", 0.22], [100, 0.2475, None]],
    "plot": {
        "x": "k",
        "lines": ["bound"],
        "points": ["measured"],
        "x_label": "number of centers k",
        "y_label": "gap / tau",
        "log_x": True,
        "log_y": False,
        "caption": "The gap stays below the bound.",
    },
}


def test_a_figure_ignores_the_settings_of_the_user():
    plain = figures.svg_file(TABLE)
    with mpl.rc_context({"lines.linewidth": 9, "axes.facecolor": "red", "font.size": 30}):
        assert figures.svg_file(TABLE) == plain
    assert b"<dc:date>" not in plain
    assert b"Matplotlib" not in plain.replace(b"matplotlib.axis", b"")


def test_a_figure_shows_bounds_and_measured_values():
    drawing = figures.svg_file(
        TABLE | {"plot": TABLE["plot"] | {"x_label": "centers <k>"}}
    ).decode()
    assert "centers &lt;k&gt;" in drawing
    assert ">bound<" in drawing  # direct labels
    assert ">measured<" in drawing
    inline = figures.inline(drawing.encode(), "a < b", "p")
    assert "#777b80" not in inline
    assert 'aria-label="a &lt; b"' in inline


def heat_map(rows: list[list[Any]], **changes: Any) -> dict[str, Any]:
    names = [row[0] for row in rows]
    plot = {"x": "task", "lines": [], "points": [], "cells": names, "log_y": False}
    return TABLE | {
        "columns": ["task", *names],
        "rows": rows,
        "plot": TABLE["plot"] | plot | changes,
    }


def test_a_heat_map_shows_blocks_and_shades():
    names = [f"{family} {i}" for family in ("a", "b", "c") for i in (1, 2, 3)]
    rows = [[n, *(abs(i - j) for j in range(9))] for i, n in enumerate(names)]
    table = heat_map(rows, y_label="distance <u>")
    assert figures.drawable(table)
    assert not figures.drawable(table | {"columns": ["task", *names[:-1], "other"]})
    drawing = figures.svg_file(table).decode()
    assert drawing == figures.svg_file(table).decode()
    assert "distance &lt;u&gt;" in drawing
    assert [drawing.count(f">{block}<") for block in "abc"] == [2, 2, 2]  # below and to the left
    assert "<image" not in drawing
    assert drawing.count("stroke: #ffffff") == 4  # between blocks, both ways
    palette = {f"#{r:02x}{g:02x}{b:02x}" for r, g, b in _shades(9)}
    assert all(color in drawing for color in palette)  # nine distances, nine shades
    assert "#777b80" not in figures.inline(drawing.encode(), "m", "p")


def test_a_heat_map_of_numbers_and_of_missing_values():
    small = [["f", 0.00123, None], ["g", "1/2", 0]]
    drawing = figures.svg_file(heat_map(small)).decode()
    assert ">0.0012<" in drawing  # written into the cell
    assert ">0.5<" in drawing
    assert "stroke: #ffffff" not in drawing  # blocks of one need no lines
    log = figures.svg_file(heat_map([["f", 0.01, None], ["g", 1, 0]], log_y=True)).decode()
    assert "10⁻¹" in log or "0.1" in log
    grid = [[i / 10 - 1, *range(70, 91)] for i in range(21)]
    table = heat_map(grid) | {"columns": ["task", *(f"{i / 10 - 1:g}" for i in range(21))]}
    table["plot"] |= {"cells": table["columns"][1:]}
    drawing = figures.svg_file(table).decode()
    assert [drawing.count(f">{tick}<") for tick in ("−1", "−0.5", "0", "0.5", "1")] == [2] * 5
    assert ">−0.9<" not in drawing


def _shades(count: int) -> list[tuple[int, ...]]:
    palette = mpl.colormaps[heatmaps.PALETTE].resampled(heatmaps.SHADES)
    at = [min(int(i / (count - 1) * heatmaps.SHADES), heatmaps.SHADES - 1) for i in range(count)]
    return [tuple(round(255 * v) for v in palette(i)[:3]) for i in at]


def test_every_formula_of_every_claim_can_be_drawn():
    page = formulas.Formulas()
    for known in claims.all_claims():
        page.svg(known.statement)
        if known.bound:
            page.svg(known.bound)
    assert page.failed == []


def test_a_formula_is_drawn_once_and_named():
    page = formulas.Formulas()
    drawn = page.svg(r"\frac{1}{2}")
    assert page.svg(r"\frac{1}{2}") is drawn
    assert 'aria-label="\\frac{1}{2}"' in drawn
    assert "black" not in drawn
    assert (
        page.svg(r"\begin{nothing} < &") == r'<code class="tex">\begin{nothing} &lt; &amp;</code>'
    )
    assert page.failed == [r"\begin{nothing} < &"]


def test_tex_for_code_hosts_has_no_pipes_or_brackets():
    tex = formulas.for_code_host(r"\operatorname{Var}(|x| < \|y\|) > \operatorname*{arg\,min}_x")
    assert not set("|<>") & set(tex)
    assert r"\operatorname" not in tex


def test_pictures():
    line = picture(LINE, {"Lloyd": [["1/2"], ["2"]], "transformer": [["0"], ["2"]]})
    assert line.count("<circle") == 5  # three points, two centers
    assert line.count("<path") == 4  # two answers, two places each
    plane = {"X": [["0", "0"], ["1", "0"], ["1", "0"]], "C": [["0", "1"], [2, 0.5]]}
    answers = {"a": [["0", "0"], ["1", "1"]], "b": [["0", "0"], ["1", "0"]]}
    scatter = picture(plane, answers)
    assert "×2" in scatter
    assert scatter.count('class="link"') == 1  # only the second center differs
    deep = {"X": [["0", "0", "0"], ["1", "2", "3"]], "C": [["0", "0", "0"]]}
    assert "coordinate 3 of 3" in picture(deep, {"a": [["0", "0", "0"]], "b": [["0", "0", "5"]]})
    bars = picture({"r": ["0", "-1/2", "3"]}, {"weights": [0.2, 0.7, 0.1], "value": 2})
    assert bars.count("<rect") == 6
    assert picture({"k": 3}, {}) == ""
    assert picture({"X": [], "C": [["x"]]}, {}) == ""
    assert picture({"r": ["inf", "1"]}, {}) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "true"),
        (0, "0"),
        (-3, "−3"),
        (1234567, "1,234,567"),
        ("12", "12"),
        ("-1/2", "−1/2"),
        ("123456789/1000", "123,457"),
        ("1/" + "9" * 400, "1 × 10⁻⁴⁰⁰"),
        (10**80, "1 × 10⁸⁰"),
        (0.12345678, "0.1235"),
        (1.5, "1.5"),
        (2.0, "2"),
        (0.0000123456, "1.235 × 10⁻⁵"),
        (12345.678, "12,346"),
        ("inf", "∞"),
        ("0.27846454276107379510935873902280", "0.2785"),
        ("one_hot", "one_hot"),
        (["1/2", 2, None], "(1/2, 2, –)"),
    ],
)
def test_numbers_for_people(value, shown):
    assert words.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1", "1"),
        (1.0, "1"),
        ("8/9", "0.8889"),
        (0.99998, "0.99998"),
        (1.00004, "1.00004"),
        (0.9999999999, "1 − 1 × 10⁻¹⁰"),
        (1.000004, "1 + 4 × 10⁻⁶"),
        (3, "3"),
        (None, "–"),
        ("inf", "∞"),
    ],
)
def test_a_ratio_near_one_is_not_rounded_to_one(value, shown):
    assert words.ratio(value) == shown


@pytest.mark.parametrize(
    ("plain", "typeset"),
    [
        ("k <= 8", "k\u00a0≤\u00a08"),
        ("at most tau (k-1)/(4k)", "at most τ (k−1)/(4k)"),
        ("down to 1e-200, 8e-119", "down to 10⁻²⁰⁰, 8\u00a0×\u00a010⁻¹¹⁹"),
        ("d + ceil(log2 k)", "d + ⌈log₂ k⌉"),
        ('Lloyd\'s "own" pp. 3-4 ...', "Lloyd’s “own” pp. 3–4 …"),
        ("thm-2.1 and l2-zero-gap", "thm-2.1 and l2-zero-gap"),
        ("X = ((0), (1/2))", "X\u00a0=\u00a0(0, 1/2)"),
    ],
)
def test_typesetting(plain, typeset):
    assert words.typeset(plain) == typeset


def test_a_case_is_shown_exactly():
    long = "123456789/1000000007"
    assert words.case_line({"X": [[long], ["-1"]], "s": 0.1}) == f"X = ({long}, −1), s = 0.1"
