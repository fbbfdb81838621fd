"""Which configurations each learning claim needs, and at which size they are trained.

A row of `GRIDS` is named like its claim. Plans of a sweep are made of rows (`verify.experiments.
plans`), and a claim finds the cells it needs by the same row (`verify.experiments.results`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from constructions.tasks import FAMILIES
from constructions.training import Settings
from verify.experiments.cells import Cell

Options = dict[str, Any]  # fields of Settings, and the size of a run: "seeds", "steps"


@dataclass(frozen=True)
class Scale:
    """How large the runs of a grid are.

    Attributes
    ----------
    n, steps, seeds : points of a task, training steps, models a configuration
    sizes : the values of n that are compared
    options : other settings that differ from the defaults
    """

    name: str
    n: int
    steps: int
    seeds: int
    sizes: tuple[int, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def cell(self, options: Options) -> Cell:
        """The cell of a configuration, which may have "seeds" and "steps" of its own."""
        size = {"seeds": self.seeds, "steps": self.steps, "n": self.n}
        chosen = size | dict(self.options) | options
        seeds, steps = chosen.pop("seeds"), chosen.pop("steps")
        return Cell(Settings(**chosen), tuple(range(seeds)), steps)


SCALES = {
    scale.name: scale
    for scale in (
        Scale("paper", 512, 10_000, 10, (128, 256, 512, 1024)),
        Scale("laptop", 128, 5_000, 5, (128, 256, 512)),
        Scale("smoke", 32, 100, 5, (32, 64), (("validate_every", 20), ("validation_batches", 2))),
    )
}
"""`paper`: the paper's setting, as far as it is known. `laptop`: the same questions for two cores
and a night. `smoke`: whether everything works; the numbers mean nothing."""

CODES = ("one_hot", "binary")
REGULARIZERS = ("l2", "ne")
LEANER = ("scalar", "circle", "half")


def product(**choices: Any) -> list[Options]:
    """Every combination of the choices; a single value stands for one choice."""
    lists = [v if isinstance(v, tuple) else (v,) for v in choices.values()]
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*lists)]


def _contested(scale: Scale) -> list[Options]:
    """At temperature 1 two sources contradict each other about L2, and five seeds could not tell.
    So L2 is trained as long, and from as many seeds, as in the paper."""
    size = {"laptop": {"seeds": SCALES["paper"].seeds, "steps": SCALES["paper"].steps}}
    l2 = product(code=CODES, regularizer="l2", temperature=1.0)
    ne = product(code=CODES, regularizer="ne", temperature=1.0)
    return [*(options | size.get(scale.name, {}) for options in l2), *ne]


def _points(scale: Scale) -> list[Options]:
    """L2 at temperature 1 is trained as long as in `learn-tau-1`, which shares its cells."""
    size = SCALES["paper"]
    longer = {"seeds": size.seeds, "steps": size.steps} if scale.name == "laptop" else {}
    grid = product(temperature=(0.1, 1.0), regularizer=REGULARIZERS, n=scale.sizes, code=CODES)
    contested = {"temperature": 1.0, "regularizer": "l2"}
    return [o | (longer if contested.items() <= o.items() else {}) for o in grid]


def _families(scale: Scale) -> list[Options]:
    every = product(family=FAMILIES, code=CODES, regularizer=REGULARIZERS, temperature=(0.1, 1.0))
    return sorted(every, key=lambda o: (o["temperature"], o["regularizer"]))


def _clusters(scale: Scale) -> list[Options]:
    narrow = product(temperature=(0.1, 1.0), regularizer=REGULARIZERS, k=(6, 10, 16, 25), d=4)
    regularizers = REGULARIZERS if scale.name == "paper" else ("l2",)
    wide = product(temperature=(0.1, 1.0), regularizer=regularizers, k=(6, 10, 16, 25), d=32)
    return [o | {"code": code} for o in narrow + wide for code in CODES]


def _rates(scale: Scale) -> list[Options]:
    regularizers = REGULARIZERS if scale.name == "paper" else ("l2",)
    return product(
        d=(4, 32), learning_rate=(0.001, 0.01, 0.1, 1.0), code="one_hot", regularizer=regularizers
    )


def _leaner(scale: Scale) -> list[Options]:
    return [
        *product(code=(*CODES, *LEANER)),
        *product(code=CODES, regularizer=1.5),
        *product(code=CODES, log_loss=True),
    ]


def _cauchy(scale: Scale) -> list[Options]:
    """The Cauchy family as it is, and three remedies. On normal tasks the median squared distance
    between points and initial centers is 0.47, so 0.2 of it is about the temperature 0.1."""
    return [
        *product(family=("normal", "cauchy"), code="one_hot"),
        *product(family="cauchy", code="one_hot", regularizer=1.5),
        *product(family=("normal", "cauchy"), code="one_hot", scaling="common"),
        *product(family="cauchy", code="one_hot", relative_temperature=True, temperature=0.2),
        *product(
            family="cauchy",
            code="one_hot",
            scaling="common",
            relative_temperature=True,
            temperature=0.2,
        ),
    ]


GRIDS: dict[str, Callable[[Scale], list[Options]]] = {
    "learn-tau-0.1": lambda s: product(code=(*CODES, "none"), regularizer=REGULARIZERS),
    "learn-tau-1": _contested,
    "learn-code-needed": lambda s: product(code=(*CODES, "none")),
    "learn-l2-vs-ne": lambda s: product(
        temperature=(0.1, 0.25, 1.0), code=CODES, regularizer=REGULARIZERS
    ),
    "learn-tau-speed": lambda s: product(
        temperature=(0.1, 0.25, 1.0), code=CODES, regularizer=REGULARIZERS
    ),
    "multi-step": lambda s: product(code=(*CODES, "none")),
    "length-generalization": lambda s: product(code=CODES),
    "shifted-normal": lambda s: product(code=CODES),
    "leaner-still": _leaner,
    "loss-surface": lambda s: product(code=CODES, d=(4, 32)),
    "cauchy-gap": _cauchy,
    "cross-family": lambda s: product(family=FAMILIES, code=CODES),
    "learn-families": _families,
    "learn-oh-vs-bn": lambda s: product(d=(4, 8, 16, 32), code=CODES, temperature=0.25),
    "learn-n": _points,
    "learn-d": lambda s: product(d=(4, 8, 16, 32), code=CODES),
    "time-to-converge": lambda s: [
        *product(d=16, k=16, code=CODES),
        *product(d=32, k=25, code=CODES),
    ],
    "learn-lr": _rates,
    "learn-k": _clusters,
}
"""The configurations of each row at a scale, in settings that differ from the defaults. The rows
that others build on, and the most contested ones, come first."""


def cells(row: str, scale: str) -> list[Cell]:
    """The cells of one row."""
    return [SCALES[scale].cell(options) for options in GRIDS[row](SCALES[scale])]


def all_cells(scale: str, rows: tuple[str, ...] = ()) -> list[Cell]:
    """The distinct cells of some rows (of all, by default), in the order of the rows."""
    return list(dict.fromkeys(cell for row in rows or GRIDS for cell in cells(row, scale)))
