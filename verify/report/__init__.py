"""Ledger in, files out. Runs nothing."""

from __future__ import annotations

from typing import Any

from verify.ledger import dumps


def render(ledger: dict[str, Any], run: dict[str, Any]) -> dict[str, str | bytes]:
    return {"ledger.json": dumps(ledger), "run.json": dumps(run)}
