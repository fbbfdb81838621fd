"""Public libraries: `leanlloyd conform --renew` judges them, and the report shows what was found.

The report must not depend on what is installed. So it shows the records of `reports/
implementations.json` (or of the installed package), with versions, platform and day.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from verify.case import to_json
from verify.conformance import examine as look
from verify.conformance.engine import conformance
from verify.conformance.examine import Record
from verify.conformance.property import Sort
from verify.conformance.wild import Adapter

NOT_INSTALLED = "not installed"
DOCUMENTED = "documented limitation"
SECONDS = 60.0
"""Seconds that one property, or an import, may take: long, as the records of a busy machine must be
those of an idle one."""


def place() -> Path:
    """The file of the records: the checkout's, else the copy in the package."""
    here = Path(__file__).resolve().parent
    checkout = here.parent.parent / "reports" / "implementations.json"
    return checkout if checkout.exists() else here / "implementations.json"


def recorded() -> dict[str, Any] | None:
    """The records that were kept; None if there are none."""
    file = place()
    return dict(json.loads(file.read_text("utf-8"))) if file.exists() else None


def renewed(
    wanted: Iterable[Adapter],
    cases: int = look.CASES,
    seconds: float = SECONDS,
    progress: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Judge what is installed of `wanted`, with where and when, for JSON."""
    rows = []
    for adapter in wanted:
        rows.append(judge(adapter, cases, seconds))
        counts = ", ".join(f"{n} {status}" for status, n in rows[-1]["counts"].items())
        progress(f"{adapter.id}: {counts or NOT_INSTALLED}")
    return {
        "day": datetime.now(UTC).date().isoformat(),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
        },
        "cases": cases,
        "implementations": rows,
    }


def judge(adapter: Adapter, cases: int = look.CASES, seconds: float = SECONDS) -> dict[str, Any]:
    """One library's function: what it is, and a row for each property."""
    about = {
        "id": adapter.id,
        "target": adapter.target,
        "title": adapter.title,
        "package": adapter.package,
        "version": adapter.version,
        "note": adapter.note,
    }
    if adapter.version is None:
        return about | {"declaration": {}, "counts": {}, "records": []}
    found = conformance(adapter.target, cases=cases, timeout=seconds, only=adapter.only)
    return about | {
        "declaration": found.declaration.to_json(),
        "counts": found.counts,
        "records": [_row(record, adapter) for record in found],
    }


def _row(record: Record, adapter: Adapter) -> dict[str, Any]:
    """A record in short. A limit that the library documents is called that, whatever it equals."""
    row: dict[str, Any] = {
        "property": record.property,
        "says": record.says,
        "outcome": record.outcome,
        "cases": record.cases,
    }
    where = adapter.documented.get(record.property)
    if record.outcome == look.HOLDS:
        return row
    cause, message = record.sort, record.message
    if record.property == "nan-points" and record.case is not None:
        # the formulas that explain numbers say nothing about NaN
        cause, message = Sort.CONVENTION, "NaN in the points is passed over, and not said"
    if record.property == "empty-clusters" and not message and _at_origin(record):
        message = "an empty cluster becomes the origin"
    if where:
        cause, message = DOCUMENTED, where
    row |= {"cause": str(cause), "message": message}
    if record.outcome == look.VIOLATED:
        row |= {
            "case": None if record.case is None else record.case.to_json(),
            "answers": to_json(record.answers),
        }
    return row


def _at_origin(record: Record) -> bool:
    found, right = record.answers.get("implementation", []), record.answers.get("Lloyd", [])
    return any(not any(f) and any(r) for f, r in zip(found, right, strict=False))


def where(record: dict[str, Any]) -> str:
    """One clause that says where and when."""
    m = record["machine"]
    return (
        f"judged on {record['day']} on {m['system']}, Python {m['python']}, "
        f"on up to {record['cases']} cases a property"
    )


def findings(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Violations of all implementations, in order, each with the implementation's title."""
    return [
        {"implementation": i["title"], "id": i["id"], "target": i["target"], **row}
        for i in record["implementations"]
        for row in i["records"]
        if row["outcome"] == look.VIOLATED
    ]
