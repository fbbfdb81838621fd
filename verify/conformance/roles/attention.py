r"""Attention (Q, K, V, scale) -> outputs: each query gets a weighted mean of the values.

Weights are softmax of scores: -scale |q - k|^2 ("squared distance"), scale q . k ("dot product"),
or equal on all nearest keys whatever the scale ("hardmax"). Which one is found by probing.
A library call is wrapped as `lambda Q, K, V, scale: ...`; no 1/sqrt(d) beyond `scale`.

Rounding, with eps from 1 to the next number. A squared distance that is summed from differences is
relatively right to (d + 3) eps; a dot product is off by (d + 1) eps sum_i |q_i k_i|. The product
with the scale and the difference to the largest score add 2 eps of either. So scores are off by

    s = scale * (d + 6) eps max(score parts)          and outputs by
    max |v - mean| (e^(2 s) - 1) + (2 n + 14) eps max |v|,

because weights are right to a factor of e^(2 s) and two means of the same box differ by no more.
"""

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from hypothesis import strategies as st

from verify.claim import Case, Kind, Measured
from verify.conformance.property import Excluded, Explanation, Property, Role, Sort
from verify.conformance.subject import Subject, WrongAnswer, excess, flat

Table = list[list[float]]
MASKS = ("mask", "attn_mask", "attention_mask", "key_mask")
FORMS = ("squared distance", "dot product", "hardmax")


def _ask(s: Subject, case: Case) -> Table:
    Q, V = case["Q"], case["V"]
    return s(Q, case["K"], V, case["scale"], shape=(len(Q), len(V[0])))


def _score(form: str, q: list[float], k: list[float]) -> Fraction:
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(q, k, strict=True)]
    if form == "dot product":
        return sum((a * b for a, b in pairs), Fraction(0))
    return -sum(((a - b) ** 2 for a, b in pairs), Fraction(0))


def right(case: Case, form: str) -> Table:
    """Exact scores, softmax to 40 digits; the hardmax is exact."""
    scale, V = Fraction(case["scale"]), case["V"]
    out = []
    with mpmath.workdps(40):
        for q in case["Q"]:
            scores = [_score(form, q, k) for k in case["K"]]
            top = max(scores)
            if form == "hardmax":
                weights = [mpmath.mpf(v == top) for v in scores]
            else:
                logs = [(v - top) * scale for v in scores]
                weights = [mpmath.exp(mpmath.mpf(v.numerator) / v.denominator) for v in logs]
            total = mpmath.fsum(weights)
            out.append([float(mpmath.fdot(weights, col) / total) for col in zip(*V, strict=True)])
    return out


def allowed(s: Subject, case: Case, form: str) -> float:
    """How far rounding may take an output. Derivation: top of this module."""
    n, d = len(case["K"]), len(case["K"][0])
    largest = max(abs(v) for v in flat(case["V"]))
    arithmetic = (2 * n + 14) * s.eps * largest
    if form == "hardmax":
        return arithmetic
    if form == "dot product":
        parts = max(
            sum(abs(a * b) for a, b in zip(q, k, strict=True)) for q in case["Q"] for k in case["K"]
        )
    else:
        parts = max(-float(_score(form, q, k)) for q in case["Q"] for k in case["K"])
    wrong = 4 * case["scale"] * (d + 6) * s.eps * parts
    spread = max(max(col) - min(col) for col in zip(*case["V"], strict=True))
    return spread * min(1.0, math.expm1(min(wrong, 1.0))) + arithmetic


def _value(s: Subject, case: Case, form: str) -> Measured:
    found, expected, most = _ask(s, case), right(case, form), allowed(s, case, form)
    answers = {"answer": found, "right": expected}
    return Measured(*excess(found, expected, [[most] * len(row) for row in found]), answers=answers)


def _convex(s: Subject, case: Case, form: str) -> Measured:
    """How far an output is outside of the box of the values."""
    found = _ask(s, case)
    worst = 0.0
    for row in found:
        for v, col in zip(row, zip(*case["V"], strict=True), strict=True):
            outside = max(v - max(col), min(col) - v, 0.0) if math.isfinite(v) else math.inf
            worst = max(worst, outside)
    largest = max(abs(v) for v in flat(case["V"]))
    return Measured(worst, (len(case["K"]) + 6) * s.eps * largest, answers={"answer": found})


def _constant(s: Subject, case: Case, form: str) -> Measured:
    """The weights of each query sum to 1: with all values 1 the output is 1."""
    ones = Case(Q=case["Q"], K=case["K"], V=[[1.0]] * len(case["K"]), scale=case["scale"])
    found = _ask(s, ones)
    answers = {"sums": found}
    most = [[(2 * len(case["K"]) + 6) * s.eps]] * len(found)
    return Measured(*excess(found, [[1.0]] * len(found), most), answers=answers)


def _changed(s: Subject, case: Case, other: Case, form: str, undo: Any = lambda t: t) -> Measured:
    before, after = _ask(s, case), undo(_ask(s, other))
    most = allowed(s, case, form) + allowed(s, other, form)
    answers = {"answer": before, "after the change": after}
    return Measured(*excess(after, before, [[most] * len(r) for r in before]), answers=answers)


def _with(case: Case, **changes: Any) -> Case:
    return Case(**{**dict(case), **changes})


def _keys_permuted(s: Subject, case: Case, form: str) -> Measured:
    return _changed(s, case, _with(case, K=case["K"][::-1], V=case["V"][::-1]), form)


def _queries_permuted(s: Subject, case: Case, form: str) -> Measured:
    return _changed(s, case, _with(case, Q=case["Q"][::-1]), form, lambda t: t[::-1])


def _duplicated(s: Subject, case: Case, form: str) -> Measured:
    return _changed(s, case, _with(case, K=case["K"] * 2, V=case["V"] * 2), form)


def _translated(s: Subject, case: Case, form: str) -> Measured:
    """Queries and keys moved by 2^10 together (their sixteenths stay exact in float32). Distances
    do not change. For the dot product the score of every key changes by what is linear in q, and
    scores are compared with the right answer there instead."""
    far = 1024.0
    other = _with(case, **{n: [[v + far for v in row] for row in case[n]] for n in ("Q", "K")})
    if form == "dot product":
        return _value(s, other, form)
    return _changed(s, case, other, form)


def _hardmax_limit(s: Subject, case: Case, form: str) -> Measured:
    """At scale 2^16, scores of sixteenths that differ, differ by 2^8: other keys have at most
    n e^-256 of the weight, which is below every rounding."""
    sharp = _with(case, scale=2.0**16)
    found = _ask(s, sharp)
    n, out = len(case["K"]), []
    for q in case["Q"]:
        scores = [_score(form, q, k) for k in case["K"]]
        best = [v for v, score in zip(case["V"], scores, strict=True) if score == max(scores)]
        out.append([sum(col) / len(best) for col in zip(*best, strict=True)])
    largest = max(abs(v) for v in flat(case["V"]))
    most = allowed(s, sharp, form) + n * 1e-100 * largest
    answers = {"answer": found, "limit": out}
    return Measured(*excess(found, out, [[most] * len(row) for row in found]), answers=answers)


def _certificate(s: Subject, case: Case, form: str) -> Measured:
    """A query whose nearest key is nearer than all others by a margin m is off from its value by
    (n-1)/(n-1+e^(scale m)) of the diameter of the values at most: the first term of
    `constructions.certificate`, which is one layer's."""
    found, n = _ask(s, case), len(case["K"])
    worst: tuple[float, float, Any] = (0.0, 0.0, None)
    for q, row in zip(case["Q"], found, strict=True):
        scores = [_score(form, q, k) for k in case["K"]]
        top = max(scores)
        if scores.count(top) > 1 or n == 1:
            continue
        margin = float(top - max(v for v in scores if v != top)) * case["scale"]
        share = (n - 1) / (n - 1 + math.exp(min(margin, 700.0)))
        best = case["V"][scores.index(top)]
        for v, b, col in zip(row, best, zip(*case["V"], strict=True), strict=True):
            bound = share * (max(col) - min(col)) + allowed(s, case, form)
            error = abs(v - b) if math.isfinite(v) else math.inf
            if worst[2] is None or error - bound > worst[0] - worst[1]:
                worst = (error, bound, row)
    return Measured(worst[0], worst[1], answers={"answer": found})


def _batch(s: Subject, case: Case, form: str) -> Measured:
    """Two problems at once: the case, and the case with queries and values reversed."""
    other = _with(case, Q=case["Q"][::-1], V=case["V"][::-1])
    both = [[case[n], other[n]] for n in ("Q", "K", "V")]
    shape = (2, len(case["Q"]), len(case["V"][0]))
    together = s(*both, case["scale"], shape=shape)
    alone = [_ask(s, case), _ask(s, other)]
    most = allowed(s, case, form) + allowed(s, other, form)
    answers = {"batch": together, "one by one": alone}
    bounds = [[[most] * len(row) for row in t] for t in alone]
    return Measured(*excess(together, alone, bounds), answers=answers)


def _mask(case: Case) -> list[list[bool]]:
    """Every query but the first sees all keys but one of them."""
    n = len(case["K"])
    return [[n == 1 or i == 0 or j != i % n for j in range(n)] for i in range(len(case["Q"]))]


def _with_mask(s: Subject, case: Case) -> Table:
    name = next(p for p in inspect.signature(s.function).parameters if p in MASKS)
    Q, K, V = (s.array(case[n]) for n in ("Q", "K", "V"))
    mask: Any = _mask(case)
    if s.library == "torch":
        import torch

        mask = torch.tensor(mask)
    elif s.library != "lists":
        mask = np.array(mask)
    answer = s.function(Q, K, V, case["scale"], **{name: mask})
    return s.plain(answer, (len(case["Q"]), len(case["V"][0])))


def _right_with(case: Case, form: str, mask: list[list[bool]]) -> Table:
    """Each query with the keys that its row of the mask leaves it."""
    found = []
    for q, row in zip(case["Q"], mask, strict=True):
        K, V = ([t for t, seen in zip(case[n], row, strict=True) if seen] for n in ("K", "V"))
        found += right(_with(case, Q=[q], K=K, V=V), form)
    return found


def _masked(s: Subject, case: Case, form: str) -> Measured:
    """True is for keys that are seen."""
    if min(len(case["Q"]), len(case["K"])) < 2:
        raise Excluded
    expected, found = _right_with(case, form, _mask(case)), _with_mask(s, case)
    most = [[allowed(s, case, form)] * len(row) for row in expected]
    return Measured(*excess(found, expected, most), answers={"output": found, "right": expected})


def _hides(s: Subject, case: Case, form: str) -> tuple[Sort, str] | None:
    """Whether True hides a key: the second query then sees one key alone."""
    mask = [[not seen for seen in row] for row in _mask(case)]
    expected = _right_with(case, form, [mask[1]] * len(mask))
    off = max(abs(a - b) for a, b in zip(_with_mask(s, case)[1], expected[1], strict=True))
    fits = off <= 2 * allowed(s, case, form)
    return (Sort.CONVENTION, "True in the mask hides a key") if fits else None


def _repeat(s: Subject, case: Case, form: str) -> Measured:
    first, second = _ask(s, case), _ask(s, case)
    differ = sum(a != b for a, b in zip(flat(first), flat(second), strict=True))
    return Measured(differ, 0, answers={"first": first, "second": second})


def _untouched(s: Subject, case: Case, form: str) -> Measured:
    given = [s.array(case[n]) for n in ("Q", "K", "V")]
    before = [flat(s.plain(a)) for a in given]
    s.function(*given, case["scale"])
    after = [flat(s.plain(a)) for a in given]
    return Measured(sum(a != b for a, b in zip(before, after, strict=True)), 0)


@st.composite
def _cases(draw: st.DrawFn, scales: tuple[float, ...] = (1.0, 0.25, 4.0, 64.0)) -> Case:
    """Sixteenths in [0, 2]: they tie and repeat, and every float type holds them and their squares
    exactly."""
    m, n, d, v = (draw(st.integers(1, top)) for top in (2, 4, 3, 2))
    number = st.integers(0, 32).map(lambda i: i / 16)

    def table(rows: int, width: int) -> Any:
        return draw(
            st.lists(st.lists(number, min_size=width, max_size=width), min_size=rows, max_size=rows)
        )

    K = table(n, d)
    return Case(Q=table(m, d), K=K, V=table(n, v), scale=draw(st.sampled_from(scales)))


@st.composite
def _huge(draw: st.DrawFn) -> Case:
    case = draw(_cases((2.0**10, 2.0**20)))
    return _with(case, **{n: [[16 * v for v in row] for row in case[n]] for n in ("Q", "K")})


ALL = _cases()
PROPERTIES = (
    Property("repeatable", "The same input gives the same bits.", ALL, _repeat, Kind.EQUALITY),
    Property("value", "Outputs are the weighted means of the values.", ALL, _value),
    Property("sums-to-one", "The weights of every query sum to 1.", ALL, _constant),
    Property("convex", "Outputs stay in the box of the values.", ALL, _convex),
    Property(
        "hardmax-limit", "Sharp attention is the mean over nearest keys.", ALL, _hardmax_limit
    ),
    Property(
        "certificate", "The error at a finite scale is within the certificate.", ALL, _certificate
    ),
    Property(
        "far-from-origin", "Moving queries and keys far away loses nothing.", ALL, _translated
    ),
    Property("large-scores", "Large scores do not overflow.", _huge(), _value),
    Property("permuted-keys", "The order of keys does not matter.", ALL, _keys_permuted),
    Property("permuted-queries", "Permuting queries permutes outputs.", ALL, _queries_permuted),
    Property("duplicate-keys", "Every key twice changes nothing.", ALL, _duplicated),
    Property(
        "mask",
        "A key that is masked for a query has no part in its output.",
        ALL,
        _masked,
        needs="mask",
        explain=_hides,
    ),
    Property("batch", "A batch is its members.", ALL, _batch, needs="batches"),
    Property("untouched", "The input is left as it was.", ALL, _untouched, Kind.EQUALITY),
)


def _rescaled(name: str, sort: Sort, change: Any) -> Explanation:
    def answer(s: Subject, case: Case, form: str) -> Any:
        return None if form == "hardmax" else right(_with(case, scale=change(case)), form)

    return Explanation(name, sort, answer)


def _in_type(scores: Any, normalize: bool = True, shift: bool = True) -> Any:
    """Attention with scores computed in the subject's own type."""

    def answer(s: Subject, case: Case, form: str) -> Any:
        Q, K, V = (np.asarray(case[n], s.dtype) for n in ("Q", "K", "V"))
        with np.errstate(all="ignore"):
            z = scores(Q, K, form) * Q.dtype.type(case["scale"])
            w = np.exp(z - z.max(axis=-1, keepdims=True) if shift else z)
            w = w / w.sum(axis=-1, keepdims=True) if normalize else w
            return (w @ V).astype(np.float64).tolist()

    return answer


def _differences(Q: Any, K: Any, form: str) -> Any:
    if form == "dot product":
        return Q @ K.T
    return -((Q[:, None] - K[None]) ** 2).sum(axis=-1)


def _expanded(Q: Any, K: Any, form: str) -> Any:
    return -((Q * Q).sum(1)[:, None] - 2 * (Q @ K.T) + (K * K).sum(1)[None])


def _plain_distance(Q: Any, K: Any, form: str) -> Any:
    return -np.sqrt(((Q[:, None] - K[None]) ** 2).sum(axis=-1))


def _swapped(meant: str) -> Explanation:
    """Whatever form it was taken for: a wrong axis makes that a guess."""

    def answer(s: Subject, case: Case, form: str) -> Any:
        z = _differences(np.asarray(case["Q"]), np.asarray(case["K"]), meant) * case["scale"]
        w = np.exp(z - z.max(axis=0, keepdims=True))
        return ((w / w.sum(axis=0, keepdims=True)) @ np.asarray(case["V"])).tolist()

    name = f"softmax over the queries instead of the keys, by {meant}"
    return Explanation(name, Sort.BUG, answer)


EXPLANATIONS = (
    Explanation(
        "the expanded square |q|^2 - 2 q.k + |k|^2 in this element type",
        Sort.ROUNDING,
        _in_type(_expanded),
    ),
    Explanation(
        "overflow: the largest score is not subtracted before exp",
        Sort.BUG,
        _in_type(_differences, shift=False),
    ),
    Explanation(
        "not divided by the sum of the weights", Sort.BUG, _in_type(_differences, normalize=False)
    ),
    Explanation(
        "not divided by the sum, largest score not subtracted",
        Sort.BUG,
        _in_type(_differences, normalize=False, shift=False),
    ),
    *map(_swapped, FORMS[:2]),
    Explanation("distances that are not squared", Sort.CONVENTION, _in_type(_plain_distance)),
    _rescaled(
        "the scale is divided by sqrt(d)",
        Sort.CONVENTION,
        lambda case: case["scale"] / math.sqrt(len(case["K"][0])),
    ),
    _rescaled("the scale is inverted", Sort.CONVENTION, lambda case: 1 / case["scale"]),
    _rescaled("the scale is not used", Sort.BUG, lambda case: 1.0),
    _rescaled("the scale is doubled", Sort.CONVENTION, lambda case: 2 * case["scale"]),
    _rescaled("the scale is halved", Sort.CONVENTION, lambda case: case["scale"] / 2),
)

PROBES = tuple(
    Case(
        Q=[[0.0, 0.5], [1.0, 0.25]],
        K=[[0.0, 0.0], [1.0, 0.5], [0.5, 1.0]],
        V=[[0.0, 1.0], [1.0, 0.0], [2.0, 0.5]],
        scale=scale,
    )
    for scale in (0.5, 1.0, 2.0)
)


def _recognize(s: Subject) -> str:
    """The form whose outputs are nearest at a probe with scale 1."""
    try:
        found = flat(_ask(s, PROBES[1]))
    except WrongAnswer:
        return FORMS[0]

    def off(form: str) -> float:
        pairs = zip(found, flat(right(PROBES[1], form)), strict=True)
        return max((abs(a - b) if math.isfinite(a) else math.inf) for a, b in pairs)

    return min(FORMS, key=off)


def _simply(s: Subject) -> Any:
    case = PROBES[1]
    answer = s.raw(case["Q"], case["K"], case["V"], case["scale"])
    found = s.plain(answer, (2, 2))
    if not all(map(math.isfinite, flat(found))):
        raise WrongAnswer(f"the answer is not finite: {found}")
    return answer


def _batched(s: Subject) -> bool:
    case = PROBES[1]
    stacked = [[case[n], case[n]] for n in ("Q", "K", "V")]
    return bool(np.shape(s(*stacked, case["scale"])) == (2, 2, 2))


ROLE = Role(
    "attention",
    "(Q, K, V, scale) -> outputs",
    PROPERTIES,
    (
        frozenset({"Q", "q", "query", "queries"}),
        frozenset({"K", "k", "key", "keys"}),
        frozenset({"V", "v", "value", "values"}),
        frozenset({"scale", "gamma", "inverse_temperature", "sharpness"}),
    ),
    EXPLANATIONS,
    _recognize,
    {form: form for form in FORMS},
    lambda s, case, form: _ask(s, case),
    lambda s, case, form: right(case, form),
    allowed,
    PROBES,
    _simply,
    _batched,
)
