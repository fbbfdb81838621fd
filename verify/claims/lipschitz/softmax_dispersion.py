"""How far attention scores spread, and what softmax does with that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import sympy
import torch
import z3
from hypothesis import strategies as st

from constructions.trainable import Tensor
from verify.bounds import lemmas
from verify.bounds.geometry import TokenSet
from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Run, Source
from verify.claims.lipschitz._shared import (
    ARITHMETIC,
    EPS,
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
from verify.oracles import smt
from verify.search import Adversarial, Proof, Property, Step, Study, proved

CONSTANTS = {
    ("2", "2"): (1, 2),
    ("1", "1"): (1, 2),
    ("inf", "inf"): (1, 2),
    ("inf", "1"): (1, 1),
    ("inf", "2"): (2, 2),
    ("2", "1"): (2, 2),
    ("1", "2"): (2, 4),
    ("1", "inf"): (1, 4),
}
"""(norm of the scores, norm of the weights) -> Lipschitz constant of softmax, sqrt(a) / b."""

ORDERS = {"1": 1.0, "2": 2.0, "inf": math.inf}


def measure(case: Case) -> Measured:
    """Dispersion of scores against its bound, or a change of softmax weights against its."""
    return _dispersion(case) if "keys" in case else _stability(case)


def _dispersion(case: Case) -> Measured:
    """Scores of one query; `geometry` says where query and keys are from."""
    Q, K, z, keys = (np.array(case[name]) for name in ("Q", "K", "z", "keys"))
    query, where = geometry(case["geometry"], len(z))
    distances = ((z @ Q.T - keys @ K.T) ** 2).sum(-1)
    value = case["c"] * float(distances.max() - distances.min())
    bound = dispersion(query, where, case["c"], case["B"])
    # sums of at most 3 e + 3 products each, of total size at most c B^2 (R + R')^2
    size = case["c"] * case["B"] ** 2 * (query.R + where.R) ** 2
    return Measured(value, bound, error=2 * (3 * len(z) + 3) * EPS * size)


def dispersion(query: TokenSet, keys: TokenSet, c: float, B: float) -> float:
    """The smaller of the two bounds."""
    both = (lemmas.dispersion, lemmas.dispersion_ball)
    return min(float(of_sets(form)(query, keys, c, B)) for form in both)


def _stability(case: Case) -> Measured:
    """|softmax(u) - softmax(v)| against L |u - v|, in the two norms of the case; or, with
    `what = "spread"`, the change in the 1-norm against 2 tanh(D / 4); or the largest weight.

    In float64, and where that cannot tell, with 50 digits.
    """
    u, v = case["u"], case["v"]
    # a weight is right to (8 + max u - min u + m) eps times itself, and the weights sum to 1
    units = 2 * math.sqrt(len(u)) * (8 + max(max(u) - min(u), max(v) - min(v)) + len(u))
    value, bound = _sides(case["what"], u, v, mpmath.fp)
    if abs(value - bound) > units * EPS:
        return Measured(value, bound, units * EPS)
    with mpmath.workdps(50):
        exact = [[mpmath.mpf(x) for x in w] for w in (u, v)]
        value, bound = _sides(case["what"], exact[0], exact[1], mpmath.mp)
        return Measured(value, bound, units * mpmath.mpf(10) ** -49)


def _sides(what: str, u: list[Any], v: list[Any], m: Any) -> tuple[Any, Any]:
    """The measured side and its bound, in the arithmetic of an mpmath context."""

    def softmax(x: list[Any]) -> list[Any]:
        w = [m.exp(y - max(x)) for y in x]
        return [y / m.fsum(w) for y in w]

    def norm(x: list[Any], order: str) -> Any:
        if order == "inf":
            return max(abs(y) for y in x)
        return m.fsum(abs(y) for y in x) if order == "1" else m.sqrt(m.fsum(y * y for y in x))

    p, q = softmax(u), softmax(v)
    if what == "weight":
        return max(p), 1 / (1 + (len(u) - 1) * m.exp(min(u) - max(u)))
    change = [a - b for a, b in zip(p, q, strict=True)]
    move = [a - b for a, b in zip(u, v, strict=True)]
    if what == "spread":
        return norm(change, "1"), 2 * m.tanh((max(move) - min(move)) / 4)
    scores, weights = what.split(" -> ")
    constant = m.sqrt(m.mpf(CONSTANTS[scores, weights][0])) / CONSTANTS[scores, weights][1]
    return norm(change, weights), constant * norm(move, scores)


WHAT = (*(f"{a} -> {b}" for a, b in CONSTANTS), "spread", "weight")


@st.composite
def score_cases(draw: st.DrawFn) -> Case:
    e, m = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    B, c = draw(st.sampled_from((0.5, 1.0, 2.0))), draw(st.sampled_from((0.1, 1.0, 5.0)))
    name = draw(st.sampled_from(("cube", "ball")))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Q, K = (in_spectral_ball(B)(noise(rng, e, e) * 3) for _ in range(2))
    z, keys = (torch.from_numpy(rng.uniform(-0.5, 1.5, (rows, e))) for rows in (1, m))
    if name == "cube":
        z, keys = in_cube(z.round()), in_cube(keys)
    else:
        z, keys = in_ball(2.0)(3 * z), in_ball(1.0)(2 * keys - 1)
    return Case(
        geometry=name, c=c, B=B, Q=Q.tolist(), K=K.tolist(), z=z[0].tolist(), keys=keys.tolist()
    )


@st.composite
def softmax_cases(draw: st.DrawFn) -> Case:
    m = draw(st.integers(3, 6))
    entry = st.integers(-256, 256).map(lambda i: i / 64)
    # different scores: with equal ones the largest weight is exactly at its bound
    u = draw(st.lists(entry, min_size=m, max_size=m, unique=True))
    v = draw(st.lists(entry, min_size=m, max_size=m))
    if u == v:
        v = [v[0] + 1, *v[1:]]
    return Case(what=draw(st.sampled_from(WHAT)), u=u, v=v)


def widest(run: Run, seed: int) -> Iterator[tuple[str, Case]]:
    """Scores as far apart as they get: keys, query and both matrices are free."""
    rng = np.random.default_rng(seed)
    restarts, c, B = 8, 1.0, 1.0
    for name, e in (("ball", 2), ("cube", 1), ("cube", 2), ("cube", 4)):
        inside = (in_cube, in_cube) if name == "cube" else (in_ball(2.0), in_ball(1.0))
        start = {role: noise(rng, restarts, e, e) for role in "QK"}
        start |= {"z": noise(rng, restarts, 1, e), "keys": noise(rng, restarts, 3, e)}
        project = {"Q": in_spectral_ball(B), "K": in_spectral_ball(B), "z": inside[0]}

        def objective(s: dict[str, Tensor]) -> Tensor:
            apart = ((s["z"] @ s["Q"].mT - s["keys"] @ s["K"].mT) ** 2).sum(-1)
            return apart.amax(-1) - apart.amin(-1)

        best = climb(objective, start, project | {"keys": inside[1]}, run.count(150, 80))
        for row in range(restarts):
            s = {key: a[row].tolist() for key, a in best.items()}
            yield (
                f"{name}, {e} coordinates",
                Case(geometry=name, c=c, B=B, Q=s["Q"], K=s["K"], z=s["z"][0], keys=s["keys"]),
            )


def steepest(run: Run, seed: int) -> Iterator[tuple[str, Case]]:
    """Where softmax moves most, for each pair of norms: small steps h from free scores u.

    What the norms have in common is free of corners, so the ascent gets the step as a direction
    and each norm as a power mean; the judge uses the norms themselves.
    """
    rng = np.random.default_rng(seed)
    m, restarts, size = 4, 12, 2.0**-8
    for scores, weights in CONSTANTS:
        a, b = (min(ORDERS[x], 64.0) for x in (scores, weights))
        start = {"u": noise(rng, restarts, m) * 2, "h": noise(rng, restarts, m)}
        for row in range(restarts // 2):  # signs and single entries are the corners of the balls
            corner = torch.zeros(m, dtype=torch.float64)
            corner[rng.integers(m)] = 1
            start["h"][row] = corner if scores == "1" else torch.sign(start["h"][row])

        def objective(s: dict[str, Tensor], a: float = a, b: float = b) -> Tensor:
            p = torch.softmax(s["u"], -1)
            change = p * (s["h"] - (p * s["h"]).sum(-1, keepdim=True))
            return torch.log(_power_norm(change, b)) - torch.log(_power_norm(s["h"], a))

        free = {"u": lambda t: t.detach().clamp(-12, 12), "h": on_sphere}
        best = climb(objective, start, free, run.count(200, 120))
        for row in range(restarts):
            u, h = best["u"][row], best["h"][row] * size
            case = Case(what=f"{scores} -> {weights}", u=(u - h).tolist(), v=(u + h).tolist())
            yield f"{scores} -> {weights}", case
    for spread in (0.5, 4.0):
        u = np.array([spread / 2, -spread / 2])
        yield f"spread {spread:g}", Case(what="spread", u=(u / 2).tolist(), v=(-u / 2).tolist())
        yield f"weight {spread:g}", Case(what="weight", u=[spread, 0.0, 0.0, 0.0], v=[0.0] * 4)


def _power_norm(x: Tensor, p: float) -> Tensor:
    size = x.abs().amax(-1, keepdim=True).clamp(min=1e-300)
    return ((x.abs() / size + 1e-12) ** p).sum(-1) ** (1 / p) * size[..., 0]


def scores_proof(run: Run) -> Iterator[Step]:
    q, kappa, chi, nearest, farthest = z3.Reals("q kappa chi nearest farthest")
    inside = [q >= 0, kappa >= 0, q <= chi, nearest >= 0, farthest <= q + kappa]
    inside += [farthest >= 0, nearest >= q - kappa]
    short = z3.If(chi >= kappa, chi - kappa, 0)
    goal = farthest * farthest - nearest * nearest <= (chi + kappa) * (chi + kappa) - short * short
    yield smt.decide("scores: difference <= (chi + kappa)^2 - (chi - kappa)_+^2", inside, goal)
    # the two ball constants, and 3 c B^2 d against 4 c B^2 d for the cube
    d, c, B = sympy.symbols("d c B", positive=True)
    cube = TokenSet(sympy.sqrt(d), sympy.sqrt(d) / 2, sympy.sqrt(d) / 2)
    centered = lemmas.dispersion(cube, cube, c, B).doit()
    ball = lemmas.dispersion_ball(cube, cube, c, B).doit()
    yield proved("cube: 3 c B^2 d", sympy.simplify(centered - 3 * c * B**2 * d) == 0)
    yield proved("cube, from norms alone: 4 c B^2 d", sympy.simplify(ball - 4 * c * B**2 * d) == 0)


def softmax_proof(run: Run) -> Iterator[Step]:
    """Each constant from one or two numbers, so for every length of the vectors."""
    low, high, mean, second, p, q = z3.Reals("low high mean second p q")
    spread = [second <= (low + high) * mean - low * high]  # E (high - y)(y - low) >= 0
    quarter = 4 * (second - mean * mean) <= (high - low) * (high - low)
    yield smt.decide("variance <= (max - min)^2 / 4", spread, quarter)
    yield smt.decide(
        "2 -> 2: (max - min)^2 / 4 <= |y|^2 / 2",
        [],
        (high - low) * (high - low) <= 2 * (low * low + high * high),
    )
    weight = [p >= 0, p <= 1]
    yield smt.decide("1 -> 1 and inf -> inf: 2 p (1 - p) <= 1/2", weight, 4 * p * (1 - p) <= 1)
    yield smt.decide("1 -> inf: p (1 - p) <= 1/4", weight, 4 * p * (1 - p) <= 1)
    yield smt.decide("1 -> 2: 2 p^2 (1 - p)^2 <= 1/8", weight, 16 * (p * (1 - p)) ** 2 <= 1)
    yield smt.decide("inf -> 2: 8 q^2 (1 - q)^2 <= 1/2", weight, 16 * (p * (1 - p)) ** 2 <= 1)
    # inf -> 1: covariance of two variables of range 2 is at most 1; sd <= 1 each
    yield smt.decide("inf -> 1: sd(y) sd(h) <= 1", [p >= 0, q >= 0, p <= 1, q <= 1], p * q <= 1)
    # logit(p') is within D of logit(p) for every event, and the largest step of a logistic is here
    a, D = sympy.symbols("a D", positive=True)
    step = 1 / (1 + sympy.exp(-(a + D))) - 1 / (1 + sympy.exp(-a))
    slope = sympy.diff(step, a).subs(a, -D / 2)
    yield proved("the largest logistic step is symmetric", sympy.simplify(slope) == 0)
    at_top = step.subs(a, -D / 2) - sympy.tanh(D / 4)
    yield proved("and equals tanh(D / 4)", sympy.simplify(at_top.rewrite(sympy.exp)) == 0)


def literal_reading(claim: Claim, run: Run, e: Evidence) -> None:
    """Read literally, weights are at most exp(rho)/m with rho = gamma d_E / sqrt(d_emb)."""
    # d = 1, no code, gamma = 1, Q = -1, K = 1: a token at 0 and 999 tokens at 1, query 1
    keys = np.array([0.0] + [1.0] * 999)
    weights = np.exp(-((-1.0 - keys) ** 2))
    weights /= weights.sum()
    m = Measured(float(weights[0]), math.e / 1000, error=1e-12)
    e.cases, e.bound, e.measured, e.ratio = 1, m.bound, m.value, m.ratio
    e.violated = int(m.value > m.bound + m.error)
    e.counterexample = Case(what="literal", d=1, gamma=1, Q=-1, K=1, query=1, zeros=1, ones=999)
    e.note = "the dispersion is 3 there, not 1; with exp(3)/m the bound holds"


CLAIM = Claim(
    id="softmax-dispersion",
    title="Dispersion of scores and stability of softmax",
    says="The scores of one query differ by at most rho', computed from norms and radii, and reach "
    "it. Softmax is Lipschitz with an explicit constant in each pair of norms, 1/2 in the "
    "Euclidean one, whatever the dispersion, and its weights are at most exp(D)/(exp(D) + m - 1).",
    statement=r"D(s) \le \rho' = c\left[(\chi+\kappa)^2 - (\chi-\kappa)_+^2\right], \quad "
    r"p_j \le \frac{e^{D}}{e^{D}+m-1}, \quad \|\mathrm{softmax}(u)-\mathrm{softmax}(v)\|_2 \le "
    r"\tfrac12\|u-v\|_2",
    sources=(*source("App. I, p. 37"), Source("review", "theorem 3.1")),
    kind=Kind.TIGHT,
    bound=r"c\left[(\chi+\kappa)^2-(\chi-\kappa)_+^2\right],\ \chi = B(R+m'),\ \kappa = Br'; \quad "
    r"\tfrac12 \ (2\to2),\ 1\ (\infty\to1),\ \ldots",
    measure=measure,
    checks=(
        Proof("scores", Method.SMT, scores_proof, scope="every query, keys and dimension"),
        Proof(
            "softmax",
            Method.SMT,
            softmax_proof,
            scope="every length",
            sharper="global constants, so that no exponential of the dispersion is needed",
        ),
        Property(
            "random-scores",
            scope="up to 3 coordinates and 4 keys, in a cube or in balls",
            strategy=score_cases(),
            count=300,
            arithmetic=ARITHMETIC,
        ),
        Property(
            "random-softmax",
            scope="3 to 6 scores, multiples of 1/64",
            strategy=softmax_cases(),
            count=500,
            arithmetic="float64 with a rounding bound, else mpmath (50 digits)",
        ),
        Adversarial(
            "ascent-scores",
            scope="3 keys in the cube or the ball",
            search=widest,
            reach=0.97,
            group="where",
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent-softmax",
            scope="4 scores, eight pairs of norms, dispersion and largest weight",
            search=steepest,
            reach=0.97,
            group="norms",
            arithmetic=ARITHMETIC,
        ),
        Study(
            "literal-reading",
            Method.EXACT,
            literal_reading,
            scope="d = 1, one token at 0 and 999 at 1",
            variant="weights at most exp(gamma d_E / sqrt(d_emb)) / m, the exponent read literally",
            arithmetic="float64",
        ),
    ),
    falsify="scores of one query farther apart than rho', or two score vectors whose softmax "
    "weights differ by more than the constant of some pair of norms allows",
    theory="lipschitz.md#scores-and-softmax",
)
