"""proofs: build the machine-checked proofs and compare with the record."""

from __future__ import annotations

import click

from verify.console import CommandError, Exit, print_json
from verify.files import write_atomically
from verify.ledger import dumps
from verify.proofs import build, record


@click.command("proofs")
@click.option("--record", "write", is_flag=True, help="Write what was built to the record.")
@click.option("--json", "as_json", is_flag=True, help="Print what was built as JSON.")
def proofs_command(write: bool, as_json: bool) -> int:
    """Compile the Coq proofs and compare what they state with the record that claims show.

    Needs Coq 8.16 with MathComp's algebra (Debian: coq, libcoq-mathcomp-algebra).

    \b
    Examples:
      leanlloyd proofs               compile, and compare with the record
      leanlloyd proofs --record      compile, and write the record

    Exit codes: 0 as recorded, 1 a proof fails or differs, 4 there is no coqc here.
    """
    if not build.available():
        raise CommandError(
            "proofs: there is no coqc here; install Coq with MathComp's algebra (Debian: "
            "coq and libcoq-mathcomp-algebra)",
            Exit.INFRASTRUCTURE,
        )
    click.echo("compiling the proofs, about half a minute ...", err=True)
    try:
        found = build.build()
    except build.BuildError as error:
        raise CommandError(f"proofs: {error}", Exit.FAILED) from None
    if as_json:
        print_json(found)
    else:
        for name, theorem in found["theorems"].items():
            axioms = ", ".join(theorem["axioms"]) or "no axiom"
            click.echo(f"{name:<28}  {theorem['meaning']}  {axioms}")
    if write:
        write_atomically(record.RECORD, dumps(found))
        return int(Exit.OK)
    try:
        recorded = record.load()
    except record.RecordError as error:
        raise CommandError(f"proofs: {error}", Exit.FAILED) from None
    changed = build.differences(recorded, found)
    for sentence in changed:
        click.echo(f"leanlloyd: {sentence}", err=True)
    unproved = [n for n, t in found["theorems"].items() if set(t["axioms"]) - record.ALLOWED_AXIOMS]
    for name in unproved:
        click.echo(f"leanlloyd: {name} rests on something that is not proved", err=True)
    return int(Exit.FAILED if changed or unproved else Exit.OK)


COMMANDS = (proofs_command,)
