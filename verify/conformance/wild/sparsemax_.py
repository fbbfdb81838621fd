"""The package sparsemax."""

from __future__ import annotations

from typing import Any

from verify.conformance.wild import adapter


@adapter(
    "sparsemax.Sparsemax(dim=-1)",
    "sparsemax",
    role="weights",
    library="torch",
    kind="sparsemax",
    note="It asks for a batch, so the adapter adds an axis of length 1.",
)
def sparsemax(r: Any, tau: Any) -> Any:
    from sparsemax import Sparsemax

    scores = -r / tau
    alone = scores.ndim == 1
    weights = Sparsemax(dim=-1)(scores[None] if alone else scores)
    return weights[0] if alone else weights
