"""Each hypothesis of Theorem 2.1 is needed: what happens when one of them is dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from constructions import LloydTransformer, rational_array
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
    show,
)
from verify.claims.expressivity._shared import (
    NO_EMPTY,
    NO_TIES,
    code_table,
    largest_difference,
    lloyd,
)
from verify.oracles import balls
from verify.proofs.record import MachineChecked
from verify.search import Exhaustive, Study
from verify.strategies import growing_grids

TIES = replace(NO_TIES, extra=False)  # here all four are what the claim is about

DISTINCT = Hypothesis(
    "distinct codes",
    "no two clusters have the same code",
    lambda case: len({tuple(row) for row in codes_of(case)}) == len(case["C"]),
)
INFINITE = Hypothesis(
    "infinite inverse temperature",
    "attention is the averaging hardmax, gamma = infinity",
    lambda case: case["inverse_temperature"] == math.inf,
)
FOUR = (TIES, NO_EMPTY, DISTINCT, INFINITE)


def codes_of(case: Case) -> list[list[Fraction]]:
    """The table of codes; equal codes are a single 0 for every cluster."""
    k = len(case["C"])
    return [[Fraction(0)]] * k if case["code"] == "equal" else code_table(case["code"], k)


def measure(case: Case) -> Measured:
    """Largest distance of a coordinate from Lloyd's; in ball arithmetic at a finite temperature."""
    want = lloyd(case)
    if case["inverse_temperature"] != math.inf:
        return _softly(case, want)
    X, C = rational_array(case["X"]), rational_array(case["C"])
    model = LloydTransformer(X.shape[1], C.shape[0], rational_array(codes_of(case)))
    got = Case(c=model(X, C, steps=case["steps"], literal=True))["c"]
    return Measured(largest_difference(got, want), 0, answers={"Lloyd": want, "transformer": got})


def _softly(case: Case, want: Any) -> Measured:
    found = balls.transformer(
        case["X"],
        case["C"],
        codes_of(case),
        case["inverse_temperature"],
        case["steps"],
        reembed=False,
        bits=200,
    )
    low, high = balls.farthest(found, want)
    return Measured(
        (low + high) / 2,
        0,
        error=(high - low) / 2,
        answers={"Lloyd": want, "transformer": [[float(u) for u in row] for row in found]},
        note=f"inverse temperature {show(case['inverse_temperature'])}",
    )


def grids(
    code: str = "binary", inverse_temperature: float = math.inf, far: bool = False
) -> Callable[[Run], Iterator[Case]]:
    """Integer instances from the smallest up, d = 1; `far` lets centers lie outside the data."""

    def cases(run: Run) -> Iterator[Case]:
        reach = 5 if far else None
        for case in growing_grids(1, 4, 3, 3, centers_from=reach):
            yield Case(**{**case, "code": code, "inverse_temperature": inverse_temperature})

    return cases


@dataclass(frozen=True)
class Ablation(Exhaustive):
    """Looks for the smallest case where the statement fails without one hypothesis. Finding none
    is no success: the claim says that there is one."""

    until_violation: bool = True

    def run(self, claim: Claim, run: Run) -> Evidence:
        e = super().run(claim, run)
        if not e.violated:
            e.problem = e.problem or f"not seen to matter in {e.cases} cases"
        return e


def without(dropped: Hypothesis, **family: Any) -> Ablation:
    return Ablation(
        f"without-{dropped.name.replace(' ', '-').removeprefix('no-')}",
        scope="d = 1, n <= 4, k <= 3, coordinates 0 to 3, from the smallest instance up",
        assuming=tuple(h.name for h in FOUR if h is not dropped),
        cases=grids(**family),
        arithmetic="ball arithmetic (arb)" if dropped is INFINITE else "exact rationals (fmpq)",
    )


ABLATIONS = (
    without(TIES),
    without(NO_EMPTY, far=True),
    without(DISTINCT, code="equal"),
    without(INFINITE, inverse_temperature=1.0),
)


def each_is_needed(claim: Claim, run: Run, e: Evidence) -> None:
    """One row for each hypothesis. An exact counterexample to the statement without a hypothesis
    proves that the hypothesis cannot be left out."""
    rows = []
    for dropped, ablation in zip(FOUR, ABLATIONS, strict=True):
        found = ablation.run(claim, run)
        e.cases += 1
        e.undecided += not found.violated
        case = found.counterexample
        answers = found.card.get("answers", {})
        rows.append(
            [
                dropped.name,
                found.cases,
                "none found" if case is None else f"X = {show(case['X'])}, C = {show(case['C'])}",
                show(answers.get("Lloyd", "")),
                show(answers.get("transformer", "")),
            ]
        )
    e.decides_all = e.undecided == 0
    e.problem = f"{e.undecided} without a counterexample" if e.undecided else ""
    e.note = "each of the four has a counterexample when it alone is dropped"
    e.tables.append(
        Table(
            "ablation",
            "Theorem 2.1 with one hypothesis dropped: the smallest counterexample",
            ("dropped", "instances looked at", "smallest counterexample", "Lloyd", "transformer"),
            rows,
        )
    )


CLAIM = Claim(
    id="hypothesis-needed",
    title="Each hypothesis of Theorem 2.1 is needed",
    says="Theorem 2.1 holds with four hypotheses: no ties, no empty cluster, distinct codes, and "
    "infinite inverse temperature. None can be left out: for each there is a tiny instance that "
    "meets the other three and where the transformer's centers are not Lloyd's.",
    statement=r"\forall\, H \in \{\text{no ties}, \text{no empty cluster}, \text{distinct codes}, "
    r"\gamma = \infty\}\ \exists\, (X, C) \text{ that meets the other three}:\ C^{(1)} \neq "
    r"\mathrm{Lloyd}(X, C)",
    sources=(
        Source("summary", "App. B, p. 18: gamma = infinity and no empty clusters"),
        Source("beyond", "no ties and distinct codes"),
    ),
    kind=Kind.EQUALITY,
    bound=r"\max_{j} \left\| c_j^{(1)} - \mathrm{Lloyd}_j \right\|_\infty = 0 "
    r"\text{ with all four}",
    hypotheses=FOUR,
    measure=measure,
    checks=(
        Study(
            "each-is-needed",
            Method.EXACT,
            each_is_needed,
            scope="one hypothesis dropped at a time",
            arithmetic="exact rationals (fmpq); ball arithmetic (arb) at a finite temperature",
        ),
        *ABLATIONS,
        Exhaustive(
            "all-in-force",
            scope="d = 1, n <= 4, k <= 3, coordinates 0 to 3",
            cases=grids(),
        ),
        MachineChecked(
            "coq",
            {
                "tie_counterexample": "bb2663fa6a0acf3a",
                "empty_cluster_counterexample": "6fb26e46cb15dbd1",
            },
            scope="ties and empty clusters, the same two instances, over every ordered field",
        ),
    ),
    falsify="a hypothesis without which the transformer still equals Lloyd on every instance",
    theory="expressivity.md#exactness",
)
