"""What every command shares: exit codes, one-line errors, progress, JSON output."""

from __future__ import annotations

import contextlib
import io
import json
import os
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
        with contextlib.suppress(OSError):  # standard error is full, too: the exit code is left
            click.echo(f"leanlloyd: {self.format_message()}", err=True)


class OutputError(Exception):
    """Standard output takes no more. Not an `OSError`: no command may mistake it for its own file.

    Attributes
    ----------
    closed : the reader has gone, as `head` does when it has seen enough
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror or error}")
        self.closed = isinstance(error, BrokenPipeError)


class _Output(io.TextIOWrapper):
    """Standard output whose failures are told apart from those of files."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(error) from None

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputError(error) from None


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """Failures of standard output are `OutputError` here, the last ones included; after one,
    whatever is still to be written there is dropped."""
    before = sys.stdout
    if before is None or not hasattr(before, "buffer"):  # closed, or a test's own
        yield
        return
    before.flush()
    output = _Output(
        before.buffer,
        before.encoding,
        before.errors,
        line_buffering=bool(getattr(before, "line_buffering", False)),
        write_through=bool(getattr(before, "write_through", False)),
    )
    sys.stdout = output
    try:
        yield
        output.flush()
    except OutputError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        raise
    finally:
        sys.stdout = before
        with contextlib.suppress(OutputError):
            output.flush()
            output.detach()


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
