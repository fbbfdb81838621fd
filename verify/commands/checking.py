"""check and report: run checks, compare verdicts, write them up."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from verify import arithmetic, handed, ledger
from verify.claim import PROFILES, Case, Claim, Run, Verdict, from_json
from verify.collection import OWN, Collection
from verify.commands._shared import claim_named, of_collection, reference_ledger, short
from verify.console import CommandError, Exit, print_json, progress
from verify.files import write_atomically
from verify.runner import Done, InfrastructureError, discard, run_all, uses_arithmetics


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


@click.command("check")
@click.argument("claim_ids", metavar="[CLAIM]...", nargs=-1)
@of_collection
@_run_options
@click.option(
    "--arithmetic",
    "arithmetics",
    metavar="NAME",
    multiple=True,
    help="Compute in this number system and on this device only; may be repeated. `list` shows "
    "all, which can be used here, and why the others cannot.",
)
@click.option(
    "--require-gpu",
    is_flag=True,
    help=f"A GPU that is missing is a failure ({arithmetic.REQUIRE_GPU}=1 does the same).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the ledger of this run.")
def check_command(
    claim_ids: tuple[str, ...],
    collection: Collection,
    profile: str,
    seed: int,
    jobs: int,
    arithmetics: tuple[str, ...],
    require_gpu: bool,
    as_json: bool,
) -> int:
    """Check claims (all by default) and compare their verdicts with the reference report.

    What is violated is shown with its smallest counterexample and the command to replay it. The
    exit code is 1 if a check failed, if a verdict differs from the reference, or if a claim of
    which the reference knows nothing is refuted.

    --arithmetic is for the claims about number systems: same-bits, rounding-bounds, determinism.
    They run each operation in all arithmetics that can be used here, or in those that are named.
    With it and no CLAIM, these claims alone are checked. All other claims have fixed arithmetics
    of their own, mostly exact rationals.

    \b
    Examples:
      leanlloyd check --profile smoke
      leanlloyd check thm-2.1 ties -j 2
      leanlloyd check l2-zero-gap --seed 7 --json
      leanlloyd check --claims my_paper --profile smoke
      leanlloyd check --arithmetic list
      leanlloyd check --arithmetic numpy64 --arithmetic torch-cuda64 --require-gpu
    """
    if "list" in arithmetics:
        _list_arithmetics(as_json)
        return int(Exit.OK)
    wanted = [claim_named(i, collection) for i in dict.fromkeys(claim_ids)]
    wanted = wanted or collection.all_claims()
    names = _chosen(wanted, bool(claim_ids), arithmetics, require_gpu, collection)
    if names:
        wanted = [c for c in wanted if _compares_arithmetics(c)]
    run = Run(PROFILES[profile], seed, names)
    results, _ = _execute(wanted, run, jobs, None, collection)
    found = ledger.build(results, run, collection)
    reference = reference_ledger(collection)
    if as_json:
        print_json(found)
    else:
        _print_verdicts(found)
        _print_cards(found, reference, collection)
    return _compare(found, reference)


@click.command("report")
@of_collection
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
def report_command(
    collection: Collection, profile: str, seed: int, jobs: int, out: Path | None, render: bool
) -> int:
    """Check every claim and write the report: HTML, Markdown, figures and the ledger.

    An interrupted run leaves the previous report as it was; the same command then goes on where
    it stopped.

    \b
    Examples:
      leanlloyd report
      leanlloyd report --out /tmp/mine --profile smoke
      leanlloyd report --render
      leanlloyd report --claims my_paper --out /tmp/theirs
    """
    from verify.report import render as render_files
    from verify.report import update_readme

    if out is None and not collection.own:
        raise CommandError(f"report{collection.option} needs a folder: --out FOLDER")
    folder = out or _default_folder()
    _require_writable(folder)
    _require_same_claims(folder, collection)
    run = Run(PROFILES[profile], seed)
    if render:
        try:
            found = ledger.load(folder / "ledger.json")
            volatile = handed.read(folder / "run.json")
        except (ledger.LedgerError, OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        stale = ledger.stale(found, collection)
        if stale:
            raise CommandError(
                f"the evidence for {', '.join(stale)} was made by other sources; run "
                f"`leanlloyd report{collection.option}`",
                Exit.STALE,
            )
        code = int(Exit.OK)
    else:
        start = time.perf_counter()
        pending = folder / ".pending"
        results, taken = _execute(collection.all_claims(), run, jobs, pending, collection)
        found = ledger.build(results, run, collection)
        seconds = time.perf_counter() - start
        volatile = ledger.volatile(results, run, seconds)
        volatile["resumed_checks"] = taken
        previous = folder / "ledger.json"
        by_previous = collection.own and previous.exists()
        reference = ledger.load(previous) if by_previous else reference_ledger(collection)
        code = _compare(found, reference)
    files = render_files(found, volatile)
    for name, content in files.items():
        write_atomically(folder / name, content)
    for figure in (folder / "figures").glob("*.svg"):
        if f"figures/{figure.name}" not in files:
            figure.unlink()  # of a table that no longer exists
    readme = folder.resolve().parent / "README.md"
    at_home = collection.own and folder.resolve() == _default_folder().resolve()
    if at_home and readme.exists():
        text = readme.read_text(encoding="utf-8")
        write_atomically(readme, update_readme(text, found))
    if not render:
        discard(folder / ".pending")
    _print_verdicts(found)
    click.echo(f"\nwritten: {folder / 'report.html'}")
    return code


COMMANDS = (check_command, report_command)


def _compares_arithmetics(claim: Claim) -> bool:
    return any(map(uses_arithmetics, claim.checks))


def _list_arithmetics(as_json: bool) -> None:
    rows = [
        {"name": a.name, "library": a.library, "device": a.device, "element": a.element}
        | {"available": not a.why_not, "why_not": a.why_not}
        for a in arithmetic.ARITHMETICS
    ]
    if as_json:
        print_json(rows)
        return
    width = max(len(a.name) for a in arithmetic.ARITHMETICS)
    for row in rows:
        state = "available" if row["available"] else f"not available: {row['why_not']}"
        click.echo(f"{row['name']:<{width}}  {state}")


def _chosen(
    wanted: list[Claim],
    by_id: bool,
    named: tuple[str, ...],
    require_gpu: bool,
    collection: Collection,
) -> tuple[str, ...]:
    """The names of the arithmetics to run in (empty for all), or an error that says why not."""
    try:
        chosen = arithmetic.selected(named)
    except arithmetic.UnknownArithmeticError as error:
        raise CommandError(str(error)) from None
    fixed = [c.id for c in wanted if not _compares_arithmetics(c)]
    if named and by_id and fixed:
        raise CommandError(
            f"--arithmetic does not apply to {', '.join(fixed)}; it is for "
            + (
                ", ".join(c.id for c in collection.all_claims() if _compares_arithmetics(c))
                or "none"
            )
        )
    missing = arithmetic.missing(named)
    if missing and (require_gpu or arithmetic.gpu_required()) and len(fixed) < len(wanted):
        raise CommandError("; ".join(missing), Exit.FAILED)
    if not named:
        return ()
    for a in chosen:
        if a.why_not:
            click.echo(f"leanlloyd: not run: {a.name}: {a.why_not}", err=True)
    if not any(map(_compares_arithmetics, wanted)):
        raise CommandError("--arithmetic applies to none of these claims")
    if all(a.why_not for a in chosen):
        raise CommandError("none of these arithmetics can be used here", Exit.INFRASTRUCTURE)
    return tuple(a.name for a in chosen)


def _execute(
    wanted: list[Claim], run: Run, jobs: int, pending: Path | None, collection: Collection
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
        stream = run_all(wanted, run, jobs, pending, on_start, collection)
        return list(progress(stream, counts["total"], label)), counts["taken"]
    except InfrastructureError as error:
        raise CommandError(str(error), Exit.INFRASTRUCTURE) from None
    except OSError as error:
        raise CommandError(f"cannot write results: {error}", Exit.INFRASTRUCTURE) from None


def _print_verdicts(found: dict[str, Any]) -> None:
    width = max((len(row["id"]) for row in found["claims"]), default=0)
    for row in found["claims"]:
        result = row["result"]
        measured = "" if result["measured"] is None else f"worst {short(result['measured'])}"
        if result["ratio"] is not None:
            measured += f", ratio {short(result['ratio'])}"
        elif measured and row["verdict"] == Verdict.REFUTED:
            measured += f", bound {short(result['bound'])}"
        click.echo(f"{row['id']:<{width}}  {row['verdict']:<18}  {measured}")
    summary = found["summary"]
    verdicts = ", ".join(f"{n} {v}" for v, n in summary["verdicts"].items())
    click.echo(
        f"{summary['claims']} claims: {verdicts}; {summary['cases']:,} cases, "
        f"{summary['undecided']:,} undecided"
    )


def _print_cards(
    found: dict[str, Any], reference: dict[str, Any] | None, collection: Collection
) -> None:
    """For each claim that is false as stated: the smallest counterexample, what both sides are
    there, and the command that judges it again."""
    for row in found["claims"]:
        card = row["counterexample"]
        if row["verdict"] not in (Verdict.REFUTED, Verdict.QUALIFIED) and not _has_problem(row):
            continue
        click.echo(f"\n{row['id']}: {row['verdict']}")
        for e in row["evidence"]:
            if e["problem"]:
                click.echo(f"  check {e['check']} {e['sentence']}")
        if card is None:
            continue
        case = Case.from_json(card["case"])
        dropped = [h["name"] for h in row["hypotheses"] if h["name"] not in card["assuming"]]
        without = f", without {', '.join(dropped)}" if dropped else ""
        about = f", the variant: {card['variant']}" if card["variant"] else ""
        click.echo(f"  smallest counterexample, by {card['check']}{without}{about}:")
        click.echo(f"    {textwrap.shorten(repr(case), 1000, placeholder=' ...')}")
        if "measured" in card:
            sides = [short(from_json(card[side])) for side in ("measured", "bound")]
            click.echo(f"    measured {sides[0]}, bound {sides[1]}")
        for name, value in (card.get("answers") or {}).items():
            click.echo(f"    {name}: {short(from_json(value))}")
        if card.get("note"):
            click.echo(f"    {card['note']}")
        claim = collection.get(row["id"])
        known = reference is not None and len(collection.names) == 1
        by_id = known and ledger.find_case(reference or {}, row["id"], case.id) is not None
        command = ledger.replay_command(claim, case, collection, by_id)
        if command:
            click.echo(f"  again: {command}")


def _has_problem(row: dict[str, Any]) -> bool:
    return any(e["problem"] for e in row["evidence"])


def _compare(found: dict[str, Any], reference: dict[str, Any] | None) -> int:
    wrong = ledger.problems(found) + ledger.refuted(found, reference)
    if reference is not None:
        wrong += ledger.changes(reference, found)
    for sentence in wrong:
        click.echo(f"leanlloyd: {sentence}", err=True)
    return int(Exit.FAILED if wrong else Exit.OK)


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


def _require_same_claims(folder: Path, collection: Collection) -> None:
    """A report is never replaced by one about other claims."""
    path = folder / "ledger.json"
    try:
        held = ledger.load(path).get("packages", [OWN]) if path.exists() else None
    except ledger.LedgerError:
        return
    if held is not None and held != list(collection.names):
        raise CommandError(
            f"{folder} holds the report of {' and '.join(held)}; choose another place with --out"
        )
