"""Curves and tables of the claim about finite inverse temperatures."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from constructions import LloydTransformer
from constructions.certificate import sufficient_inverse_temperature
from verify.claim import Case, Claim, Evidence, Plot, Run, Table
from verify.claims.expressivity._certificates import (
    Instance,
    closed_form_inverse_temperature,
    instance,
)
from verify.claims.expressivity._finite import CODES, certified, code_of, measure
from verify.claims.expressivity._shared import code_table
from verify.oracles import balls
from verify.oracles import clustering as oracle


def curves(claim: Claim, run: Run, e: Evidence) -> None:
    """Error and certificate along the inverse temperature, one separated instance."""
    seed = run.stream("finite-gamma", "curve")
    columns: list[str] = ["inverse temperature"]
    rows: list[list[Any]] = [[10 ** (i / 4)] for i in range(2, 17)]
    for code in ("binary", "one_hot", "scalar"):
        columns += [f"{code} error", f"{code} bound"]
        for row in rows:
            case = Case(
                family="separated", k=6, d=2, n=18, seed=seed, code=code, inverse_temperature=row[0]
            )
            bound = certified(case)
            m = measure(case) if bound < math.inf else None
            e.cases += m is not None
            e.violated += m is not None and m.value - m.error > m.bound
            row += [float(m.value) if m else None, bound if m else None]
    e.tables.append(
        Table(
            "curves",
            "Error of one layer and its certificate, k = 6, d = 2, n = 18, separated clusters",
            tuple(columns),
            rows,
            Plot(
                x="inverse temperature",
                lines=("binary bound", "one_hot bound", "scalar bound"),
                points=("binary error", "one_hot error", "scalar error"),
                x_label="inverse temperature",
                y_label="distance from Lloyd's centers",
                log_x=True,
                log_y=True,
                caption="Measured distance (markers) and certificate (lines).",
            ),
        )
    )


def needed(claim: Claim, run: Run, e: Evidence) -> None:
    """The inverse temperature that brings the error to 1e-3: measured, certified, closed form."""
    epsilon, rows = 1e-3, []
    for family in ("separated", "mixture"):
        for k, n in ((6, 128), (25, 128), (100, 256)):
            seed = run.stream("finite-gamma", "needed", family)
            for name in CODES:
                case = Case(family=family, k=k, d=4, n=n, seed=seed, code=name)
                at, code = instance(case), code_of(case)
                if at.margin == 0 or 0 in at.counts:
                    continue
                proved = sufficient_inverse_temperature(at.geometry, code, epsilon)
                e.cases += 1
                e.violated += float_error(at, name, proved) > epsilon * (1 + 1e-9)
                rows.append(
                    [
                        family,
                        k,
                        float(at.margin),
                        name,
                        crossing(at, name, epsilon, proved),
                        proved,
                        closed_form_inverse_temperature(at.geometry, code, epsilon),
                    ]
                )
    e.tables.append(
        Table(
            "needed",
            "Inverse temperature for an error of 0.001, d = 4 (measured: to 5 %, by bisection)",
            ("family", "k", "margin", "code", "measured", "certificate", "closed form"),
            rows,
        )
    )


def float_error(at: Instance, code: str, inverse_temperature: float) -> float:
    X, C = at.floats
    got = LloydTransformer(X.shape[1], len(C), code, inverse_temperature)(X, C)
    want = np.array([[float(v) for v in row] for row in at.means])
    return float(np.sqrt(((got - want) ** 2).sum(axis=1)).max())


def crossing(at: Instance, code: str, epsilon: float, high: float) -> float:
    """An inverse temperature below `high` where the error comes down to epsilon, to 5 percent."""
    low = high / 1024
    while high > 1.05 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if float_error(at, code, middle) <= epsilon else (middle, high)
    return high


def broken_ties(claim: Claim, run: Run, e: Evidence) -> None:
    """A tie that is exact in rationals: float64 breaks it by rounding once the inverse temperature
    is large enough, the balls do not."""
    X = [[Fraction(11, 10)], [Fraction(22, 10)], [Fraction(33, 10)]]
    C = [X[0], X[2]]
    table = code_table("binary", 2)
    want = oracle.closed_form(X, C, table, 3)
    points, centers = (np.array([[float(v) for v in row] for row in rows]) for rows in (X, C))
    target = np.array([[float(v) for v in row] for row in want])
    rows = []
    for decade in (2, 3, 4, 8, 12, 14, 15, 16, 17):
        gamma = 10.0**decade
        got = LloydTransformer(1, 2, "binary", gamma)(points, centers, 3)
        exact = balls.transformer(X, C, table, gamma, 3, False, bits=400)
        rows.append([gamma, float(np.abs(got - target).max()), balls.farthest(exact, want)[1]])
    e.cases = len(rows)
    e.tables.append(
        Table(
            "broken-ties",
            "X = {1.1, 2.2, 3.3}, C = (1.1, 3.3), 3 layers: distance from the limit",
            ("inverse temperature", "float64", "120 digits, at most"),
            rows,
        )
    )
    e.note = (
        f"at inverse temperature {rows[-1][0]:.0e} float64 is off by {rows[-1][1]:.2f}, "
        f"120 digits by less than {rows[-1][2]:.0e}"
    )
