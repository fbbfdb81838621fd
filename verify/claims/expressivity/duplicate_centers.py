"""Two initial centers at the same place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from verify.claim import (
    Case,
    Claim,
    Evidence,
    Hypothesis,
    Kind,
    Measured,
    Method,
    Run,
    Source,
    Table,
)
from verify.claims.expressivity._shared import (
    RATIONAL_CODES,
    SCRIPT,
    code_table,
    largest_difference,
    transformer_centers,
)
from verify.oracles import clustering as oracle
from verify.search import Exhaustive, Property, Study

Row = list[Fraction]

LARGEST_K = 33


def pair_of(case: Case) -> tuple[int, int] | None:
    """The two centers that are equal, if it is exactly two."""
    C = case["C"]
    equal = [(j, m) for m in range(len(C)) for j in range(m) if C[j] == C[m]]
    return equal[0] if len(equal) == 1 else None


def shared_points(case: Case) -> list[Row]:
    """The points nearest to the pair."""
    pair = pair_of(case)
    return [x for x in case["X"] if pair and oracle.nearest(x, case["C"]) == list(pair)]


def only_a_pair(case: Case) -> bool:
    pair = pair_of(case)
    if pair is None or not shared_points(case):
        return False
    near = [oracle.nearest(x, case["C"]) for x in case["X"]]
    own = {js[0] for js in near if len(js) == 1}
    return all(len(js) == 1 or js == list(pair) for js in near) and own == set(
        range(len(case["C"]))
    ) - set(pair)


def room(codes: list[Row], pair: tuple[int, int]) -> list[tuple[Fraction, Fraction]]:
    """For both centers of the pair: squared distance of their code to the mean code of the pair,
    and to the nearest code of another center. There has to be another center."""
    middle = oracle.mean([codes[j] for j in pair])
    others = [codes[m] for m in range(len(codes)) if m not in pair]
    return [
        (
            oracle.squared_distance(codes[j], middle),
            min(oracle.squared_distance(codes[j], other) for other in others),
        )
        for j in pair
    ]


def codes_far(case: Case) -> bool:
    pair = pair_of(case)
    if pair is None or len(case["C"]) == 2:
        return pair is not None
    codes = code_table(case["code"], len(case["C"]))
    return all(own < foreign for own, foreign in room(codes, pair))


ONLY_A_PAIR = Hypothesis(
    "only a pair",
    "exactly two centers are equal, some point is nearest to them, and apart from that there is no "
    "tie and no empty cluster",
    only_a_pair,
)
CODES_FAR = Hypothesis(
    "no other code is near",
    "the codes of the two equal centers are nearer to their midpoint than to the code of any other "
    "center (always so for binary codes that differ in at most three bits)",
    codes_far,
    extra=True,
)


def measure(case: Case) -> Measured:
    """How far the two centers are from the mean of the points they share, after one layer."""
    want = oracle.mean(shared_points(case))
    got = transformer_centers(case, False)
    pair = pair_of(case) or ()
    worst = largest_difference([got[j] for j in pair], [want for _ in pair])
    stolen = [j for j in pair if got[j] != want]
    return Measured(
        worst,
        Fraction(0),
        answers={
            "mean of the shared points": want,
            "transformer, the two centers": [got[j] for j in pair],
        },
        note=f"center {stolen[0]} takes the points of other clusters" if stolen else "",
    )


def three_ways(case: Case) -> list[Row]:
    """All centers after a layer. A center of the pair takes the shared points if its code is
    nearest to the midpoint of the two codes, the points of the clusters with the nearest code if
    that is nearer, and both if they are equally near. Another center takes its own points, and the
    shared ones too if its code is the midpoint."""
    C, codes = case["C"], code_table(case["code"], len(case["C"]))
    pair = pair_of(case)
    assert pair is not None
    shared = shared_points(case)
    own = [[x for x in case["X"] if oracle.nearest(x, C) == [m]] for m in range(len(C))]
    middle = oracle.mean([codes[j] for j in pair])
    centers = []
    for m, points in enumerate(own):
        if m not in pair:
            taken = points + (shared if codes[m] == middle else [])
        else:
            gaps = [
                (oracle.squared_distance(codes[m], codes[f]), own[f])
                for f in range(len(C))
                if f not in pair
            ]
            gaps.append((oracle.squared_distance(codes[m], middle), shared))
            least = min(gap for gap, _ in gaps)
            taken = [x for gap, some in gaps if gap == least for x in some]
        centers.append(oracle.mean(taken))
    return centers


def against_three_ways(case: Case) -> Measured:
    want, got = three_ways(case), transformer_centers(case, False)
    return Measured(
        largest_difference(got, want), 0, answers={"closed form": want, "transformer": got}
    )


def line(k: int, j: int, m: int, code: str = "binary") -> Case:
    """Centers 0, 10, 20, ... with a point each, and centers j < m at the same place. The last point
    is doubled, because a task needs as many points as centers."""
    C = [[Fraction(10 * c if c < m else 10 * (c - 1))] for c in range(k)]
    X = [C[c] for c in range(k) if c != m]
    C[m] = C[j]
    return Case(X=[*X, X[-1]], C=C, code=code, steps=1)


def lines(code: str, ks: Any) -> Iterator[Case]:
    return (line(k, j, m, code) for k in ks for m in range(1, k) for j in range(m))


def growing_lines(run: Run) -> Iterator[Case]:
    yield from lines("binary", range(2, 18))


def near_and_far(run: Run) -> Iterator[Case]:
    yield from lines("binary", range(2, 10))
    for code in ("one_hot", "scalar", "powers", "gray", "half"):
        yield from lines(code, range(2, 7))
    yield from (line(17, j, m) for j, m in ((15, 16), (7, 8), (0, 15), (3, 16), (0, 16)))
    yield from (line(32, j, m) for j, m in ((0, 31), (15, 16), (1, 30)))


@st.composite
def pairs(draw: st.DrawFn) -> Case:
    """Points near k - 1 far places; two of the centers share a place."""
    k, d = draw(st.integers(2, 10)), draw(st.integers(1, 2))
    j = draw(st.integers(0, k - 2))
    m = draw(st.integers(j + 1, k - 1))
    offset = st.integers(-20, 20).map(lambda u: Fraction(u, 4))
    shift = st.lists(offset, min_size=d, max_size=d)
    places = [[Fraction(20 * c)] * d for c in range(k)]
    places[m] = places[j]
    counts = draw(st.lists(st.integers(1, 3), min_size=k, max_size=k))
    X = [
        [u + v for u, v in zip(place, draw(shift), strict=True)]
        for place, count in zip(places, counts, strict=True)
        for _ in range(count)
    ]
    return Case(X=X, C=places, code=draw(st.sampled_from(RATIONAL_CODES)), steps=1)


def smallest_k(claim: Claim, run: Run, e: Evidence) -> None:
    """For each code, the smallest k with a pair that another code comes between: the midpoint is
    a quarter of their squared distance away. (In all six codes, a larger k only adds codes; the
    distances of the first ones stay.)"""
    rows = []
    for name in RATIONAL_CODES:
        codes = code_table(name, LARGEST_K)
        gaps = [[oracle.squared_distance(a, b) for b in codes] for a in codes]
        first: dict[str, str] = {}
        for k in range(3, LARGEST_K + 1):
            for j, m in itertools.permutations(range(k), 2):
                e.cases += 1
                foreign = min(gap for f, gap in enumerate(gaps[j][:k]) if f not in (j, m))
                if gaps[j][m] >= 4 * foreign:
                    what = "mixes" if gaps[j][m] == 4 * foreign else "loses"
                    first.setdefault(what, f"{k} (codes {min(j, m)} and {max(j, m)})")
            if len(first) == 2:
                break
        rows.append([name, first.get("mixes", "never seen"), first.get("loses", "never seen")])
    e.tables.append(
        Table(
            "smallest-k",
            "Smallest k where two equal centers can be torn apart",
            ("code", "mixes with other clusters", "loses its points to other clusters"),
            rows,
        )
    )
    e.note = f"binary: mixes from k = {rows[0][1]}, loses from k = {rows[0][2]}"


CLAIM = Claim(
    id="duplicate-centers",
    title="Equal initial centers",
    says="If two initial centers are equal, the points they share carry the midpoint of the two "
    "codes, and both centers move to the mean of these points, as the first of the two does in "
    "Lloyd's algorithm. With binary codes that is false once the two codes differ in four bits "
    "(possible from k = 9 on: foreign points are mixed in) or five (from k = 17 on: the centers "
    "jump to foreign clusters and the shared points are lost).",
    statement=r"c_j = c_l \ \Rightarrow\ c_j^{(1)} = c_l^{(1)} = \operatorname{avg}\{ x_i : "
    r"\|x_i - c_j\| = \min_m \|x_i - c_m\| \}",
    sources=(Source("beyond", "the tasks draw initial centers from data that may repeat"),),
    kind=Kind.EQUALITY,
    bound=r"\max_{c \in \{c_j^{(1)}, c_l^{(1)}\}} \left\| c - \text{mean of the shared points}"
    r" \right\|_\infty = 0",
    hypotheses=(ONLY_A_PAIR, CODES_FAR),
    measure=measure,
    checks=(
        Exhaustive(
            "as-stated",
            scope="binary code, points and centers at 0, 10, 20, ..., every pair, k from 2 up",
            assuming=(ONLY_A_PAIR.name,),
            cases=growing_lines,
            until_violation=True,
        ),
        Exhaustive(
            "every-pair",
            scope="points and centers at 0, 10, 20, ...; binary: every pair, k <= 9; five other "
            "codes: every pair, k <= 6; chosen pairs for k = 17, 32",
            cases=near_and_far,
        ),
        Property(
            "random",
            scope="six codes, d <= 2, k <= 10, up to three points around each center",
            strategy=pairs(),
            count=100,
        ),
        Exhaustive(
            "three-ways",
            scope="the instances of every-pair, also where another code is near",
            assuming=(ONLY_A_PAIR.name,),
            variant="closed form: shared points, foreign points, or both, whichever code is nearer",
            cases=near_and_far,
            measure=against_three_ways,
        ),
        Property(
            "three-ways-random",
            scope="six codes, d <= 2, k <= 10, up to three points around each center",
            assuming=(ONLY_A_PAIR.name,),
            variant="closed form, at random",
            strategy=pairs(),
            measure=against_three_ways,
            count=60,
        ),
        Exhaustive(
            "lost",
            scope="k = 17, codes 01111 and 10000 (five bits apart)",
            assuming=(ONLY_A_PAIR.name,),
            variant="both centers keep the points they share at five bits (they do not)",
            cases=lambda run: [line(17, 15, 16)],
            until_violation=True,
        ),
        Study(
            "smallest-k",
            Method.EXHAUSTIVE,
            smallest_k,
            scope=f"every ordered pair of codes for k = 3 to {LARGEST_K}, until both were found",
            variant="which codes can be torn apart",
            assuming=(),
            arithmetic="exact rationals (Fraction)",
        ),
    ),
    falsify="two equal centers with no other code near, no other tie and no empty cluster, where "
    "one of the two is not at the mean of the points they share",
    theory="expressivity.md#duplicate-centers",
    script=SCRIPT,
)
