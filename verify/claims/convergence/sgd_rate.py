"""Stochastic gradient descent reaches a nearly stationary point at the stated rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import sympy
import z3

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
from verify.claims.convergence import _runs as runs
from verify.claims.convergence import _transformer as transformer
from verify.claims.convergence._moreau import Oracle, envelope
from verify.oracles import smt
from verify.search import Proof, Step, Study, proved

POINTS, FEW = 40, 12
"""Points of the runs with centers as parameters, and of those with a transformer."""

SMOOTH = ("ne", 1.5)
SAMPLED = 4  # steps of a run at which the envelope is computed


class Trial(NamedTuple):
    """Many runs of SGD on one data set, and the numbers of the theorem for them.

    Attributes
    ----------
    path : (steps, runs, D) parameters before each step
    oracle : parameters (P, D) -> losses (P,) and gradients (P, D)
    constants : of the loss of a point
    drop : the loss at the start, at least its distance to the infimum
    inside : whether parameters (P, D) are where the constants hold
    """

    path: Any
    oracle: Oracle
    constants: runs.Constants
    drop: float
    inside: Callable[[Any], bool]


def of_centers(case: Case) -> Trial:
    regularizer, k, d, tau, steps = runs.setting_of(case)
    rng = np.random.default_rng(case["seed"])
    X = runs.mixture(rng, POINTS, k, d)
    start = X[:k]
    drop = float(runs.smoothed(start, X, tau, regularizer))
    count = case["runs"]

    def reach(flat: Any) -> float:
        """Largest squared distance of a point to a center."""
        C = flat.reshape(-1, k, 1, d)
        return float(((C - X) ** 2).sum(-1).max())

    def oracle(flat: Any) -> tuple[Any, Any]:
        C = flat.reshape(-1, k, d)
        gradients = runs.full_gradient(C, X, tau, regularizer)
        return runs.smoothed(C, X, tau, regularizer), gradients.reshape(len(flat), -1)

    # the step size needs D, and D the path: take D for the unit cube, then check what was visited
    D = float(d)
    for _ in range(4):
        c = runs.constants(regularizer, k, tau, D)
        order = rng.integers(POINTS, size=(steps, count))
        eta = _rate(case, c, drop)
        starts = np.repeat(start[None], count, 0)
        path = runs.descend(starts, X, order, eta, tau, regularizer, False)
        path = path.reshape(steps + 1, count, k * d)
        visited = reach(path)
        if visited <= D:
            break
        D = 1.05 * visited
    return Trial(path[:-1], oracle, c, drop, lambda flat: reach(flat) <= D)


def of_transformer(case: Case) -> Trial:
    regularizer, k, d, tau, steps = runs.setting_of(case)
    rng = np.random.default_rng(case["seed"])
    X = runs.mixture(rng, FEW, k, d)
    C = X[:k]
    first = transformer.start(rng, k, d)
    shape = (-1, *first.shape)

    def oracle(flat: Any) -> tuple[Any, Any]:
        value, gradient = transformer.losses(flat.reshape(shape), X, C, tau, regularizer)
        return value, gradient.reshape(len(flat), -1)

    drop = float(oracle(first.reshape(1, -1))[0][0])
    c = transformer.constants(regularizer, k, d, tau)
    eta = _rate(case, c, drop)
    at, path = np.repeat(first[None], case["runs"], 0), []
    for _ in range(steps):
        path.append(at.reshape(len(at), -1))
        seen = rng.integers(FEW, size=len(at))
        at = at - eta * transformer.losses(at, X, C, tau, regularizer, seen)[1]
    return Trial(
        np.stack(path), oracle, c, drop, lambda flat: transformer.inside(flat.reshape(shape))
    )


PARAMETERS = {"centers": of_centers, "transformer": of_transformer}


def _rate(case: Case, c: runs.Constants, drop: float) -> float:
    """The step size of the theorem."""
    factor = 1.0 if case["regularizer"] == "l2" else 2.0
    return math.sqrt(factor * drop / (c.curvature * c.alpha**2 * case["steps"]))


def measure(case: Case) -> Measured:
    """Smallest mean squared gradient over the steps, against alpha sqrt(2 beta Delta / T). For L2,
    the mean squared gradient of the Moreau envelope, at its certified upper end and at a few
    random steps of each run, against 4 alpha sqrt(rho Delta / T).

    The expectation is a mean over runs; the error is three standard errors of it.
    """
    found = PARAMETERS[case["parameters"]](case)
    steps, count, size = found.path.shape
    c, ok = found.constants, found.inside(found.path)
    if case["regularizer"] == "l2":
        rng = np.random.default_rng([case["seed"], 1])
        which = rng.integers(steps, size=(SAMPLED, count))
        points = found.path[which, np.arange(count)].reshape(-1, size)
        e = envelope(found.oracle, points, c.curvature)
        ok = ok and found.inside(points + e.moves)
        per_run = (e.high**2).reshape(SAMPLED, count).mean(0)
        bound = 4 * c.alpha * math.sqrt(c.curvature * found.drop / steps)
        extra = {"envelope known to": float((e.high - e.low).max()), "alpha": c.alpha}
        informative = 16 * c.curvature * found.drop / c.alpha**2
    else:
        gradients = found.oracle(found.path.reshape(-1, size))[1]
        squares = (gradients**2).sum(-1).reshape(steps, count)
        per_run = squares[int(squares.mean(1).argmin())]
        bound = c.alpha * math.sqrt(2 * c.curvature * found.drop / steps)
        extra = {"alpha": c.alpha}
        informative = 2 * c.curvature * found.drop / c.alpha**2
    extra["informative from"] = math.ceil(informative)
    note = "" if ok else "the path left the region of its constants"
    error = 3 * float(per_run.std(ddof=1)) / math.sqrt(count)
    return Measured(float(per_run.mean()), bound, error, extra, note)


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
    yield proved(
        "Delta/(eta T) + beta eta alpha^2/2 at the best eta is alpha sqrt(2 beta Delta/T)",
        sympy.simplify(rate.subs(eta, best) - stated) == 0,
    )
    slope = sympy.simplify(sympy.diff(rate, eta).subs(eta, best))
    bend = sympy.diff(rate, eta, 2).is_positive
    yield proved("and no other eta gives less", slope == 0 and bool(bend))
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
    yield proved(
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


def cases(parameters: str, regularizers: tuple[Any, ...], run: Run, seed: int) -> Iterator[Case]:
    plain = parameters == "centers"
    for setting in runs.settings(regularizers, run):
        for steps in (20, 80) if run.profile.factor >= 1 or plain else (20,):
            yield Case(
                parameters=parameters,
                **setting,
                steps=steps,
                runs=run.count(40 if plain else 20, 10),
                seed=seed % 2**32,
            )


def judged(parameters: str, regularizers: tuple[Any, ...]) -> Any:
    """Judge runs; a path that left the region of its constants is excluded and counted."""

    def examine(claim: Claim, run: Run, e: Evidence) -> None:
        rows = []
        known = ("envelope known to",) if regularizers == ("l2",) else ()
        for case in cases(parameters, regularizers, run, e.seed or 0):
            m = measure(case)
            if m.note:
                e.excluded += 1
                continue
            runs.judge(claim, e, case, m)
            label, extra = runs.LABELS[case["regularizer"]], m.answers
            row = [label, case["k"], case["d"], case["tau"], case["steps"]]
            row += [m.value, m.bound, m.ratio, extra["alpha"] ** 2, extra["informative from"]]
            rows.append(row + [extra[name] for name in known])
        e.tables.append(
            Table(
                f"runs-{parameters}-{'-'.join(runs.LABELS[r] for r in regularizers)}",
                "Squared gradients of SGD runs (L2: of the Moreau envelope) and the bound of the "
                "rate, which says something when it is below alpha^2",
                (
                    "regularizer",
                    "k",
                    "d",
                    "tau",
                    "steps",
                    "measured",
                    "bound",
                    "ratio",
                    "alpha^2",
                    "informative from step",
                    *known,
                ),
                rows,
            )
        )

    return examine


def by_steps(claim: Claim, run: Run, e: Evidence) -> None:
    """How the measured norms and the bound fall with the number of steps."""
    rows = []
    for steps in (10, 20, 40, 80, 160, 320):
        row: list[float] = [steps]
        for regularizer in ("ne", "l2"):
            case = Case(
                parameters="centers",
                regularizer=regularizer,
                k=3,
                d=2,
                tau=0.25,
                steps=steps,
                runs=run.count(30, 8),
                seed=(e.seed or 0) % 2**32,
            )
            answer, m = claim.judge(case)
            e.count(answer)
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


WEAK = "the L2 loss, which is not smooth, at the weakly convex rate"

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
            judged("centers", SMOOTH),
            scope="entropy and 1.5-entmax, k = 2, 3, 6, d = 1, 2, 4, tau = 1, 0.1; 40 points, the "
            "centers are the parameters",
            arithmetic=runs.ARITHMETIC,
        ),
        Study(
            "transformer-runs",
            Method.EXPERIMENT,
            judged("transformer", SMOOTH),
            scope="the same with the twelve matrices of the transformer as parameters; 12 points, "
            "binary code, gamma = 1, spectral norms at most 1/2",
            arithmetic=runs.ARITHMETIC,
        ),
        Study(
            "weakly-convex-runs",
            Method.EXPERIMENT,
            judged("centers", ("l2",)),
            scope="L2, the same settings, against the weakly convex rate",
            variant=WEAK,
            assuming=(),
            arithmetic=runs.ARITHMETIC,
        ),
        Study(
            "transformer-weakly-convex",
            Method.EXPERIMENT,
            judged("transformer", ("l2",)),
            scope="L2, the transformer, against the weakly convex rate",
            variant=WEAK,
            assuming=(),
            arithmetic=runs.ARITHMETIC,
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
