"""Ledger in, files out. Runs nothing.

`views` puts the ledger in the shape of a report; `html` and `markdown` decide how it looks;
`formulas`, `figures` and `pictures` draw. The same ledger and run give the same bytes.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from verify.ledger import dumps
from verify.report.html import render_html
from verify.report.markdown import render_markdown, status_table, update_readme
from verify.report.views import figure_files, page

__all__ = ["ledger_schema", "render", "status_table", "update_readme"]


def render(ledger: dict[str, Any], run: dict[str, Any]) -> dict[str, str | bytes]:
    """The files of a report.

    Parameters
    ----------
    ledger : what `verify.ledger.build` returned, or `ledger.json` read back
    run : what `verify.ledger.volatile` returned, or `run.json` read back; may be empty

    Returns
    -------
    Content by file name, relative to the report's folder.
    """
    ledger_text, run_text = dumps(ledger), dumps(run)
    view = page(json.loads(ledger_text), json.loads(run_text))
    return {
        "ledger.json": ledger_text,
        "run.json": run_text,
        "ledger.schema.json": _schema_text(),
        "report.md": render_markdown(view),
        "report.html": render_html(view),
        **dict(figure_files(view["ledger"]).values()),
    }


def ledger_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `ledger.json`."""
    schema: dict[str, Any] = json.loads(_schema_text())
    return schema


def _schema_text() -> str:
    return resources.files("verify.report").joinpath("ledger.schema.json").read_text("utf-8")
