"""Processes of this machine that carry out the jobs of a sweep.

A cell that another sweep works on is left to it, and looked at again later.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from verify.experiments.sweep import (
    Job,
    Outcome,
    SweepError,
    carry_out,
    held,
    prepare,
)

DEATHS = 3  # a cell whose process dies this often is given up
LOOK_AGAIN = 1.0  # seconds between looks at cells that others work on

_SPAWN = multiprocessing.get_context("spawn")
Say = Callable[[str], object]


def local(
    jobs: Sequence[Job], folder: Path, workers: int, say: Say = lambda _: None
) -> Generator[Outcome, None, None]:
    """Carry out jobs in processes of this machine. One that dies is replaced.

    Parameters
    ----------
    jobs, folder : what and where
    workers : processes at a time
    say : is told what a user should know besides the outcomes

    Raises
    ------
    SweepError
        the folder cannot be written.
    """
    todo, others = deque(jobs), Others(folder, say)
    deaths: Counter[Job] = Counter()
    made: list[_Worker] = []
    idle: list[_Worker] = []
    busy: dict[Any, tuple[_Worker, Job]] = {}
    try:
        while todo or busy or others:
            todo += others.released()
            while todo and len(busy) < workers:
                if not idle:
                    made.append(_Worker())
                    idle.append(made[-1])
                worker = idle.pop()
                job = todo.popleft()
                worker.give(job, folder)
                busy[worker.pipe] = worker, job
            for pipe in wait(list(busy), LOOK_AGAIN if others else None):
                worker, job = busy.pop(pipe)
                try:
                    outcome = worker.answer()
                    idle.append(worker)
                except EOFError:
                    code = worker.end()
                    deaths[job] += 1
                    if deaths[job] < DEATHS:
                        todo.append(job)
                        continue
                    why = f"signal {-code}" if code < 0 else f"code {code}"
                    failure = f"its process died {DEATHS} times, at last with {why}"
                    outcome = Outcome(job.cell.name, failure=failure)
                if not others.has(job, outcome):
                    yield outcome
    finally:
        for worker in made:
            worker.end()


class _Worker:
    """A process that carries out one job after the other, and ends with the one that made it."""

    def __init__(self) -> None:
        self.pipe, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(other,), daemon=True)
        # Ctrl-C reaches the whole group of processes; the first one decides what happens.
        # A blocked signal stays blocked in a new process, from its first instruction on.
        # (Python's resource tracker unblocks it when it starts, so that has to be before.)
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()

    def give(self, job: Job, folder: Path) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died; its answer says so
            self.pipe.send((job, folder))

    def answer(self) -> Outcome:
        """Its answer to what it was given; EOFError if it died."""
        try:
            answer = self.pipe.recv()
        except ConnectionResetError:
            raise EOFError from None
        if isinstance(answer, SweepError):
            raise answer
        return answer

    def end(self) -> int:
        """Stop it, whatever it does; returns its exit code."""
        self._process.terminate()
        self._process.join()
        self.pipe.close()
        return self._process.exitcode or 0


def _serve(pipe: Connection) -> None:
    prepare()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):  # the other end is closed
        while True:
            job, folder = pipe.recv()
            try:
                answer: Outcome | SweepError = carry_out(job, folder)
            except SweepError as error:
                answer = error
            pipe.send(answer)


def _end_with_parent() -> None:
    """A killed sweep leaves no process behind that nobody knows of."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Others:
    """The jobs whose cells other sweeps work on."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._folder, self._say = folder, say
        self._jobs: list[Job] = []
        self._named: set[Job] = set()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def has(self, job: Job, outcome: Outcome) -> bool:
        """Whether the outcome says that another sweep works on the cell; then it is kept here."""
        if not outcome.held_by:
            return False
        self._jobs.append(job)
        if job not in self._named:
            self._named.add(job)
            self._say(f"{outcome.name}: left to {outcome.held_by}, which works on it")
        return True

    def released(self) -> list[Job]:
        """The jobs whose cells are free again."""
        free = [job for job in self._jobs if not held(job, self._folder)]
        self._jobs = [job for job in self._jobs if job not in free]
        return free
