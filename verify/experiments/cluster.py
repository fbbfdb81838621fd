"""A Dask cluster that carries out the jobs of a sweep."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from verify.experiments.sweep import Job, Outcome, SweepError, carry_out, in_words
from verify.experiments.workers import LOOK_AGAIN, Others, Say

CONNECT = 8.0  # seconds that a scheduler has to answer


def on_cluster(
    jobs: Sequence[Job], folder: Path, scheduler: str, say: Say = lambda _: None
) -> Generator[Outcome, None, None]:
    """Carry out jobs on a Dask cluster whose workers see the folder. The cell of a worker that
    dies is given to another one, which continues from its checkpoint.

    Raises
    ------
    SweepError
        dask.distributed is not installed, the scheduler does not answer, it is lost on the way,
        or a worker cannot write the folder.
    """
    distributed = _distributed()
    try:
        client = distributed.Client(scheduler, timeout=CONNECT)
    except (OSError, ValueError, TypeError) as error:
        raise SweepError(f"no Dask scheduler at {scheduler}: {error}") from None
    others = Others(folder, say)
    work: dict[Any, Job] = {}
    try:
        if not client.scheduler_info()["workers"]:
            say(f"{scheduler} has no workers yet; `dask worker {scheduler}` starts some")
        todo = list(jobs)
        while todo or work or others:
            todo += others.released()
            work |= {client.submit(carry_out, job, folder, pure=False): job for job in todo}
            todo = []
            for future in _done(distributed, list(work), LOOK_AGAIN if others else None):
                job = work.pop(future)
                outcome = _outcome(job, future)
                if not others.has(job, outcome):
                    yield outcome
    except (OSError, CancelledError):
        raise SweepError(
            f"the connection to the scheduler at {scheduler} was lost; the same command continues"
        ) from None
    finally:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            client.cancel(list(work))
        client.close()


def _distributed() -> Any:
    try:
        import distributed
    except ModuleNotFoundError:
        raise SweepError(
            "--scheduler needs dask.distributed; pip install 'leanlloyd[sweep]'"
        ) from None
    # it logs what is raised or retried anyway
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed


def _done(distributed: Any, futures: list[Any], timeout: float | None) -> Iterator[Any]:
    """The futures that have come to an end; waits for at least one, or for the seconds given."""
    if not futures:
        time.sleep(timeout or 0.0)
        return
    with contextlib.suppress(TimeoutError):
        distributed.wait(futures, timeout=timeout, return_when="FIRST_COMPLETED")
    yield from [future for future in futures if future.done()]


def _outcome(job: Job, future: Any) -> Outcome:
    wrong = future.exception()
    if isinstance(wrong, SweepError):
        raise wrong
    if wrong is not None:
        return Outcome(job.cell.name, failure=in_words(wrong))
    return future.result()
