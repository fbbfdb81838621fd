"""Theorem 3.1 on a grid of settings: the largest gradient found beside every form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy import stats

from constructions.surrogates import surrogate
from constructions.trainable import MATRICES, squared_distances
from verify.bounds import geometry, instances, symbols, theorem
from verify.bounds.attack import model_of
from verify.bounds.evaluate import Setting
from verify.claim import Answer, Claim, Evidence, Plot, Run, Table, compare
from verify.claims.lipschitz._search import Pool, Searcher, put_into
from verify.claims.lipschitz._theorem import (
    against_sharp,
    case_of_instance,
    digits_of,
    form_at,
)

CODES = ("binary", "one_hot", "none", "scalar")
REGULARIZERS = ("l2", "ne")
DS, KS, GAMMAS, POINTS = (2, 4, 8, 32), (3, 6, 25), (0.1, 1.0, 4.0), 8
TAUS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 1e2, 1e3)

Point = tuple[str, str, int, int, float]  # regularizer, code, d, k, gamma
Found = dict[Point, dict[float, float]]  # largest gradient norm by tau


def on_grid(claim: Claim, run: Run, e: Evidence) -> None:
    """Every setting is searched at one temperature, and what is found is measured at all."""
    found: Found = {}
    worst = 0.0
    for setting, values, made in _searched(run, e.seed or 0):
        for at, tau in enumerate(TAUS):
            s = replace(setting, tau=tau)
            for value, instance in zip(values[at], made, strict=True):
                m = against_sharp(s, value)
                answer = compare(claim.kind, m)
                e.count(answer)
                if m.value / m.bound > worst:
                    worst = e.ratio = m.value / m.bound
                    e.measured, e.bound = m.value, m.bound
                    e.witness = case_of_instance(s, instance)
                if answer is Answer.VIOLATED:
                    e.counterexample = e.counterexample or case_of_instance(s, instance)
        point = (s.regularizer, s.code, s.d, s.k, s.gamma)
        found[point] = {tau: float(row.max()) for tau, row in zip(TAUS, values, strict=True)}
    e.tables += [_table(found, regularizer) for regularizer in REGULARIZERS]
    e.tables += _figures(found)
    e.tables.append(_exponents(found))
    spreads = [max(row.values()) / min(row.values()) for row in found.values()]
    e.note = (
        f"over {TAUS[0]:g} <= tau <= {TAUS[-1]:g} the largest gradient found for a setting varies "
        f"by a factor of {np.median(spreads):.3f} in the median and {max(spreads):.2f} at most "
        "(each was searched at one of these temperatures only)"
    )


def _settings(run: Run) -> Iterator[list[Setting]]:
    """The grid in batches with k and the regularizer in common. The temperature of the search
    goes round: each value meets each code, each d and each gamma."""
    whole = run.profile.factor >= 1
    ds, ks, gammas = (DS, KS, GAMMAS) if whole else ((2, 4), (3,), (1.0,))
    for k, regularizer in product(ks, REGULARIZERS):
        places = product(range(len(CODES)), range(len(ds)), range(len(gammas)))
        yield [
            Setting(
                CODES[a],
                ds[b],
                k,
                POINTS,
                gammas[c],
                TAUS[(3 + a + 2 * b + 4 * c) % 7],
                1.0,
                regularizer,
            )
            for a, b, c in places
        ]


def _searched(run: Run, seed: int) -> Iterator[tuple[Setting, Any, list[instances.Instance]]]:
    """(setting, gradient norms (temperatures, instances), instances): what the search found, LB1
    and, where it applies, LB2."""
    known: Pool | None = None
    for batch in _settings(run):
        if known is not None:  # more clusters: repeat the centers
            k = known["C"].shape[1]
            known = known | {"C": known["C"][:, torch.arange(batch[0].k) % k]}
        known = Searcher(batch, 4).best(seed, run.count(60, 6), known)
        for at, s in enumerate(batch):
            model = model_of(s)
            made = [put_into(s, known, at), instances.flat(model, s.n, s.B)]
            if theorem.applies("LB2", s.d, s.k, s.n, s.B):
                made.append(instances.steep(model, s.n))
            yield s, gradient_norms(s, made), made


def gradient_norms(setting: Setting, made: Sequence[instances.Instance]) -> Any:
    """Norms (temperatures, instances) of the gradient at every temperature of `TAUS`."""
    model = model_of(setting)
    leaves = {
        name: torch.stack([i.parameters[name] for i in made]).requires_grad_() for name in MATRICES
    }
    X, C = (torch.stack([i[at] for i in made]) for at in (1, 2))
    r = squared_distances(X, model(leaves, X, C))
    norms = []
    for tau in TAUS:
        loss = surrogate(r, tau, setting.regularizer).sum()
        gradients = torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)
        squares = torch.stack([(g * g).sum(dim=(-1, -2)) for g in gradients])
        norms.append(squares.sum(dim=0).sqrt().numpy())
    return np.array(norms)


# ---- tables --------------------------------------------------------------------------------


def setting_at(point: Point, tau: float = 1.0) -> Setting:
    regularizer, code, d, k, g = point
    return Setting(code, d, k, POINTS, g, tau, 1.0, regularizer)


def _table(found: Found, regularizer: str) -> Table:
    """One row a setting: numbers a point, powers of ten for the forms."""
    rows = []
    for point, by_tau in found.items():
        if point[0] != regularizer:
            continue
        s, last = setting_at(point), setting_at(point, TAUS[-1])
        sharp, largest = form_at(s, "sharp"), max(by_tau.values())
        forms = [digits_of(s, f) - math.log10(by_tau[1.0]) for f in ("plain", "exponential")]
        orders = [form_at(t, "order") / by_tau[t.tau] for t in (s, last)]
        least = min(by_tau.values())
        rows.append(
            [*point[1:], least / s.n, largest / s.n, sharp / s.n, largest / sharp, *forms, *orders]
        )
    return Table(
        f"grid-{regularizer}",
        f"Largest gradient found a point over seven temperatures, B = 1, n = {POINTS}, "
        f"{regularizer}; the forms at tau = 1",
        (
            "code",
            "d",
            "k",
            "gamma",
            "found, least tau",
            "found",
            "sharp",
            "found / sharp",
            "log10(without exp / found)",
            "log10(with exp / found)",
            "order / found",
            "order / found, tau = 1000",
        ),
        rows,
    )


def _figures(found: Found) -> list[Table]:
    """One table and figure a factor, the others fixed: L2, tau = 1, two codes."""
    figures = {
        "d": ("number of coordinates d", "grows a little faster than d at gamma = 1"),
        "k": ("number of clusters k", "no factor k is seen: what grows is the code"),
        "gamma": ("inverse temperature gamma", "polynomial, where the reconstruction has exp"),
    }
    at = {"d": 2, "k": 3, "gamma": 4}
    base: Point = ("l2", "binary", 4, 6, 1.0)
    base = base if base in found else next(iter(found))
    tables = []
    for name, (label, caption) in figures.items():
        columns = [name]
        rows: dict[float, list[float]] = {}
        for code in ("binary", "one_hot"):
            columns += [f"{code}, found", f"{code}, sharp", f"{code}, without exponential"]
            for point, by_tau in found.items():
                fixed = [i for i in (0, 2, 3, 4) if i != at[name]]
                if point[1] == code and all(point[i] == base[i] for i in fixed):
                    s = setting_at(point)
                    row = rows.setdefault(float(point[at[name]]), [float(point[at[name]])])
                    row += [by_tau[1.0], form_at(s, "sharp"), form_at(s, "plain")]
        tables.append(
            Table(
                f"grid-by-{name}",
                f"Gradient norm, n = {POINTS}, L2, tau = 1, from d = {base[2]}, k = {base[3]}, "
                f"gamma = {base[4]:g}",
                tuple(columns),
                list(rows.values()),
                Plot(
                    x=name,
                    lines=tuple(c for c in columns[1:] if not c.endswith("found")),
                    points=tuple(c for c in columns if c.endswith("found")),
                    x_label=label,
                    y_label="Lipschitz constant",
                    log_x=True,
                    log_y=True,
                    caption=f"The largest gradient found and two bounds: {caption}.",
                ),
            )
        )
    return tables


def _exponents(found: Found) -> Table:
    """Slopes on logarithms along every line of the grid, and the interval of their mean."""
    rows = []
    for name, code in product(("tau", "k", "d_E", "gamma"), CODES):
        slopes = np.array(
            [
                np.polyfit(np.log(x), y, 1)[0]
                for x, y in _lines({p: row for p, row in found.items() if p[1] == code}, name)
                if max(x) >= 4 * min(x)  # d_E hardly changes with d where the code is long
            ]
        )
        if len(slopes) < 2:
            continue
        own, sharp, plain, order = slopes.T
        half = float(stats.t.ppf(0.975, len(own) - 1) * own.std(ddof=1) / math.sqrt(len(own)))
        middle = float(own.mean())
        rows.append([name, code, len(own), middle, middle - half, middle + half])
        rows[-1] += [float(a) for a in (own.min(), own.max(), *map(np.mean, (sharp, plain, order)))]
    return Table(
        "grid-exponents",
        "Exponents of the largest gradient along the lines of the grid, all else fixed: mean, 95 % "
        "interval of the mean, extremes; and the mean exponents of three forms",
        (
            "factor",
            "code",
            "lines",
            "found",
            "low",
            "high",
            "least",
            "largest",
            "sharp",
            "without exponential",
            "paper's order",
        ),
        rows,
    )


def _lines(found: Found, name: str) -> Iterator[tuple[list[float], Any]]:
    """(x, table of logarithms) along one factor, all others fixed; the columns of the table are
    what was found and three forms."""
    place = {"tau": None, "k": 3, "d_E": 2, "gamma": 4}[name]
    lines: dict[Any, list[tuple[Setting, float]]] = {}
    for point, by_tau in found.items():
        for tau, value in by_tau.items():
            if place is None:
                lines.setdefault(point, []).append((setting_at(point, tau), value))
            elif tau == 1:
                rest = point[:place] + point[place + 1 :]
                lines.setdefault(rest, []).append((setting_at(point), value))
    for line in lines.values():
        x = [_norm_of_tokens(s) if name == "d_E" else float(getattr(s, name)) for s, _ in line]
        yield x, np.array([[math.log(value), *_logs(s)] for s, value in line])


def _logs(s: Setting) -> list[float]:
    return [digits_of(s, form) * math.log(10) for form in ("sharp", "plain", "order")]


def _norm_of_tokens(s: Setting) -> float:
    """d_E."""
    return float(s.d + geometry.CODES[s.code].norm.subs(symbols.k, s.k))
