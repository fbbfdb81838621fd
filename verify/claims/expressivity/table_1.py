"""How much time and memory the binary code saves: the paper's Table 1, measured elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from constructions import codes
from verify.bench.attention import CLUSTERS, CODES_TABLE, PAPER, QUANTITIES, D, N
from verify.bench.recorded import recorded, where
from verify.claim import Answer, Claim, Evidence, Kind, Method, Plot, Run, Source, Table
from verify.search import Study

BATCH = 8  # tasks at a time, the larger of the two that are measured
GROWING = (25, 100, 400, 1000)
LITTLE = 1.25  # what still counts as no gain, at k = 6
Ratio = tuple[float, float, float]  # median, least and largest of the rounds


@dataclass(frozen=True)
class Statement:
    """One number is at least another; each has a range over the rounds of the measurement."""

    says: str
    larger: Ratio
    smaller: Ratio

    def decide(self) -> Answer:
        if self.larger[1] >= self.smaller[2]:
            return Answer.HOLDS
        return Answer.VIOLATED if self.larger[2] < self.smaller[1] else Answer.UNDECIDED


def exactly(value: float) -> Ratio:
    return (value, value, value)


def ratios(table: Table, implementation: str, code: str) -> dict[tuple[int, str], Ratio]:
    """One-hot over a narrower code, by number of clusters and quantity."""
    columns = [table.columns.index(implementation + part) for part in ("", ", least", ", largest")]
    return {
        (row[1], row[3]): (row[columns[0]], row[columns[1]], row[columns[2]])
        for row in table.rows
        if row[0] == BATCH and row[2] == code
    }


def statements(found: dict[tuple[int, str], Ratio]) -> list[Statement]:
    listed = []
    for i, q in enumerate(QUANTITIES):
        top = GROWING[-1]
        paper = exactly(PAPER[top][i])
        listed.append(Statement(f"{q}, k = {top}: at least the paper's", found[top, q], paper))
        listed.append(Statement(f"{q}, k = 100: at least 1", found[100, q], exactly(1.0)))
        for small, large in itertools.pairwise(GROWING):
            says = f"{q}: at least as much at k = {large} as at k = {small}"
            listed.append(Statement(says, found[large, q], found[small, q]))
        says = f"{q}, k = 6: at most {LITTLE}"
        listed.append(Statement(says, exactly(LITTLE), found[6, q]))
    return listed


def counted(k: int) -> float:
    """Multiply-adds of one layer, one-hot over binary (docs/theory/expressivity.md)."""

    def of(width: int) -> int:
        return 2 * width * (N + k) * (3 * width + N + k)

    return of(D + k) / of(D + codes.width_of(k))


def judged(implementation: str, file: str, command: str) -> Callable[[Claim, Run, Evidence], None]:
    """Decide the statements on the measurement in `reports/data`."""

    def examine(claim: Claim, run: Run, e: Evidence) -> None:
        record = recorded(file)
        if record is None:
            e.note = f"not measured; `{command}` does"
            return
        found = ratios(record["tables"][CODES_TABLE], implementation, "binary")
        rows = []
        for s in statements(found):
            answer = s.decide()
            e.count(answer)
            rows.append([s.says, *map(rounded, s.larger), *map(rounded, s.smaller), str(answer)])
        e.measured, e.bound = rounded(found[GROWING[-1], "forward"][0]), rounded(PAPER[1000][0])
        e.note = f"batch {BATCH}, {where(record)}"
        sides = [f"{side}{part}" for side in ("left", "right") for part in ("", " least", " most")]
        title = "Each statement: left is at least right, with the least and largest of the rounds"
        e.tables.append(Table(f"{e.check}-statements", title, ("what", *sides, "answer"), rows))
        if implementation == "plain":  # its figures show both
            e.tables += [figure(e.check, record, q, i) for i, q in enumerate(QUANTITIES)]

    return examine


def figure(check: str, record: dict[str, Any], quantity: str, place: int) -> Table:
    """The ratio of one quantity over k, in both implementations, and what the paper has."""
    table = record["tables"][CODES_TABLE]
    columns = [
        ratios(table, implementation, code)
        for code in ("binary", "scalar")
        for implementation in ("plain", "fast")
    ]
    rows: list[list[Any]] = []
    for k in CLUSTERS:
        measured = [rounded(column[k, quantity][0]) for column in columns]
        rows.append([k, rounded(PAPER[k][place]), *measured, rounded(counted(k))])
    names = ("plain", "fast", "plain, scalar code", "fast, scalar code")
    unit = "memory" if quantity == "memory" else f"{quantity} time"
    return Table(
        f"{check}-{quantity}",
        f"{unit.capitalize()}, one-hot over binary (or scalar) code, batch {BATCH}",
        ("k", "paper", *names, "multiply-adds"),
        rows,
        Plot(
            "k",
            lines=("paper",),
            points=("plain", "fast"),
            x_label="clusters",
            y_label="one-hot / binary",
            log_x=True,
            log_y=True,
            caption="Plain multiplies by the one-hot code like by any other numbers and keeps all "
            "weights; fast looks it up. Memory is as the C library gives it: where a process keeps "
            "it, the plain ratios of times are larger.",
        ),
    )


def rounded(value: float) -> float:
    """Four digits are more than two runs agree in."""
    return float(f"{value:.4g}")


FILE, COMMAND = "table-1", "leanlloyd bench attention --out reports/data/table-1.json"


def study(
    name: str, implementation: str, variant: str = "", file: str = FILE, command: str = COMMAND
) -> Study:
    return Study(
        name,
        Method.EXPERIMENT,
        judged(implementation, file, command),
        scope=f"d = {D}, n = {N}, k = {', '.join(map(str, CLUSTERS))}, batch {BATCH}",
        variant=variant,
        arithmetic="torch float32",
    )


CLAIM = Claim(
    id="table-1",
    title="Time and memory of the binary code",
    says="For d = 32 and n = 1024 the one-hot transformer takes up to 12.14 times the time of the "
    "binary one forward, 9.54 times backward, and 3.25 times the memory (69.3 % are saved), at "
    "k = 1000; the ratio grows with k, and at k = 6 there is nothing to gain.",
    statement=r"\frac{\text{time}_{\text{one-hot}}}{\text{time}_{\text{binary}}} = 12.14"
    r" \text{ forward}, \; 9.54 \text{ backward}; \qquad \frac{\text{memory}_{\text{one-hot}}}"
    r"{\text{memory}_{\text{binary}}} = 3.25 \qquad (k = 1000)",
    sources=(Source("review", "Table 1"), Source("summary", "Sec. 2, pp. 4-5; Fig. 1, p. 4")),
    kind=Kind.TREND,
    bound=r"\text{see the table}",
    checks=(
        study("plain", "plain"),
        study(
            "fast",
            "fast",
            variant="both codes in an implementation that looks one-hot codes up and keeps no "
            "matrix of weights that it can compute again",
        ),
        study(
            "gpu",
            "plain",
            variant="on a GPU",
            file="table-1-cuda",
            command="leanlloyd bench attention --device cuda --out reports/data/table-1-cuda.json",
        ),
    ),
    falsify="a measured ratio on the other side of what the table states, in every round",
    theory="expressivity.md#time-and-memory",
)
