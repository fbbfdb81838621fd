"""A Lloyd step: (X, C) -> centers, or centers and assignments."""

from __future__ import annotations

from verify.conformance.property import Role
from verify.conformance.roles import _clustering as clustering

POINTS = frozenset({"x", "points", "data", "xs", "samples", "p", "a", "pts", "tokens"})
CENTERS = frozenset(
    {"c", "centers", "centroids", "init", "means", "centres", "cs", "mu", "old", "b", "c0"}
)

ROLE = Role(
    "lloyd_step",
    "(X, C) -> centers, or (centers, assignments)",
    clustering.PROPERTIES,
    (POINTS, CENTERS),
    clustering.EXPLANATIONS,
    lambda s: clustering.found_rules(s, steps=False),
    None,
    clustering.main,
    clustering.right_answer,
    clustering.error,
    clustering.probes(),
    lambda s: clustering.ask_simply(s, steps=False),
    lambda s: clustering.takes_batches(s, steps=False),
)
