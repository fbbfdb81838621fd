"""Stochastic gradient descent reaches a nearly stationary point at the stated rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy
import z3

from verify.claim import (
    Answer,
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
from verify.claims.convergence import _runs as runs
from verify.oracles import smt
from verify.search import Proof, Step, Study

POINTS = 40
SMOOTH = ("ne", 1.5)


def trial(case: Case) -> dict[str, Any]:
    """Many runs of SGD on one data set, and the numbers of the theorem for them."""
    regularizer, k, d, tau, steps = runs.setting_of(case)
    rng = np.random.default_rng(case["seed"])
    X = runs.mixture(rng, POINTS, k, d)
    start = X[:k]
    # the step size needs D, and D the path: take D for the unit cube, then check what was visited
    count = case["runs"]
    D = float(d)
    for _ in range(4):
        c = runs.constants(regularizer, k, tau, D)
        drop = float(runs.smoothed(start, X, tau, regularizer))  # the loss is at least 0
        rate = 1.0 if regularizer == "l2" else 2.0
        eta = math.sqrt(rate * drop / (c.curvature * c.alpha**2 * steps))
        order = rng.integers(POINTS, size=(steps, count))
        path = runs.descend(
            np.repeat(start[None], count, 0), X, order, eta, tau, regularizer, False
        )
        visited = float(((path[..., None, :, :] - X[:, None, :]) ** 2).sum(-1).max())
        if visited <= D:
            break
        D = 1.05 * visited
    gradients = runs.full_gradient(path[:-1], X, tau, regularizer)
    squares = (gradients**2).sum((-1, -2))  # (steps, runs)
    return {
        "squares": squares,
        "bound": c.alpha * math.sqrt(2 * c.curvature * drop / steps),
        "weak": 4 * c.alpha * math.sqrt(c.curvature * drop / steps),
        "inside": visited <= D,
        "beta": c.curvature,
        "eta": eta,
        "D": D,
    }


def measure(case: Case) -> Measured:
    """Smallest mean squared gradient over the steps, against alpha sqrt(2 beta Delta / T); for L2
    the mean over the steps of 4 |g|^2, which is at least the squared gradient of the Moreau
    envelope, against 4 alpha sqrt(rho Delta / T).

    The expectation is a mean over runs; the error is three standard errors of it.
    """
    found = trial(case)
    squares = found["squares"]
    count = squares.shape[1]
    if case["regularizer"] == "l2":
        means = 4 * squares.mean(0)  # over the steps, per run
        value, spread = float(means.mean()), float(means.std(ddof=1))
        bound = found["weak"]
    else:
        at = int(squares.mean(1).argmin())
        value, spread = float(squares[at].mean()), float(squares[at].std(ddof=1))
        bound = found["bound"]
    note = "" if found["inside"] else "the path left the region of its constants"
    return Measured(value, bound, 3 * spread / math.sqrt(count), note=note)


SMOOTHNESS = Hypothesis(
    "smooth loss",
    "the regularizer makes the loss smooth: entropy or 1.5-entmax, not L2",
    lambda case: case["regularizer"] in SMOOTH,
)


def descent(run: Run) -> Iterator[Step]:
    """The rate from the descent lemma, and the step size that gives it."""
    eta, beta, alpha, drop, T = sympy.symbols("eta beta alpha Delta T", positive=True)
    rate = drop / (eta * T) + beta * eta * alpha**2 / 2
    best = sympy.sqrt(2 * drop / (beta * alpha**2 * T))
    stated = alpha * sympy.sqrt(2 * beta * drop / T)
    yield _proved(
        "Delta/(eta T) + beta eta alpha^2/2 at the best eta is alpha sqrt(2 beta Delta/T)",
        sympy.simplify(rate.subs(eta, best) - stated) == 0,
    )
    slope = sympy.simplify(sympy.diff(rate, eta).subs(eta, best))
    bend = sympy.diff(rate, eta, 2).is_positive
    yield _proved("and no other eta gives less", slope == 0 and bool(bend))
    # one step: E L' <= E L - eta E|grad|^2 + beta eta^2 alpha^2 / 2, so the sum telescopes
    before, after, square, b, h, a = z3.Reals("before after square b h a")
    step = [h > 0, b > 0, a > 0, after <= before - h * square + b * h * h * a * a / 2]
    yield smt.decide(
        "one step: h |grad|^2 <= L - L' + b h^2 a^2 / 2",
        step,
        h * square <= before - after + b * h * h * a * a / 2,
    )
    # weakly convex: E env' <= E env - (eta/4) E|grad env|^2 + rho eta^2 alpha^2
    rho = sympy.Symbol("rho", positive=True)
    rate = 4 * (drop / (eta * T) + rho * eta * alpha**2) / 2
    best = sympy.sqrt(drop / (rho * alpha**2 * T))
    yield _proved(
        "weakly convex: (2/(eta T))(Delta + rho eta^2 alpha^2 T) is 4 alpha sqrt(rho Delta/T)",
        sympy.simplify(rate.subs(eta, best) - 4 * alpha * sympy.sqrt(rho * drop / T)) == 0,
    )
    # at the prox p of Theta: 2 rho (Theta - p) is a subgradient there, so hypomonotonicity gives
    # <g, Theta - p> >= rho |Theta - p|^2, and |grad env| = 2 rho |Theta - p| <= 2 |g|
    length, g, r = z3.Reals("length g r")
    yield smt.decide(
        "|grad env| <= 2 |g|",
        [length >= 0, g >= 0, r > 0, r * length * length <= g * length],
        2 * r * length <= 2 * g,
    )


def _proved(scope: str, condition: bool) -> Step:
    return Step(scope, "proved" if condition else "unknown")


def cases(regularizers: tuple[Any, ...], run: Run, seed: int) -> Iterator[Case]:
    sizes = ((2, 1), (3, 2), (6, 4)) if run.profile.factor >= 1 else ((2, 1), (3, 2))
    for regularizer in regularizers:
        for k, d in sizes:
            for tau in (1.0, 0.1):
                for steps in (20, 80):
                    yield Case(
                        regularizer=regularizer,
                        k=k,
                        d=d,
                        tau=tau,
                        steps=steps,
                        runs=run.count(40, 10),
                        seed=seed % 2**32,
                    )


def judged(claim: Claim, run: Run, e: Evidence, regularizers: tuple[Any, ...]) -> None:
    """Judge the runs; a path that left the region of its constants is excluded and counted."""
    rows = []
    for case in cases(regularizers, run, e.seed or 0):
        m = measure(case)
        if m.note:
            e.excluded += 1
            continue
        answer = _answer(m)
        e.cases += 1
        e.violated += answer is Answer.VIOLATED
        e.undecided += answer is Answer.UNDECIDED
        if e.ratio is None or m.ratio > e.ratio:
            e.ratio, e.bound, e.measured, e.witness = m.ratio, m.bound, m.value, case
        label = runs.LABELS[case["regularizer"]]
        rows.append(
            [label, case["k"], case["d"], case["tau"], case["steps"], m.value, m.bound, m.ratio]
        )
    e.tables.append(
        Table(
            f"runs-{'-'.join(runs.LABELS[r] for r in regularizers)}",
            "Squared gradient norms of SGD runs and the bound of the rate",
            ("regularizer", "k", "d", "tau", "steps", "measured", "bound", "ratio"),
            rows,
        )
    )


def _answer(m: Measured) -> Answer:
    over = m.value - m.bound
    if over <= -m.error:
        return Answer.HOLDS
    return Answer.VIOLATED if over > m.error else Answer.UNDECIDED


def smooth(claim: Claim, run: Run, e: Evidence) -> None:
    judged(claim, run, e, SMOOTH)


def weakly_convex(claim: Claim, run: Run, e: Evidence) -> None:
    judged(claim, run, e, ("l2",))


def by_steps(claim: Claim, run: Run, e: Evidence) -> None:
    """How the measured norms and the bound fall with the number of steps."""
    rows = []
    for steps in (10, 20, 40, 80, 160, 320):
        row: list[float] = [steps]
        for regularizer in ("ne", "l2"):
            case = Case(
                regularizer=regularizer,
                k=3,
                d=2,
                tau=0.25,
                steps=steps,
                runs=run.count(30, 8),
                seed=(e.seed or 0) % 2**32,
            )
            m = measure(case)
            e.cases += 1
            e.violated += _answer(m) is Answer.VIOLATED
            row += [m.value, m.bound]
        rows.append(row)
    names = ("entropy, measured", "entropy, bound", "L2, measured", "L2, bound")
    e.tables.append(
        Table(
            "by-steps",
            "k = 3, d = 2, tau = 0.25: squared gradient norms by the number of steps",
            ("steps", *names),
            rows,
            Plot(
                x="steps",
                lines=names[1::2],
                points=names[::2],
                x_label="steps T",
                y_label="squared norm of the gradient",
                log_x=True,
                log_y=True,
                caption="The bound falls like the inverse square root of the steps.",
            ),
        )
    )


CLAIM = Claim(
    id="sgd-rate",
    title="Rate of stochastic gradient descent",
    says="On a loss with Lipschitz constant alpha and smoothness beta, T steps of stochastic "
    "gradient descent find a point with expected squared gradient at most alpha sqrt(2 beta Delta "
    "/ T). The entropy and 1.5-entmax losses are smooth; the L2 loss is not, and has a rate of its "
    "own as a weakly convex function.",
    statement=r"\min_{t < T} \mathbb{E}\|\nabla L(\Theta_t)\|^2 \le \alpha\sqrt{\frac{2\beta"
    r"\Delta}{T}}",
    sources=(Source("summary", "Section 3; App. A, p. 18"), Source("review", "trade-offs 1 and 3")),
    kind=Kind.UPPER,
    bound=r"\alpha\sqrt{2\beta\Delta/T}; \quad \text{L2: } \tfrac1T\sum_t \mathbb{E}\|\nabla "
    r"\varphi_{1/(2\rho)}\|^2 \le 4\alpha\sqrt{\rho\Delta/T}",
    hypotheses=(SMOOTHNESS,),
    measure=measure,
    checks=(
        Proof("rate", Method.SYMBOLIC, descent, scope="every alpha, beta, rho, Delta and T"),
        Study(
            "smooth-runs",
            Method.EXPERIMENT,
            smooth,
            scope="entropy and 1.5-entmax, k = 2, 3, 6, d = 1, 2, 4, tau = 1, 0.1; 40 points, the "
            "centers are the parameters",
            arithmetic="float64; three standard errors of the mean over runs",
        ),
        Study(
            "weakly-convex-runs",
            Method.EXPERIMENT,
            weakly_convex,
            scope="L2, the same settings, against the weakly convex rate",
            variant="the L2 loss, which is not smooth, at the weakly convex rate",
            assuming=(),
            arithmetic="float64; three standard errors of the mean over runs",
        ),
        Study(
            "by-steps",
            Method.EXPERIMENT,
            by_steps,
            scope="k = 3, d = 2, tau = 0.25, 10 to 320 steps",
            variant="how both fall with the number of steps",
            assuming=(),
            arithmetic="float64",
        ),
    ),
    falsify="runs on a smooth loss whose mean squared gradient stays above the bound by more than "
    "three standard errors",
    theory="convergence.md#rates",
    conflict="The sources recommend the L2 loss and state a rate for smooth losses, which it is "
    "not (claim l2-differentiable).",
)
