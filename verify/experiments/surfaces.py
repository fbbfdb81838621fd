r"""The training loss around trained models: planes and lines through them, and their valleys.

A slice is theta + a u + b v, or theta + t u, with coefficients from -1 to 1 and random directions
normalized by filter (Li, Xu, Taylor, Studer, Goldstein, "Visualizing the loss landscape of neural
nets", 2018): a filter is a row of a matrix together with its bias, which is what makes one entry
of a query, key or value; that of a direction is a Gaussian vector scaled to the length of the
model's. So a coefficient of 1 changes every filter by as much as it has, whatever the widths and
scales of the layers are. Biases move, unlike in that work, where they are left out.

The loss is that of the training, in float64, on one batch of held-out tasks, the first one of
`verify.experiments.evaluate`: the same function at all points, and the same tasks for all cells of
one distribution. Points of a slice are models of one stack, computed together.

Slices of a model:

    "plane 0", ...   25 x 25 values, two directions of their own each
    "line 0", ...    81 values, one direction each

Source: the paper's Section 3 and Fig. 3, which do not say how their directions were drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from constructions.streams import sample, stream
from constructions.training import Settings, Trainer
from verify.experiments.cells import Cell
from verify.experiments.evaluate import BATCH, STREAM
from verify.experiments.trained import read_trained

Tensor = Any  # torch.Tensor
Array = Any  # numpy.ndarray
Row = dict[str, Any]

PLANES, GRID = 2, 25  # an odd number of values: the model itself is in the middle
LINES, POINTS = 20, 81
DIRECTIONS = 4  # purpose of the random stream; 0 to 3 are taken
STACK = 25  # points computed together


def surfaces(cell: Cell, folder: Path) -> Iterator[Row]:
    """The rows of `results.SURFACE_SCHEMA` for the models of a finished cell in a folder.

    Raises
    ------
    InputError
        the folder holds no trained models.
    """
    parameters = read_trained(folder).parameters
    loss = Loss(cell.settings, cell.device)
    for s, seed in enumerate(cell.seeds):
        model = {name: stack[s] for name, stack in parameters.items()}
        for name, values in slices(model, seed, loss).items():
            for (i, *rest), value in np.ndenumerate(values):
                yield {
                    "cell": cell.name,
                    "seed": seed,
                    "slice": name,
                    "i": i,
                    "j": rest[0] if rest else 0,
                    "value": float(value),
                }


def slices(model: Mapping[str, Tensor], seed: int, loss: Loss) -> dict[str, Array]:
    """Planes (25, 25) and lines (81,) through one model, by name. Directions depend on the seed."""
    found = {}
    for p in range(PLANES):
        u, v = _directions(model, 2, seed, 0, p)
        t = _coefficients(GRID)
        pairs = torch.cartesian_prod(t, t)
        values = loss([_moved(model, (u, v), pair) for pair in pairs])
        found[f"plane {p}"] = values.reshape(GRID, GRID)
    for p in range(LINES):
        (u,) = _directions(model, 1, seed, 1, p)
        found[f"line {p}"] = loss([_moved(model, (u,), (t,)) for t in _coefficients(POINTS)])
    return found


def _directions(model: Mapping[str, Tensor], count: int, *key: int) -> list[dict[str, Tensor]]:
    generator = stream("cpu", *key, DIRECTIONS)  # zeros at the end of a key would not count
    return [direction(model, generator) for _ in range(count)]


def _coefficients(count: int) -> Tensor:
    """From -1 to 1, with an exact 0 in the middle."""
    half = count // 2
    return torch.arange(-half, half + 1, dtype=torch.float64) / half


def _moved(
    model: Mapping[str, Tensor], directions: Sequence[Mapping[str, Tensor]], by: Sequence[Any]
) -> dict[str, Tensor]:
    return {
        name: value + sum(t * u[name] for t, u in zip(by, directions, strict=True))
        for name, value in model.items()
    }


def direction(model: Mapping[str, Tensor], generator: Any) -> dict[str, Tensor]:
    """A random direction, normalized by filter.

    Parameters
    ----------
    model : float64 matrices (r, D) and biases (r,) `name` and `name_bias`, of one model
    generator : torch.Generator

    Returns
    -------
    the same names and shapes; a filter of zeros has the direction 0
    """
    found = {}
    for name in sorted(n for n in model if not n.endswith("_bias")):
        bias = model.get(f"{name}_bias")
        filters = model[name] if bias is None else torch.cat([model[name], bias[:, None]], dim=1)
        drawn = torch.randn(filters.shape, generator=generator, dtype=filters.dtype)
        drawn *= filters.norm(dim=1, keepdim=True) / drawn.norm(dim=1, keepdim=True)
        found[name] = drawn[:, : model[name].shape[1]]
        if bias is not None:
            found[f"{name}_bias"] = drawn[:, -1]
    return found


class Loss:
    """The training loss of many models on one batch of held-out tasks.

    Parameters
    ----------
    settings : of the training; nothing is dropped here
    device : "cpu" or "cuda"
    """

    def __init__(self, settings: Settings, device: str = "cpu") -> None:
        settings = replace(settings, dropout=0.0)
        # a trainer of one stack knows the loss of every setting; nothing is trained
        self._trainer = Trainer([settings] * STACK, range(STACK), device, torch.float64)
        tasks = sample(settings.distribution, [stream("cpu", STREAM)], BATCH)
        X, C = (a.double().to(device) for a in (tasks.X, tasks.C))
        self._tasks = [a.expand(STACK, -1, -1, -1) for a in (X, C)]
        self._names = settings.model.names
        self._device = device

    def __call__(self, models: Sequence[Mapping[str, Tensor]]) -> Array:
        """One number a model, in float64; infinite where it is not a number."""
        flat = torch.stack(
            [torch.cat([m[name].flatten() for name in self._names]) for m in models]
        ).to(self._device)
        found = []
        for start in range(0, len(flat), STACK):
            part = flat[start : start + STACK]
            filled = torch.cat([part, part[:1].expand(STACK - len(part), -1)])
            with torch.no_grad():
                found.append(self._trainer.losses(filled, *self._tasks)[: len(part)].cpu())
        values = torch.cat(found)
        return torch.where(values.isnan(), torch.inf, values).numpy()


@dataclass(frozen=True)
class Valleys:
    """The strict local minima of values on a grid, and where descent leads.

    A minimum is a largest connected set of equal values (neighbors touch, if only at a corner)
    whose other neighbors are all greater. Descent goes to the lowest neighbor, step by step.

    Attributes
    ----------
    values : (rows, columns) or (points,)
    end : of the same shape, the minimum in which descent from there ends: 0, 1, ..., by value
    """

    values: Array
    end: Array

    @classmethod
    def of(cls, values: Array) -> Valleys:
        """Those of values (rows, columns) or (points,), without NaN; infinity is allowed."""
        grid = np.atleast_2d(values)
        level = _levels(grid)
        lowest: dict[int, tuple[float, int]] = {}  # of the neighbors of a level
        for place in np.ndindex(grid.shape):
            for other in _around(place, grid.shape):
                mine, theirs = level[place], level[other]
                if grid[other] < grid[place]:
                    step = (float(grid[other]), int(theirs))
                    lowest[mine] = min(step, lowest.get(mine, step))
        height = {int(level[place]): float(grid[place]) for place in np.ndindex(grid.shape)}
        bottoms = sorted((h, a) for a, h in height.items() if a not in lowest)
        ends = {a: i for i, (_, a) in enumerate(bottoms)}
        for a in sorted(height, key=lambda a: height[a]):  # what a level leads to comes first
            if a in lowest:
                ends[a] = ends[lowest[a][1]]
        end = np.vectorize(ends.__getitem__, otypes=[int])(level)
        return cls(values, end.reshape(np.shape(values)))

    @property
    def count(self) -> int:
        """All minima, those on the border included."""
        return int(self.end.max()) + 1

    @property
    def others(self) -> int:
        """Minima away from the border besides the one that descent from the middle ends in. On the
        border the loss may fall further outside, so that there may be no minimum at all."""
        middle = self.end[tuple(n // 2 for n in self.end.shape)]
        return sum(1 for i in range(self.count) if i != middle and not self._on_border(i))

    @property
    def share(self) -> float:
        """The share of the grid from which descent reaches the lowest minimum."""
        return float(np.mean(self.end == 0))

    def _on_border(self, i: int) -> bool:
        values, mine = self.values, self.end == i
        bottom = np.argwhere(mine & (values == values[mine].min()))
        return bool(np.any((bottom == 0) | (bottom == np.array(values.shape) - 1)))


def _levels(grid: Array) -> Array:
    """A number for each largest connected set of equal values."""
    level = np.full(grid.shape, -1)
    for number, start in enumerate(np.ndindex(grid.shape)):
        todo = [start] if level[start] < 0 else []
        while todo:
            place = todo.pop()
            level[place] = number
            todo += [
                p for p in _around(place, grid.shape) if level[p] < 0 and grid[p] == grid[start]
            ]
    return level


def _around(place: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for i in range(max(0, place[0] - 1), min(shape[0], place[0] + 2)):
        for j in range(max(0, place[1] - 1), min(shape[1], place[1] + 2)):
            if (i, j) != place:
                yield i, j


def profile(lines: Sequence[Array]) -> Array:
    """How the loss rises with the distance from the model: (41,) numbers for the coefficients
    0 ... 1, the median over both ends of all lines of loss / loss of the model - 1."""
    half = POINTS // 2
    ends = [end for v in lines for end in (v[half:], v[half::-1])]
    return np.median([end / end[0] - 1 for end in ends], axis=0)


def difference(p: Array, q: Array) -> float:
    """|p - q| in units of the mean of |p| and |q| (Euclidean), from 0 to 2: of two profiles."""
    return float(2 * np.linalg.norm(p - q) / (np.linalg.norm(p) + np.linalg.norm(q)))
