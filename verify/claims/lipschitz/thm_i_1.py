"""The model's output moves at most phi times as far as its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch

from constructions.trainable import MATRICES, Tensor, TrainableTransformer
from verify.bounds import lemmas
from verify.bounds.evaluate import Number, Setting, precise
from verify.bounds.geometry import scene
from verify.claim import Case, Claim, Evidence, Kind, Measured, Method, Plot, Run, Source, Table
from verify.claims.lipschitz._shared import (
    ARITHMETIC,
    RECONSTRUCTION,
    Project,
    as_case,
    at,
    climb,
    largest,
    model_starts,
    models,
    noise,
    on_sphere,
    read,
    rounding,
    source,
)
from verify.search import Adversarial, Property, Study


def jacobian_norm(
    model: TrainableTransformer, parameters: dict[str, Tensor], X: Tensor, C: Tensor
) -> float:
    """The largest move of one center's token per move of all parameters together: the largest
    singular value of its Jacobian, over the centers."""
    leaves = [parameters[name].clone().requires_grad_() for name in MATRICES]
    _, centers = model.layer(dict(zip(MATRICES, leaves, strict=True)), *model.tokens(X, C))
    top = 0.0
    for token in centers:
        rows = [
            torch.cat([g.flatten() for g in torch.autograd.grad(entry, leaves, retain_graph=True)])
            for entry in token
        ]
        top = max(top, float(torch.linalg.matrix_norm(torch.stack(rows), 2)))
    return top


def measure(case: Case, form: str = "sharp") -> Measured:
    model, parameters, X, C, setting = read(case)
    value = jacobian_norm(model, parameters, X, C)
    bound = at(lemmas.output(scene(case["code"], stated=form != "sharp"), form), setting)
    return Measured(value, bound, rounding(setting, bound))


def worst(setting: Setting, restarts: int, steps: int, rng: np.random.Generator) -> Iterator[Case]:
    """Ascent over parameters, task and the direction in which one center's token moves.

    First with the part of the gradient that belongs to one or two of the queries and keys, then
    with all of it: a single stage ends where only the values matter.
    """
    model = TrainableTransformer(setting.d, setting.k, setting.code, setting.gamma, bias=False)
    start, project = model_starts(model, setting.n, setting.B, restarts, rng)
    start["u"] = noise(rng, restarts, model.d_emb)
    places: dict[str, Project] = {**project, "u": on_sphere}
    turning = [i for i, name in enumerate(MATRICES) if not name.endswith("value")]
    parts = torch.zeros(restarts, len(MATRICES), dtype=torch.float64)
    for row in range(1, restarts):
        parts[row, rng.choice(turning, rng.integers(1, 3), replace=False)] = 1
    parts[0] = 1

    def objective(s: dict[str, Tensor], weights: Tensor) -> Tensor:
        _, centers = model.layer(s, *model.tokens(s["X"], s["C"]))
        moved = (centers[:, 0] * s["u"]).sum()
        slopes = torch.autograd.grad(moved, [s[name] for name in MATRICES], create_graph=True)
        squares = torch.stack([(g * g).sum((-1, -2)) for g in slopes], -1)
        return torch.log((squares * weights).sum(-1) + 1e-300) / 2

    best = climb(lambda s: objective(s, parts), start, places, steps)
    best = climb(lambda s: objective(s, torch.ones_like(parts)), best, places, steps)
    for row in range(restarts):
        yield as_case(model, best, row, B=setting.B)


def search(
    codes: tuple[str, ...], gammas: tuple[float, ...], B: float, least: int = 6
) -> Callable[[Run, int], Iterator[tuple[str, Case]]]:
    def look(run: Run, seed: int) -> Iterator[tuple[str, Case]]:
        rng = np.random.default_rng(seed)
        for code in codes:
            for gamma in gammas:
                setting = Setting(code, 2, 3, 3, gamma, B=B)
                for case in worst(setting, run.count(9, 3), run.count(60, least), rng):
                    yield f"{code}, gamma = {gamma:g}", case

    return look


def by_sharpness(claim: Claim, run: Run, e: Evidence) -> None:
    """d = 4, k = 6, B = 1: the three forms of phi and the largest move found."""
    rng = np.random.default_rng(e.seed)
    for code in ("one_hot", "binary"):
        rows = []
        for gamma in (0.03, 0.3, 1.0, 3.0) if run.profile.factor >= 1 else (0.03, 1.0):
            setting = Setting(code, 4, 6, 4, gamma)
            top = largest(claim, e, worst(setting, run.count(8, 2), run.count(60, 6), rng))
            forms = [
                Number.of(
                    precise(lemmas.output(scene(code, stated=form != "sharp"), form), setting)
                )
                for form in lemmas.FORMS
            ]
            logs = [float(f.log10 or 0) for f in forms]
            rows.append([gamma, math.log10(top), *logs, top / 10 ** logs[0]])
        e.tables.append(
            Table(
                f"phi-{code}",
                f"phi at d = 4, k = 6, B = 1, {code} code, as powers of ten",
                (
                    "gamma",
                    "measured",
                    "sharp",
                    "without exponential",
                    "with exponential",
                    "measured / sharp",
                ),
                rows,
                Plot(
                    x="gamma",
                    lines=("sharp", "without exponential", "with exponential"),
                    points=("measured",),
                    x_label="inverse temperature gamma",
                    y_label="log10 of output per parameters",
                    log_x=True,
                    caption="Exact steps keep the bound near the measured worst case; the "
                    "exponential takes it away by tens of orders of magnitude.",
                ),
            )
        )


CLAIM = Claim(
    id="thm-I.1",
    title="The model's output is stable under changes of its parameters",
    says="A center's token moves at most phi times as far as the parameters, for any two parameter "
    "sets in the norm ball and any task in the unit cube. A sharp chain needs no exponential; for "
    "small inverse temperatures and no code, phi is nearly reached.",
    statement=r"\max_j \|c_{1,j}(\Theta) - c_{1,j}(\Theta')\| \le \phi\,\|\Theta - \Theta'\|_F, "
    r"\quad \phi^2 = T_3^2 \sum_{a \le 2} (L_{V_a}^2 + L_{Q_a}^2 + L_{K_a}^2) + \sum_{a \ge 3} "
    r"(L_{V_a}^2 + L_{Q_a}^2 + L_{K_a}^2)",
    sources=(*source("App. I, pp. 41-47"), Source("review", "theorem 3.1")),
    kind=Kind.UPPER,
    bound=r"\phi \text{ with the constants of attention-stability}",
    measure=measure,
    checks=(
        Property(
            "random",
            scope="d <= 3, k <= 5, n <= 5, four codes, B = 0.5, 1, 2",
            strategy=models(),
            count=150,
            sharper="the same chain without any exponential, with radii instead of norms",
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent-sharp",
            scope="no code, d = 2, k = n = 3, B = 1/2, gamma = 0.03",
            search=search(("none",), (0.03,), 0.5, least=60),
            reach=0.97,
            group="model",
            arithmetic=ARITHMETIC,
        ),
        Adversarial(
            "ascent",
            scope="d = 2, k = n = 3, B = 1",
            search=search(("none", "binary", "one_hot"), (0.1, 1.0), 1.0),
            group="model",
            arithmetic=ARITHMETIC,
        ),
        Study(
            "by-sharpness",
            Method.ADVERSARIAL,
            by_sharpness,
            scope="d = 4, k = 6, n = 4, gamma from 0.03 to 3",
            arithmetic=ARITHMETIC,
        ),
    ),
    falsify="a model in the norm ball and a task in the unit cube where a center's token has a "
    "Jacobian of norm above phi",
    theory="lipschitz.md#output",
    conflict=RECONSTRUCTION,
)
