"""Theorem 3.1 one factor at a time, farther out than the grid."""

from __future__ import annotations

from dataclasses import replace

from verify.bounds import theorem
from verify.bounds.evaluate import Setting
from verify.claim import Claim, Evidence, Plot, Run, Table
from verify.claims.lipschitz._search import Searcher, put_into
from verify.claims.lipschitz._shared import at, largest
from verify.claims.lipschitz._theorem import (
    attacked,
    case_of_instance,
    case_of_witness,
    exact_instances,
    lifted,
    slope,
)


def by_temperature(claim: Claim, run: Run, e: Evidence) -> None:
    """One setting over six orders of magnitude of tau, searched at each."""
    tables: dict[str, list[list[float]]] = {"ne": [], "l2": []}
    whole = run.profile.factor >= 1
    for regularizer, own in tables.items():
        taus = (1e-3, 1e-2, 0.1, 1.0, 10.0, 1e2, 1e3) if whole else (1e-3, 1.0, 1e3)
        settings = [Setting("binary", 2, 4, 4, 1.0, tau, 1.0, regularizer) for tau in taus]
        pool = Searcher(settings, 8).best(e.seed or 0, run.count(90, 6))
        for index, s in enumerate(settings):
            cases = [case for _, case in exact_instances(s)]
            best = largest(claim, e, (*cases, case_of_instance(s, put_into(s, pool, index))))
            forms = (theorem.alpha("binary", regularizer, f) for f in ("sharp", "plain", "order"))
            own.append([s.tau, best, *(at(form, s) for form in forms)])
    columns = ("tau", "measured", "sharp", "without exponential", "paper's order")
    for regularizer, own in tables.items():
        e.tables.append(
            Table(
                f"by-temperature-{regularizer}",
                f"Gradient norm at d = 2, k = n = 4, binary code, {regularizer}",
                columns,
                own,
                Plot(
                    x="tau",
                    lines=columns[2:],
                    points=columns[1:2],
                    x_label="temperature tau of the loss",
                    y_label="Lipschitz constant",
                    log_x=True,
                    log_y=True,
                    caption="The true constant does not grow as tau falls; the paper's order falls "
                    "below it as tau grows.",
                ),
            )
        )
        spread = max(r[1] for r in own) / min(r[1] for r in own)
        e.note += f"{regularizer}: largest / smallest over six decades {spread:.3f}; "


def exponents(claim: Claim, run: Run, e: Evidence) -> None:
    """The exponent of each factor: of the best instances found, and of the forms.

    tau has a table of its own (by-temperature); here the instances of one temperature are used."""
    base = Setting("none", 2, 2, 4, 1.0, 1.0, 1.0, "l2")
    sweeps = {
        "n": [replace(base, n=v) for v in (2, 4, 8, 16, 32)],
        "k": [replace(base, k=v) for v in (2, 4, 8, 16, 32)],
        "tau": [replace(base, tau=v) for v in (0.01, 0.1, 1.0, 10.0, 100.0)],
        "gamma": [replace(base, gamma=v) for v in (30.0, 60.0, 120.0, 240.0, 480.0)],
        "d_E": [replace(base, d=v, gamma=30.0) for v in (2, 4, 8, 16, 32)],
    }
    stated = {"n": "1", "k": "1", "tau": "-1", "gamma": "2, and exp", "d_E": "2.5 - 1, and exp"}
    rows = []
    witness = attacked(base, e.seed or 0, run.count(24, 4), run.count(150, 6))
    for name, settings in sweeps.items():
        values = []
        for s in settings:
            best = largest(claim, e, (*(c for _, c in exact_instances(s)), lifted(witness, s)))
            if name == "k":  # a search of its own: the exact instances do not see k
                searched = attacked(s, e.seed or 0, run.count(12, 4), run.count(90, 6))
                best = max(best, largest(claim, e, [case_of_witness(searched)]))
            values.append(best)
        x = [float(s.d if name == "d_E" else getattr(s, name)) for s in settings]
        found, low, high = slope(x, values)
        sharp = slope(x, [at(theorem.alpha("none", "l2", "sharp"), s) for s in settings])[0]
        plain = slope(x, [at(theorem.alpha("none", "l2", "plain"), s) for s in settings])[0]
        rows.append([name, found, low, high, sharp, plain, stated[name]])
    e.tables.append(
        Table(
            "exponents",
            "Exponent of each factor (no code; d_E = d_emb = d), with the 95 % interval of the fit",
            ("factor", "measured", "low", "high", "sharp", "without exponential", "paper's order"),
            rows,
        )
    )
