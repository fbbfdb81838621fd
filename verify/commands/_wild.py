"""Public libraries in `leanlloyd conform`: the records that were kept, and new ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from verify.conformance.recorded import NOT_INSTALLED, findings, recorded, renewed, where
from verify.conformance.wild import adapters
from verify.console import CommandError, Exit, print_json
from verify.files import write_atomically


def show(as_json: bool) -> int:
    """The records that come with the project."""
    record = recorded()
    if record is None:
        raise CommandError("no records are kept; `leanlloyd conform --renew FILE` makes them")
    _print(record, as_json)
    return int(Exit.OK)


def renew(out: Path, cases: int, as_json: bool) -> int:
    """Judge all adapters whose library is installed, and write the records to `out`."""
    record = renewed(adapters(), cases, progress=lambda line: click.echo(f"[{line}]", err=True))
    try:
        write_atomically(out, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise CommandError(f"cannot write {out}: {error.strerror}", Exit.INFRASTRUCTURE) from None
    _print(record, as_json)
    return int(Exit.OK)


def _print(record: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(record)
        return
    click.echo(where(record) + "\n")
    width = max((len(i["id"]) for i in record["implementations"]), default=0)
    for i in record["implementations"]:
        counts = ", ".join(f"{n} {status}" for status, n in i["counts"].items())
        told = f"{i['package']} {i['version']}: {counts}" if i["version"] else NOT_INSTALLED
        click.echo(f"{i['id']:<{width}}  {told}")
    for f in findings(record):
        told = f"{f['cause']}: {f['message']}" if f["message"] else f["cause"]
        click.echo(f"\n{f['implementation']}, {f['property']}: {f['says']}\n  {told}")
        for name, value in [*(f["case"] or {}).items(), *f["answers"].items()]:
            click.echo(f"  {name}: {_plain(value)}")


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "(" + ", ".join(map(_plain, value)) + ")"
    return str(value)
