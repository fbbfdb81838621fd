"""How fast it is, as ratios measured in one run. One module a bench, each with
`measure(rounds=…) -> Table` or a list of tables."""

NAMES = ("rationals", "surrogate", "lloyd", "sampling", "multistep", "attention", "train")
"""Modules of this package, quick ones first."""

ON_GPU = ("attention", "multistep", "train")
"""Those that `--device cuda` can measure."""
