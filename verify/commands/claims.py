"""list, show, check, report, replay."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from verify import claims, ledger
from verify.claim import PROFILES, Answer, Case, Claim, Run, show, to_json
from verify.claims import UnknownClaimError
from verify.console import CommandError, Exit, print_json, progress
from verify.files import write_atomically
from verify.runner import Done, InfrastructureError, discard, run_all


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--profile",
            type=click.Choice(list(PROFILES)),
            default="default",
            show_default=True,
            help="How much to do: smoke takes under a minute.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="All random streams follow from it.",
        ),
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(1),
            default=os.cpu_count() or 1,
            show_default="number of cores",
            help="Worker processes.",
        ),
    ):
        command = option(command)
    return command


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def list_command(as_json: bool) -> None:
    """All claims, with the verdict of the reference report.

    \b
    Examples:
      leanlloyd list
      leanlloyd list --json
    """
    reference = _reference()
    verdicts = {row["id"]: row["verdict"] for row in reference["claims"]} if reference else {}
    stale = set(ledger.stale(reference)) if reference else set()
    rows: list[dict[str, Any]] = [
        {
            "id": claim.id,
            "section": section,
            "title": claim.title,
            "verdict": verdicts.get(claim.id),
            "stale": claim.id in stale,
            "checks": [check.name for check in claim.checks],
        }
        for section, claim, _ in claims.registry().values()
    ]
    if as_json:
        print_json(rows)
        return
    width = max(len(r["id"]) for r in rows)
    for section, heading in claims.SECTIONS.items():
        of_section = [r for r in rows if r["section"] == section]
        if of_section:
            click.echo(f"\n{heading}")
        for r in of_section:
            verdict = (r["verdict"] or "not run") + (" (stale)" if r["stale"] else "")
            click.echo(f"  {r['id']:<{width}}  {verdict:<18}  {r['title']}")


@click.command("show")
@click.argument("claim_id", metavar="CLAIM")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def show_command(claim_id: str, as_json: bool) -> None:
    """What a claim says, where it stands, what would refute it, and what was found.

    \b
    Examples:
      leanlloyd show thm-2.1
      leanlloyd show sharp-gap-l2 --json
    """
    claim = _claim(claim_id)
    reference = _reference()
    row = next((r for r in reference["claims"] if r["id"] == claim_id), None) if reference else None
    if as_json:
        print_json(row or _outline(claim))
        return
    click.echo(f"{claim.id}: {claim.title}\n")
    click.echo(f"{claim.says}\n")
    facts: list[tuple[str, str]] = [("statement", claim.statement), ("bound", claim.bound)]
    facts += [("source", f"{s.document}, {s.place}") for s in claim.sources]
    facts += [("needs" if h.extra else "assumes", f"{h.name}: {h.says}") for h in claim.hypotheses]
    facts += [("refuted by", claim.falsify), ("derivation", f"docs/theory/{claim.theory}")]
    for name, text in facts:
        click.echo(f"  {name:<11}{text}")
    if row is None:
        click.echo(f"\nNot in the reference report yet. Run: leanlloyd check {claim.id}")
        return
    click.echo(f"\nVerdict: {row['verdict']}")
    for e in row["evidence"]:
        click.echo(f"  {e['check']} ({e['method']}): {e['sentence']}")
    result = row["result"]
    if result["measured"] is not None:
        click.echo(
            f"  worst measured {_short(result['measured'])}, bound {_short(result['bound'])}, "
            f"ratio {_short(result['ratio'])}"
        )
    click.echo(f"\nAgain: {row['replay']}")


@click.command("check")
@click.argument("claim_ids", metavar="[CLAIM]...", nargs=-1)
@_run_options
@click.option("--json", "as_json", is_flag=True, help="Print the ledger of this run.")
def check_command(
    claim_ids: tuple[str, ...], profile: str, seed: int, jobs: int, as_json: bool
) -> int:
    """Check claims (all by default) and compare their verdicts with the reference report.

    \b
    Examples:
      leanlloyd check --profile smoke
      leanlloyd check thm-2.1 ties -j 2
      leanlloyd check l2-zero-gap --seed 7 --json
    """
    wanted = [_claim(i) for i in dict.fromkeys(claim_ids)] or claims.all_claims()
    run = Run(PROFILES[profile], seed)
    results, _ = _execute(wanted, run, jobs, None)
    found = ledger.build(results, run)
    if as_json:
        print_json(found)
    else:
        _print_verdicts(found)
    return _compare(found, _reference())


@click.command("report")
@_run_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder to write to  [default: reports/ of the checkout, else ./reports]",
)
@click.option(
    "--render",
    is_flag=True,
    help="Run nothing: draw the report again from the ledger that is there.",
)
def report_command(profile: str, seed: int, jobs: int, out: Path | None, render: bool) -> int:
    """Check every claim and write the report: HTML, Markdown, figures and the ledger.

    An interrupted run leaves the previous report as it was; the same command then goes on where
    it stopped.

    \b
    Examples:
      leanlloyd report
      leanlloyd report --out /tmp/mine --profile smoke
      leanlloyd report --render
    """
    from verify.report import render as render_files
    from verify.report import update_readme

    folder = out or _default_folder()
    _require_writable(folder)
    run = Run(PROFILES[profile], seed)
    if render:
        try:
            found = ledger.load(folder / "ledger.json")
            volatile = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        except (ledger.LedgerError, OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        stale = ledger.stale(found)
        if stale:
            raise CommandError(
                f"the evidence for {', '.join(stale)} was made by other sources; run "
                "`leanlloyd report`",
                Exit.STALE,
            )
        code = int(Exit.OK)
    else:
        start = time.perf_counter()
        pending = folder / ".pending"
        results, taken = _execute(claims.all_claims(), run, jobs, pending)
        found = ledger.build(results, run)
        seconds = time.perf_counter() - start
        volatile = ledger.volatile(results, run, seconds)
        volatile["resumed_checks"] = taken
        previous = folder / "ledger.json"
        code = _compare(found, ledger.load(previous) if previous.exists() else _reference())
    files = render_files(found, volatile)
    for name, content in files.items():
        write_atomically(folder / name, content)
    for figure in (folder / "figures").glob("*.svg"):
        if f"figures/{figure.name}" not in files:
            figure.unlink()  # of a table that no longer exists
    readme = folder.resolve().parent / "README.md"
    if folder.resolve() == _default_folder().resolve() and readme.exists():
        text = readme.read_text(encoding="utf-8")
        write_atomically(readme, update_readme(text, found))
    if not render:
        discard(folder / ".pending")
    _print_verdicts(found)
    click.echo(f"\nwritten: {folder / 'report.html'}")
    return code


@click.command("replay")
@click.argument("claim_id", metavar="CLAIM")
@click.argument("case", metavar="CASE")
@click.option(
    "--ledger",
    "ledger_path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Where to look the case up  [default: the reference report]",
)
@click.option(
    "--script",
    is_flag=True,
    help="Print a program that shows the case with the standard library alone.",
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def replay_command(
    claim_id: str, case: str, ledger_path: Path | None, script: bool, as_json: bool
) -> int:
    """Judge one case of a claim again.

    CASE is an id from the report, a JSON file, or JSON text with the fields of a case.

    \b
    Examples:
      leanlloyd replay thm-2.1 '{"X": [["0"],["1"],["2"]], "C": [["0"],["2"]],
                                 "code": "binary", "steps": 1}'
      leanlloyd show thm-2.1          (its last line is a replay command with an id)
    """
    claim = _claim(claim_id)
    if claim.measure is None:
        raise CommandError(
            f"claim {claim_id} is not about single cases; `leanlloyd check {claim_id}` runs it"
        )
    found = _find_case(claim_id, case, ledger_path)
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


COMMANDS = (list_command, show_command, check_command, report_command, replay_command)


def _claim(claim_id: str) -> Claim:
    try:
        return claims.get(claim_id)
    except UnknownClaimError as error:
        raise CommandError(str(error)) from None


def _execute(
    wanted: list[Claim], run: Run, jobs: int, pending: Path | None
) -> tuple[list[Done], int]:
    counts = {"total": sum(len(c.checks) for c in wanted), "taken": 0}

    def on_start(total: int, taken: int) -> None:
        counts.update(total=total, taken=taken)
        if taken:
            click.echo(f"{taken} of {total} checks taken over from an interrupted run", err=True)

    def label(done: Done) -> str:
        state = "FAILED" if done.evidence.problem else f"{done.seconds:.1f} s"
        return f"{done.claim_id} {done.evidence.check}: {state}"

    try:
        stream = run_all(wanted, run, jobs, pending, on_start)
        return list(progress(stream, counts["total"], label)), counts["taken"]
    except InfrastructureError as error:
        raise CommandError(str(error), Exit.INFRASTRUCTURE) from None
    except OSError as error:
        raise CommandError(f"cannot write results: {error}", Exit.INFRASTRUCTURE) from None


def _print_verdicts(found: dict[str, Any]) -> None:
    width = max((len(row["id"]) for row in found["claims"]), default=0)
    for row in found["claims"]:
        result = row["result"]
        measured = "" if result["measured"] is None else f"worst {_short(result['measured'])}"
        if result["ratio"] is not None:
            measured += f", ratio {_short(result['ratio'])}"
        click.echo(f"{row['id']:<{width}}  {row['verdict']:<18}  {measured}")
    summary = found["summary"]
    verdicts = ", ".join(f"{n} {v}" for v, n in summary["verdicts"].items())
    click.echo(
        f"{summary['claims']} claims: {verdicts}; {summary['cases']:,} cases, "
        f"{summary['undecided']:,} undecided"
    )


def _compare(found: dict[str, Any], reference: dict[str, Any] | None) -> int:
    wrong = ledger.problems(found)
    if reference is not None:
        wrong += ledger.changes(reference, found)
    for sentence in wrong:
        click.echo(f"leanlloyd: {sentence}", err=True)
    return int(Exit.FAILED if wrong else Exit.OK)


def _reference() -> dict[str, Any] | None:
    path = ledger.reference_path()
    if not path.exists():
        return None
    try:
        return ledger.load(path)
    except ledger.LedgerError as error:
        raise CommandError(str(error), Exit.INFRASTRUCTURE) from None


def _default_folder() -> Path:
    checkout = Path(__file__).resolve().parents[2]
    return checkout / "reports" if (checkout / "pyproject.toml").exists() else Path("reports")


def _require_writable(folder: Path) -> None:
    probe = folder
    while not probe.exists():
        probe = probe.parent
    if not probe.is_dir():
        raise CommandError(f"{probe} is not a folder; choose another place with --out")
    if not os.access(probe, os.W_OK):
        raise CommandError(f"{probe} is not writable; choose another place with --out")


def _find_case(claim_id: str, text: str, ledger_path: Path | None) -> Case:
    if text.lstrip().startswith("{"):
        return _parse_case(text, "the text given")
    path = Path(text)
    if path.is_file():
        try:
            return _parse_case(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path}: cannot be read: {error}") from None
    try:
        found = ledger.load(ledger_path or ledger.reference_path())
    except ledger.LedgerError as error:
        raise CommandError(str(error)) from None
    case = ledger.find_case(found, claim_id, text)
    if case is None:
        raise CommandError(
            f"no case {text!r} of claim {claim_id} in the ledger, and no such file; "
            f"`leanlloyd show {claim_id}` names one"
        )
    return case


def _parse_case(text: str, where: str) -> Case:
    try:
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError("expected an object with the fields of a case")
        return Case.from_json(data)
    except (ValueError, TypeError) as error:
        raise CommandError(f"{where}: not a case: {error}") from None


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


def _short(value: Any) -> str:
    return "-" if value is None else show(value)
