"""The page: one HTML file with everything inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from verify.report import figures, text, views
from verify.report.formulas import Formulas
from verify.report.pictures import picture

FIRST_FINDINGS = 6
"""How many findings the first screen shows before the rest is folded away."""

WIDEST_CELL = 24.0
"""Width in em of the widest formula that an overview table shows; it is drawn smaller there."""


def render_html(view: Mapping[str, Any]) -> str:
    """The page for a view made by `views.page`."""
    formulas = Formulas()
    environment = Environment(
        loader=PackageLoader("verify.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )

    def prose(value: str) -> Markup:
        return Markup("").join(_piece(kind, piece, formulas) for kind, piece in text.spans(value))

    environment.filters |= {
        "prose": prose,
        "plain": text.plain,
        "tex": lambda tex: Markup(formulas.svg(tex)),
        "cell": lambda claim: _cell(claim, formulas),
        "num": text.number,
        "count": text.count,
        "clip": text.shorten,
        "capital": _capital,
        "sentence": _sentence,
        "cite": _cite,
        "verdict": _verdict,
        "figure": _figure,
        "picture": lambda case, answers: Markup(picture(case, answers)),
    }
    environment.globals |= {"sheet": lambda: Markup(formulas.sheet()), "first": FIRST_FINDINGS}
    style = resources.files("verify.report").joinpath("templates/style.css").read_text("utf-8")
    page = environment.get_template("report.html").render(**view, style=Markup(style))
    return page.strip() + "\n"


def _piece(kind: str, piece: str, formulas: Formulas) -> Markup:
    if kind == "code":
        return Markup("<code>{}</code>").format(piece)
    if kind == "tex":
        return Markup(formulas.svg(piece))
    return Markup(text.with_indices(str(escape(piece))))


def _cell(claim: Mapping[str, Any], formulas: Formulas) -> Markup:
    """The bound for a table cell; a formula too wide to be read there is left to the article."""
    if not claim["bound"]:
        return Markup("–")
    if formulas.width(claim["bound"]) > WIDEST_CELL:
        return Markup('<a href="#{}">see below</a>').format(claim["id"])
    return Markup(formulas.svg(claim["bound"]))


def _capital(value: str) -> str:
    changed = value[:1].upper() + value[1:] if value[1:2].isalpha() else value
    return Markup(changed) if isinstance(value, Markup) else changed


def _sentence(value: Markup) -> Markup:
    """A capital letter and a full stop around text that is markup already."""
    changed = text.sentence(str(value))
    return Markup(changed)


def _cite(paper: str) -> Markup:
    """The citation, with a link to the paper where it has an arXiv number."""
    link = Markup('<a href="https://arxiv.org/abs/{0}">arXiv:{0}</a>')
    parts = re.split(r"arXiv:(\d{4}\.\d{4,5})", paper)
    return Markup("").join(link.format(p) if i % 2 else escape(p) for i, p in enumerate(parts))


def _verdict(verdict: str) -> dict[str, str]:
    return {"verdict": verdict, "symbol": views.symbol(verdict), "group": views.group(verdict)}


def _figure(table: Mapping[str, Any], claim_id: str) -> Markup:
    name, content = table["figure"]
    label = text.plain(table["plot"]["caption"] or table["title"])
    prefix = re.sub(r"\W", "-", name.removeprefix("figures/").removesuffix(".svg"))
    return Markup(figures.inline(content, label, prefix))
