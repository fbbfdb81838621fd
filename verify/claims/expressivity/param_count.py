"""How many parameters the binary code saves over the one-hot code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

import sympy
import z3

from constructions import LloydTransformer, codes
from verify.claim import (
    Case,
    Claim,
    Evidence,
    Kind,
    Measured,
    Method,
    Plot,
    Run,
    Source,
    Table,
)
from verify.claims.expressivity._shared import Sample
from verify.oracles.smt import decide
from verify.search import Exhaustive, Proof, Step, Study

QUARTER = Fraction(1, 4)


def parameters(d: int, width: int) -> int:
    """Four attention modules of three (d + p) x (d + p) matrices."""
    return 12 * (d + width) ** 2


def ratio(d: int, k: int) -> Fraction:
    """Parameters with the binary code over parameters with the one-hot code, in integers: no
    floating logarithm, which is off by one at k = 2^49 + 1."""
    return Fraction(parameters(d, codes.width_of(k)), parameters(d, k))


def measure(case: Case) -> Measured:
    d, k = case["d"], case["k"]
    return Measured(
        ratio(d, k),
        QUARTER,
        answers={
            "binary": parameters(d, codes.width_of(k)),
            "one-hot": parameters(d, k),
        },
    )


def built(case: Case) -> Measured:
    """Entries of the matrices of a model that is really built, against the formula."""
    model = LloydTransformer(case["d"], case["k"], case["code"])
    entries = sum(matrix.size for module in model.matrices.values() for matrix in module)
    return Measured(entries, parameters(case["d"], model.code.width))


def models(run: Run) -> Iterator[Case]:
    for code in ("binary", "one_hot", "scalar", "circle"):
        for d in (1, 2, 4, 32):
            for k in (1, 2, 3, 4, 5, 6, 8, 9, 16, 17, 25, 33, 64, 65):
                yield Case(d=d, k=k, code=code)


def same(sizes: Iterable[int]) -> Iterator[Case]:
    return (Case(d=size, k=size) for size in sizes)


def around_powers(run: Run) -> Iterator[int]:
    for j in range(14, 14 + run.count(187)):
        yield from (2**j - 1, 2**j, 2**j + 1)


def exceeded(case: Case) -> Measured:
    """Left: the ratio is above a quarter, not equal to it. Right: k > 1."""
    return Measured(ratio(case["d"], case["k"]) > QUARTER, case["k"] > 1)


def enough_bits(case: Case) -> Measured:
    """Whether the integer width is ceil(log2 k): 2^(p-1) < k <= 2^p."""
    k = case["k"]
    p = codes.width_of(k)
    return Measured(k <= 2**p and (p == 0 or 2 ** (p - 1) < k), True)


def limits(run: Run) -> Iterator[Step]:
    """ceil(log2 k) is in [log2 k, log2 k + 1); the ratio tends to a quarter at both ends."""
    d, c = sympy.symbols("d c", positive=True)
    for name, extra in (("log2 k", 0), ("log2 k + 1", 1)):
        same_size = ((d + sympy.log(d, 2) + extra) / (2 * d)) ** 2
        scaled = ((d + sympy.log(c * d, 2) + extra) / (d + c * d)) ** 2
        found = sympy.limit(same_size, d, sympy.oo)
        yield Step(f"k = d, p = {name}: limit {found}", _same(found, sympy.Rational(1, 4)))
        found = sympy.limit(scaled, d, sympy.oo)
        yield Step(f"k = c d, p = {name}: limit {found}", _same(found, 1 / (1 + c) ** 2))


def _same(a: sympy.Expr, b: sympy.Expr) -> str:
    return "proved" if sympy.simplify(a - b) == 0 else "refuted"


def above(run: Run) -> Iterator[Step]:
    d, p, k = z3.Reals("d p k")
    yield decide(
        "(d + p)^2 > (2d)^2 / 4 for all d > 0 and p > 0",
        [d > 0, p > 0],
        4 * (d + p) ** 2 > (2 * d) ** 2,
        (d, p),
    )
    yield decide(
        "one-hot: 12 (d + k)^2 > 12 k^2 for all d, k > 0",
        [d > 0, k > 0],
        12 * (d + k) ** 2 > 12 * k**2,
        (d, k),
    )


def curve(claim: Claim, run: Run, e: Evidence) -> None:
    sizes = sorted({2**j for j in range(13)} | {3, 5, 6, 9, 17, 25, 33, 65, 100, 400, 1000})
    rows = [
        [
            s,
            parameters(s, codes.width_of(s)),
            parameters(s, s),
            0.25,
            float(ratio(s, s)),
            float(Fraction(parameters(s, 1), parameters(s, s))),
        ]
        for s in sizes
    ]
    e.tables.append(
        Table(
            "ratio",
            "Parameters at k = d: binary code over one-hot code",
            ("k = d", "binary", "one-hot", "limit 1/4", "binary/one-hot", "scalar/one-hot"),
            rows,
            Plot(
                x="k = d",
                lines=("limit 1/4",),
                points=("binary/one-hot", "scalar/one-hot"),
                x_label="clusters and coordinates, k = d",
                y_label="share of the one-hot parameters",
                log_x=True,
                caption="The share comes down to one quarter and never reaches it.",
            ),
        )
    )
    rows = [
        [k, codes.width_of(k), *(float(r) for r in (ratio(32, k), Fraction(33**2, (32 + k) ** 2)))]
        for k in (6, 25, 100, 400, 1000)
    ]
    e.tables.append(
        Table(
            "ratio-d-32",
            "Parameters at d = 32, the setting of Table 1",
            ("k", "bits", "binary/one-hot", "scalar/one-hot"),
            rows,
        )
    )
    e.cases = len(sizes) + len(rows)


CLAIM = Claim(
    id="param-count",
    title="Parameters: a quarter, in the limit only",
    says="The twelve matrices have 12(d + ceil(log2 k))^2 entries with the binary code and "
    "12(d + k)^2 with the one-hot code. For k = d the share falls to one quarter (75 % saved) as d "
    "grows, and it is above one quarter at every finite k = d >= 2.",
    statement=r"N = 12\,(d + p)^2, \qquad \frac{N_{\mathrm{BN}}}{N_{\mathrm{OH}}} = \left(\frac{d +"
    r" \lceil \log_2 k \rceil}{d + k}\right)^2 \to \frac14 \quad (k = d \to \infty)",
    sources=(Source("summary", "Section 2, pp. 2, 4"), Source("review", "design 1")),
    kind=Kind.LOWER,
    bound=r"\frac{N_{\mathrm{BN}}}{N_{\mathrm{OH}}} \ge \frac14 \quad (k = d)",
    measure=measure,
    checks=(
        Proof(
            "limit",
            Method.SYMBOLIC,
            limits,
            scope="k = d and k = c d, both ends of the rounding of log2 k",
        ),
        Proof(
            "above-a-quarter",
            Method.SMT,
            above,
            scope="all real d, p > 0; p = ceil(log2 k) > 0 for every k >= 2",
            decides_all=True,
            sharper="strictly above one quarter at every finite k = d >= 2, with the exact value "
            "((d + ceil(log2 d)) / 2d)^2: 56 % at d = 2, 39 % at 16, 29 % at 100, 25.5 % at 1000",
        ),
        Exhaustive(
            "counted",
            scope="every matrix of models that are built: four codes, d <= 32, k <= 65",
            variant="a model that is built has 12 (d + p)^2 matrix entries",
            kind=Kind.EQUALITY,
            cases=models,
            measure=built,
            arithmetic="integers",
        ),
        Exhaustive(
            "every-size",
            scope="every k = d from 2 on",
            cases=lambda run: same(range(2, run.count(10_000) + 1)),
            arithmetic="integers",
        ),
        Exhaustive(
            "only-one-reaches-it",
            scope="every k = d from 1 on",
            kind=Kind.IFF,
            cases=lambda run: same(range(1, run.count(1000) + 1)),
            measure=exceeded,
            arithmetic="integers",
        ),
        Sample(
            "beyond-floats",
            scope="k = d = 2^j - 1, 2^j, 2^j + 1 for j from 14 to 200",
            kind=Kind.IFF,
            cases=lambda run: same(around_powers(run)),
            measure=exceeded,
            arithmetic="integers",
        ),
        Sample(
            "width",
            variant="the number of bits is ceil(log2 k), far beyond floats",
            scope="k = 2^j - 1, 2^j, 2^j + 1 for j from 14 to 200",
            kind=Kind.IFF,
            cases=lambda run: same(around_powers(run)),
            measure=enough_bits,
            arithmetic="integers",
        ),
        Study(
            "curve",
            Method.EXACT,
            curve,
            scope="k = d to 4096, and d = 32",
            arithmetic="integers, shown as floats",
        ),
    ),
    falsify="a built model whose matrices have another number of entries, or a k = d >= 2 with a "
    "share of at most one quarter",
    theory="expressivity.md#parameter-counts",
    conflict='The summary calls one quarter an asymptotic ratio; the review says "up to 75 %" '
    "saved when k is about d.",
)
