"""Plans of sweeps: the three named ones, or a TOML file.

steps = 2000                      # training steps of every cell
seeds = 5                         # models a cell: seeds 0 ... 4

[settings]                        # of every cell; what is not named has its default
n = 128

[[grid]]                          # every combination of what is listed
code = ["one_hot", "binary"]
temperature = [0.1, 1.0]

[[grid]]                          # and these besides
family = "cauchy"
learning_rate = 0.001
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from constructions.errors import InputError
from constructions.training import Settings
from verify.experiments.cells import Cell
from verify.experiments.grids import SCALES, all_cells, product

_TOP = ("steps", "seeds", "settings", "grid")
_MOST = 10_000  # seeds, and cells of a grid: more is a slip of the finger
_DEFAULT = Settings()


def read(plan: str) -> list[Cell]:
    """The cells of a plan: the name of a scale, or the path of a TOML file.

    Raises
    ------
    InputError
        no such plan, a key that is not known, or a value out of its range.
    """
    if plan in SCALES:
        return all_cells(plan)
    path = Path(plan)
    if not path.suffix == ".toml":
        raise InputError(f"no plan {plan!r}; expected {', '.join(SCALES)}, or a .toml file")
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}") from None
    try:
        return _cells(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _cells(data: dict[str, Any]) -> list[Cell]:
    _known(data, _TOP, "")
    steps, seeds = _count(data, "steps", 2**31 - 1), _count(data, "seeds", _MOST)
    common = _table(data.get("settings", {}), "[settings]")
    grids = data.get("grid", [{}])
    if not isinstance(grids, list):
        raise InputError("grid is not a list of tables; write [[grid]]")
    found: dict[Cell, None] = {}
    for i, grid in enumerate(grids, 1):
        choices = common | _table(grid, f"[[grid]] {i}")
        lists = {k: tuple(v) if isinstance(v, list) else v for k, v in choices.items()}
        for name, values in lists.items():
            if values == ():
                raise InputError(f"[[grid]] {i}: {name} lists nothing")
        count = math.prod(len(v) for v in lists.values() if isinstance(v, tuple))
        if count > _MOST:
            raise InputError(f"[[grid]] {i} has {count} combinations; allowed: at most {_MOST}")
        for options in product(**lists):
            typed = {name: _typed(name, value) for name, value in options.items()}
            found[Cell(Settings(**typed), tuple(range(seeds)), steps)] = None
    if not found:
        raise InputError("grid lists nothing; write [[grid]] and what to vary, or leave it out")
    return list(found)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is not a table")
    _known(value, [f.name for f in fields(Settings)], f" in {where}")
    return value


def _known(table: dict[str, Any], allowed: Any, where: str) -> None:
    for name in table:
        if name not in allowed:
            raise InputError(f"unknown key {name!r}{where}; allowed: {', '.join(allowed)}")


def _count(data: dict[str, Any], name: str, most: int) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        found = f"{name} = {value!r}" if name in data else f"{name} is missing"
        raise InputError(f"{found}; expected an integer from 1 to {most}")
    return value


def _typed(name: str, value: Any) -> Any:
    """The value in the type of the setting: TOML's 1 will do for 1.0."""
    default = getattr(_DEFAULT, name)
    fits = isinstance(value, type(default)) and isinstance(value, bool) == isinstance(default, bool)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "regularizer" and (number or isinstance(value, str)):
        return float(value) if number else value
    if isinstance(default, float) and number:
        return float(value)
    if not fits:
        raise InputError(f"{name} = {value!r}; expected {_article(default)}, or a list of them")
    return value


def _article(default: Any) -> str:
    kinds = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
    return kinds[type(default)]
