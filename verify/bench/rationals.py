"""bench rationals: one exact Lloyd step on python-flint's rationals and on Python's own.

Distances are compared as integers over a common denominator in both, so the two are closer to each
other than the number types themselves.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
from flint import fmpq

from constructions import LloydTransformer, lloyd_step, rational_array
from verify.bench._measure import by_round, compared
from verify.claim import Table

N, D, K = 64, 4, 8


def measure(rounds: int = 5) -> Table:
    """n = 64 points in d = 4 coordinates with 53-bit values, k = 8 centers."""
    X = np.random.default_rng(0).random((N, D))
    arrays = {kind: rational_array(X, kind) for kind in (Fraction, fmpq)}
    rows = []
    for name, work in (
        ("Lloyd step", lloyd_step),
        ("transformer", LloydTransformer(D, K)),
    ):
        times = by_round(
            {kind.__name__: partial(work, a, a[:K]) for kind, a in arrays.items()}, rounds
        )
        rows.append([name, *compared(times["Fraction"], times["fmpq"])])
    return Table(
        "bench-rationals",
        f"One exact step, n = {N}, d = {D}, k = {K}, process CPU time",
        ("work", "Fraction, ms", "fmpq, ms", "Fraction / fmpq", "least", "largest"),
        rows,
    )
