"""The report in Markdown, for reading on a code host, and the status table of the README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from verify.report import text, views
from verify.report.formulas import for_code_host

BEGIN, END = "<!-- status:begin -->", "<!-- status:end -->"

_SPECIAL = re.compile(r"([\\`*_|<>\[\]~$#])")
_LONGEST_BOUND = 140


def render_markdown(view: Mapping[str, Any]) -> str:
    """The Markdown report for a view made by `views.page`."""
    environment = Environment(
        loader=PackageLoader("verify.report", "templates"),
        autoescape=False,  # it is Markdown; `prose` escapes
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "prose": prose,
        "sentence": text.sentence,
        "count": text.count,
        "clip": text.shorten,
        "tex": for_code_host,
        "math": math,
        "html": lambda value: escape(text.plain(value), quote=False),
        "url": lambda value: quote(value, safe="/#.-_"),
        "alt": lambda value: _SPECIAL.sub(r"\\\1", text.plain(value)),
        "overview": overview,
        "card": _card,
        "rows": _rows,
    }
    page = environment.get_template("report.md").render(**view)
    return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"


def status_table(ledger: Mapping[str, Any], report: str = "reports/report.md") -> str:
    """A Markdown table of all claims: verdict, bound, worst measured, ratio.

    `report` is where the claims' names link to; "" for a table inside the report itself.
    """
    rows = [
        {
            "id": row["id"],
            "title": row["title"],
            "verdict": row["verdict"],
            "symbol": views.symbol(row["verdict"]),
            "bound": row["bound"],
            "measured": text.number(row["result"]["measured"]),
            "ratio": views.ratio_text(row),
        }
        for row in ledger["claims"]
    ]
    return overview(rows, report)


def update_readme(readme: str, ledger: Mapping[str, Any]) -> str:
    """The README with a fresh status table between its markers.

    Raises ValueError when the markers are missing or out of order.
    """
    start, stop = readme.find(BEGIN), readme.find(END)
    if start < 0 or stop < start:
        raise ValueError(f"the README needs a line {BEGIN} and, below it, a line {END}")
    return readme[: start + len(BEGIN)] + "\n" + status_table(ledger) + "\n" + readme[stop:]


def overview(claims: Iterable[Mapping[str, Any]], report: str = "") -> str:
    """The table of some claims."""
    lines = [
        "| Claim | Verdict | Bound | Worst measured | Ratio |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    for c in claims:
        bound = "–"
        if c["bound"]:
            long = len(c["bound"]) > _LONGEST_BOUND
            bound = f"[in the report]({report}#{c['id']})" if long else math(c["bound"])
        cells = [
            f"[{c['id']}]({report}#{c['id']})<br>{prose(c['title'])}",
            f"{c['symbol']} {c['verdict']}".replace(" ", "\u00a0"),
            bound,
            prose(text.shorten(c["measured"], 24)),
            c["ratio"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def prose(value: str) -> str:
    """A sentence with everything escaped that Markdown or a table would take for markup."""
    return "".join(_piece(kind, piece) for kind, piece in text.spans(" ".join(value.split())))


def math(tex: str) -> str:
    """A formula within a line, in the form whose content Markdown leaves alone."""
    return f"$`{for_code_host(tex)}`$"


def _piece(kind: str, piece: str) -> str:
    if kind == "code":
        return "`" + piece.replace("|", "\\|") + "`"
    if kind == "tex":
        return math(piece)
    parts = re.split(r"(</?su[bp]>)", text.with_indices(piece))
    return "".join(part if i % 2 else _SPECIAL.sub(r"\\\1", part) for i, part in enumerate(parts))


def _card(card: Mapping[str, Any]) -> str:
    """A counterexample as plain lines for a fenced block."""
    about = f" (the variant: {text.typeset(card['variant'])})" if card["variant"] else ""
    lines = [f"{card['heading']}{about}", f"case {card['id']}, found by {card['check']}", ""]
    lines += [f"{name} = {value}" for name, value in card["lines"]]
    width = max((len(name) for name, _ in card["results"]), default=0)
    lines += ["", *(f"{name:<{width}}  {value}" for name, value in card["results"])]
    if card["measured"]:
        lines += ["", f"measured {card['measured']}, bound {card['bound']}"]
    lines += [text.typeset(card["note"])] if card["note"] else []
    if card["replay"]:
        lines += ["", card["replay"] + (" --script" if card["script"] else "")]
    fenced = "\n".join(lines).replace("```", "'''")
    return re.sub(r"\n{3,}", "\n\n", fenced)


def _rows(table: Mapping[str, Any]) -> str:
    rule = ["---:" if numeric else "---" for numeric in table["numeric"]]
    rows = [[prose(c) for c in table["columns"]], rule]
    rows += [[prose(cell) for cell in row] for row in table["cells"]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
