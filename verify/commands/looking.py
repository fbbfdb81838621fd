"""list, show, replay: what is known, and one case again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from verify import handed, ledger
from verify.claim import Answer, Case, Claim, show, to_json
from verify.collection import OWN, Collection, installed
from verify.commands._shared import claim_named, of_collection, reference_ledger, short
from verify.console import CommandError, Exit, print_json


@click.command("list")
@of_collection
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def list_command(collection: Collection, as_json: bool) -> None:
    """All claims, with the verdict of the reference report.

    \b
    Examples:
      leanlloyd list
      leanlloyd list --json
      leanlloyd list --claims my_paper      (a package in this folder, or installed)
    """
    reference = reference_ledger(collection)
    verdicts = {row["id"]: row["verdict"] for row in reference["claims"]} if reference else {}
    stale = set(ledger.stale(reference, collection)) if reference else set()
    rows: list[dict[str, Any]] = [
        {
            "id": claim.id,
            "section": section,
            "title": claim.title,
            "verdict": verdicts.get(claim.id),
            "stale": claim.id in stale,
            "checks": [check.name for check in claim.checks],
        }
        for section, claim, *_ in collection.entries.values()
    ]
    if as_json:
        print_json(rows)
        return
    width = max(len(r["id"]) for r in rows)
    for section, heading in collection.about.sections.items():
        of_section = [r for r in rows if r["section"] == section]
        if of_section:
            click.echo(f"\n{heading}")
        for r in of_section:
            verdict = (r["verdict"] or "not run") + (" (stale)" if r["stale"] else "")
            click.echo(f"  {r['id']:<{width}}  {verdict:<18}  {r['title']}")
    others = [name for name in installed() if name != OWN]
    if collection.own and others:
        click.echo(f"\nInstalled besides: {', '.join(others)} (--claims NAME)")


@click.command("show")
@click.argument("claim_id", metavar="CLAIM")
@of_collection
@click.option("--latex", is_flag=True, help="Formulas in LaTeX, not in Unicode.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def show_command(claim_id: str, collection: Collection, latex: bool, as_json: bool) -> None:
    """What a claim says, where it stands, what would refute it, and what was found.

    \b
    Examples:
      leanlloyd show thm-2.1
      leanlloyd show sharp-gap-l2 --latex
      leanlloyd show sharp-gap-l2 --json
    """
    claim = claim_named(claim_id, collection)
    reference = reference_ledger(collection)
    row = next((r for r in reference["claims"] if r["id"] == claim_id), None) if reference else None
    if as_json:
        print_json(row or _outline(claim))
        return
    click.echo(f"{claim.id}: {claim.title}\n")
    click.echo(f"{claim.says}\n")
    formulas = [("statement", claim.statement), ("bound", claim.bound)]
    facts = formulas if latex else [(name, _in_unicode(tex)) for name, tex in formulas]
    facts += [("source", f"{s.document}, {s.place}") for s in claim.sources]
    facts += [("needs" if h.extra else "assumes", f"{h.name}: {h.says}") for h in claim.hypotheses]
    facts += [("refuted by", claim.falsify)]
    if claim.theory:
        facts += [("derivation", collection.entries[claim_id].theory + claim.theory)]
    for name, text in facts:
        click.echo(f"  {name:<11}{text}")
    if row is None:
        click.echo(
            f"\nNot in the reference report yet. Run: leanlloyd check{collection.option} {claim.id}"
        )
        return
    click.echo(f"\nVerdict: {row['verdict']}")
    for e in row["evidence"]:
        click.echo(f"  {e['check']} ({e['method']}): {e['sentence']}")
    result = row["result"]
    if result["measured"] is not None:
        click.echo(
            f"  worst measured {short(result['measured'])}, bound {short(result['bound'])}, "
            f"ratio {short(result['ratio'])}"
        )
    click.echo(f"\nAgain: {row['replay']}")


def _in_unicode(tex: str) -> str:
    from verify.report.terminal import in_unicode

    try:
        return in_unicode(tex)
    except Exception:  # of a claim from elsewhere: whatever the reader of TeX makes of it
        return tex


@click.command("replay")
@click.argument("claim_id", metavar="CLAIM")
@click.argument("case", metavar="CASE")
@of_collection
@click.option(
    "--ledger",
    "ledger_path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Where to look the case up  [default: the reference report]",
)
@click.option("--property", "property_name", help="Of an implementation: which property.")
@click.option(
    "--script",
    is_flag=True,
    help="Print a program that shows the case with the standard library alone.",
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def replay_command(
    claim_id: str,
    case: str,
    collection: Collection,
    ledger_path: Path | None,
    property_name: str | None,
    script: bool,
    as_json: bool,
) -> int:
    """Judge one case of a claim again.

    CASE is an id from the report, a JSON file, or JSON text with the fields of a case. With
    PACKAGE.MODULE:OBJECT in place of a claim, a case of an implementation under test.

    \b
    Examples:
      leanlloyd replay thm-2.1 '{"X": [["0"],["1"],["2"]], "C": [["0"],["2"]],
                                 "code": "binary", "steps": 1}'
      leanlloyd show thm-2.1          (its last line is a replay command with an id)
      leanlloyd replay mine.py:step found/ties.json
    """
    if ":" in claim_id:
        from verify.commands.conform import replay_implementation

        return replay_implementation(claim_id, property_name, case, as_json)
    claim = claim_named(claim_id, collection)
    if claim.measure is None:
        raise CommandError(
            f"claim {claim_id} is not about single cases; "
            f"`leanlloyd check{collection.option} {claim_id}` runs it"
        )
    found = _find_case(claim_id, case, collection, ledger_path)
    if script:
        text = ledger.script_for(claim, found)
        if not text:
            raise CommandError(f"claim {claim_id} has no stand-alone script")
        click.echo(text)
        return int(Exit.OK)
    try:
        hypotheses = {h.name: h.holds(found) for h in claim.hypotheses}
        answer, measured = claim.judge(found)
    except Exception as error:  # a case typed by hand can be wrong in any way
        raise CommandError(
            f"this case does not fit claim {claim_id}: {type(error).__name__}: {error}"
        ) from None
    if as_json:
        print_json(
            {
                "claim": claim_id,
                "id": found.id,
                "case": found.to_json(),
                "answer": answer,
                "measured": to_json(measured.value),
                "bound": to_json(measured.bound),
                "ratio": to_json(measured.ratio),
                "answers": to_json(measured.answers),
                "hypotheses": hypotheses,
            }
        )
    else:
        click.echo(f"case {found.id}: {found!r}")
        for name, holds in hypotheses.items():
            click.echo(f"  hypothesis {name!r}: {'holds' if holds else 'does not hold'}")
        for name, value in measured.answers.items():
            click.echo(f"  {name}: {show(value)}")
        if measured.note:
            click.echo(f"  {measured.note}")
        click.echo(f"  measured {show(measured.value)}, bound {show(measured.bound)}: {answer}")
    expected = answer is not Answer.VIOLATED or not all(hypotheses.values())
    return int(Exit.OK if expected else Exit.FAILED)


COMMANDS = (list_command, show_command, replay_command)


def _find_case(claim_id: str, text: str, collection: Collection, ledger_path: Path | None) -> Case:
    if text.lstrip().startswith("{"):
        return parse_case(text, "the text given", claim_id)
    path = Path(text)
    if path.is_file():
        try:
            return parse_case(path.read_bytes(), str(path), claim_id)
        except OSError as error:
            raise CommandError(f"{path}: cannot be read: {error}") from None
    try:
        found = ledger.load(ledger_path) if ledger_path else reference_ledger(collection)
    except ledger.LedgerError as error:
        raise CommandError(str(error)) from None
    if found is None:
        raise CommandError(
            f"{' and '.join(collection.names)}: no reference ledger to look up {text!r}, and no "
            "such file; give the case as JSON, or --ledger FILE"
        )
    case = ledger.find_case(found, claim_id, text)
    if case is None:
        raise CommandError(
            f"no case {text!r} of claim {claim_id} in the ledger, and no such file; "
            f"`leanlloyd show{collection.option} {claim_id}` names one"
        )
    return case


def parse_case(data: str | bytes, where: str, claim_id: str | None = None) -> Case:
    """A case handed in; what the cases of the claim in the reference ledger hold is allowed."""
    try:
        return Case.from_json(handed.require_shapes(handed.parse(data), _known(claim_id)))
    except handed.HandedError as error:
        raise CommandError(f"{where}: not a case: {error}") from None


def _known(claim_id: str | None) -> list[dict[str, Any]]:
    try:
        rows = ledger.load(ledger.reference_path())["claims"] if claim_id else []
    except ledger.LedgerError:
        return []
    found = [e for row in rows if row["id"] == claim_id for e in row["evidence"]]
    return [e[name] for e in found for name in ("witness", "counterexample") if e[name]]


def _outline(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "title": claim.title,
        "says": claim.says,
        "statement": claim.statement,
        "kind": claim.kind,
        "bound": claim.bound,
        "hypotheses": [
            {"name": h.name, "says": h.says, "extra": h.extra} for h in claim.hypotheses
        ],
        "checks": [{"name": c.name, "method": c.method} for c in claim.checks],
        "falsify": claim.falsify,
        "theory": claim.theory,
        "verdict": None,
    }
