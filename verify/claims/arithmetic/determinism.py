"""The same bits on repeat, with one thread and with two, and on a GPU.

A first call is not compared: libraries start their threads and choose their kernels in it. What is
claimed is that one call is like the next, in one process with one number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from verify import arithmetic as arithmetics
from verify.arithmetic import Arithmetic, UnavailableError
from verify.claim import Answer, Case, Claim, Evidence, Kind, Measured, Method, Run, Source, Table
from verify.claims.arithmetic._matrix import OPERATIONS, WRONG, StudyOfArithmetics, guarded
from verify.claims.arithmetic._operation import Operation
from verify.search import Tally

ROWS, ALL_PAIRS = 12_000, 400
"""Rows of a case: as many as it takes for threads to share the work. Where all pairs of rows are
computed, fewer will do."""
REPEATS = 3
_TABLES = (("X",), ("q",), ("k", "v"), ("r", "direction"), ("noise", "members"))


@lru_cache(maxsize=16)
def enlarged(operation: Operation, seed: int) -> Case:
    """A general case of the operation, of which rows are repeated at random."""
    rng = np.random.default_rng(seed)
    fields = dict(operation.general(rng))
    count = ALL_PAIRS if {"q", "code", "gamma"} & set(fields) else ROWS
    for names in _TABLES:
        tables = {name: np.atleast_2d(fields[name]) for name in names if name in fields}
        if names[0] in tables:
            chosen = rng.integers(0, tables[names[0]].shape[0], count)
            for name, table in tables.items():
                flat = name == "members"
                fields[name] = table.ravel()[chosen] if flat else table[chosen]
    return Case(**fields)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for numpy's linear algebra and for torch; as before afterwards.

    Raises
    ------
    RuntimeError
        torch does not take the number.
    """
    before = torch.get_num_threads()
    with threadpool_limits(count):
        torch.set_num_threads(count)
        try:
            if torch.get_num_threads() != count:
                raise RuntimeError(f"torch does not run on {count} threads")
            yield
        finally:
            torch.set_num_threads(before)


def differing(case: Case) -> Measured:
    """How many numbers have other bits than in the first of some runs, after one that warms up."""
    used = arithmetics.get(case["arithmetic"])
    if used.why_not:
        raise UnavailableError(f"{used.name} is not available here: {used.why_not}")
    (operation,) = (o for o in OPERATIONS if o.name == case["operation"])
    # exact numbers do not round: a small case will do
    rng = np.random.default_rng(case["seed"])
    made = operation.general(rng) if used.exact else enlarged(operation, case["seed"])
    runs = []
    with threads(case["threads"]):
        for _ in range(1 + REPEATS):
            # the inputs are put into new memory each time
            outputs = operation.compute(used, made)
            runs.append({name: used.get(value) for name, value in outputs.items()})
    first = runs[1]
    count = sum(_other_bits(first[name], run[name]) for run in runs[2:] for name in first)
    return Measured(count, 0, note=f"{used.name}, {operation.name}")


def _other_bits(a: Any, b: Any) -> int:
    if a.shape != b.shape or a.dtype != b.dtype:
        return max(a.size, b.size)
    if a.dtype == object:
        return sum(u != v for u, v in zip(a.ravel(), b.ravel(), strict=True))
    a, b = (np.ascontiguousarray(x).view(np.uint8).reshape(x.size, x.itemsize) for x in (a, b))
    return int(np.any(a != b, axis=-1).sum())


def examine(claim: Claim, run: Run, e: Evidence) -> None:
    tally = Tally(claim, (), None)
    tally.evidence = e
    chosen = arithmetics.selected(run.arithmetics)
    rows = []
    for used in chosen:
        row = [used.name]
        for operation in OPERATIONS:
            why = operation.refuses(used) or used.why_not
            row.append(f"not run: {why}" if why else _cell(tally, used, operation, run))
        rows.append(row)
    title = f"The same bits in {REPEATS} runs? Operations and arithmetics"
    columns = ("arithmetic", *(operation.name for operation in OPERATIONS))
    e.tables.append(Table("determinism", title, columns, rows))
    ran = [used.name for used in chosen if not used.why_not]
    e.arithmetic = ", ".join(ran)
    e.scope = f"{len(OPERATIONS)} operations in {len(ran)} arithmetics, up to {ROWS:,} rows"
    missing = [f"{used.name} ({used.why_not})" for used in chosen if used.why_not]
    e.note = f"not run: {', '.join(missing)}" if missing else ""
    if arithmetics.gpu_required() and arithmetics.missing(tuple(a.name for a in chosen)):
        e.problem = "; ".join(arithmetics.missing(tuple(a.name for a in chosen)))


def _cell(tally: Tally, used: Arithmetic, operation: Operation, run: Run) -> str:
    numbers = (1,) if used.gpu or used.exact else (1, 2)
    seed = run.stream(tally.claim.id, operation.name)
    wrong = []
    for count in numbers:
        case = Case(operation=operation.name, arithmetic=used.name, threads=count, seed=seed)
        answer, _ = tally.judge(case)
        if answer is Answer.VIOLATED:
            wrong.append(count)
    if wrong:
        return f"{WRONG} other bits on repeat" + ("" if len(numbers) == 1 else f" ({wrong})")
    return "same bits" if len(numbers) == 1 else "same bits with 1 and with 2 threads"


CLAIM = Claim(
    id="determinism",
    title="The same bits on repeat",
    says="Run again on the same numbers in the same process, each operation gives the same bits in "
    "every arithmetic: on a CPU with one thread and with two (which need not agree with each "
    "other), and on a GPU.",
    statement=r"f_{\mathrm{fl}}(x) = f_{\mathrm{fl}}(x)\ \text{again}",
    sources=(Source("beyond", "one implementation for all arithmetics"),),
    kind=Kind.EQUALITY,
    bound=r"\#\{\text{numbers with other bits}\} = 0",
    measure=guarded(differing),
    checks=(StudyOfArithmetics("repeats", Method.PROPERTY, examine),),
    falsify="an operation, an arithmetic and a number of threads for which a later run in the same "
    "process gives a number with other bits",
    theory="arithmetic.md#determinism",
)
