"""Theorem 3.1 measured: cases, the exact instances, and searches of one setting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from constructions.trainable import MATRICES
from verify.bounds import instances, theorem
from verify.bounds.attack import Attack, Plan, Witness, model_of
from verify.bounds.evaluate import Number, Setting, precise
from verify.claim import Case, Measured
from verify.claims.lipschitz._shared import at, read, rounding


def measure(case: Case) -> Measured:
    """The norm of the gradient of the loss in all parameters, against the sharp constant."""
    model, parameters, X, C, setting = read(case)
    found = instances.Instance(parameters, X, C)
    value = instances.gradient_norm(model, found, setting.tau, setting.regularizer)
    return against_sharp(setting, value)


def against_sharp(setting: Setting, value: float) -> Measured:
    """A gradient norm against the sharp constant."""
    bound = form_at(setting, "sharp")
    # The slope of the surrogate is a function of the weights alone, but the weights are those of
    # r / tau: they repeat the error of the distances, magnified by R^2 / tau.
    reach = (1 + setting.B + setting.B**2) ** 2 * 4 * (setting.d + setting.k**2)
    error = rounding(setting, bound) * (1 + reach / setting.tau) * math.sqrt(setting.k)
    return Measured(value, bound, error)


@cache
def _alpha(code: str, regularizer: str, form: str) -> Any:
    return theorem.alpha(code, regularizer, form)


def form_at(setting: Setting, form: str) -> float:
    """One of the forms of the constant in float64, infinite where that is not enough."""
    return at(_alpha(setting.code, setting.regularizer, form), setting)


def digits_of(setting: Setting, form: str) -> float:
    """log10 of one of the forms, which never overflows."""
    number = precise(_alpha(setting.code, setting.regularizer, form), setting)
    return float(Number.of(number).log10 or 0)


def case_of(setting: Setting, parameters: dict[str, Any], X: Any, C: Any) -> Case:
    return Case(
        code=setting.code,
        gamma=setting.gamma,
        tau=setting.tau,
        B=setting.B,
        regularizer=setting.regularizer,
        X=X,
        C=C,
        matrices=[parameters[name] for name in MATRICES],
    )


def case_of_instance(setting: Setting, found: instances.Instance) -> Case:
    lists = {name: m.tolist() for name, m in found.parameters.items()}
    return case_of(setting, lists, found.X.tolist(), found.C.tolist())


def case_of_witness(witness: Witness) -> Case:
    return case_of(witness.setting, witness.parameters, witness.X, witness.C)


def exact_instances(setting: Setting) -> Iterator[tuple[str, Case]]:
    """LB1, and LB2 where d, k and n are even."""
    model = model_of(setting)
    yield "LB1", case_of_instance(setting, instances.flat(model, setting.n, setting.B))
    if theorem.applies("LB2", setting.d, setting.k, setting.n, setting.B):
        yield "LB2", case_of_instance(setting, instances.steep(model, setting.n))


def attacked(setting: Setting, seed: int, restarts: int, steps: int) -> Witness:
    """The best witness of a short attack."""
    attack = Attack(setting, Plan(seed, restarts, steps))
    for _ in attack.run():
        pass
    return attack.best


def lifted(witness: Witness, setting: Setting) -> Case:
    """A witness without a code as an instance of a larger setting: each coordinate repeated, the
    matrices zero on the code, centers and points repeated in turn (docs: "The lift")."""
    low = witness.setting.d
    times = setting.d // low
    W = np.zeros((setting.d_emb, low))
    W[: setting.d] = np.repeat(np.eye(low), times, axis=0)
    W /= math.sqrt(times)
    parameters = {
        name: (W @ np.array(witness.parameters[name]) @ W.T).tolist() for name in MATRICES
    }
    X, C = (
        np.repeat(np.array(a)[np.arange(rows) % len(a)], times, axis=1)
        for a, rows in ((witness.X, setting.n), (witness.C, setting.k))
    )
    return case_of(setting, parameters, X.tolist(), C.tolist())


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Exponent of y in x by least squares on logarithms, with its 95 % interval."""
    if max(y) == min(y):
        return 0.0, 0.0, 0.0
    fit = stats.linregress(np.log(x), np.log(y))
    half = float(stats.t.ppf(0.975, len(x) - 2) * fit.stderr)
    return float(fit.slope), float(fit.slope) - half, float(fit.slope) + half


def grid(
    ds: Iterable[int], ks: Iterable[int], gammas: Iterable[float], codes: Iterable[str]
) -> Iterator[Setting]:
    for d in ds:
        for k in ks:
            for gamma in gammas:
                for code in codes:
                    for regularizer in ("ne", "l2"):
                        yield Setting(code, d, k, 4, gamma, 1.0, 1.0, regularizer)
