"""What `leanlloyd bound --model` finds: the local bound of trained models on the user's data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from constructions.errors import InputError
from constructions.tasks import scale_to_unit_cube
from verify.audit.reading import Table
from verify.bounds import theorem
from verify.bounds.evaluate import REGULARIZERS, Number, Setting, precise
from verify.bounds.geometry import CODES, scene
from verify.bounds.local import largest_norm, local
from verify.console import CommandError
from verify.experiments.trained import Trained, read_trained


def local_bounds(path: Path, table: Table, which: int | None, seed: int) -> dict[str, Any]:
    """The report, as JSON.

    Parameters
    ----------
    which : seed of one model; None for all
    seed : of the choice of initial centers among the points
    """
    try:
        trained = read_trained(path)
        s = trained.cell.settings
        if s.attention != "softmax":
            raise InputError(f"{trained.source}: the bound is for softmax attention only")
        X, C = _task(table, trained, seed)
        tau = s.temperature * (_typical_distance(X, C) if s.relative_temperature else 1.0)
        seeds = trained.cell.seeds if which is None else (which,)
        rows = [_of_model(trained, model, X, C, tau) for model in seeds]
    except InputError as error:
        raise CommandError(str(error)) from None
    return {
        "bound": "local",
        "title": "Gradient of the smoothed loss in the parameters, for one model and task",
        "claim": "thm-3.1",
        "model": str(trained.source),
        "data": table.source,
        "setting": {
            "code": s.code,
            "d": s.d,
            "k": s.k,
            "n": len(X),
            "gamma": s.inverse_temperature,
            "tau": tau,
            "regularizer": s.regularizer,
            "bias": s.bias,
            "scaling": s.scaling,
            "centers_seed": seed,
        },
        "models": rows,
    }


def _task(table: Table, trained: Trained, seed: int) -> tuple[Any, Any]:
    """Points scaled like the tasks of the training, and k of them as initial centers."""
    s = trained.cell.settings
    n, d = table.values.shape
    for what, found, fits in (
        ("coordinates", d, d == s.d or f"was trained on {s.d}"),
        ("points", n, n >= s.k or f"needs at least k = {s.k}"),
    ):
        if fits is not True:
            raise InputError(f"{table.source} has {found} {what}; {trained.source} {fits}")
    try:
        X = scale_to_unit_cube(np.asarray(table.values, dtype=float), scaling=s.scaling)
    except OverflowError:
        raise InputError(f"{table.source}: beyond the range of float64; rescale the data") from None
    return X, X[np.random.default_rng(seed).choice(n, s.k, replace=False)]


def _typical_distance(X: Any, C: Any) -> float:
    """`constructions.training.typical_distance` of one task: a lower median, 1 if that is 0."""
    r = np.sort(((X[:, None, :] - C) ** 2).sum(-1), axis=None)
    return float(r[(r.size - 1) // 2]) or 1.0


def _of_model(trained: Trained, seed: int, X: Any, C: Any, tau: float) -> dict[str, Any]:
    s, model = trained.cell.settings, trained.cell.settings.model
    parameters = {name: a.numpy() for name, a in trained.of_seed(seed).items()}
    try:
        found = local(model, parameters, X, C, tau, s.regularizer)
    except OverflowError as error:
        raise InputError(f"{trained.source}, seed {seed}: {error}") from None
    norm = largest_norm(parameters)
    return {
        "seed": seed,
        "largest_norm": norm,
        "gradient": Number.of(found.gradient).to_json(),
        "local_bound": Number.of(found.bound).to_json(),
        "ratio": float(found.gradient / found.bound) if found.bound else None,
        "theorem": _theorem(trained, len(X), tau, norm),
        "parts": {
            name: {
                "gradient": Number.of(found.gradients[name]).to_json(),
                "local_bound": Number.of(found.bounds[name]).to_json(),
            }
            for name in model.names
        },
    }


def _theorem(trained: Trained, n: int, tau: float, norm: float) -> dict[str, Any] | None:
    """The sharp constant at B = the largest norm, where there is one."""
    s, model = trained.cell.settings, trained.cell.settings.model
    if s.code not in CODES or s.regularizer not in REGULARIZERS or norm == 0:
        return None
    gamma = model.scale * model.d_emb**0.5  # queries may be wider than tokens
    setting = Setting(s.code, s.d, s.k, n, gamma, tau, norm, str(s.regularizer))
    where = scene(s.code, bias=s.bias)
    return Number.of(precise(theorem.chain(where, s.regularizer, "sharp"), setting)).to_json()


def text_of(found: dict[str, Any]) -> str:
    """The report for people."""
    setting = ", ".join(f"{name} = {value}" for name, value in found["setting"].items())
    columns = ("seed", "largest norm", "gradient", "local bound", "ratio", "theorem")
    rows = [columns]
    for row in found["models"]:
        numbers = (row["gradient"], row["local_bound"], row["theorem"])
        gradient, bound, theorems = ("-" if n is None else _short(n) for n in numbers)
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.4f}"
        norm = f"{row['largest_norm']:.4g}"
        rows.append((str(row["seed"]), norm, gradient, bound, ratio, theorems))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"{found['title']} (claim {found['claim']})",
        f"  {found['model']} on {found['data']}",
        f"  {setting}",
        "",
        *("  ".join(f"{c:>{w}}" for c, w in zip(row, widths, strict=True)) for row in rows),
        "",
        "gradient, local bound: norms in all parameters, of the loss summed over the points;",
        "theorem: the constant that holds for all tasks and all models with no larger norm",
    ]
    return "\n".join(lines)


def _short(number: dict[str, Any]) -> str:
    if number["value"] is not None:
        return f"{number['value']:.6g}"
    return str(Number(None, number["log10"]))
