"""Measurements that were kept: written by `leanlloyd bench --out`, shown in the report.

Times differ from run to run, and a report must not. So it shows the measurements that stand in
`reports/data` (or in the installed package) with machine and day, and a claim about times judges
one of them.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from verify.claim import Table, from_json, to_json
from verify.experiments.results import reference


def machine(device: str = "cpu") -> dict[str, str]:
    """What a time depends on."""
    if device == "cuda":
        processor = torch.cuda.get_device_name()
    else:
        processor = f"{_processor()}, {os.cpu_count()} logical cores"
    return {
        "processor": processor,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def to_record(tables: Sequence[Table], rounds: int, device: str = "cpu") -> dict[str, Any]:
    """Tables with where, when and how they were measured, for JSON."""
    return {
        "machine": machine(device),
        "day": datetime.now(UTC).date().isoformat(),
        "rounds": rounds,
        "tables": [_plain(table) for table in tables],
    }


def recorded(name: str) -> dict[str, Any] | None:
    """The measurement in `reports/data/<name>.json`, its tables by name; None if there is none."""
    file = reference() / f"{name}.json"
    if not file.exists():
        return None
    record = dict(json.loads(file.read_text("utf-8")))
    record["tables"] = {
        t["name"]: Table(t["name"], t["title"], tuple(t["columns"]), from_json(t["rows"]))
        for t in record["tables"]
    }
    return record


def kept() -> list[dict[str, Any]]:
    """All measurements in `reports/data`, in the order of their names: where and when each was
    made, and its tables."""
    records = [recorded(file.stem) for file in sorted(reference().glob("*.json"))]
    return [
        {"where": where(record), "tables": [_plain(t) for t in record["tables"].values()]}
        for record in records
        if record is not None
    ]


def _plain(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "columns": list(table.columns),
        "rows": to_json(table.rows),
    }


def where(record: dict[str, Any]) -> str:
    """One clause that says where and when."""
    m = record["machine"]
    return (
        f"measured on {record['day']} on {m['processor']}, {m['system']}, Python {m['python']}, "
        f"torch {m['torch']}, {record['rounds']} rounds"
    )
