"""The options that say how a table is read, the same in every command that reads one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from verify.audit.columns import MISSING, VALUES, How
from verify.audit.reading import Table
from verify.audit.text import left_out
from verify.console import CommandError

_NAMED = {"tab": "\t", "\\t": "\t", "blank": " ", "blanks": " ", "space": " ", "comma": ",",
          "semicolon": ";"}  # fmt: skip

_OPTIONS = (
    click.option("--columns", metavar="LIST", help="Coordinates: names, numbers from 1, ranges; "
                 "x,y or 2-5."),
    click.option("--drop", metavar="LIST", help="Columns to leave out, like --columns."),
    click.option("--delimiter", metavar="CHAR", help="Of a text file: one character, tab or "
                 "blanks.  [default: found out]"),
    click.option("--decimal", metavar="CHAR", help="Decimal mark of a text file: . or ,  "
                 "[default: found out]"),
    click.option("--thousands", metavar="CHAR", help="Mark between thousands in a text file, such "
                 "as , or .  [default: none]"),
    click.option("--header/--no-header", default=None, help="Whether the first line holds names.  "
                 "[default: found out]"),
    click.option("--encoding", help="Of a text file, such as latin-1.  [default: UTF-8, or the "
                 "file's mark]"),
    click.option("--missing", type=click.Choice(MISSING), default="refuse", show_default=True,
                 help="What to do with missing values: drop leaves out their rows."),
    click.option("--values", type=click.Choice(VALUES), default="stored", show_default=True,
                 help="Decimals as float64 stores them, or exactly as written."),
)  # fmt: skip


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def say_left_out(table: Table) -> None:
    """A line on standard error for all that was not read: nothing is dropped in silence."""
    for sentence in left_out(table.about):
        click.echo(f"{table.source}: {sentence}", err=True)


def how_from(options: dict[str, Any]) -> How:
    """Take the options of `reading_options` out of `options`, checked."""
    given = {f.name: options.pop(f.name) for f in fields(How)}
    for name in ("delimiter", "decimal", "thousands"):
        value = given[name]
        if value is None:
            continue
        given[name] = value = _NAMED.get(value.lower(), value)
        if len(value) != 1 or value.isalnum() or value in "\n\r\"'" * (name != "thousands"):
            raise CommandError(f"--{name} {value!r}: allowed: one character, no letter or digit")
        if name == "decimal" and value not in ".,":
            raise CommandError(f"--decimal {value!r}: allowed: . or ,")
    if given["decimal"] is not None and given["decimal"] == given["thousands"]:
        raise CommandError(f"--decimal and --thousands are both {given['decimal']!r}")
    return How(**given)
