"""A transformer that executes Lloyd's algorithm: (X, C, steps) -> centers."""

from __future__ import annotations

from dataclasses import replace

from verify.conformance.roles import _clustering as clustering
from verify.conformance.roles import lloyd_step

ROLE = replace(
    lloyd_step.ROLE,
    name="transformer",
    signature="(X, C, steps) -> centers, or (centers, assignments)",
    properties=clustering.PROPERTIES + clustering.STEPS,
    parameters=(
        *lloyd_step.ROLE.parameters,
        frozenset({"steps", "t", "iterations", "n_iter", "max_iter", "layers", "n_steps", "iters"}),
    ),
    recognize=lambda s: clustering.found_rules(s, steps=True),
    ask=lambda s: clustering.ask_simply(s, steps=True),
    batch=lambda s: clustering.takes_batches(s, steps=True),
)
