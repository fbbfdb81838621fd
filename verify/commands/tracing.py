"""trace: where two arithmetics part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from constructions.errors import InputError
from constructions.lloyd import lloyd_step
from verify import arithmetic as arithmetics
from verify import ledger
from verify.arithmetic import Arithmetic, UnknownArithmeticError
from verify.audit.reading import EXTENSIONS, read_table
from verify.claim import Case, show, to_json
from verify.commands._reading import say_left_out
from verify.commands.looking import parse_case
from verify.console import CommandError, Exit, print_json
from verify.trace import Compute, Parting, Trace, trace

STEPS = "Lloyd iteration"


@click.command("trace")
@click.argument("case", metavar="CASE")
@click.option("--arithmetic", "names", multiple=True, metavar="NAME",
              help="Two of those that `leanlloyd check --arithmetic list` shows.")  # fmt: skip
@click.option("--centers", type=click.Path(path_type=Path, dir_okay=False),
              help="Initial centers, when CASE is a file of points.")  # fmt: skip
@click.option("--operation", help="What to compute  [default: what the case is for]")
@click.option("--code", default="binary", show_default=True, help="For a file of points.")
@click.option("--steps", type=click.IntRange(1), default=1, show_default=True,
              help="Steps, for a file of points.")  # fmt: skip
@click.option("--ledger", "ledger_path", type=click.Path(path_type=Path, dir_okay=False),
              help="Where to look the case up  [default: the reference report]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def trace_command(
    case: str,
    names: tuple[str, ...],
    centers: Path | None,
    operation: str | None,
    code: str,
    steps: int,
    ledger_path: Path | None,
    as_json: bool,
) -> int:
    """Where two arithmetics part: the first operation, tensor and row, and the margin there.

    CASE is an id from the report, a JSON file, JSON text with the fields of a case, or a file of
    points (with --centers). Numbers that the narrower arithmetic cannot hold are rounded first, so
    that both start from the same ones.

    \b
    Examples:
      leanlloyd trace '{"X": [[0], [0.3], [2.7], [3]], "C": [[0], [3]]}' \\
          --arithmetic fmpq --arithmetic torch-cpu32
      leanlloyd trace points.csv --centers centers.csv --steps 3 \\
          --arithmetic numpy64 --arithmetic cupy64
    """
    one, two = _two(names)
    found = _case(case, centers, code, steps, ledger_path)
    name, compute = _operation(found, operation, (one, two))
    try:
        came = trace(compute, found, one, two)
    except InputError as error:
        raise CommandError(str(error)) from None
    except Exception as error:  # a case typed by hand can be wrong in any way
        raise CommandError(
            f"this case does not fit the operation {name!r}: {type(error).__name__}: {error}"
        ) from None
    if came.compared == 0 and len(came.stopped) == 2:
        raise CommandError(next(iter(came.stopped.values())))
    if as_json:
        print_json(_json(found, name, (one, two), came))
    else:
        click.echo("\n".join(_lines(found, name, (one, two), came)))
    return int(Exit.OK)


COMMANDS = (trace_command,)


def _two(names: tuple[str, ...]) -> tuple[Arithmetic, Arithmetic]:
    if len(names) != 2 or names[0] == names[1]:
        raise CommandError(
            "name two arithmetics: --arithmetic A --arithmetic B; "
            "`leanlloyd check --arithmetic list` shows all"
        )
    try:
        one, two = (arithmetics.get(name) for name in names)
    except UnknownArithmeticError as error:
        raise CommandError(str(error)) from None
    for used in (one, two):
        if used.why_not:
            raise CommandError(
                f"{used.name} is not available here: {used.why_not}", Exit.INFRASTRUCTURE
            )
    return one, two


def _case(text: str, centers: Path | None, code: str, steps: int, ledger_path: Path | None) -> Case:
    path = Path(text)
    if text.lstrip().startswith("{"):
        found = parse_case(text, "the text given")
    elif path.suffix.lower() in EXTENSIONS:
        if centers is None:
            raise CommandError(f"{path} holds points; say where the centers are: --centers FILE")
        points = read_table(path)
        say_left_out(points)
        return Case(
            X=points.values, C=read_table(centers, points=points).values, code=code, steps=steps
        )
    elif path.is_file():
        try:
            found = parse_case(path.read_bytes(), str(path))
        except OSError as error:
            raise CommandError(f"{path}: cannot be read: {error}") from None
    else:
        found = _looked_up(text, ledger_path)
    if centers is not None:
        raise CommandError("--centers goes with a file of points; a case holds its own centers")
    if "X" in found and "C" in found and "operation" not in found:
        found = Case(**{"code": "binary", "steps": 1, **found})
    return found


def _looked_up(case_id: str, path: Path | None) -> Case:
    try:
        data = ledger.load(path or ledger.reference_path())
    except ledger.LedgerError as error:
        raise CommandError(str(error)) from None
    for row in data["claims"]:
        found = ledger.find_case(data, row["id"], case_id)
        if found is not None:
            return found
    raise CommandError(
        f"no case {case_id!r} in the ledger, and no such file; `leanlloyd show CLAIM` names one"
    )


def _operation(case: Case, name: str | None, used: tuple[Arithmetic, ...]) -> tuple[str, Compute]:
    """The operation asked for, or that of the case, or the one that its fields are for."""
    from verify.claims.arithmetic._matrix import OPERATIONS

    known = {operation.name: operation for operation in OPERATIONS}
    name = name or case.get("operation")
    if name is None:
        for field, usual in (("X", "exact transformer"), ("q", "hardmax attention"),
                             ("r", "L2 surrogate"), ("noise", "tasks")):  # fmt: skip
            if field in case:
                name = usual
                break
        else:
            raise CommandError(
                f"no operation takes a case of {', '.join(case) or 'nothing'}; it needs X and C, "
                "or q, k and v, or r and tau"
            )
    if name == STEPS:
        return name, _iterate
    if name not in known:
        raise CommandError(f"unknown operation {name!r}; allowed: {', '.join((*known, STEPS))}")
    for arithmetic in used:
        why = known[name].refuses(arithmetic)
        if why:
            raise CommandError(f"{name} cannot be computed in {arithmetic.name}: {why}")
    return name, known[name].compute


def _iterate(arithmetic: Arithmetic, case: Case) -> dict[str, Any]:
    X, C = arithmetic.put(case["X"]), arithmetic.put(case["C"])
    for _ in range(case["steps"]):
        C = lloyd_step(X, C, empty="keep").centers
    return {"centers": C}


def _json(case: Case, name: str, used: tuple[Arithmetic, Arithmetic], came: Trace) -> Any:
    def plain(parting: Parting | None) -> Any:
        if parting is None:
            return None
        return to_json(
            {
                "section": parting.section,
                "tensor": parting.name,
                "time": parting.time,
                "row": list(parting.row),
                "index": list(parting.index),
                "values": dict(zip((a.name for a in used), parting.values, strict=True)),
                "differing": parting.differing,
                "entries": parting.entries,
                "ulps": parting.ulps,
                "margin": parting.margin,
            }
        )

    return {
        "case": case.id,
        "operation": name,
        "arithmetics": [a.name for a in used],
        "rounded": came.rounded,
        "tensors": came.compared,
        "same": came.same,
        "first": plain(came.first),
        "decision": plain(came.decision),
        "other_shape": came.shape_of or None,
        "stopped": came.stopped,
    }


def _lines(case: Case, name: str, used: tuple[Arithmetic, Arithmetic], came: Trace) -> list[str]:
    one, two = used
    lines = [f"case {case.id}, {name}: {one.name} and {two.name}"]
    if came.rounded:
        lines.append(f"{came.rounded} numbers of the input were rounded for the narrower of them")
    if came.first is None and not came.shape_of:
        lines.append(f"no difference in {came.compared} tensors")
    if came.first is not None:
        lines += _parting("first difference", came.first, used)
        if came.decision is None:
            lines.append("no decision differs")
        elif came.decision is not came.first:
            lines += _parting("first decision that differs", came.decision, used)
    if came.shape_of:
        lines.append(f"another shape: {came.shape_of}")
    lines += [f"{who} stopped: {what}" for who, what in came.stopped.items()]
    return lines


def _parting(title: str, parting: Parting, used: tuple[Arithmetic, Arithmetic]) -> list[str]:
    def place(index: tuple[int, ...]) -> str:
        return ", ".join(map(str, index))

    time = f", time {parting.time}" if parting.time > 1 else ""
    lines = [f"{title}: {parting.section}, {parting.name}{time}, row {place(parting.row)}"]
    for arithmetic, value in zip(used, parting.values, strict=True):
        text = repr(value) if isinstance(value, float) else _exact(value)
        lines.append(f"  {arithmetic.name:<16} [{place(parting.index)}] = {text}")
    size = f"{parting.differing} of {parting.entries} entries differ"
    if parting.ulps is not None:
        size += f", by at most {parting.ulps:.3g} ulp of the narrower type"
    lines.append(f"  {size}")
    if parting.margin is not None:
        lines.append(f"  margin of the row's decision: {_exact(parting.margin)}")
    return lines


def _exact(value: Any) -> str:
    """A number as it is, and how large that is."""
    whole = isinstance(value, int) or value.denominator == 1
    return show(value) if whole else f"{show(value)} ({float(value):.6g})"
