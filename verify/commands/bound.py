"""bound: the constants of the Lipschitz chain for a setting of the user."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from verify.audit.columns import How
from verify.commands._reading import how_from, reading_options, say_left_out
from verify.console import CommandError, print_json

ALIASES = {
    "lem-i.1": "L1",
    "softmax-dispersion": "L2",
    "attention-stability": "L5",
    "thm-i.1": "L6",
    "lem-i.2": "L7",
    "thm-i.2": "thm-3.1",
}
"""Other names of the same bounds: the claims they belong to."""

_LARGEST_MODEL = 200  # token width up to which the exact instances are run, not only their formula


def setting_options(points: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that say for which problem a bound is wanted."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(
            (
                click.option("--code", default="binary", show_default=True, help="Cluster code."),
                click.option(
                    "-d", "--d", "d", type=int, default=4, show_default=True, help="Coordinates."
                ),
                click.option(
                    "-k", "--k", "k", type=int, default=6, show_default=True, help="Clusters."
                ),
                click.option(
                    "-n", "--n", "n", type=int, default=points, show_default=True, help="Points."
                ),
                click.option(
                    "--gamma",
                    type=float,
                    default=1.0,
                    show_default=True,
                    help="Inverse temperature of the attention.",
                ),
                click.option(
                    "--tau",
                    type=float,
                    default=1.0,
                    show_default=True,
                    help="Temperature of the smoothed loss.",
                ),
                click.option(
                    "--norm-bound",
                    type=float,
                    default=1.0,
                    show_default=True,
                    help="Bound B on the spectral norm of each of the twelve matrices.",
                ),
                click.option("--regularizer", default="l2", show_default=True, help="ne or l2."),
            )
        ):
            command = option(command)
        return command

    return decorate


def setting_from(options: dict[str, Any]) -> Any:
    """A `Setting` from the options of the command line, or one line about what is wrong."""
    from verify.bounds.evaluate import Setting

    values = dict(options)
    try:
        return Setting(B=values.pop("norm_bound"), **values)
    except ValueError as error:
        raise CommandError(str(error)) from None


@click.command("bound")
@click.argument("name", metavar="[NAME]", required=False)
@setting_options(points=512)
@click.option(
    "--witness",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A witness of `leanlloyd attack` for a lower bound of your own.",
)
@click.option("--symbolic", is_flag=True, help="Print the expressions, in sympy and in TeX.")
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    help="Instead of NAME: models of `leanlloyd train`, the folder or its models.safetensors.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="With --model: a file of points, as `leanlloyd audit` reads it.",
)
@click.option("--array", help="The array to take from an .npz file.")
@reading_options
@click.option("--which", type=int, metavar="SEED", help="The model of this seed.  [default: all]")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="With --model: chooses the initial centers among the points.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.pass_context
def bound_command(
    context: click.Context,
    /,
    name: str | None,
    witness: Path | None,
    symbolic: bool,
    model: Path | None,
    data: Path | None,
    array: str | None,
    which: int | None,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """The constant of Theorem 3.1, or of a lemma behind it, for your sizes or your model.

    NAME is thm-3.1 or L1 ... L7: norms (L1), dispersion of scores (L2), softmax (L3), scores (L4),
    attention (L5), the model's output (L6), the loss (L7). Constants that no float can hold are
    given as powers of ten.

    With --model and --data: a bound on the gradient of a trained model on your points, beside the
    gradient. The points are scaled into the unit cube like the tasks of its training, and k of
    them are the initial centers.

    \b
    Examples:
      leanlloyd bound thm-3.1 --code binary -d 4 -k 6 -n 512 --tau 0.1
      leanlloyd bound thm-3.1 --code one_hot -d 32 -k 25 --regularizer ne --json
      leanlloyd bound L6 --code none -d 2 -k 2 --gamma 0.1
      leanlloyd bound thm-3.1 --symbolic
      leanlloyd bound --model runs/mine/models.safetensors --data points.csv --which 0
      leanlloyd bound --model runs/mine --data points.tsv --columns x,y --missing drop
    """
    if model is not None or data is not None:
        _require_alone(context, _OF_MODEL)
        how = how_from(options)
        _of_model(model, data, array, how, which, seed, as_json)
        return
    _require_alone(context, _OF_NAME)
    if name is None:
        raise CommandError("say which bound: thm-3.1, L1 ... L7, or --model and --data")
    from verify.bounds.catalog import CATALOG

    wanted = {n.lower(): n for n in CATALOG} | ALIASES
    if name.lower() not in wanted:
        raise CommandError(f"no bound {name!r}; allowed: {', '.join(CATALOG)}")
    bound = CATALOG[wanted[name.lower()]]
    how_from(options)
    setting = setting_from(options)
    found = _found(bound, setting, symbolic)
    found["lower_bounds"] = _lower_bounds(bound, setting, witness)
    if as_json:
        print_json(found)
    else:
        click.echo(_text(found))


COMMANDS = (bound_command,)

_READING = {f.name for f in fields(How)}
_OF_MODEL: set[str | None] = {"model", "data", "array", "which", "seed", "as_json", *_READING}
"""The options that go with --model; the rest of the setting stands beside the model."""

_OF_NAME: set[str | None] = {"as_json"}
_OF_NAME |= {parameter.name for parameter in bound_command.params} - _OF_MODEL


def _require_alone(context: click.Context, allowed: set[str | None]) -> None:
    """Refuse options of the other way to use the command."""
    for parameter in bound_command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if given and name not in allowed and context.params[name] is not None:
            shown = f"NAME {context.params[name]}" if name == "name" else parameter.opts[0]
            raise CommandError(
                f"{shown} does not go with --model: the settings beside the model say what it is"
                if allowed is _OF_MODEL
                else f"{shown} goes with --model and --data"
            )


def _of_model(
    model: Path | None,
    data: Path | None,
    array: str | None,
    how: How,
    which: int | None,
    seed: int,
    as_json: bool,
) -> None:
    if model is None or data is None:
        given, wanted = ("--data", "--model") if model is None else ("--model", "--data")
        raise CommandError(f"{given} needs {wanted}, too")
    from verify.audit.reading import read_table
    from verify.commands._local import local_bounds, text_of

    table = read_table(data, array, how)
    say_left_out(table)
    found = local_bounds(model, table, which, seed)
    if as_json:
        print_json(found)
    else:
        click.echo(text_of(found))


def _found(bound: Any, setting: Any, symbolic: bool) -> dict[str, Any]:
    import sympy

    from verify.bounds.catalog import facts
    from verify.bounds.evaluate import Number, precise

    def entry(label: str, expression: Any, note: str = "") -> dict[str, Any]:
        row: dict[str, Any] = {"label": label, "note": note}
        row |= Number.of(precise(expression, setting)).to_json()
        if symbolic:
            row |= {"sympy": str(expression), "tex": sympy.latex(expression)}
        return row

    def entries(parts: dict[str, Any]) -> list[dict[str, Any]]:
        return [entry(label, expression) for label, expression in parts.items()]

    code, regularizer = setting.code, setting.regularizer
    return {
        "bound": bound.name,
        "title": bound.title,
        "claim": bound.claim,
        "setting": {
            "code": code,
            "d": setting.d,
            "k": setting.k,
            "n": setting.n,
            "gamma": setting.gamma,
            "tau": setting.tau,
            "norm_bound": setting.B,
            "regularizer": regularizer,
        },
        "facts": entries(facts(code)),
        "constants": [
            entry(line.label, line.expression, line.note) for line in bound.lines(code, regularizer)
        ],
        "factors": {
            form: entries(parts) for form, parts in bound.factors(code, regularizer).items()
        },
    }


def _lower_bounds(bound: Any, setting: Any, witness: Path | None) -> list[dict[str, Any]]:
    """What is known from below: exact instances and a witness (theorem), or the reach of the
    claim's own searches in the reference report (lemmas)."""
    if bound.name != "thm-3.1":
        if witness is not None:
            raise CommandError(f"--witness is for thm-3.1, not for {bound.name}")
        return _reached(bound.claim)
    from verify.bounds import theorem
    from verify.bounds.evaluate import Number, precise

    rows = []
    for name, expression in theorem.lower_bounds(setting.code).items():
        if theorem.applies(name, setting.d, setting.k, setting.n, setting.B):
            number = Number.of(precise(expression, setting)).to_json()
            rows.append({"label": f"{name}, formula", **number})
            if max(setting.d_emb, setting.k) <= _LARGEST_MODEL:
                rows += _instance(name, setting)
    if witness is not None:
        rows.append(_witnessed(witness, setting))
    return sorted(rows, key=lambda row: -_order(row))


def _instance(name: str, setting: Any) -> list[dict[str, Any]]:
    """The gradient norm of an exact instance, run. It is proportional to n, so two points do."""
    from dataclasses import replace

    import mpmath

    from verify.bounds import instances
    from verify.bounds.attack import model_of
    from verify.bounds.evaluate import Number

    model = model_of(replace(setting, gamma=setting.gamma or 1e-300))
    made = instances.flat(model, 2, setting.B) if name == "LB1" else instances.steep(model, 2)
    norm = instances.gradient_norm(model, made, setting.tau, setting.regularizer)
    if not math.isfinite(norm):  # at extreme sizes; the formula stands without it
        return []
    number = Number.of(mpmath.mpf(norm) / 2 * setting.n)
    return [{"label": f"{name}, measured", **number.to_json()}]


def _witnessed(path: Path, setting: Any) -> dict[str, Any]:
    """A stored witness, judged again. Its points may be repeated: n has to be a multiple."""
    from dataclasses import replace

    import mpmath

    from verify.bounds.attack import AttackError, Witness
    from verify.bounds.evaluate import Number

    try:
        found = Witness.load(path)
    except AttackError as error:
        raise CommandError(str(error)) from None
    if setting.n % found.setting.n or replace(found.setting, n=setting.n) != setting:
        raise CommandError(
            f"{path} is a witness for {found.setting}; it needs the same setting, and n a "
            f"multiple of {found.setting.n}"
        )
    value = mpmath.mpf(found.gradient_norm()) * (setting.n // found.setting.n)
    return {"label": f"witness {path}", **Number.of(value).to_json()}


def _reached(claim_id: str) -> list[dict[str, Any]]:
    """The shares of its bound that a claim's searches reached, from the reference report."""
    from verify import ledger
    from verify.ledger import LedgerError

    try:
        rows = ledger.load(ledger.reference_path())["claims"]
    except (LedgerError, OSError):
        return []
    evidence: list[dict[str, Any]] = next(
        (row["evidence"] for row in rows if row["id"] == claim_id), []
    )
    return [
        {"label": f"share reached by {claim_id} {e['check']}, {row[0]}", "share": row[-1]}
        for e in evidence
        if e["method"] == "adversarial" and not e["variant"]
        for table in e["tables"]
        if table["columns"][-1] == "ratio"
        for row in table["rows"]
    ]


def _order(row: dict[str, Any]) -> float:
    return -math.inf if row["log10"] is None else float(row["log10"])


def _text(found: dict[str, Any]) -> str:
    setting = found["setting"]
    lines = [f"{found['bound']}: {found['title']} (claim {found['claim']})"]
    lines.append("  " + ", ".join(f"{name} = {value}" for name, value in setting.items()))
    sections = {"sizes": found["facts"], "constants": found["constants"]}
    sections |= {f"factors of {form}": rows for form, rows in found["factors"].items()}
    for heading, rows in sections.items():
        lines += ["", heading.capitalize()]
        width = max(len(row["label"]) for row in rows)
        for row in rows:
            note = f"  {row['note']}" if row["note"] else ""
            lines.append(f"  {row['label']:<{width}}  {_number(row):<16}{note}".rstrip())
            if "sympy" in row:
                lines += [f"      sympy: {row['sympy']}", f"      TeX:   {row['tex']}"]
    lines += ["", "Measured from below"]
    if not found["lower_bounds"]:
        lines.append(f"  nothing yet in the reference report for claim {found['claim']}")
    for row in found["lower_bounds"]:
        shown = f"{row['share']:.4f}" if "share" in row else _number(row)
        lines.append(f"  {row['label']:<30}  {shown}")
    return "\n".join(lines)


def _number(row: dict[str, Any]) -> str:
    from verify.bounds.evaluate import Number

    return str(Number(row["value"], row["log10"]))
