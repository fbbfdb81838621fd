"""conform: put somebody's implementation to the test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from constructions import InputError
from verify.claim import Case
from verify.commands import _wild
from verify.conformance import examine as look
from verify.conformance.declaration import Declaration, NoAnswerError
from verify.conformance.engine import (
    ANSWERS,
    EXPECTED,
    TIMEOUT,
    UNEXPECTED,
    Records,
    conformance,
    read_expected,
    replay,
)
from verify.conformance.examine import Record, told
from verify.conformance.reproduce import script
from verify.console import CommandError, Exit, print_json
from verify.files import write_atomically


@click.command("conform")
@click.argument("implementation", metavar="PACKAGE.MODULE:OBJECT", required=False)
@click.option(
    "--as",
    "role",
    metavar="ROLE",
    default="",
    help="Its role, if its parameters do not "
    "tell: lloyd_step, transformer, attention, weights, surrogate, sampler.",
)
@click.option("--library", default="", help="Arrays it takes: numpy, torch, jax, lists.")
@click.option("--dtype", default="", help="Widest type it computes in: float64, float32.")
@click.option("--ties", default="", help="Where tied points go: lowest, highest, average, any.")
@click.option("--empty", default="", help="Empty clusters: raise, keep, nan, relocate, any.")
@click.option(
    "--kind",
    default="",
    help="Of weights: softmax, sparsemax, entmax 1.5; of a sampler: its family, such as normal.",
)
@click.option(
    "--expect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='TOML file with expected failures: property = "reason".',
)
@click.option("--only", default="", metavar="PROPERTY", help="Judge one property.")
@click.option(
    "--cases",
    type=click.IntRange(1),
    default=look.CASES,
    show_default=True,
    help="Cases a property is tried on.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=TIMEOUT,
    show_default=True,
    help="Seconds a property may take.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write records.json, and a case and a script for each violation.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option("--recorded", "as_recorded", is_flag=True,
              help="What was found about public libraries, as committed.")  # fmt: skip
@click.option("--renew", type=click.Path(path_type=Path), metavar="FILE",
              help="Judge the public libraries that are installed; write FILE.")  # fmt: skip
def conform_command(
    implementation: str | None,
    role: str,
    library: str,
    dtype: str,
    ties: str,
    empty: str,
    kind: str,
    expect: Path | None,
    only: str,
    cases: int,
    timeout: float,
    out: Path | None,
    as_json: bool,
    as_recorded: bool,
    renew: Path | None,
) -> int:
    """Put an implementation of your own to the test: a Lloyd step, a transformer, attention,
    weights, a smoothed minimum, or a sampler of tasks.

    It is called with arrays of the library that it takes and judged by the properties of its role.
    What violates one is shrunk to the smallest case and explained by what it equals. The working
    directory is importable. docs/implementations.md explains every line.

    \b
    Examples:
      leanlloyd conform mine.py:step
      leanlloyd conform mypackage.kmeans:KMeansLayer --as transformer --json
      leanlloyd conform mine.py:step --ties any --expect expected.toml --out found
      leanlloyd replay mine.py:step found/ties.json
      leanlloyd conform --recorded
      leanlloyd conform --renew reports/implementations.json

    Exit codes: 0 all properties hold, or fail as expected; 1 one is violated; 2 usage.
    """
    if (implementation is not None) + as_recorded + (renew is not None) != 1:
        raise CommandError("name one implementation, or --recorded, or --renew FILE")
    if as_recorded:
        return _wild.show(as_json)
    if renew is not None:
        return _wild.renew(renew, cases, as_json)
    try:
        given = Declaration(role, library, dtype, ties, empty, kind)
        expected = read_expected(expect) if expect is not None else {}
        records = conformance(
            implementation,
            declaration=given,
            expect=expected,
            timeout=timeout,
            only=only,
            cases=cases,
            on_record=lambda record: click.echo(f"[{record.property}] {record.outcome}", err=True),
        )
    except InputError as error:
        raise CommandError(str(error)) from None
    if out is not None:
        _write(records, out)
    if as_json:
        print_json(records.to_json())
    else:
        _print(records)
    return int(Exit.OK if records.ok else Exit.FAILED)


COMMANDS = (conform_command,)


def replay_implementation(name: str, property_name: str | None, text: str, as_json: bool) -> int:
    """Judge one case of an implementation again: what `replay` does for a name with a colon.

    `text` is a case as JSON, or a file: a case, or one that `conform --out` wrote.
    """
    data, declaration = _read_case(text), Declaration()
    if "case" in data:
        said = data.get("declaration", {})
        declaration = Declaration(**{k: v for k, v in said.items() if v not in ("", None)})
        property_name = property_name or data.get("property")
        data = data["case"]
    if not property_name:
        raise CommandError("say which property the case is about: --property NAME")
    try:
        record = replay(name, property_name, Case.from_json(data), declaration)
    except (InputError, NoAnswerError) as error:
        raise CommandError(str(error)) from None
    if as_json:
        print_json(record.to_json())
    else:
        for line in told(record)[1:]:
            click.echo(line)
        note = f": {record.message}" if record.message else ""
        click.echo(f"{record.property}: {record.outcome}{note}")
    return int(Exit.FAILED if record.outcome == look.VIOLATED else Exit.OK)


def _read_case(text: str) -> dict[str, Any]:
    source = text
    if not text.lstrip().startswith("{"):
        try:
            source = Path(text).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{text}: cannot be read: {error}") from None
    try:
        data = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"not a case: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("case", {}), dict):
        raise CommandError("not a case: expected an object with the fields of a case")
    return data


def _print(records: Records) -> None:
    d = records.declaration
    rules = [f"ties {d.ties}"] * bool(d.ties) + [f"empty clusters {d.empty}"] * bool(d.empty)
    known = [d.role, d.library, d.dtype, d.kind, *rules, *(["batches"] * bool(d.batches))]
    click.echo(f"{records.name}: {', '.join(k for k in known if k) or 'no answer'}\n")
    width = max(len(r.property) for r in records)
    idle = [r for r in records if r.message.startswith("not judged")]
    for record in records:
        if record not in idle:
            line = f"  {record.property:<{width}}  {records.status(record):<11}"
            click.echo(f"{line}  {_detail(records, record)}".rstrip())
    if idle:
        click.echo(f"  {len(idle)} more {idle[0].message}")
    shown: set[tuple[str, str]] = set()
    for record in records:
        cause = (record.sort, record.message)
        if records.status(record) == look.VIOLATED and not (record.message and cause in shown):
            shown.add(cause)
            _explain(records, record)
    words = {look.HOLDS: "hold", EXPECTED: "fail as expected", UNEXPECTED: "unexpectedly hold"}
    counts = ", ".join(f"{n} {words.get(status, status)}" for status, n in records.counts.items())
    total = len(records.records)
    click.echo(f"\n{total} {'property' if total == 1 else 'properties'}: {counts}")


def _explain(records: Records, record: Record) -> None:
    """The smallest case of a violation, both answers, and how to see it again."""
    click.echo(f"\n{record.property}: {record.says}")
    for line in told(record):
        click.echo(f"  {line}")
    if record.case is not None and record.property != ANSWERS:
        case = json.dumps(record.case.to_json())
        click.echo(
            f"  again: leanlloyd replay {records.name} --property {record.property} '{case}'"
        )


def _detail(records: Records, record: Record) -> str:
    if record.property in records.expected:
        return records.expected[record.property]
    if record.outcome == look.UNSUPPORTED:
        return record.message
    if record.outcome == look.VIOLATED:
        return record.sort + (f": {record.message}" if record.message else "")
    aside = f", {record.excluded} left to other properties" if record.excluded else ""
    return f"checked on {record.cases} case{'s' * (record.cases != 1)}{aside}"


def _write(records: Records, folder: Path) -> None:
    try:
        text = json.dumps(records.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(folder / "records.json", text + "\n")
        for record in records:
            if record.outcome == look.VIOLATED and record.case is not None:
                found = {
                    "implementation": records.name,
                    "property": record.property,
                    "declaration": records.declaration.to_json(),
                    "case": record.case.to_json(),
                }
                place = folder / f"{record.property}.json"
                write_atomically(place, json.dumps(found, indent=1) + "\n")
                program = script(records, record)
                if program:
                    write_atomically(folder / f"{record.property}.py", program)
    except OSError as error:
        raise CommandError(
            f"cannot write {error.filename}: {error.strerror}", Exit.INFRASTRUCTURE
        ) from None
