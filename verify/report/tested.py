"""The records about public libraries in the shape of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verify.conformance.recorded import NOT_INSTALLED, findings, where
from verify.report.text import exact, shown, typeset


def tested(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A table of what was judged, and a card for each finding; None if there is no record."""
    if record is None:
        return None
    rows = [
        [
            i["title"],
            i["package"],
            i["version"] or NOT_INSTALLED,
            i["declaration"].get("role") or "",
            i["declaration"].get("dtype") or "",
            str(i["counts"].get("holds", 0)),
            ", ".join(_causes(i)) or "–",
            str(i["counts"].get("unsupported", 0)),
        ]
        for i in record["implementations"]
    ]
    columns = [
        "implementation",
        "package",
        "version",
        "role",
        "type",
        "hold",
        "found",
        "unsupported",
    ]
    return {
        "where": where(dict(record)),
        "table": {
            "title": "Implementations tested",
            "columns": columns,
            "cells": rows,
            "numeric": [c in ("hold", "unsupported") for c in columns],
        },
        "findings": [_finding(f) for f in findings(dict(record))],
    }


def _causes(implementation: Mapping[str, Any]) -> list[str]:
    return [f"{r['property']} ({r['cause']})" for r in implementation["records"] if "case" in r]


def _finding(found: Mapping[str, Any]) -> dict[str, Any]:
    case = found["case"] or {}
    return {
        **found,
        "case": case,
        "lines": [(typeset(name), exact(value)) for name, value in case.items()],
        "results": [(name, shown(value)) for name, value in found["answers"].items()],
        "again": f"leanlloyd conform {found['target']} --only {found['property']}",
    }
