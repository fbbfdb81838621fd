"""entmax: sparsemax, entmax with exponent 1.5, and the bisection for any exponent."""

from __future__ import annotations

from typing import Any

from verify.conformance.wild import adapter

WEIGHTS: dict[str, Any] = {"role": "weights", "library": "torch"}


@adapter("entmax.sparsemax", "entmax", kind="sparsemax", **WEIGHTS)
def sparsemax(r: Any, tau: Any) -> Any:
    from entmax import sparsemax as weigh

    return weigh(-r / tau, dim=-1)


@adapter("entmax.entmax15", "entmax", kind="entmax 1.5", **WEIGHTS)
def entmax15(r: Any, tau: Any) -> Any:
    from entmax import entmax15 as weigh

    return weigh(-r / tau, dim=-1)


@adapter("entmax.entmax_bisect(alpha=1.5)", "entmax", kind="entmax 1.5", **WEIGHTS)
def entmax_bisect(r: Any, tau: Any) -> Any:
    from entmax import entmax_bisect as weigh

    return weigh(-r / tau, alpha=1.5, dim=-1)


@adapter("entmax.entmax_bisect(alpha=2)", "entmax", kind="sparsemax", **WEIGHTS)
def entmax_bisect_2(r: Any, tau: Any) -> Any:
    from entmax import entmax_bisect as weigh

    return weigh(-r / tau, alpha=2.0, dim=-1)
