"""attack: look for the true Lipschitz constant from below."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from verify.commands.bound import setting_from, setting_options
from verify.console import CommandError, print_json, progress
from verify.files import STANDARD_OUTPUT

_REPORT = 20  # steps between two messages, and between two saved states


@click.command("attack")
@click.argument("name", metavar="NAME")
@setting_options(points=8)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option(
    "--restarts", type=click.IntRange(4), default=64, show_default=True, help="Ascents at once."
)
@click.option(
    "--steps", type=click.IntRange(3), default=1500, show_default=True, help="Steps of each ascent."
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Save the search here as it goes, and go on from there if the file exists.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the witness here (JSON); - prints it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def attack_command(
    name: str,
    seed: int,
    restarts: int,
    steps: int,
    state: Path | None,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for parameters, points and centers with the largest gradient of the loss.

    NAME is thm-3.1. The search is projected gradient ascent from many starts, two exact instances
    among them; the same seed gives the same witness. The witness goes into
    `leanlloyd bound thm-3.1 --witness FILE`.

    \b
    Examples:
      leanlloyd attack thm-3.1 -d 4 -k 6 -n 8 --out witness.json
      leanlloyd attack thm-3.1 --code one_hot --regularizer ne --state search.npz
    """
    import torch

    from verify.bounds import theorem
    from verify.bounds.attack import Plan
    from verify.bounds.evaluate import precise

    if name.lower() not in ("thm-3.1", "thm-i.2"):
        raise CommandError(f"no attack on {name!r}; allowed: thm-3.1")
    setting = setting_from(options)
    plan = Plan(seed, restarts, steps)
    torch.set_num_threads(1)  # more of them add floats in another order
    attack = _attack(setting, plan, state)
    sharp = float(precise(theorem.alpha(setting.code, setting.regularizer, "sharp"), setting))
    began = time.perf_counter()
    rounds = -(-(plan.steps - attack.step) // _REPORT)

    def work() -> Any:
        while not attack.done:
            for _ in attack.run(_REPORT):
                pass
            if state is not None:
                _write(attack.save, state)
            yield attack

    def label(_: Any) -> str:
        return (
            f"{attack.best_value / setting.n:.6g} per point, ratio {attack.best_value / sharp:.4g}"
        )

    for _ in progress(work(), rounds, label, f"x {_REPORT} steps"):
        pass
    witness = attack.best
    value = witness.gradient_norm()
    if out is not None:
        _write(witness.save, out)
    if out == STANDARD_OUTPUT:
        return
    found = {
        "claim": "thm-3.1",
        "gradient_norm": value,
        "per_point": value / setting.n,
        "sharp_bound": sharp,
        "ratio": value / sharp,
        "steps": attack.step,
        "restarts": plan.restarts,
        "seed": plan.seed,
    }
    if as_json:
        print_json(found)
        return
    click.echo(f"gradient norm  {value:.10g}  ({value / setting.n:.8g} per point)")
    click.echo(f"sharp bound    {sharp:.10g}")
    click.echo(f"ratio          {value / sharp:.6g}")
    click.echo(
        f"{attack.step} steps, {plan.restarts} restarts, {time.perf_counter() - began:.0f} s"
    )
    if out is not None:
        click.echo(f"witness        {out}")


COMMANDS = (attack_command,)


def _attack(setting: Any, plan: Any, state: Path | None) -> Any:
    """A new attack, or the one in the state file if that is for the same setting and plan."""
    from verify.bounds.attack import Attack, AttackError

    if state is not None and state.exists():
        try:
            attack = Attack.load(state)
        except AttackError as error:
            raise CommandError(str(error)) from None
        if (attack.setting, attack.plan) != (setting, plan):
            raise CommandError(
                f"{state} belongs to another search ({attack.setting}, {attack.plan}); give the "
                "same options, or another file"
            )
        return attack
    try:
        return Attack(setting, plan)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _write(save: Any, target: Path) -> None:
    try:
        save(target)
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror or error}") from None
