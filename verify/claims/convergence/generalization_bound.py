"""How far the true loss on new points is from the one on the points of training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import z3

from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Plot, Run, Source, Table
from verify.claims.convergence import _runs as runs
from verify.claims.convergence import _transformer as transformer
from verify.oracles import smt
from verify.search import Proof, Step, Study

POPULATION, TASKS = 2000, 120
"""The distributions are uniform on so many points, or tasks: their losses are computed, not
estimated."""

FEW = 12  # points of a task
WHATS = ("two-sided", "gap-free", "distance")


def stability(regularizer: Any, c: runs.Constants, eta: float, steps: int, m: int) -> float:
    """Bound on the expected distance of two runs whose data differ in one of m points."""
    if regularizer == "l2":
        growth = (1 + 2 * eta * c.curvature) ** (steps / 2)
        return growth * (2 * eta * c.alpha * math.sqrt(steps) + 4 * eta * c.alpha * steps / m)
    growth = math.expm1(steps * math.log1p(eta * c.curvature))
    return 2 * c.alpha / (m * c.curvature) * growth


class Trial(NamedTuple):
    """Coupled runs of SGD: each on its own m samples, beside a run that has one other sample and
    sees the same indices.

    Attributes
    ----------
    distance : (runs,) of the parameters in the end
    gaps : (runs,) test loss minus training loss of the true loss. The start does not know the
        data, so its gap has mean 0; it is taken off, with most of the noise
    stable : bound on the expected distance
    constants : of the loss of a sample
    highest : no loss of a sample is above
    inside : whether the parameters stayed where the constants hold
    """

    distance: Any
    gaps: Any
    stable: float
    constants: runs.Constants
    highest: float
    inside: bool = True


def of_centers(case: Case) -> Trial:
    """Samples are points, centers are the parameters, projected into the cube after each step."""
    regularizer, k, d, tau, steps = runs.setting_of(case)
    m, count = case["m"], case["runs"]
    rng = np.random.default_rng(case["seed"])
    population = runs.mixture(rng, POPULATION, k, d)
    c = runs.constants(regularizer, k, tau, float(d))  # centers and points stay in the cube
    eta = case["eta_beta_T"] / (c.curvature * steps)
    train, other = (population[which] for which in _neighbors(rng, POPULATION, m, count))
    order = rng.integers(m, size=(steps, count))
    start = np.repeat(rng.uniform(size=(1, k, d)), count, 0)
    ends = [
        runs.descend(start, data, order, eta, tau, regularizer, True)[-1] for data in (train, other)
    ]

    def gaps(C: Any) -> Any:
        own = np.array([runs.true_loss(one, X) for one, X in zip(C, train, strict=True)])
        return runs.true_loss(C, population) - own

    stable = stability(regularizer, c, eta, steps, m)
    return Trial(_apart(*ends), gaps(ends[0]) - gaps(start), stable, c, float(d))


def of_transformer(case: Case) -> Trial:
    """Samples are tasks, matrices are the parameters; a task's loss is the mean over its points."""
    regularizer, k, d, tau, steps = runs.setting_of(case)
    m, count = case["m"], case["runs"]
    rng = np.random.default_rng(case["seed"])
    X, C = transformer.tasks(rng, TASKS, FEW, k, d)
    c = transformer.constants(regularizer, k, d, tau)
    eta = case["eta_beta_T"] / (c.curvature * steps)
    samples = _neighbors(rng, TASKS, m, count)
    order = rng.integers(m, size=(steps, count))
    start = np.repeat(transformer.start(rng, k, d)[None], count, 0)
    ends, inside = [], True
    for which in samples:
        at = start
        for seen in order:
            now = which[np.arange(count), seen]
            at = at - eta * transformer.losses(at, X[now], C[now], tau, regularizer)[1]
            inside = inside and transformer.inside(at)
        ends.append(at)

    def gaps(parameters: Any) -> Any:
        losses = transformer.true_losses(parameters, X, C)  # (runs, tasks)
        own = np.take_along_axis(losses, samples[0], axis=1)
        return losses.mean(-1) - own.mean(-1)

    stable = stability(regularizer, c, eta, steps, m)
    highest = transformer.reach(k, d) ** 2
    change = gaps(ends[0]) - gaps(start)
    return Trial(_apart(*ends), change, stable, c, highest, inside)


PARAMETERS = {"centers": of_centers, "transformer": of_transformer}


def _neighbors(rng: np.random.Generator, size: int, m: int, count: int) -> tuple[Any, Any]:
    """(count, m) indices of samples, and the same with one of each row drawn again."""
    one = rng.integers(size, size=(count, m))
    other = one.copy()
    other[np.arange(count), rng.integers(m, size=count)] = rng.integers(size, size=count)
    return one, other


def _apart(a: Any, b: Any) -> Any:
    return np.sqrt(((a - b) ** 2).reshape(len(a), -1).sum(-1))


def measured(found: Trial, what: str) -> Measured:
    """The distance of coupled runs; or |test - train| of the true loss against alpha E delta plus
    the gap (two-sided), or against the Lipschitz constant of the true loss times E delta
    (gap-free).

    Expectations are means over runs; the error is three standard errors.
    """
    c = found.constants
    values = found.distance if what == "distance" else found.gaps
    error = 3 * float(values.std(ddof=1)) / math.sqrt(len(values))
    bound = {
        "distance": found.stable,
        "two-sided": c.alpha * found.stable + c.gap,
        "gap-free": c.true * found.stable,
    }[what]
    note = "" if found.inside else "the path left the region of its constants"
    return Measured(abs(float(values.mean())), bound, error, {"highest": found.highest}, note)


def measure(case: Case) -> Measured:
    return measured(PARAMETERS[case["parameters"]](case), case["what"])


def recursion(run: Run) -> Iterator[Step]:
    """One step of two coupled runs, and what the recursions add up to."""
    far, close, h, b, a, m = z3.Reals("far close h b a m")
    smooth = [h > 0, b > 0, a > 0, m >= 1, close >= 0]
    # with probability 1 - 1/m the same point: (1 + h b) delta; else 2 h a more
    mixed = far == (1 - 1 / m) * (1 + h * b) * close + (1 / m) * ((1 + h * b) * close + 2 * h * a)
    yield smt.decide(
        "smooth: E delta' <= (1 + eta beta) E delta + 2 eta alpha / m",
        [*smooth, mixed],
        far <= (1 + h * b) * close + 2 * h * a / m,
    )
    # the closed form solves it: v = (2 a / (m b)) (g - 1), g -> (1 + h b) g
    g, v, after = z3.Reals("g v after")
    yield smt.decide(
        "smooth: the sum is (2 alpha/(m beta))((1 + eta beta)^T - 1)",
        [*smooth, v * m * b == 2 * a * (g - 1), after * m * b == 2 * a * ((1 + h * b) * g - 1)],
        after == (1 + h * b) * v + 2 * h * a / m,
    )
    # weakly convex: W^2 <= p^2 + q W gives W <= p + q
    W, p, q = z3.Reals("W p q")
    yield smt.decide(
        "weakly convex: W^2 <= p^2 + q W implies W <= p + q",
        [W >= 0, p >= 0, q >= 0, p * p + q * W >= W * W],
        p + q >= W,
    )
    # losses: true <= smoothed <= true + gap on both sides
    t1, t2, s1, s2, G, e = z3.Reals("train test smoothed_train smoothed_test G e")
    between = [s1 >= t1, s1 <= t1 + G, s2 >= t2, s2 <= t2 + G, s2 - s1 <= e, s1 - s2 <= e]
    yield smt.decide("one-sided: test <= smoothed train + e", between, t2 <= s1 + e)
    both = z3.And(t2 - t1 <= e + G, t1 - t2 <= e + G)
    yield smt.decide("two-sided: |test - train| <= e + G", between, both)


def cases(parameters: str, run: Run, seed: int) -> Iterator[Case]:
    plain = parameters == "centers"
    loads = ((0.2, 1.0, 5.0) if plain else (1.0, 10.0)) if run.profile.factor >= 1 else (1.0,)
    for setting, load in product(runs.settings(tuple(runs.LABELS), run), loads):
        yield Case(
            parameters=parameters,
            **setting,
            m=40,
            steps=50 if plain else 20,
            eta_beta_T=load,
            runs=run.count(40 if plain else 20, 12),
            seed=seed % 2**32,
        )


def judged(parameters: str, whats: tuple[str, ...]) -> Any:
    """Judge runs; a path that left the region of its constants is excluded and counted."""

    def examine(claim: Claim, run: Run, e: Evidence) -> None:
        rows: dict[str, list[list[Any]]] = {what: [] for what in whats}
        for case in cases(parameters, run, e.seed or 0):
            found = PARAMETERS[parameters](case)
            if not found.inside:
                e.excluded += 1
                continue
            for what, own in rows.items():
                m = measured(found, what)
                runs.judge(claim, e, Case(what=what, **case), m)
                label = runs.LABELS[case["regularizer"]]
                own.append(
                    [label, case["k"], case["d"], case["tau"], case["eta_beta_T"], m.value, m.bound]
                )
                if what != "distance":
                    own[-1].append(m.bound >= found.highest)
        columns = ("regularizer", "k", "d", "tau", "eta beta T", "measured", "bound")
        for what, own in rows.items():
            e.tables.append(
                Table(
                    f"{parameters}-{what}",
                    {
                        "distance": "Distance of two runs whose data differ in one of 40 samples",
                        "two-sided": "|test - train| of the true loss, bound with the gap",
                        "gap-free": "|test - train| of the true loss, bound without the gap",
                    }[what],
                    columns if what == "distance" else (*columns, "vacuous"),
                    own,
                )
            )

    return examine


def limit(regularizer: Any, c: runs.Constants, steps: int, m: int, highest: float) -> float:
    """The eta beta T from which the gap-free bound is at least the largest loss there is."""

    def bound(load: float) -> float:
        return c.true * stability(regularizer, c, load / (c.curvature * steps), steps, m)

    low, high = 0.0, 1.0
    while bound(high) < highest:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if bound(middle) < highest else (low, middle)
    return high


def vacuous(claim: Claim, run: Run, e: Evidence) -> None:
    """From which eta beta T on the bounds exceed the range of the loss, by temperature."""
    k, d, m, steps = 3, 2, 40, 50
    settings: dict[str, tuple[Any, float]] = {
        "centers": (lambda g, tau: runs.constants(g, k, tau, float(d)), float(d)),
        "transformer": (
            lambda g, tau: transformer.constants(g, k, d, tau),
            transformer.reach(k, d) ** 2,
        ),
    }
    names = [f"{runs.LABELS[g]}{x}" for g in runs.LABELS for x in ("", ", gap term")]
    for parameters, (of, highest) in settings.items():
        rows = []
        for tau in (1.0, 0.5, 0.25, 0.1, 0.03, 0.01):
            row: list[Any] = [tau]
            for regularizer in runs.LABELS:
                c = of(regularizer, tau)
                row += [limit(regularizer, c, steps, m, highest), c.gap]
                e.cases += 1
            rows.append(row)
        e.tables.append(
            Table(
                f"vacuous-from-{parameters}",
                f"k = 3, d = 2, m = 40, T = 50, {parameters}: eta beta T (L2: eta rho T) from "
                "which the gap-free bound exceeds the range of the loss, and the gap term",
                ("tau", *names),
                rows,
                Plot(
                    x="tau",
                    points=tuple(names[::2]),
                    x_label="temperature tau",
                    y_label="vacuous from eta beta T",
                    log_x=True,
                    caption="A smaller temperature shrinks the gap term, and buys it with a larger "
                    "curvature: the same eta and T make a larger eta beta T.",
                ),
            )
        )
        one = rows[0]
        e.note += (
            f"{parameters}, tau = 1: vacuous from eta beta T = {one[1]:.2f} (entropy), "
            f"{one[3]:.2f} (1.5-entmax), eta rho T = {one[5]:.3f} (L2); "
        )


CLAIM = Claim(
    id="generalization-bound",
    title="Generalization of the true loss",
    says="The expected true loss on new points exceeds that on the training points by at most the "
    "stability of the training run plus a gap term that shrinks with the temperature. The gap term "
    "is not needed when the same true loss is compared on both: the Lipschitz constant of the true "
    "loss times the stability is enough.",
    statement=r"\left|\mathbb{E}[L_{\mathrm{test}} - L_{\mathrm{train}}]\right| \le \epsilon + "
    r"C_\Omega^\tau, \qquad \epsilon = \tilde\alpha\,\mathbb{E}\,\delta_T",
    sources=(Source("summary", "Section 3, p. 6"), Source("review", "trade-off 3")),
    kind=Kind.UPPER,
    bound=r"\tilde\alpha\,\mathbb{E}\,\delta_T + C_\Omega^\tau; \quad \text{gap-free: } \alpha_L\,"
    r"\mathbb{E}\,\delta_T, \quad \mathbb{E}\,\delta_T \le \frac{2\tilde\alpha}{m\beta}\left((1+"
    r"\eta\beta)^T - 1\right)",
    measure=measure,
    checks=(
        Proof("recursion", Method.SMT, recursion, scope="every eta, alpha, beta, m and T"),
        Study(
            "two-sided",
            Method.EXPERIMENT,
            judged("centers", ("two-sided",)),
            scope="entropy, 1.5-entmax, L2; k = 2, 3, 6, d = 1, 2, 4; 40 points, 50 steps, the "
            "centers are the parameters",
            arithmetic=runs.ARITHMETIC,
        ),
        Study(
            "gap-free",
            Method.EXPERIMENT,
            judged("centers", ("gap-free",)),
            scope="the same runs",
            sharper="no gap term, with the Lipschitz constant of the true loss",
            arithmetic=runs.ARITHMETIC,
        ),
        Study(
            "stability",
            Method.EXPERIMENT,
            judged("centers", ("distance",)),
            scope="the same runs: the distance of two runs whose data differ in one point",
            arithmetic=runs.ARITHMETIC,
        ),
        Study(
            "transformer",
            Method.EXPERIMENT,
            judged("transformer", WHATS),
            scope="all three with the matrices of the transformer as parameters; 40 tasks of 12 "
            "points, 20 steps, binary code, gamma = 1, spectral norms at most 1/2",
            arithmetic=runs.ARITHMETIC,
        ),
        Study(
            "vacuous",
            Method.EXACT,
            vacuous,
            scope="k = 3, d = 2, m = 40, T = 50, tau from 0.01 to 1, centers and transformer",
            arithmetic="float64",
        ),
    ),
    falsify="coupled runs that end farther apart, or losses on new points that are farther from "
    "those of training, than the bound by more than three standard errors",
    theory="convergence.md#generalization",
    conflict="Whether the paper's bound is one-sided or two-sided, and its constants, could not be "
    "read from the sources; both forms are checked.",
)
