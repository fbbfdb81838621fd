"""What the roles `lloyd_step` and `transformer` have in common: a task, the right answer under
each convention, and how far rounding may take a good implementation from it.

Points and centers of the cases are dyadic, so that every float type in use holds them exactly, and
a squared distance by direct differences is exact as well, near the origin and far from it. What is
left to rounding is the mean of m points: in any order of summation it is off by at most

    m eps mean|x|    (m - 1 additions, each off by eps / 2 of a partial sum, and one division).

After t steps the error of the earlier means moves no assignment (cases whose assignments it could
move are undecided, and counted), so that the bound is that of the last step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from verify.claim import Case, Kind, Measured
from verify.conformance import calling
from verify.conformance.property import Excluded, Explanation, Property, Sort
from verify.conformance.subject import Subject, WrongAnswer, excess, flat
from verify.oracles import clustering as oracle

Rows = list[list[Fraction]]

TIES = ("lowest", "highest", "average", "any")
EMPTY = ("raise", "keep", "nan", "relocate", "any")


@dataclass(frozen=True)
class Rules:
    """What Lloyd's algorithm leaves open: where tied points go, and what an empty cluster does.

    `declared_ties` is "" when the rule was found by probing.
    """

    ties: str = "lowest"
    empty: str = "any"
    declared_ties: str = ""
    steps: bool = False  # whether the implementation is told a number of steps
    labels: bool = False  # whether it returns assignments as well

    @property
    def expected_ties(self) -> str:
        """Where tied points have to go: the lowest index, unless something else was declared."""
        return self.declared_ties or "lowest"


def rows(table: Sequence[Sequence[Any]]) -> Rows:
    return [[Fraction(u) for u in row] for row in table]


def task(case: Case) -> tuple[Any, Any]:
    """X with its repetitions, and C, as floats."""
    X = [[float(u) for u in row] for row in case["X"]] * int(case.get("repeat", 1))
    return X, [[float(u) for u in row] for row in case["C"]]


def ask(s: Subject, case: Case, rules: Rules, steps: int = 1) -> Any:
    """The centers (k, d) that the implementation answers, in plain floats."""
    X, C = task(case)
    return centers_of(s, X, C, rules, steps)[0]


def centers_of(s: Subject, X: Any, C: Any, rules: Rules, steps: int = 1) -> tuple[Any, Any]:
    """Centers (k, d) and assignments (n,) or None."""
    answer = s.raw(X, C, steps) if rules.steps else s.raw(X, C)
    return parts(s, answer, len(X), len(C), len(C[0]))


def parts(s: Subject, answer: Any, n: int, k: int, d: int) -> tuple[Any, Any]:
    """Centers and assignments out of whatever holds them: an array, a pair in either order, a
    named tuple, a dictionary, an object with attributes.

    Raises
    ------
    WrongAnswer
        no centers of shape (k, d) are in it.
    """
    if answer is None:
        raise WrongAnswer("the answer is None, expected centers")
    items = calling.parts(answer)
    tables = []
    for item in items:
        with suppress(WrongAnswer, TypeError):
            tables.append(s.plain(item))
    shapes = [np.shape(t) for t in tables]
    if (k, d) not in shapes:
        found = ", ".join(map(str, shapes)) or type(answer).__name__
        raise WrongAnswer(f"the answer has shape {found}, expected centers ({k}, {d})")
    at = shapes.index((k, d))
    labels = None
    for i, table in enumerate(tables):
        if i != at and shapes[i] == (n,) and all(float(v).is_integer() for v in table):
            labels = [int(v) for v in table]
    return tables[at], labels


# The right answer


def assigned(X: Rows, C: Rows, ties: str) -> list[list[int]]:
    """The cluster of each point, or its clusters in equal parts (ties "average")."""
    near = [oracle.nearest(x, C) for x in X]
    pick = {"lowest": slice(0, 1), "highest": slice(-1, None)}.get(ties, slice(None))
    return [js[pick] for js in near]


def step(X: Rows, C: Rows, labels: list[list[int]], empty: str = "keep") -> list[Any]:
    """New centers; None for an empty cluster under "nan"."""
    new: list[Any] = []
    for j, c in enumerate(C):
        shares = [Fraction(j in js, len(js)) for js in labels]
        total = sum(shares, Fraction(0))
        if total:
            new.append(
                [
                    sum((w * u for w, u in zip(shares, column, strict=True)), Fraction(0)) / total
                    for column in zip(*X, strict=True)
                ]
            )
        else:
            new.append(c if empty == "keep" else [Fraction(0)] * len(c))
    return new


def lloyd(X: Rows, C: Rows, ties: str = "lowest", steps: int = 1) -> Rows:
    for _ in range(steps):
        C = step(X, C, assigned(X, C, ties))
    return C


def right(case: Case, rules: Rules, steps: int = 1) -> Rows:
    return lloyd(*_exact(case), rules.expected_ties, steps)


def _exact(case: Case) -> tuple[Rows, Rows]:
    return rows(case["X"]), rows(case["C"])


def clean(case: Case, steps: int = 1) -> None:
    """Leave a case with a tie or an empty cluster at some step to the properties about those."""
    X, C = _exact(case)
    for _ in range(steps):
        if oracle.tied_points(X, C) or oracle.empty_clusters(X, C):
            raise Excluded
        C = lloyd(X, C)


def allowed(s: Subject, case: Case, rules: Rules, steps: int = 1) -> list[list[float]]:
    """How far rounding may take each coordinate (k, d). Derivation: top of this module. A point
    whose decision the error of an earlier mean could turn leaves the case undecided."""
    X, C = _exact(case)
    m = len(X) * int(case.get("repeat", 1))
    largest = max(abs(float(u)) for row in (*X, *C) for u in row)
    most = 2 * m * s.eps * largest if steps else 0.0
    for t in range(steps):
        if t:  # centers are off by `most`: squared distances by 2 sqrt(d) |x - c| most + ...
            for x in X:
                r = sorted(float(oracle.squared_distance(x, c)) for c in C)
                if len(r) > 1 and r[1] - r[0] <= 8 * len(x) * (math.sqrt(r[1]) + most) * most:
                    raise Excluded
        C = lloyd(X, C)
    return [[most] * len(C[0]) for _ in C]


def _value(steps: int | None = None) -> Callable[[Subject, Case, Rules], Measured]:
    def measure(s: Subject, case: Case, rules: Rules) -> Measured:
        t = int(case.get("steps", 1)) if steps is None else steps
        clean(case, t)
        most = allowed(s, case, rules, t)
        return against(ask(s, case, rules, t), right(case, rules, t), most)

    return measure


def against(found: Any, expected: Rows, most: Any) -> Measured:
    error, bound = excess(found, expected, most)
    return Measured(error, bound, answers={"implementation": found, "Lloyd": expected})


def _ties(s: Subject, case: Case, rules: Rules) -> Measured:
    """A tied point goes where the rule says; under "any", to any one of its nearest centers."""
    X, C = _exact(case)
    tied = oracle.tied_points(X, C)
    if not tied or oracle.empty_clusters(X, C) or _leans_on_ties(X, C):
        raise Excluded
    found = ask(s, case, rules)
    most = allowed(s, case, rules)
    expected = [right(case, rules)]
    if rules.expected_ties == "any":
        expected = list(_every_way(X, C))
    return min((against(found, e, most) for e in expected), key=lambda m: m.value - m.bound)


def _leans_on_ties(X: Rows, C: Rows) -> bool:
    """Whether a cluster has no point but tied ones: another rule could leave it empty."""
    sole = {js[0] for x in X if len(js := oracle.nearest(x, C)) == 1}
    return len(sole) < len(C)


def _every_way(X: Rows, C: Rows) -> Iterator[Rows]:
    near = [oracle.nearest(x, C) for x in X]
    for choice in itertools.islice(itertools.product(*near), 4096):
        yield step(X, C, [[j] for j in choice])


def _empty(s: Subject, case: Case, rules: Rules) -> Measured:
    """The other centers are right, and the empty cluster follows the rule."""
    X, C = _exact(case)
    vacant = oracle.empty_clusters(X, C)
    if not vacant or oracle.tied_points(X, C) or len(vacant) == len(C):
        raise Excluded
    try:
        found = ask(s, case, rules)
    except WrongAnswer:
        raise
    except Exception as error:
        if rules.empty in ("raise", "any"):
            return Measured(0.0, 0.0, note=f"refused: {type(error).__name__}")
        raise
    expected, most = right(case, rules), allowed(s, case, rules)
    if rules.empty == "raise":
        return Measured(math.inf, 0.0, note="an empty cluster was not refused")
    if rules.empty in ("nan", "any", "relocate"):
        for j in vacant:
            lost = all(math.isnan(u) for u in found[j])
            moved = found[j] in [[float(u) for u in x] for x in X]
            kept = found[j] == [float(u) for u in C[j]]
            fits = {"nan": lost, "relocate": moved, "any": lost or moved or kept}[rules.empty]
            if fits:
                found = [*found[:j], [float(u) for u in expected[j]], *found[j + 1 :]]
            if moved and not (lost or kept):  # where a point was taken, other means may change
                return Measured(0.0, 0.0)
    return against(found, expected, most)


def _single(s: Subject, case: Case, rules: Rules) -> Measured:
    """A type that is refused, as by a model with float64 weights, is no error."""
    single = Subject(s.function, s.library, "float32")
    try:
        ask(single, case, rules)
    except WrongAnswer:
        raise
    except Exception as error:
        raise Excluded from error
    return _value(1)(single, case, rules)


def _labels(s: Subject, case: Case, rules: Rules) -> Measured:
    clean(case)
    X, C = task(case)
    _, found = centers_of(s, X, C, rules)
    expected = [js[0] for js in assigned(*_exact(case), "lowest")]
    if found is None:
        raise WrongAnswer("assignments are missing here, and were returned elsewhere")
    wrong = sum(a != b for a, b in zip(found, expected, strict=True))
    return Measured(wrong, 0, answers={"implementation": found, "nearest old center": expected})


def _of_new_centers(s: Subject, case: Case, rules: Rules) -> tuple[Sort, str] | None:
    """Whether assignments are those to the centers that the step ends with."""
    X, C = task(case)
    _, found = centers_of(s, X, C, rules)
    moved = right(case, rules)
    if any(found[i] not in oracle.nearest(x, moved) for i, x in enumerate(rows(X))):
        return None
    return Sort.CONVENTION, "assignments are to the new centers"


def _moved(
    change: Callable[[Subject, Case], tuple[Case, Callable[[Any], Any]]],
) -> Callable[[Subject, Case, Rules], Measured]:
    """The right answer to a changed case is known from that to the case itself."""

    def measure(s: Subject, case: Case, rules: Rules) -> Measured:
        clean(case)
        other, forth = change(s, case)
        expected = forth(right(case, rules))
        return against(ask(s, other, rules), expected, allowed(s, other, rules))

    return measure


def _shift(s: Subject, case: Case) -> tuple[Case, Callable[[Any], Any]]:
    """By a power of two at which the element type still holds every coordinate exactly."""
    by = Fraction(2) ** (15 if s.dtype == "float32" else 40)

    def add(table: Any) -> Any:
        return [[u + by for u in row] for row in table]

    return Case(X=add(rows(case["X"])), C=add(rows(case["C"]))), add


def _scaled(s: Subject, case: Case) -> tuple[Case, Callable[[Any], Any]]:
    by = Fraction(2) ** int(case["power"])

    def scale(table: Any) -> Any:
        return [[u * by for u in row] for row in table]

    return Case(X=scale(rows(case["X"])), C=scale(rows(case["C"]))), scale


def _points_permuted(s: Subject, case: Case) -> tuple[Case, Callable[[Any], Any]]:
    return Case(X=case["X"][::-1], C=case["C"]), lambda c: c


def _centers_permuted(s: Subject, case: Case) -> tuple[Case, Callable[[Any], Any]]:
    return Case(X=case["X"], C=case["C"][::-1]), lambda c: c[::-1]


def _batch(s: Subject, case: Case, rules: Rules) -> Measured:
    clean(case)
    other = Case(X=case["X"][::-1], C=[row[::-1] for row in case["C"]])
    other = Case(X=[row[::-1] for row in other["X"]], C=other["C"])
    tasks = [task(case), task(other)]
    stacked = [list(part) for part in zip(*tasks, strict=True)]
    answer = s.raw(*stacked, 1) if rules.steps else s.raw(*stacked)
    first = calling.parts(answer)[0]
    k, d = len(case["C"]), len(case["C"][0])
    found = s.plain(first, (2, k, d))
    expected = [right(case, rules), right(other, rules)]
    most = [allowed(s, case, rules)] * 2
    error, bound = excess(found, expected, most)
    return Measured(error, bound, answers={"batch": found, "one by one": expected})


def _layout(s: Subject, case: Case, rules: Rules) -> Measured:
    """Points as every other row of a larger array, centers as a transposed one."""
    clean(case)
    X, C = task(case)
    X, C = s.array([row for x in X for row in (x, [9.0] * len(x))])[::2], s.array(C)
    C = (C.T.copy() if s.library == "numpy" else C.T.clone()).T if s.library != "jax" else C
    answer = s.function(X, C, 1) if rules.steps else s.function(X, C)
    found, _ = parts(s, answer, len(X), *map(int, C.shape))
    return against(found, right(case, rules), allowed(s, case, rules))


def _read_only(s: Subject, case: Case, rules: Rules) -> Measured:
    clean(case)
    X, C = map(s.array, task(case))
    X.flags.writeable = C.flags.writeable = False
    answer = s.function(X, C, 1) if rules.steps else s.function(X, C)
    found, _ = parts(s, answer, *X.shape[:1], *C.shape)
    return against(found, right(case, rules), allowed(s, case, rules))


def _untouched(s: Subject, case: Case, rules: Rules) -> Measured:
    """The input is left as it was, during the call and when the answer is written to."""
    X, C = map(s.array, task(case))
    before = s.plain(X), s.plain(C)
    answer = s.function(X, C, 1) if rules.steps else s.function(X, C)
    n, k, d = len(before[0]), len(before[1]), len(before[1][0])
    parts(s, answer, n, k, d)
    first = calling.parts(answer)[0]
    note = "the input was changed"
    if (s.plain(X), s.plain(C)) == before and s.library in ("numpy", "torch"):
        try:
            first += 1
            note = "the answer shares memory with the input"
        except (TypeError, ValueError, RuntimeError):
            pass
    return Measured(int((s.plain(X), s.plain(C)) != before), 0, note=note)


def _repeat(s: Subject, case: Case, rules: Rules) -> Measured:
    clean(case)
    first, second = ask(s, case, rules), ask(s, case, rules)
    differ = sum(a != b for a, b in zip(flat(first), flat(second), strict=True))
    return Measured(differ, 0, answers={"first": first, "second": second})


def _kept(s: Subject, case: Case, rules: Rules) -> Measured:
    clean(case)
    X, C = task(case)
    answer = s.raw(X, C, 1) if rules.steps else s.raw(X, C)
    first = calling.parts(answer)[0]
    kind = str(getattr(first, "dtype", s.dtype)).removeprefix("torch.")
    wrong = kind not in (s.dtype, "int64", "int32") and s.library != "lists"
    return Measured(int(wrong), 0, note=f"{s.dtype} in, {kind} out")


def _nan(s: Subject, case: Case, rules: Rules) -> Measured:
    """NaN is refused, or comes out; a finite answer in silence is wrong."""
    X, C = task(case)
    X[0] = [math.nan] * len(X[0])
    try:
        found, _ = centers_of(s, X, C, rules)
    except Exception as error:
        return Measured(0, 0, note=f"refused: {type(error).__name__}")
    silent = all(math.isfinite(u) for u in flat(found))
    return Measured(
        int(silent), 0, answers={"implementation": found}, note="a finite answer to a NaN point"
    )


def _integers(s: Subject, case: Case, rules: Rules) -> Measured:
    """Integer arrays give the answer of the same numbers as floats, or are refused."""
    clean(case)
    tables: Any = [[[int(u) for u in row] for row in table] for table in task(case)]
    if s.library == "torch":
        import torch

        tables = [torch.tensor(t) for t in tables]
    elif s.library != "lists":
        tables = [np.array(t) for t in tables]
    try:
        answer = s.function(*tables, 1) if rules.steps else s.function(*tables)
    except Exception as error:
        return Measured(0.0, 0.0, note=f"refused: {type(error).__name__}")
    k, d = len(case["C"]), len(case["C"][0])
    found, _ = parts(s, answer, len(case["X"]), k, d)
    single = Subject(s.function, s.library, "float32")  # integers may be turned into either type
    return against(found, right(case, rules), allowed(single, case, rules))


def composition(s: Subject, case: Case, rules: Rules) -> Measured:
    """a + b steps are a steps, then b steps from where these ended."""
    a, b = int(case["steps"]), 1
    clean(case, a + b)
    most = allowed(s, case, rules, a + b)
    X, C = task(case)
    middle, _ = centers_of(s, X, C, rules, a)
    twice, _ = centers_of(s, X, middle, rules, b)
    once, _ = centers_of(s, X, C, rules, a + b)
    error, bound = excess(once, twice, [[2 * e for e in row] for row in most])
    return Measured(error, bound, answers={"at once": once, "one after the other": twice})


# Where to look


@st.composite
def tasks(
    draw: st.DrawFn,
    top: int = 6,
    unit: int = 1,
    max_k: int = 4,
    free: bool = False,
    steps: int = 0,
    least_k: int = 1,
    most_d: int = 3,
) -> Case:
    """A task on a grid of `unit`-ths. Centers are distinct points, or anywhere with `free`."""
    d = draw(st.integers(1, most_d))
    k = draw(st.integers(least_k, max_k))
    place = st.tuples(*[st.integers(0, top * unit).map(lambda i: Fraction(i, unit))] * d)
    pool = draw(st.lists(place, min_size=k, max_size=k + 5, unique=True))
    more = draw(st.lists(st.sampled_from(pool), max_size=3))
    C = draw(st.lists(place, min_size=k, max_size=k, unique=True)) if free else pool[:k]
    fields: dict[str, Any] = {"X": pool + more, "C": C}
    if steps:
        fields["steps"] = draw(st.integers(1, steps))
    return Case(**fields)


def _tied() -> st.SearchStrategy[Case]:
    """Small grids tie all the time: a point in the middle of two centers, and one at each."""

    @st.composite
    def make(draw: st.DrawFn) -> Case:
        case = draw(tasks(top=3, max_k=3, least_k=2))
        a, b = rows(case["C"])[:2]
        middle = [(u + v) / 2 for u, v in zip(a, b, strict=True)]
        return Case(X=[*case["X"], middle], C=case["C"])

    return make()


def _abandoned() -> st.SearchStrategy[Case]:
    """One center far from all points."""

    @st.composite
    def make(draw: st.DrawFn) -> Case:
        case = draw(tasks(max_k=3, least_k=2))
        far = [Fraction(draw(st.sampled_from([64, 100])))] * len(case["C"][0])
        at = draw(st.integers(0, len(case["C"]) - 1))
        return Case(X=case["X"], C=[*case["C"][:at], far, *case["C"][at + 1 :]])

    return make()


def with_fields(base: st.SearchStrategy[Case], **fields: Any) -> st.SearchStrategy[Case]:
    def join(case: Case, *values: Any) -> Case:
        return Case(**dict(case) | dict(zip(fields, values, strict=True)))

    return st.builds(join, base, *fields.values())


@st.composite
def _journeys(draw: st.DrawFn, steps: int) -> Case:
    """Centers that start side by side at one end of the points: they need several steps."""
    n, k = draw(st.integers(4, 8)), draw(st.integers(2, 3))
    places = st.integers(0, 40).map(Fraction)
    X = sorted(draw(st.lists(places, min_size=n, max_size=n, unique=True)))
    return Case(X=[[x] for x in X], C=[[x] for x in X[:k]], steps=draw(st.integers(2, steps)))


GRID = tasks()
FINE = tasks(unit=16)


def _edge(k: int | None, d: int | None, all_points: bool = False) -> st.SearchStrategy[Case]:
    def cut(case: Case) -> Case:
        X = case["X"][: len(case["C"])] if all_points else case["X"]
        return Case(X=X, C=case["C"])

    return tasks(least_k=k or 1, max_k=k or 4, most_d=d or 3, top=40).map(cut)


PROPERTIES = (
    Property("repeatable", "The same input gives the same bits.", FINE, _repeat, Kind.EQUALITY),
    Property("dtype", "The element type is kept.", GRID, _kept, Kind.EQUALITY),
    Property(
        "nan-points",
        "A NaN is refused, or comes out; never a finite answer in silence.",
        GRID,
        _nan,
        Kind.EQUALITY,
    ),
    Property("centers", "The centers are those of one Lloyd step.", FINE, _value(1)),
    Property("one-cluster", "With k = 1, the center is the mean.", _edge(1, None), _value(1)),
    Property("one-coordinate", "d = 1 is no special case.", _edge(None, 1), _value(1)),
    Property(
        "n-equals-k", "With n = k, every point keeps to itself.", _edge(None, None, True), _value(1)
    ),
    Property("far-apart", "Points and centers anywhere.", tasks(top=4000, free=True), _value(1)),
    Property("ties", "A tied point goes to the cluster that the rule names.", _tied(), _ties),
    Property(
        "empty-clusters",
        "An empty cluster follows the rule; others are right.",
        _abandoned(),
        _empty,
    ),
    Property(
        "assignments",
        "Returned assignments are to the nearest old center.",
        GRID,
        _labels,
        Kind.EQUALITY,
        needs="labels",
        explain=_of_new_centers,
    ),
    Property(
        "translation",
        "Far from the origin, at a distance that floats hold exactly, the "
        "answer moves with the points.",
        FINE,
        _moved(_shift),
        asked=lambda s, case: _shift(s, case)[0],
    ),
    Property(
        "scaling",
        "Scaled by a power of two, the answer is scaled.",
        with_fields(FINE, power=st.sampled_from([1, -1, 10, -10, 30, -30])),
        _moved(_scaled),
        asked=lambda s, case: _scaled(s, case)[0],
    ),
    Property(
        "order-of-points",
        "The order of the points does not matter.",
        FINE,
        _moved(_points_permuted),
        asked=lambda s, case: _points_permuted(s, case)[0],
    ),
    Property(
        "order-of-centers",
        "Centers in another order give the answer in that order.",
        FINE,
        _moved(_centers_permuted),
        asked=lambda s, case: _centers_permuted(s, case)[0],
    ),
    Property(
        "many-points",
        "The mean of many points keeps its digits.",
        with_fields(tasks(unit=16, top=1000, max_k=2), repeat=st.sampled_from([1, 64, 1024])),
        _value(1),
    ),
    Property("batch", "A batch is its tasks, one by one.", GRID, _batch, needs="batches"),
    Property(
        "memory-layout",
        "Every other row of an array, and a transposed one, are read right.",
        GRID,
        _layout,
        needs="strides",
    ),
    Property(
        "float32",
        "Points and centers in float32 lose no more than float32 must.",
        FINE,
        _single,
        needs="two types",
    ),
    Property(
        "read-only", "Arrays that cannot be written are read.", GRID, _read_only, needs="numpy"
    ),
    Property(
        "untouched",
        "The input is left as it was, and the answer does not share its memory.",
        GRID,
        _untouched,
        Kind.EQUALITY,
    ),
    Property("integers", "Integer arrays are taken as numbers, or refused.", GRID, _integers),
)

STEPS = (
    Property(
        "steps",
        "After t steps, the centers are those of t Lloyd steps.",
        st.one_of(_journeys(4), tasks(unit=4, steps=4)),
        _value(),
    ),
    Property(
        "composition",
        "t + 1 steps are t steps, then one.",
        st.one_of(_journeys(3), tasks(unit=4, steps=3)),
        composition,
    ),
)


# What may explain a wrong answer


def _formula(name: str, sort: Sort, formula: Callable[[Any, Any, Subject], Any]) -> Explanation:
    def answer(s: Subject, case: Case, rules: Rules) -> Any:
        X, C = (np.array(t, dtype=s.dtype) for t in task(case))
        with np.errstate(all="ignore"):
            return np.asarray(formula(X, C, s), np.float64).tolist()

    return Explanation(name, sort, answer)


def _updated(X: Any, C: Any, r: Any, pick: Any = np.argmin, middle: Any = np.mean) -> Any:
    labels = pick(r, axis=1)
    return np.stack(
        [middle(X[labels == j], axis=0) if (labels == j).any() else C[j] for j in range(len(C))]
    )


def _direct(X: Any, C: Any, power: int = 2) -> Any:
    return (np.abs(X[:, None] - C) ** power).sum(-1)


def _expanded(X: Any, C: Any) -> Any:
    return (X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)


def _ruled(name: str, sort: Sort, ties: str) -> Explanation:
    def answer(s: Subject, case: Case, rules: Rules) -> Any:
        return [[float(u) for u in row] for row in lloyd(*_exact(case), ties)]

    return Explanation(name, sort, answer)


def _expanded_choice(s: Subject, case: Case, rules: Rules) -> Any:
    """What the expanded square can lead to: each point at any center whose distance it cannot tell
    from the smallest. |x|^2 - 2 x.c + |c|^2 is off by at most (d + 4) eps (|x| + |c|)^2, in
    whatever order it is added; of the possible answers, the one nearest to what came."""
    X, C = task(case)
    found = ask(s, case, rules)
    exact_X, exact_C = _exact(case)
    choices = []
    for x, row in zip(X, exact_X, strict=False):  # the repetitions of a point go where it goes
        r = [float(oracle.squared_distance(row, c)) for c in exact_C]
        off = [(len(x) + 4) * s.eps * (math.hypot(*x) + math.hypot(*c)) ** 2 for c in C]
        most = off[r.index(min(r))]
        choices.append([j for j, v in enumerate(r) if v - min(r) <= off[j] + most])
    if math.prod(map(len, choices)) > 4096 or int(case.get("steps", 1)) > 1:
        return None
    answers = [
        [[float(u) for u in row] for row in step(exact_X, exact_C, [[j] for j in choice], empty)]
        for choice in itertools.product(*choices)
        # a wrong choice may leave a cluster without points
        for empty in (("keep", "origin") if math.prod(map(len, choices)) > 1 else ("keep",))
    ]

    def off_by(answer: Any) -> float:
        return max(abs(u - v) for u, v in zip(flat(answer), flat(found), strict=True))

    return min(answers, key=off_by)


def _running(X: Any, C: Any, s: Subject) -> Any:
    labels = _direct(X, C).argmin(1)
    return np.stack([np.vstack([X[labels == j], C[j : j + 1]]).mean(0) for j in range(len(C))])


def _narrow(kind: Any) -> Callable[[Any, Any, Subject], Any]:
    def formula(X: Any, C: Any, s: Subject) -> Any:
        x, c = X.astype(kind), C.astype(kind)
        return _updated(x, c, _direct(x, c))

    return formula


def _origin(X: Any, C: Any, s: Subject) -> Any:
    return _updated(X, np.zeros_like(C), _direct(X, C))


def _once(s: Subject, case: Case, rules: Rules) -> Any:
    """One step where more were asked for; says nothing about what is told no number of steps."""
    if not rules.steps:
        return None
    X, C = (np.array(t, dtype=s.dtype) for t in task(case))
    return _updated(X, C, _direct(X, C)).astype(np.float64).tolist()


EXPLANATIONS = (
    Explanation("one Lloyd step, whatever t: assignments are not renewed", Sort.BUG, _once),
    _ruled("Lloyd's step with ties to the highest index", Sort.CONVENTION, "highest"),
    _ruled("Lloyd's step with tied points shared in equal parts", Sort.CONVENTION, "average"),
    Explanation("the expanded square |x|^2 - 2 x.c + |c|^2", Sort.ROUNDING, _expanded_choice),
    _formula(
        "the expanded square in float32",
        Sort.ROUNDING,
        lambda X, C, s: _updated(X, C, _expanded(X.astype(np.float32), C.astype(np.float32))),
    ),
    _formula("computed in float32", Sort.ROUNDING, _narrow(np.float32)),
    _formula("computed in float16", Sort.ROUNDING, _narrow(np.float16)),
    _formula("an empty cluster becomes the origin", Sort.BUG, _origin),
    _formula(
        "the sum of the points in place of their mean",
        Sort.BUG,
        lambda X, C, s: _updated(X, C, _direct(X, C), middle=np.sum),
    ),
    _formula(
        "the median in place of the mean",
        Sort.BUG,
        lambda X, C, s: _updated(X, C, _direct(X, C), middle=np.median),
    ),
    _formula("the old center counts as one of the points", Sort.BUG, _running),
    _formula(
        "centers shifted by one: center j gets the mean of cluster j - 1",
        Sort.BUG,
        lambda X, C, s: np.roll(_updated(X, C, _direct(X, C)), 1, axis=0),
    ),
    _formula(
        "centers shifted by one: center j gets the mean of cluster j + 1",
        Sort.BUG,
        lambda X, C, s: np.roll(_updated(X, C, _direct(X, C)), -1, axis=0),
    ),
    _formula(
        "Manhattan distance in place of the squared one",
        Sort.BUG,
        lambda X, C, s: _updated(X, C, _direct(X, C, 1)),
    ),
    _formula(
        "the farthest center in place of the nearest",
        Sort.BUG,
        lambda X, C, s: _updated(X, C, -_direct(X, C)),
    ),
    _formula(
        "the largest product in place of the smallest distance",
        Sort.BUG,
        lambda X, C, s: _updated(X, C, -(X @ C.T)),
    ),
    _formula("the centers it was given, unchanged", Sort.BUG, lambda X, C, s: C),
    _formula(
        "two Lloyd steps in place of one",
        Sort.BUG,
        lambda X, C, s: _updated(X, D := _updated(X, C, _direct(X, C)), _direct(X, D)),
    ),
)


def probes() -> tuple[Case, ...]:
    """Cases that tell one formula from another."""
    return (
        Case(X=[[0, 0], [1, 0], [5, 0], [6, 2], [3, 4]], C=[[1, 1], [5, 1]]),
        Case(X=[[0], [1], [2], [7], [9]], C=[[0], [8]]),
        Case(X=[[0, 1], [2, 1], [4, 8], [5, 8], [9, 1]], C=[[1, 1], [5, 7], [8, 0]]),
    )


def found_rules(s: Subject, steps: bool) -> Rules:
    """The conventions that the implementation follows on two small cases, found by asking."""
    plain = Rules(steps=steps)
    X, C = task(probes()[0])
    _, labels = centers_of(s, X, C, plain)
    tie = Case(X=[[0], [1], [2]], C=[[0], [2]])
    ties = "lowest"
    try:
        answer = ask(s, tie, plain)
        for rule in ("lowest", "highest", "average"):
            if answer == [[float(u) for u in row] for row in lloyd(*_exact(tie), rule)]:
                ties = rule
    except Exception:
        ties = "lowest"
    vacant = Case(X=[[0], [1], [2]], C=[[1], [64]])
    empty = "keep"
    try:
        far = ask(s, vacant, plain)[1][0]
    except Exception:
        empty = "raise"
    else:
        empty = "nan" if math.isnan(far) else "relocate" if far in (0, 1, 2) else "keep"
        if far == 0:
            other = ask(s, Case(X=[[4], [5], [6]], C=[[5], [64]]), plain)[1][0]
            empty = "relocate" if other in (4, 5, 6) else "keep"
    return Rules(ties, empty, "", steps, labels is not None)


def main(s: Subject, case: Case, rules: Rules) -> Any:
    if "X" not in case or "C" not in case:
        return None
    return ask(s, case, rules, int(case.get("steps", 1)))


def right_answer(s: Subject, case: Case, rules: Rules) -> Any:
    return [[float(u) for u in row] for row in right(case, rules, int(case.get("steps", 1)))]


def error(s: Subject, case: Case, rules: Rules) -> float:
    return max(flat(allowed(s, case, rules)))


def ask_simply(s: Subject, steps: bool) -> Any:
    """The answer to a task of five points and two centers, as it comes."""
    X, C = task(probes()[0])
    answer = s.raw(X, C, 1) if steps else s.raw(X, C)
    centers, _ = parts(s, answer, len(X), 2, 2)
    if not all(map(math.isfinite, flat(centers))):
        raise WrongAnswer(f"the answer is not finite: {centers}")
    return answer


def takes_batches(s: Subject, steps: bool) -> bool:
    X, C = task(probes()[0])
    answer = s.raw([X, X], [C, C], 1) if steps else s.raw([X, X], [C, C])
    first = calling.parts(answer)[0]
    return bool(np.shape(s.plain(first)) == (2, 2, 2))
