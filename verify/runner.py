"""Runs checks, in parallel, and writes down each result as it comes.

The unit of work is one check of one claim. With a pending folder, every finished unit is stored
at once; a run that was interrupted picks up what is there, provided that nothing the result
depends on has changed since (see `fingerprint`).
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import multiprocessing
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from verify import arithmetic, claims
from verify.claim import Check, Claim, Evidence, Run
from verify.collection import Collection
from verify.files import write_atomically

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("constructions", "verify")
_READER = "verify/experiments/results.py"
_RECORD = "verify/proofs/record.py"


class InfrastructureError(RuntimeError):
    """The run could not be carried out, through no fault of a claim."""


@dataclass(frozen=True)
class Done:
    """One finished unit. `seconds` is what the check took when it ran, in this run or before;
    `settings` is what applied to each arithmetic then, for a check that computes in several."""

    claim_id: str
    evidence: Evidence
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)


@cache
def fingerprint(claim_id: str, collection: Collection | None = None) -> str:
    """A hash of all source text that the evidence of a claim depends on.

    It is that of this project and of the packages in `collection.roots`; the same on every
    machine, wherever they are installed. The collection is the project's own by default.
    """
    digest = hashlib.sha256()
    for file in sources(claim_id, collection):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def sources(claim_id: str, collection: Collection | None = None) -> list[Path]:
    """The files that `fingerprint` reads: the claim's module, whatever it imports of this project
    and of the collection's packages, directly or through others, and the tables of results, if
    one of them reads those."""
    known = collection or claims.collection()
    roots = {**known.roots, **dict.fromkeys(_PACKAGES, _ROOT)}
    found: set[Path] = set()
    todo = [Path(str(known.entries[claim_id].module.__file__)).resolve()]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += _imported(file, tuple(sorted(roots.items())))
    if any(file.match(_READER) and file.is_relative_to(_ROOT) for file in found):
        from verify.experiments import results  # brings pyarrow and torch

        found.update(results.reference().glob("*.*"))
    if any(file.match(_RECORD) for file in found):
        proofs = Path(__file__).resolve().parent / "proofs"
        found.update([*proofs.glob("*.v"), *proofs.glob("*.json")])
    return sorted(found, key=lambda file: (_within(file, roots.values()), str(file)))


def _within(file: Path, folders: Iterable[Path]) -> str:
    """The path of a file below one of the folders, so that the order is the same everywhere."""
    inside = [str(file.relative_to(f)) for f in folders if file.is_relative_to(f)]
    return min(inside, key=len, default=file.name)


@cache
def _imported(file: Path, roots: tuple[tuple[str, Path], ...]) -> list[Path]:
    """The files of the packages in `roots` that a file imports, at its top or inside a function."""
    places = dict(roots)
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, file, places)
            names.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
    paths = [
        places[top] / name.replace(".", "/")
        for name in names
        if (top := name.split(".")[0]) in places
    ]
    files = [path.with_suffix(".py") for path in paths] + [path / "__init__.py" for path in paths]
    return sorted(path.resolve() for path in files if path.exists())


def _absolute(node: ast.ImportFrom, file: Path, places: Mapping[str, Path]) -> str:
    """The full name of what `from ... import` imports from, also where it begins with dots."""
    if not node.level:
        return node.module or ""
    folder = file.parents[node.level - 1]
    below = [folder.relative_to(f) for f in places.values() if folder.is_relative_to(f)]
    parts = min((path.parts for path in below), key=len, default=())
    return ".".join((*parts, *filter(None, [node.module])))


def run_check(claim_id: str, check: str, run: Run, collection: Collection | None = None) -> Done:
    """Run one check, on one thread: more of them add floats in another order.

    A crash becomes a problem of the evidence, so that nothing else is lost.
    """
    claim = (collection or claims.collection()).get(claim_id)
    unit = next(c for c in claim.checks if c.name == check)
    start = time.perf_counter()
    settings: dict[str, Any] = {}
    try:
        with threadpool_limits(1):
            evidence = unit.run(claim, run)
            evidence.check = check  # results are filed under it
            if uses_arithmetics(unit):
                settings = arithmetic.settings(run.arithmetics)
    except Exception as error:  # whatever a check raises is a finding about that check
        last = traceback.extract_tb(error.__traceback__)[-1]
        evidence = Evidence(check, unit.method, assuming=claim.needed)
        evidence.problem = (
            f"crashed with {type(error).__name__}: {error} ({Path(last.filename).name}, "
            f"line {last.lineno})"
        )
    return Done(claim_id, evidence, time.perf_counter() - start, settings)


def uses_arithmetics(check: Check) -> bool:
    """Whether a check computes in every arithmetic of the run, see `verify.arithmetic`."""
    return bool(getattr(check, "in_arithmetics", False))


def run_all(
    wanted: list[Claim],
    run: Run,
    jobs: int = 1,
    pending: Path | None = None,
    on_start: Callable[[int, int], None] | None = None,
    collection: Collection | None = None,
) -> Iterator[Done]:
    """Run every check of the claims; yields results as they finish.

    Parameters
    ----------
    jobs : worker processes; 1 runs in this process
    pending : folder for finished units, or None
    on_start : called once with (units in all, units taken over from `pending`)
    collection : where the claims are from; the project's own by default

    Raises
    ------
    InfrastructureError
        a worker process died.
    """
    units = [(claim.id, check) for claim in wanted for check in claim.checks]
    stored: list[Done] = []
    if pending is not None:
        for claim_id, check in units:
            done = _load(pending, claim_id, check, run, collection)
            if done is not None:
                stored.append(done)
    have = {(d.claim_id, d.evidence.check) for d in stored}
    if on_start is not None:
        on_start(len(units), len(stored))
    yield from stored
    todo = [(c, check.name) for c, check in units if (c, check.name) not in have]
    for done in _execute(todo, run, jobs, collection):
        if pending is not None:
            _store(pending, done, run, collection)
        yield done


def discard(pending: Path) -> None:
    """Forget the finished units of a run that has been written up."""
    shutil.rmtree(pending, ignore_errors=True)


def _execute(
    todo: list[tuple[str, str]], run: Run, jobs: int, collection: Collection | None = None
) -> Iterator[Done]:
    if jobs <= 1 or len(todo) <= 1:
        for claim_id, check in todo:
            with _single_threaded():
                done = run_check(claim_id, check, run, collection)
            yield done
        return
    with _single_threaded():
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(jobs, len(todo)), mp_context=context)
        try:
            futures: set[Future[Done]] = {
                pool.submit(run_check, c, n, run, collection) for c, n in todo
            }
            while futures:
                finished, futures = wait(futures, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        except BrokenProcessPool as error:
            raise InfrastructureError(
                "a worker process died (out of memory, or killed); finished checks are kept, so "
                "run the same command again, with -j 1 if it repeats"
            ) from error
        finally:
            workers = list((getattr(pool, "_processes", None) or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()


@contextlib.contextmanager
def _single_threaded() -> Iterator[None]:
    """One thread for linear algebra libraries that are loaded from here on, in this process or in
    a worker, where more would only wait for each other."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _place(pending: Path, claim_id: str, check: str, run: Run) -> Path:
    return pending / f"{run.profile.name}-{run.seed}" / f"{claim_id}--{check}.json"


def _store(pending: Path, done: Done, run: Run, collection: Collection | None = None) -> None:
    data = {
        "fingerprint": fingerprint(done.claim_id, collection),
        "seconds": done.seconds,
        "settings": done.settings,
        "evidence": done.evidence.to_json(),
    }
    place = _place(pending, done.claim_id, done.evidence.check, run)
    write_atomically(place, json.dumps(data))


def _load(
    pending: Path, claim_id: str, check: Check, run: Run, collection: Collection | None = None
) -> Done | None:
    place = _place(pending, claim_id, check.name, run)
    try:
        data = json.loads(place.read_text())
        if data["fingerprint"] != fingerprint(claim_id, collection):
            return None
        evidence = Evidence.from_json(data["evidence"])
        return Done(claim_id, evidence, data["seconds"], data["settings"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # absent, or cut off by a kill: run it again
