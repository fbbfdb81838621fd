"""The largest squared length of a center's embedding, by code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from constructions import codes
from verify.claim import (
    Case,
    Claim,
    Evidence,
    Hypothesis,
    Kind,
    Measured,
    Method,
    Plot,
    Run,
    Source,
    Table,
)
from verify.claims.expressivity._shared import Sample
from verify.search import Exhaustive, Study

POWER_OF_TWO = Hypothesis(
    "k is a power of two",
    "the number of clusters is 1, 2, 4, 8, ...",
    lambda case: (case["k"] & (case["k"] - 1)) == 0,
    extra=True,
)


def squared_norm(case: Case) -> Fraction:
    """Largest squared length of [c, b] with c in the unit cube: c = (1, ..., 1) beside the longest
    of the k codes, looked up in the table of codes."""
    return Fraction(case["d"] + codes.code(case["code"], case["k"]).norm)


def against(formula: Callable[[Case], Any]) -> Callable[[Case], Measured]:
    return lambda case: Measured(squared_norm(case), formula(case))


def token_width(case: Case) -> int:
    return int(case["d"] + codes.width_of(case["k"]))


def floor_log2(k: int) -> int:
    return k.bit_length() - 1


def most_ones(k: int) -> int:
    """The largest number of ones in the binary numbers below k, without a table.

    A number below k agrees with k - 1 down to some digit, has 0 where k - 1 has 1, and is free
    below that, so ones are best there; or it is k - 1 itself.
    """
    top = k - 1
    best = top.bit_count()
    for place in range(top.bit_length()):
        if top >> place & 1:
            best = max(best, (top >> (place + 1)).bit_count() + place)
    return best


def ones_and_floor(case: Case) -> Measured:
    return Measured(most_ones(case["k"]), floor_log2(case["k"]))


def counted_ones(run: Run, e: Evidence) -> None:
    """Every k from 1 up: the running maximum of ones, the digit rule, and floor(log2 k)."""
    best = 0
    for k in range(1, run.count(5000) + 1):
        best = max(best, (k - 1).bit_count())
        e.cases += 1
        if not best == most_ones(k) == floor_log2(k):
            e.violated += 1
            e.counterexample = e.counterexample or Case(k=k)
    e.scope = f"every k from 1 to {e.cases}, counted one by one"
    e.bound = e.measured = best


def huge(run: Run) -> Iterator[Case]:
    for j in range(2, 50 + run.count(150)):
        for k in (2**j - 1, 2**j, 2**j + 1, 3 * 2**j - 1):
            yield Case(k=k)


def exponents(claim: Claim, run: Run, e: Evidence) -> None:
    """d_E by code, and what becomes of the exponent d_E / sqrt(d_emb) of Theorem 3.1."""
    rows = []
    for k in (2, 3, 4, 6, 7, 8, 10, 15, 16, 25, 32, 50, 64, 100, 128):
        norms = [squared_norm(Case(k=k, d=4, code=c)) for c in ("binary", "half", "one_hot")]
        rows.append([k, 4 + codes.width_of(k), *map(float, norms), 4 + (k - 1) ** 2])
    e.tables.append(
        Table(
            "squared-norms",
            "Largest squared length of a center's embedding at d = 4, by code",
            ("k", "d_emb (binary)", "binary", "half", "one-hot", "scalar"),
            rows,
            Plot(
                x="k",
                lines=("d_emb (binary)",),
                points=("binary", "half", "one-hot"),
                x_label="clusters k",
                y_label="largest squared length",
                log_x=True,
                caption="The binary code reaches its token width only at powers of two.",
            ),
        )
    )
    rows = []
    for d, k in ((4, 6), (4, 25), (4, 100), (32, 6), (32, 25), (32, 100)):
        row: list[Any] = [d, k, token_width(Case(d=d, k=k)) / math.sqrt(d + codes.width_of(k))]
        for name in ("binary", "half", "one_hot"):
            width = d + codes.code(name, k).width
            row.append(float(squared_norm(Case(d=d, k=k, code=name))) / math.sqrt(width))
        rows.append(row)
    e.tables.append(
        Table(
            "exponents",
            "The exponent d_E / sqrt(d_emb) of Theorem 3.1",
            ("d", "k", "binary as stated", "binary", "half", "one-hot"),
            rows,
        )
    )
    e.cases = len(rows)


def every(code: str, dimensions: tuple[int, ...], ks: Any) -> Callable[[Run], Iterator[Case]]:
    return lambda run: (Case(k=k, d=d, code=code) for k in ks for d in dimensions)


CLAIM = Claim(
    id="embedding-norm",
    title="The squared length of the binary embedding",
    says="In Theorem 3.1 the largest squared length of a center's embedding is said to be the "
    "token width, d + ceil(log2 k), for the binary code. It is d + floor(log2 k): the two agree "
    "only when k is a power of two. For the one-hot code it is d + 1, as stated; moving the bits "
    "to -1/2 and 1/2 brings it down to d + ceil(log2 k)/4.",
    statement=r"d_E = \max_j \left\| [c_j; b_j] \right\|^2 = d_{\mathrm{emb}} = d + \lceil \log_2 k"
    r" \rceil, \qquad c_j \in [0, 1]^d,\ b_j \text{ the binary code of } j - 1",
    sources=(Source("review", "theorem 3.1"), Source("summary", "App. I, pp. 46-47")),
    kind=Kind.EQUALITY,
    bound=r"d + \lceil \log_2 k \rceil",
    hypotheses=(POWER_OF_TWO,),
    measure=against(token_width),
    checks=(
        Exhaustive(
            "as-stated",
            scope="d = 1, every k from 1 up",
            assuming=(),
            cases=every("binary", (1,), range(1, 65)),
            until_violation=True,
        ),
        Exhaustive(
            "powers-of-two",
            scope="d = 1, 4, 32 and k = 1, 2, 4, ..., 1024",
            cases=every("binary", (1, 4, 32), [2**j for j in range(11)]),
        ),
        Study(
            "floor",
            Method.EXHAUSTIVE,
            lambda claim, run, e: counted_ones(run, e),
            variant="for the binary code d_E = d + floor(log2 k)",
            assuming=(),
            arithmetic="integers",
        ),
        Exhaustive(
            "floor-tables",
            scope="d = 1, 4 and every k to 130, from the table of codes",
            variant="for the binary code d_E = d + floor(log2 k), from the table",
            assuming=(),
            cases=every("binary", (1, 4), range(1, 131)),
            measure=against(lambda case: case["d"] + floor_log2(case["k"])),
        ),
        Sample(
            "floor-huge",
            scope="k = 2^j - 1, 2^j, 2^j + 1, 3 * 2^j - 1 for j up to 199",
            variant="for the binary code d_E = d + floor(log2 k), far beyond any table",
            assuming=(),
            cases=huge,
            measure=ones_and_floor,
            arithmetic="integers",
        ),
        Exhaustive(
            "one-hot",
            scope="d = 1, 4 and every k to 130",
            variant="for the one-hot code d_E = d + 1",
            assuming=(),
            cases=every("one_hot", (1, 4), range(1, 131)),
            measure=against(lambda case: case["d"] + 1),
        ),
        Exhaustive(
            "half",
            scope="d = 1, 4 and every k to 130",
            variant="for bits moved to -1/2 and 1/2, d_E = d + ceil(log2 k)/4",
            assuming=(),
            cases=every("half", (1, 4), range(1, 131)),
            measure=against(lambda case: case["d"] + Fraction(codes.width_of(case["k"]), 4)),
        ),
        Study(
            "exponents",
            Method.EXACT,
            exponents,
            scope="d = 4, 32; k = 6, 25, 100",
            variant="what it changes in the exponent of Theorem 3.1",
            assuming=(),
            arithmetic="exact rationals, shown as floats",
        ),
    ),
    falsify="a k that is a power of two where the longest binary code of 0, ..., k - 1 does not "
    "have log2 k ones",
    theory="expressivity.md#embedding-norms",
    conflict="The review states d_E = d_emb for the binary code; the summary only calls d_E the "
    "embedding norm of the initial centers.",
)
