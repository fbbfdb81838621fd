"""All findings about one data set as a dictionary that JSON can hold; docs/audit.md lists it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import click

from verify.audit import finite, gaps
from verify.audit.beside import SHOWN, Step, Track, run
from verify.audit.conclusion import conclusions
from verify.audit.reading import Table
from verify.audit.starting import Start, start
from verify.audit.survey import TYPES, Decided, Points, Survey, decide, points_in, survey
from verify.console import progress

FORMAT = "leanlloyd-audit/1"
_QUIET = 3.0  # seconds of expected work from which on progress is shown


@dataclass(frozen=True)
class Options:
    """What the user asked for, checked."""

    k: int
    steps: int = 5
    codes: tuple[str, ...] = ("binary",)
    epsilon: float = 1e-3
    gamma: float | None = None
    temperatures: tuple[float, ...] = (1.0, 0.25, 0.1)
    init: str = "first-k"
    scale: str = "none"
    seed: int = 0


def audit(table: Table, options: Options) -> dict[str, Any]:
    """Everything that `leanlloyd audit` has to say about a table.

    Raises
    ------
    CommandError
        the number of clusters or the initial centers do not fit the data.
    """
    task = start(table, options.k, options.init, options.seed, options.scale)
    seconds = _expected_seconds(task, options)
    if seconds > _QUIET:
        n, d = task.X.shape
        click.echo(
            f"leanlloyd audit: n = {n}, d = {d}, k = {options.k}, {options.steps} steps in exact "
            f"rationals: about {_duration(seconds)}; fewer --steps take less",
            err=True,
        )
    points = {name: points_in(task.X, name) for name in TYPES}
    tracks, steps = run(task.X, task.C, list(options.codes), options.steps)
    if seconds > _QUIET:
        steps = progress(steps, options.steps, lambda s: f"step {s.number}", unit="steps")
    done: list[Step] = []
    decided: list[dict[str, Decided]] = []
    for step in steps:
        done.append(step)
        decided.append({kind: decide(points[kind], step.before, step.found) for kind in TYPES})
    last = done[-1]
    final = last.found if last.fixed else survey(task.X, last.after)
    found: dict[str, Any] = {
        "format": FORMAT,
        "conclusion": [],
        "data": _data(table, task, options),
        "exact": {
            "codes": [_track(track, last) for track in tracks],
            "steps": [_step(s, d) for s, d in zip(done, decided, strict=True)],
        },
        "finite": _finite(done, decided, points, options, seconds > _QUIET),
        "temperature": {
            "initial": _temperature(done[0].found, options),
            "final": _temperature(final, options),
        },
    }
    found["conclusion"] = conclusions(found)
    return found


def _expected_seconds(task: Start, options: Options) -> float:
    """Time one step on a few points and scale up."""
    n, k = len(task.X), len(task.C)
    sample = task.X[: max(k, min(n, 200))]
    before = time.perf_counter()
    for step in run(sample, task.C, list(options.codes), 2)[1]:
        last = step
    each = (time.perf_counter() - before) / (last.number * len(sample))
    return each * n * options.steps


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _data(table: Table, task: Start, options: Options) -> dict[str, Any]:
    n, d = task.X.shape
    return {
        "source": table.source,
        "reading": table.about,
        "n": n,
        "d": d,
        "k": options.k,
        "distinct_points": task.distinct,
        "constant_columns": task.constant,
        "scale": options.scale,
        "init": options.init,
        "seed": options.seed if options.init in ("random", "k-means++") else None,
        "initial_points": task.indices,
        "steps": options.steps,
    }


def _track(track: Track, last: Step) -> dict[str, Any]:
    return {
        "code": track.code,
        "d_emb": track.model.d_emb,
        "equal": track.parted is None,
        "parts_at_step": track.parted,
        "reasons": track.reasons,
        "differing_centers": [
            {
                "center": j,
                "distance": _farthest(lloyd[None], other[None]),
                "lloyd": [number(v) for v in lloyd],
                "transformer": [number(v) for v in other],
            }
            for j, lloyd, other in track.differing[:SHOWN]
        ],
        "differing_count": len(track.differing),
        "ties_or_empty_clusters_without_effect": track.harmless,
        "final_distance": _farthest(track.centers, last.after),
    }


def _step(step: Step, decided: dict[str, Decided]) -> dict[str, Any]:
    ties = sorted(step.found.ties.items())
    return {
        "step": step.number,
        "margin": exact(step.found.margin),
        "margin_point": step.found.margin_point,
        "tied_points": len(ties),
        "first_ties": [{"point": i, "centers": list(near)} for i, near in ties[:SHOWN]],
        "empty_clusters": step.empty,
        "equal_centers": step.duplicates,
        "objective": number(step.found.objective),
        "fixed_point": step.fixed,
        **{kind: _decided(d) for kind, d in decided.items()},
    }


def _decided(d: Decided) -> dict[str, Any]:
    return {
        "problem": d.problem,
        "undecided": None if d.problem else len(d.undecided),
        "first_undecided": d.undecided[:SHOWN],
        "wrong": None if d.problem else len(d.wrong),
        "first_wrong": d.wrong[:SHOWN],
    }


def _finite(
    steps: Sequence[Step],
    decided: Sequence[dict[str, Decided]],
    points: dict[str, Points],
    options: Options,
    show: bool,
) -> dict[str, Any]:
    ready: list[finite.Certifiable] = []
    without: list[dict[str, Any]] = []
    for step, known in zip(steps, decided, strict=True):
        if step.number > 1 and steps[step.number - 2].fixed:
            continue  # the step before once more
        got = finite.certifiable(step, points, known)
        if isinstance(got, str):
            without.append({"step": step.number, "reason": got})
        else:
            ready.append(got)

    def certify(name: str) -> finite.Certified:
        asked = name in options.codes
        return finite.certify(name, ready, options.epsilon, options.gamma, points, asked)

    every: Any = map(certify, finite.CODES)
    if show:
        every = progress(every, len(finite.CODES), lambda c: f"{c.code.name} code", unit="codes")
    return {
        "epsilon": options.epsilon,
        "gamma_given": options.gamma,
        "steps_certified": [s.step.number for s in ready],
        "steps_without": without,
        "codes": [_certified(c, len(steps[0].before[0]), finite.curve(ready, c)) for c in every],
    }


def _certified(c: finite.Certified, d: int, curve: dict[str, list[float]]) -> dict[str, Any]:
    return {
        "code": c.code.name,
        "width": c.code.width,
        "d_emb": d + c.code.width,
        "hardest_step": c.step,
        "gamma_star": number(c.gamma),
        "gamma_star_by_step": [number(g) for g in c.by_step],
        "at_gamma": number(c.at),
        "bound": number(c.bound),
        **{
            kind: {
                "certified_at": number(c.sure.get(kind, math.inf)),
                "measured": number(c.measured.get(kind)),
                "skipped": c.skipped.get(kind),
            }
            for kind in TYPES
        },
        "curve": {name: [number(v) for v in values] for name, values in curve.items()},
    }


def _temperature(found: Survey, options: Options) -> dict[str, Any]:
    objective = number(found.objective)
    base: dict[str, Any] = {
        "objective": objective,
        "tau_star": exact(found.tau_star),
        "tau_star_point": found.tau_point,
    }
    if found.excess is None or not isinstance(objective, float):
        return base | {
            "problem": "float64 cannot hold the squared distances",
            "gaps": [],
            "safe": [],
            "curve": None,
        }
    data = gaps.gaps(found.excess, objective)
    rows = [
        _gap(data, tau, name, found.tau_star)
        for tau in options.temperatures
        for name in gaps.REGULARIZERS
    ]
    safe = [
        {
            "regularizer": name,
            "relative": share,
            "tau": number(gaps.safe_temperature(data, name, share)) if objective else None,
        }
        for name in gaps.REGULARIZERS
        for share in gaps.SHARES
    ]
    return base | {"problem": None, "gaps": rows, "safe": safe, "curve": _curve(data, found)}


def _gap(data: gaps.Gaps, tau: float, name: str, star: Any) -> dict[str, Any]:
    gap = data.total(tau, name)
    if name == "L2" and (star is None or Fraction(tau) <= Fraction(int(star.p), int(star.q))):
        gap = 0.0  # decided exactly
    cap = data.cap(tau, name)
    return {
        "tau": tau,
        "regularizer": name,
        "gap": gap,
        "relative": gap / data.objective if data.objective else None,
        "cap": cap,
        "share_of_cap": gap / cap if cap else None,
    }


def _curve(data: gaps.Gaps, found: Survey) -> dict[str, list[Any]] | None:
    typical = data.largest / data.n
    if not (data.k > 1 and 1e-290 < typical < 1e290):
        return None
    low = typical * 1e-4
    if found.tau_star is not None and float(found.tau_star) > typical * 1e-9:
        low = min(low, float(found.tau_star) / 2)
    curve = gaps.curve(data, low, typical * 10)
    return {name: [number(v) for v in values] for name, values in curve.items()}


def number(value: Any) -> Any:
    """A float for JSON; the texts "infinity" and "beyond float64" where there is none."""
    if value is None:
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return "beyond float64"
    if math.isinf(as_float):
        return "infinity"
    if as_float == 0 and value != 0:
        return "beyond float64"
    return as_float


def exact(value: Any) -> dict[str, Any]:
    """A rational with its nearest float; None stands for infinity: nothing limits the quantity."""
    if value is None:
        return {"exact": None, "value": "infinity"}
    return {"exact": str(value), "value": number(value)}


def _farthest(A: Any, B: Any) -> Any:
    """Largest Euclidean distance of a center; the root of an exact number."""
    square = ((A - B) ** 2).sum(axis=1).max()
    root = number(square)
    return math.sqrt(root) if isinstance(root, float) else root
