"""Trained models put to use: many steps, on the tasks of their training and on others.

A test is a distribution of tasks, written as what differs from the one of the training. All models
of a cell, and Lloyd, start from the same centers of the same tasks. Rows of the result:

    method "re-embedding"   each step starts from fresh tokens; value at step t is the mean over the
                            tasks of log(inertia / n)
    method "naive"          the tokens that a layer returns go into the next layer ("same" only)
    method "lloyd"          Lloyd's algorithm; its seed is -1
    method "gap, ..."       test "gap" only: median over the tasks of surrogate minus objective, as
                            it is or in units of the objective, before (0) and after (1) a step

Source: the paper's Sections 3, 4 and Appendices C, F, G.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors

from constructions.fast import FastTransformer
from constructions.objective import centered, inertia, lloyd_step, smoothed_loss
from constructions.streams import sample, stream
from constructions.tasks import FAMILIES
from constructions.training import Settings, typical_distance
from verify.experiments.cells import Cell
from verify.experiments.runs import MODELS

Tensor = Any  # torch.Tensor
Row = dict[str, Any]

STEPS = 20  # the paper's T
TASKS, BATCH = 100, 20
STREAM = 3  # purpose of the random stream; 0 to 2 are those of `constructions.training`
PLUSPLUS = "k-means++ start"
GAP = "gap"
SURFACE = "surface"  # see `verify.experiments.surfaces`

SIZES = (128, 256, 512, 1024, 2048)
TESTS: dict[str, dict[str, Any]] = {
    "same": {},
    PLUSPLUS: {},
    **{f"n = {n}": {"n": n} for n in SIZES},
    "unequal weights": {"equal_weights": False},
    "anisotropic": {"isotropic": False},
    "smaller scale": {"scale": 0.05},
    "larger scale": {"scale": 0.3},
    **{f"family {name}": {"family": name} for name in FAMILIES},
}
"""Name -> fields of `Settings` that differ from those of the training."""

SHIFTS = ("unequal weights", "anisotropic", "smaller scale", "larger scale")
OF_ROW = {
    "multi-step": ("same", PLUSPLUS),
    "length-generalization": tuple(f"n = {n}" for n in SIZES),
    "shifted-normal": SHIFTS,
    "cross-family": tuple(f"family {name}" for name in FAMILIES),
    "leaner-still": ("same",),
    "cauchy-gap": (GAP,),
    "learn-l2-vs-ne": (GAP,),
    "loss-surface": (SURFACE,),
}
"""The tests that a row of the grids asks for, besides the curves of the training."""


def evaluate(cell: Cell, folder: Path, test: str) -> Iterator[Row]:
    """The rows of one test for the models of a finished cell in a folder."""
    parameters = load_tensors((folder / MODELS).read_bytes())
    rows = _gaps(cell, parameters) if test == GAP else _iterated(cell, parameters, test)
    for method, seed, step, value in rows:
        yield {
            "cell": cell.name,
            "seed": seed,
            "test": test,
            "method": method,
            "step": step,
            "value": value,
        }


def _iterated(
    cell: Cell, parameters: Mapping[str, Tensor], test: str
) -> Iterator[tuple[str, int, int, float]]:
    settings = replace(cell.settings, **TESTS[test])
    fast = FastTransformer(replace(settings.model, dropout=0.0))
    S = len(cell.seeds)
    ways = {"re-embedding": True} | ({"naive": False} if test == "same" else {})
    total = {way: torch.zeros(STEPS + 1, S, dtype=torch.float64) for way in [*ways, "lloyd"]}
    with torch.no_grad():
        for X, C in _tasks(settings, test == PLUSPLUS):
            points = centered(X)
            for t, value in enumerate(_lloyd(points.X, C.mT - points.median)):
                total["lloyd"][t] += value
            X, C = X.expand(S, -1, -1, -1), C.expand(S, -1, -1, -1)
            for way, reembed in ways.items():
                found = fast.iterate(parameters, X, C, STEPS, reembed)
                for t, new in enumerate(found):
                    total[way][t] += _log(points.X.expand(S, -1, -1, -1), new.mT - points.median)
    for way in ways:
        for t, values in enumerate((total[way] / TASKS).tolist()):
            for seed, value in zip(cell.seeds, values, strict=True):
                yield way, seed, t, value
    for t, value in enumerate((total["lloyd"][:, 0] / TASKS).tolist()):
        yield "lloyd", -1, t, value


def _tasks(settings: Settings, plusplus: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Tasks (1, B, n, d) and initial centers (1, B, k, d), the same for all cells."""
    generator = stream("cpu", STREAM)
    for _ in range(TASKS // BATCH):
        tasks = sample(settings.distribution, [generator], BATCH)
        C = tasks.C
        if plusplus:
            from sklearn.cluster import kmeans_plusplus  # takes seconds; every worker would pay

            seeds = torch.randint(2**31 - 1, (BATCH,), generator=generator).tolist()
            each = [
                kmeans_plusplus(X.numpy(), settings.k, random_state=seed)[0]
                for X, seed in zip(tasks.X[0], seeds, strict=True)
            ]
            C = torch.stack([torch.from_numpy(c) for c in each])[None]
        yield tasks.X, C


def _lloyd(X: Tensor, C: Tensor) -> Iterator[Tensor]:
    """Sum over the tasks of log(inertia / n) after 0 ... `STEPS` Lloyd steps."""
    for _ in range(STEPS + 1):
        yield _log(X, C)
        C, _ = lloyd_step(X, C)


def _log(X: Tensor, C: Tensor) -> Tensor:
    return (inertia(X, C).double() / X.shape[-1]).log().sum(dim=1)


def _gaps(cell: Cell, parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, int, int, float]]:
    settings = cell.settings
    fast = FastTransformer(replace(settings.model, dropout=0.0))
    S = len(cell.seeds)
    absolute: list[list[Tensor]] = [[], []]
    relative: list[list[Tensor]] = [[], []]
    with torch.no_grad():
        for X, C in _tasks(settings, False):
            X, C = X.expand(S, -1, -1, -1), C.expand(S, -1, -1, -1)
            points = centered(X)
            tau = torch.full((S, BATCH), settings.temperature, dtype=torch.float64)
            if settings.relative_temperature:
                tau *= typical_distance(points, C)
            for t, centers in enumerate(fast.iterate(parameters, X, C, 1)):
                moved = centers.mT - points.median
                loss = smoothed_loss(points.X, moved, tau, [settings.regularizer] * S).double()
                objective = inertia(points.X, moved).double() / settings.n
                absolute[t].append(loss - objective)
                relative[t].append((loss - objective) / objective)
    for name, parts in (("absolute", absolute), ("relative", relative)):
        for t, part in enumerate(parts):
            medians = torch.cat(part, dim=1).median(dim=1).values.tolist()
            for seed, value in zip(cell.seeds, medians, strict=True):
                yield f"gap, {name}", seed, t, value if math.isfinite(value) else math.nan
