"""JAX: softmax."""

from __future__ import annotations

from typing import Any

from verify.conformance.wild import adapter


@adapter("jax.nn.softmax", "jax", role="weights", library="jax", kind="softmax")
def softmax(r: Any, tau: Any) -> Any:
    import jax

    return jax.nn.softmax(-r / tau)
