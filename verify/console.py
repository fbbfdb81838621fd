"""What every command shares: exit codes, one-line errors, progress, JSON output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, TypeVar

import click

T = TypeVar("T")


class Exit(IntEnum):
    """Exit codes, as documented in the README."""

    OK = 0
    FAILED = 1  # a claim's expected verdict changed, or a check failed
    USAGE = 2  # usage or bad input
    STALE = 3  # evidence does not belong to the sources at hand
    INFRASTRUCTURE = 4  # the run could not be carried out
    INTERRUPTED = 130  # Ctrl-C


class CommandError(click.ClickException):
    """One line for the user, and an exit code."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code

    def show(self, file: Any = None) -> None:
        click.echo(f"leanlloyd: {self.format_message()}", err=True)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False))


def progress(items: Iterable[T], total: int, label: Any, unit: str = "checks") -> Iterator[T]:
    """Pass items through and show how far it is: a bar with the time left on a terminal, a line
    per item otherwise. `label(item)` says what was finished. All of it goes to standard error."""
    if sys.stderr.isatty():
        yield from _bar(items, total, label)
        return
    for done, item in enumerate(items, 1):
        click.echo(f"[{done}/{total} {unit}] {label(item)}", err=True)
        yield item


def _bar(items: Iterable[T], total: int, label: Any) -> Iterator[T]:
    from rich.console import Console, RenderableType
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class WithText(Progress):
        """The text has a line of its own: beside the bar it would squeeze it to nothing."""

        def get_renderables(self) -> Iterable[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            for task in self.tasks:
                yield Text(task.description, no_wrap=True, overflow="ellipsis")

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with WithText(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)
        for item in items:
            bar.update(task, advance=1, description=str(label(item)))
            yield item
