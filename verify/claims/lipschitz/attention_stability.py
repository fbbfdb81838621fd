"""Stability of one attention output in the value, query and key matrix, the query and the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import sympy
import torch
from hypothesis import strategies as st

from constructions.trainable import Tensor, squared_distances
from verify.bounds import lemmas
from verify.bounds.geometry import TokenSet
from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Plot, Run, Source, Table
from verify.claims.lipschitz._shared import (
    ARITHMETIC,
    EPS,
    RECONSTRUCTION,
    Project,
    climb,
    geometry,
    in_ball,
    in_cube,
    in_spectral_ball,
    noise,
    of_sets,
    on_sphere,
    source,
)
from verify.search import Adversarial, Proof, Property, Step, Study, proved

WHAT = ("value", "query", "key", "token", "others")
"""What moves: one of the three matrices, the query token, or the keys (= values)."""

ROLES = ("V", "Q", "K", "z", "keys")
MOVED = dict(zip(WHAT, ROLES, strict=True))
STEP = 1e-3  # half the distance between the two ends of a case, in units of what may move


def score(state: dict[str, Tensor], c: float) -> Tensor:
    return -c * squared_distances(state["z"] @ state["Q"].mT, state["keys"] @ state["K"].mT)


def output(state: dict[str, Tensor], c: float) -> Tensor:
    """Attention outputs (..., 1, e) of the queries `z` (..., 1, e)."""
    return torch.softmax(score(state, c), -1) @ state["keys"] @ state["V"].mT


def ends(state: dict[str, Tensor], what: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The two states that differ by +-`step` in what moves; both stay where they may be, since
    the middle is kept that far inside."""
    name = MOVED[what]
    return tuple({**state, name: state[name] + sign * state["step"]} for sign in (1, -1))  # type: ignore[return-value]


def length(step: Tensor, what: str) -> Tensor:
    """Spectral norm of a matrix step, largest length of a token step, for each restart."""
    if what in ("token", "others"):
        return step.norm(dim=-1).amax(dim=-1)
    return torch.linalg.matrix_norm(step, 2)


def measure(case: Case, form: str = "sharp") -> Measured:
    """How far the output (or a score) moves between two ends, against constant times distance."""
    state = {r: torch.tensor(case[r], dtype=torch.float64) for r in (*ROLES, "step")}
    what, level, c, B = case["what"], case["level"], case["c"], case["B"]
    e = state["z"].shape[-1]
    query, keys = geometry(case["geometry"], e)
    above, below = ends(state, what)
    distance = 2 * float(length(state["step"][None], what)[0])
    if level == "output":
        moved = float((output(above, c) - output(below, c)).norm())
        bound = constants(query, keys, c, B, form)[WHAT.index(what)] * distance
    else:
        change = score(above, c) - score(below, c)
        spread = change.max() - change.min()
        moved = float(change.abs().max() if level == "largest" else spread)
        bound = score_constants(query, keys, c, B, what)[level == "spread"] * distance
    # scores: (3 e + 6) products of total size `size`; weights: their error, and sums of m tokens
    size = c * B**2 * (query.R + keys.R) ** 2
    units = (3 * e + 6) * max(size, 1.0)
    if level == "output":
        units = 2 * B * keys.R * (units + len(state["keys"]) + e + 8)
    return Measured(moved, bound, error=4 * EPS * units)


def constants(query: TokenSet, keys: TokenSet, c: float, B: float, form: str) -> tuple[float, ...]:
    return of_sets(lemmas.attention, form)(query, keys, c, B)


@cache
def _score_formula(what: str) -> Callable[..., Any]:
    def formula(query: TokenSet, keys: TokenSet, c: Any, B: Any) -> Any:
        return lemmas.scores(query, keys, c, B)[what]

    return of_sets(formula)


def score_constants(
    query: TokenSet, keys: TokenSet, c: float, B: float, what: str
) -> tuple[float, float]:
    return _score_formula(what)(query, keys, c, B)


def places(name: str, B: float, what: str) -> dict[str, Project]:
    """Where each tensor may be; what moves is kept `STEP` away from the edge."""

    def shrunk(project: Project, amount: float) -> Project:
        if project is in_cube:
            return lambda a: a.detach().clamp(amount, 1 - amount)
        return project

    moves = MOVED[what]
    inner = {r: B - STEP * (r == moves) for r in "VQK"}
    found: dict[str, Project] = {r: in_spectral_ball(inner[r]) for r in "VQK"}
    for role, radius in (("z", 2.0), ("keys", 1.0)):
        amount = STEP * (role == moves)
        ball = in_ball(radius - amount)
        found[role] = shrunk(in_cube, amount) if name == "cube" else ball
    return found | {"step": lambda a: _step(a, what)}


def _step(a: Tensor, what: str) -> Tensor:
    """A step of size `STEP`: all of a matrix step has norm 1, all token steps are unit vectors."""
    a = a.detach()
    if what in ("token", "others"):
        return STEP * a / a.norm(dim=-1, keepdim=True).clamp(min=1e-300)
    a = on_sphere(a)
    return STEP * a / length(a, what).clamp(min=1e-300)[:, None, None]


def start_of(
    rng: np.random.Generator, restarts: int, e: int, m: int, what: str
) -> dict[str, Tensor]:
    state = {r: noise(rng, restarts, e, e) for r in "VQK"}
    state |= {"z": noise(rng, restarts, 1, e), "keys": noise(rng, restarts, m, e)}
    return state | {"step": noise(rng, *state[MOVED[what]].shape)}


def case_of(best: dict[str, Tensor], row: int, **more: Any) -> Case:
    return Case(**{r: best[r][row].tolist() for r in (*ROLES, "step")}, **more)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    e, m = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    B, c = draw(st.sampled_from((0.7, 1.0, 1.5))), draw(st.sampled_from((0.1, 1.0, 5.0)))
    what, name = draw(st.sampled_from(WHAT)), draw(st.sampled_from(("cube", "ball")))
    levels = ("output",) if what == "value" else ("output", "largest", "spread")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    start = start_of(rng, 1, e, m, what)
    scale = draw(st.sampled_from((0.3, 1.0, 4.0)))
    place = places(name, B, what)
    state = {r: place[r](a if r == "step" else a * scale) for r, a in start.items()}
    return case_of(
        state, 0, what=what, level=draw(st.sampled_from(levels)), geometry=name, c=c, B=B
    )


def log_move(level: str, what: str, c: float) -> Callable[[dict[str, Tensor]], Tensor]:
    """Of the output, of a score, or of the difference of two scores: for each restart the logarithm
    of how far it moves."""

    def objective(s: dict[str, Tensor]) -> Tensor:
        above, below = ends(s, what)
        if level == "output":
            change = (output(above, c) - output(below, c)).flatten(1)
            return torch.log(change.norm(dim=1) + 1e-12)
        change = (score(above, c) - score(below, c)).flatten(1)
        if level == "largest":
            return torch.log(change.abs().amax(1) + 1e-12)
        return torch.log(change.amax(1) - change.amin(1) + 1e-12)

    return objective


def ascent(
    level: str, what: tuple[str, ...], name: str
) -> Callable[[Run, int], Iterator[tuple[str, Case]]]:
    """The largest move, for each of some things that move and two values of c."""

    def search(run: Run, seed: int) -> Iterator[tuple[str, Case]]:
        rng = np.random.default_rng(seed)
        restarts, e, m, B = 8, 2, 2, 1.0
        for moves in what:
            for c in (0.1, 1.0):
                start, place = start_of(rng, restarts, e, m, moves), places(name, B, moves)
                best = climb(log_move(level, moves, c), start, place, run.count(200, 120), 0.05)
                for row in range(restarts):
                    case = case_of(best, row, what=moves, level=level, geometry=name, c=c, B=B)
                    yield f"{moves}, c = {c:g}", case

    return search


def weaker(run: Run) -> Iterator[Step]:
    """The sharp constants are at most the plain ones, and those at most the exponential ones."""
    slack = sympy.symbols("s t u v", nonnegative=True)
    R, r, c, B = sympy.symbols("R r c B", positive=True)
    # what is known of a set: r' <= R' and, for the key matrix, the minimum is at most its first
    larger = r + slack[0]
    query, keys = TokenSet(R, R, R), TokenSet(larger, slack[1], r)
    sharp = lemmas.attention(query, keys, c, B, "sharp")
    plain = lemmas.attention(query, keys, c, B, "plain")
    first = 2 * c * B**2 * r * larger * (R + larger)  # of the minimum in the key constant
    pairs = {
        "value": plain.value - sharp.value,
        "query": plain.query - sharp.query,
        "key": plain.key - first,
        "token": plain.token - sharp.token,
        "others": plain.others - sharp.others,
    }
    for name, difference in pairs.items():
        terms = sympy.Poly(sympy.expand(difference), R, r, c, B, *slack).coeffs()
        yield proved(f"{name}: sharp <= plain", all(t >= 0 for t in terms))
    exponential = lemmas.attention(query, keys, c, B, "exponential")
    delta = c * B**2 * (R + larger) ** 2
    for name, low, high in zip(WHAT, plain, exponential, strict=True):
        same = sympy.simplify(high.subs(sympy.exp(delta), 1) - low) == 0
        yield proved(f"{name}: exponential is plain with factors exp(delta) >= 1", same)


def jacobian(run: Run) -> Iterator[Step]:
    """The exact derivative: d sum_j a_j v_j = Cov_a(v, ds), for three keys."""
    s, ds, v = (sympy.symbols(f"{x}0:3", real=True) for x in ("s", "ds", "v"))
    t = sympy.Symbol("t")
    weights = [sympy.exp(a + t * b) for a, b in zip(s, ds, strict=True)]
    total = sum(weights)
    mean = sum(w * x for w, x in zip(weights, v, strict=True)) / total
    a = [w.subs(t, 0) / total.subs(t, 0) for w in weights]
    covariance = sum(p * x * y for p, x, y in zip(a, v, ds, strict=True)) - sum(
        p * x for p, x in zip(a, v, strict=True)
    ) * sum(p * y for p, y in zip(a, ds, strict=True))
    difference = sympy.simplify(sympy.diff(mean, t).subs(t, 0) - covariance)
    yield proved(
        "derivative of a mean = covariance with the derivative of the scores", difference == 0
    )
    q, dq, x, y = sympy.symbols("q dq x y")
    change = sympy.diff(-((q + t * dq - x) ** 2) + (q + t * dq - y) ** 2, t).subs(t, 0)
    yield proved(
        "moving the query: differences of scores see differences of keys only",
        sympy.expand(change - 2 * dq * (x - y)) == 0,
    )


def tables(claim: Claim, run: Run, e: Evidence) -> None:
    """The three forms beside the largest move found, as the scores get sharper."""
    rng = np.random.default_rng(e.seed)
    query, keys = geometry("cube", 2)
    rows = []
    for c in (0.03, 0.1, 0.3, 1.0, 3.0):
        start, place = start_of(rng, 12, 2, 3, "query"), places("cube", 1.0, "query")
        best = climb(log_move("output", "query", c), start, place, run.count(200, 40))
        top = 0.0
        for row in range(12):
            case = case_of(best, row, what="query", level="output", geometry="cube", c=c, B=1.0)
            answer, m = claim.judge(case)
            e.count(answer)
            top = max(top, m.value / m.bound)
        found = [constants(query, keys, c, 1.0, form)[1] for form in lemmas.FORMS]
        rows.append([c, top * found[0], *found])
    e.tables.append(
        Table(
            "forms",
            "Query matrix, tokens in the unit square, B = 1: constants and the largest move",
            ("c", "measured", "sharp", "without exponential", "with exponential"),
            rows,
            Plot(
                x="c",
                lines=("sharp", "without exponential", "with exponential"),
                points=("measured",),
                x_label="gamma / sqrt(d_emb)",
                y_label="move of the output per move of Q",
                log_x=True,
                log_y=True,
                caption="The exponential form leaves the truth behind as soon as scores spread.",
            ),
        )
    )


CLAIM = Claim(
    id="attention-stability",
    title="Attention is stable under changes of V, Q, K and of its tokens",
    says="One attention output moves at most by an explicit constant times the move of its value, "
    "query or key matrix, of its query token, or of the tokens that are keys and values. The "
    "constants need no exponential of the scores' dispersion and no number of keys; for V, Q and "
    "the query token they are reached.",
    statement=r"\|A(\theta) - A(\theta')\| \le L\,\|\theta - \theta'\|, \quad L_V = R', \quad "
    r"L_Q = 2cB^2r'^2R, \quad L_K = 2cB^2r'\min\{R'(R+R'),\, r'(R+m'+R')\}, \quad "
    r"L_z = 2cB^3r'^2, \quad T = B + 2cB^3r'(R+R')",
    sources=(*source("App. I, pp. 37-41, Table 2"), Source("review", "theorem 3.1")),
    kind=Kind.UPPER,
    bound=r"\text{as reconstructed: } L_Q = 2cB^2R'R(R+R')\,e^{cB^2(R+R')^2} \text{ etc.; shown "
    r"here without the exponential, and sharp}",
    measure=measure,
    checks=(
        Proof("derivative", Method.SYMBOLIC, jacobian, scope="three keys; two scores"),
        Proof("order-of-forms", Method.SYMBOLIC, weaker, scope="every geometry, c and B"),
        Property(
            "random",
            scope="up to 3 coordinates and 4 keys; outputs, scores and differences of scores",
            strategy=cases(),
            count=400,
            sharper="no exponential of the dispersion, no number of keys, radii instead of norms",
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent-sharp",
            scope="two keys in the unit ball; V, Q and the query token",
            search=ascent("output", ("value", "query", "token"), "ball"),
            reach=0.97,
            group="moved",
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent-keys",
            scope="two keys in the unit ball; K and the keys themselves",
            search=ascent("output", ("key", "others"), "ball"),
            group="moved",
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent-largest-score",
            scope="two keys in the unit ball",
            search=ascent("largest", ("query", "key", "token", "others"), "ball"),
            reach=0.97,
            group="moved",
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent-score-spread",
            scope="two keys in the unit ball",
            search=ascent("spread", ("query", "token", "others"), "ball"),
            reach=0.97,
            group="moved",
            arithmetic=ARITHMETIC,
        ),
        Study(
            "forms",
            Method.ADVERSARIAL,
            tables,
            scope="tokens in the unit square, c from 0.03 to 3",
            arithmetic=ARITHMETIC,
        ),
    ),
    falsify="two attention modules in the ball that differ in one argument and whose outputs "
    "differ by more than the constant times the distance",
    theory="lipschitz.md#attention",
    conflict=RECONSTRUCTION,
)
