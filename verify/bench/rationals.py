"""bench rationals: an exact step on arrays of rationals against plain Python, number by number."""

from __future__ import annotations

import statistics
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from constructions import LloydTransformer, lloyd_step, rational_array
from constructions.rationals import as_fractions
from verify.bench._measure import by_round, compared
from verify.claim import Table
from verify.oracles import clustering

N, D, K = 64, 4, 8


def measure(rounds: int = 5) -> Table:
    """n = 64 points in d = 4 coordinates with 53-bit values, k = 8 centers."""
    X = np.random.default_rng(0).random((N, D))
    points = as_fractions(X)
    model = LloydTransformer(D, K)
    codes = as_fractions(model.code.table)
    rows = []
    for name, work, one_by_one in (
        ("Lloyd step", lloyd_step, partial(clustering.lloyd, points, points[:K])),
        ("transformer", model, partial(clustering.transformer, points, points[:K], codes)),
    ):
        contest: dict[str, Any] = {"one by one": one_by_one}
        for kind in (Fraction, None):
            array = rational_array(X, kind)
            contest["fmpq" if kind is None else "Fraction"] = partial(work, array, array[:K])
        times = by_round(contest, rounds)
        slow, fraction, fast = (times[n] for n in ("one by one", "Fraction", "fmpq"))
        rows.append([name, *compared(slow, fast), statistics.median(fraction)])
    return Table(
        "bench-rationals",
        f"One exact step, n = {N}, d = {D}, k = {K}, process CPU time",
        ("work", "one by one, ms", "fmpq, ms", "ratio", "least", "largest", "Fraction, ms"),
        rows,
    )
