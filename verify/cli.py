"""The command `leanlloyd`."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from verify import __version__
from verify.console import CommandError, Exit, OutputError, guarded_output

COMMANDS = {
    "list": "looking",
    "show": "looking",
    "check": "checking",
    "report": "checking",
    "replay": "looking",
    "trace": "tracing",
    "audit": "audit",
    "bound": "bound",
    "attack": "attack",
    "train": "train",
    "apply": "apply",
    "sweep": "sweep",
    "reproduce": "reproduce",
    "bench": "bench",
    "conform": "conform",
    "proofs": "proofs",
}
"""Each command and its module in `verify.commands`, in the order of the help page."""


class Commands(click.Group):
    """Imports a command's module when the command is used: some bring torch with them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"verify.commands.{COMMANDS[cmd_name]}")
        return next(c for c in module.COMMANDS if c.name == cmd_name)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="leanlloyd")
def leanlloyd() -> None:
    """Check the claims of the paper "Leaner Transformers Can Easily Learn to Cluster".

    \b
    Examples:
      leanlloyd list                          all claims and their verdicts
      leanlloyd check --profile smoke         check every claim in under a minute
      leanlloyd check thm-2.1 l2-zero-gap     check two of them
      leanlloyd report                        check everything and write reports/
      leanlloyd audit --dataset iris -k 3     what the theory says about your data

    Exit codes: 0 ok, 1 a verdict changed or a check failed, 2 usage or bad input,
    3 evidence is stale, 4 the run could not be carried out, 130 interrupted.
    """


def main() -> None:
    """Run the command; every foreseeable failure is one line and a documented exit code."""
    try:
        with guarded_output():
            code = leanlloyd(prog_name="leanlloyd", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else Exit.OK)
    except CommandError as error:
        error.show()
        sys.exit(error.code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(Exit.OK)
    except click.ClickException as error:
        CommandError(f"{error.format_message().rstrip('.')}; {_help_of(error)}").show()
        sys.exit(Exit.USAGE)
    except (KeyboardInterrupt, click.Abort):
        click.echo("leanlloyd: interrupted", err=True)
        sys.exit(Exit.INTERRUPTED)
    except OutputError as error:
        if not error.closed:
            CommandError(str(error)).show()
        sys.exit(Exit.OK if error.closed else Exit.INFRASTRUCTURE)
    except OSError as error:
        named = f": {error.filename}" if error.filename else ""
        CommandError(f"{error.strerror or error}{named}").show()
        sys.exit(Exit.INFRASTRUCTURE)


def _help_of(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "leanlloyd"
    return f"`{command} --help` shows what is allowed"
