r"""Training many transformers side by side.

A `Trainer` holds S models of one shape, with a seed each and, if wanted, regularizer, temperature
and learning rate of their own. All S do one step as one computation, and each of them sees the
tasks of its own stream, so that it comes out as if it had been trained alone (up to rounding).

One step: sample B tasks a model, one transformer layer, the smoothed loss (mean over tasks and
points), Adam. Every `validate_every` steps all models are measured on the same held-out tasks
against one Lloyd step, and the learning rate of a model is halved when it has not improved for
`patience` such looks.

A model whose loss or gradient is no longer finite has diverged: it keeps its last parameters, is
not trained further, and its later losses are recorded as NaN.

Source: the paper's Section 3 and Appendices E, F. Its text does not give the patience.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch

from constructions.arrays import checked_count, checked_scalar
from constructions.errors import InputError
from constructions.fast import FastTransformer
from constructions.objective import (
    Points,
    centered,
    inertia,
    lloyd_step,
    smoothed_loss,
    squared_distances,
)
from constructions.streams import sample, stream
from constructions.surrogates import exponent_of
from constructions.tasks import TaskDistribution
from constructions.trainable import TrainableTransformer

Tensor = Any  # torch.Tensor

PER_MODEL = ("regularizer", "temperature", "learning_rate", "log_loss")
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam
IMPROVEMENT = 1e-4  # relative; less does not count for the plateau
INITIAL, TRAINING, VALIDATION = range(3)  # purposes of random streams


@dataclass(frozen=True)
class Settings:
    """What one model is and how it is trained.

    Parameters
    ----------
    d, k, n : coordinates, clusters, points of a task
    code, inverse_temperature, bias, attention, qkv_multiplier, dropout : see
        `TrainableTransformer`; with dropout, training takes the plain model, which is many times
        slower, and validation drops nothing
    family, scale, equal_weights, isotropic, scaling : see `TaskDistribution`
    regularizer, temperature : see `constructions.surrogates.surrogate`
    log_loss : train on the mean logarithm of the tasks' losses
    relative_temperature : the temperature of a task is `temperature` times the median of its
        squared distances between points and initial centers
    batch : tasks in a step
    learning_rate : of Adam, at the start
    patience : validations without improvement before it is halved
    validate_every : steps
    validation_batches : batches of `batch` held-out tasks

    Raises
    ------
    InputError
        a parameter out of its range.
    """

    d: int = 4
    k: int = 6
    n: int = 512
    code: str = "binary"
    inverse_temperature: float = 1.0
    bias: bool = True
    family: str = "normal"
    scale: float = 0.1
    equal_weights: bool = True
    isotropic: bool = True
    scaling: str = "per-dimension"
    regularizer: str | float = "l2"
    temperature: float = 0.1
    log_loss: bool = False
    relative_temperature: bool = False
    batch: int = 32
    learning_rate: float = 0.01
    patience: int = 10
    validate_every: int = 50
    validation_batches: int = 10
    attention: str = "softmax"
    qkv_multiplier: int = 1
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _ = self.distribution, self.model
        exponent_of(self.regularizer)
        for name in ("temperature", "learning_rate"):
            checked_scalar(name, getattr(self, name), "a positive finite number")
        for name in ("batch", "validate_every", "validation_batches"):
            checked_count(name, getattr(self, name), 1)
        checked_count("patience", self.patience, 0)

    @property
    def distribution(self) -> TaskDistribution:
        """What the tasks come from."""
        names = [f.name for f in fields(TaskDistribution)]
        return TaskDistribution(**{name: getattr(self, name) for name in names})

    @property
    def model(self) -> TrainableTransformer:
        """The function whose parameters are trained."""
        names = [f.name for f in fields(TrainableTransformer)]
        return TrainableTransformer(**{name: getattr(self, name) for name in names})


class Look(NamedTuple):
    """One validation of S models.

    Attributes
    ----------
    step : int
    loss : S floats, the smoothed training loss, mean since the look before
    relative : S floats, inertia on held-out tasks divided by that after one Lloyd step
    learning_rate : S floats, before any halving
    """

    step: int
    loss: list[float]
    relative: list[float]
    learning_rate: list[float]


class Trainer:
    """S models in training.

    Parameters
    ----------
    settings : one for each model; only the fields in `PER_MODEL` may differ
    seeds : S integers >= 0
    device : "cpu" or "cuda"
    dtype : torch.float32 or torch.float64

    Attributes
    ----------
    step : int, steps done
    diverged : S integers, the step at which a model was given up, 0 if it was not
    redraws : S integers, sampled values that were not finite and drawn again

    Raises
    ------
    InputError
        no models, or settings that do not fit together.
    """

    def __init__(
        self,
        settings: Sequence[Settings],
        seeds: Sequence[int],
        device: str = "cpu",
        dtype: Any = torch.float32,
    ) -> None:
        self.settings, self.seeds = tuple(settings), tuple(seeds)
        _check_stack(self.settings, self.seeds)
        first = self.settings[0]
        self.fast = FastTransformer(replace(first.model, dropout=0.0))
        self.distribution = first.distribution
        self.dtype = dtype
        S = len(seeds)

        def column(name: str) -> Tensor:
            values = [float(getattr(s, name)) for s in self.settings]
            return torch.tensor(values, dtype=torch.float64, device=device)

        initial = [self.fast.model.initial(stream(device, s, INITIAL)) for s in seeds]
        self._shapes = {name: tuple(t.shape) for name, t in initial[0].items()}
        self.flat = torch.stack([torch.cat([t.flatten() for t in p.values()]) for p in initial])
        self.flat = self.flat.to(dtype)
        self.moments = torch.zeros(2, *self.flat.shape, dtype=dtype, device=device)
        self.temperatures, self.learning_rate = column("temperature"), column("learning_rate")
        self.best = torch.full((S,), math.inf, dtype=torch.float64, device=device)
        self.stale = torch.zeros(S, dtype=torch.int64, device=device)
        self.diverged = torch.zeros(S, dtype=torch.int64, device=device)
        self.redraws = torch.zeros(S, dtype=torch.int64)
        self.step = 0
        self._losses = torch.zeros(S, dtype=torch.float64, device=device)
        self._streams = [stream(device, s, TRAINING) for s in seeds]
        self._held_out: list[tuple[Points, Tensor]] = []
        self._yardstick = torch.zeros((), dtype=torch.float64, device=device)

    def parameters(self, flat: Tensor | None = None) -> dict[str, Tensor]:
        """The parameters by name, (S, d_emb, d_emb) and (S, d_emb)."""
        flat = self.flat if flat is None else flat
        parts = flat.split([math.prod(shape) for shape in self._shapes.values()], dim=1)
        return {
            name: part.unflatten(1, shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def losses(self, flat: Tensor, X: Tensor, C: Tensor) -> Tensor:
        """The training losses (S,) on points (S, B, n, d) and centers (S, B, k, d)."""
        points = centered(X)
        parameters = self.parameters(flat)
        if self.settings[0].dropout:
            moved = self._dropped(parameters, X, C).mT - points.median
        else:
            moved = self.fast.step(self.fast.prepare(parameters, points), C.mT - points.median)
        regularizers = [s.regularizer for s in self.settings]
        temperatures = self.temperatures
        if self.settings[0].relative_temperature:
            temperatures = temperatures[:, None] * typical_distance(points, C)
        loss = smoothed_loss(points.X, moved, temperatures, regularizers)
        if any(s.log_loss for s in self.settings):
            log = torch.tensor([[s.log_loss] for s in self.settings], device=loss.device)
            loss = torch.where(log, loss.log(), loss)
        return loss.mean(dim=1)

    def _dropped(self, parameters: Mapping[str, Tensor], X: Tensor, C: Tensor) -> Tensor:
        """The new centers (S, B, k, d) with dropout, drawn from the stream of each model."""
        model = self.settings[0].model
        each = [
            model({name: p[s] for name, p in parameters.items()}, X[s], C[s], generator)
            for s, generator in enumerate(self._streams)
        ]
        return torch.stack(each)

    def advance(self) -> None:
        """One training step of all models."""
        tasks = sample(self.distribution, self._streams, self.settings[0].batch, self.dtype)
        self.redraws += tasks.redraws.sum(dim=1)
        flat = self.flat.detach().requires_grad_()
        losses = self.losses(flat, tasks.X, tasks.C)
        (gradient,) = torch.autograd.grad(losses.sum(), flat)
        self.step += 1
        sane = torch.isfinite(losses.detach()) & torch.isfinite(gradient).all(dim=1)
        self.diverged[~sane & (self.diverged == 0)] = self.step
        alive = (self.diverged == 0)[:, None]
        self._adam(torch.where(alive, gradient, 0.0), alive)
        self._losses += losses.detach()

    def _adam(self, gradient: Tensor, alive: Tensor) -> None:
        first, second = self.moments
        first.lerp_(gradient, 1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        scale = math.sqrt(1 - BETAS[1] ** self.step)
        rate = (self.learning_rate / (1 - BETAS[0] ** self.step)).to(self.dtype)[:, None]
        move = rate * first / (second.sqrt() / scale + EPSILON)
        self.flat -= torch.where(alive, move, 0.0)

    def validate(self) -> Look:
        """Measure all models on the held-out tasks, and halve learning rates on plateaus."""
        since = (self.step - 1) % self.settings[0].validate_every + 1
        loss = self._losses / since
        relative = self.relative()
        lost = self.diverged > 0
        loss[lost] = relative[lost] = math.nan
        look = Look(self.step, loss.tolist(), relative.tolist(), self.learning_rate.tolist())
        better = relative < self.best * (1 - IMPROVEMENT)
        self.best = torch.where(better, relative, self.best)
        self.stale = torch.where(better, 0, self.stale + 1)
        tired = self.stale > self.settings[0].patience
        self.learning_rate = torch.where(tired, self.learning_rate / 2, self.learning_rate)
        self.stale[tired] = 0
        self._losses.zero_()
        return look

    def relative(self) -> Tensor:
        """Inertia after the transformer, divided by that after one Lloyd step: (S,) float64.

        Sums over the held-out tasks, which depend on the distribution only: all models of all
        seeds are measured on the same.
        """
        self._prepare()
        parameters = self.parameters()
        S = len(self.seeds)
        total = torch.zeros(S, dtype=torch.float64, device=self.flat.device)
        with torch.no_grad():
            for points, C in self._held_out:
                points = Points(*(a.expand(S, -1, -1, -1) for a in points))
                C = C.expand(S, -1, -1, -1)
                new = self.fast.step(self.fast.prepare(parameters, points), C)
                total += inertia(points.X, new).double().sum(dim=1)
        return total / self._yardstick

    def _prepare(self) -> None:
        if self._held_out:
            return
        held_out = stream(str(self.flat.device), VALIDATION)
        for _ in range(self.settings[0].validation_batches):
            tasks = sample(self.distribution, [held_out], self.settings[0].batch, self.dtype)
            points = centered(tasks.X)
            C = tasks.C.mT - points.median
            self._held_out.append((points, C))
            stepped, _ = lloyd_step(points.X, C)
            self._yardstick += inertia(points.X, stepped).double().sum()

    def state(self) -> dict[str, Tensor]:
        """Everything that the future of the training depends on, as tensors."""
        return {
            **{name: getattr(self, name) for name in _STATE},
            "step": torch.tensor([self.step]),
            "streams": torch.stack([generator.get_state() for generator in self._streams]),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned, to the same bits."""
        for name in _STATE:
            mine, other = getattr(self, name), state[name]
            if mine.shape != other.shape or mine.dtype != other.dtype:
                raise InputError(
                    f"the saved {name} is {other.dtype} of shape {tuple(other.shape)}; this "
                    f"training needs {mine.dtype} of shape {tuple(mine.shape)}"
                )
            setattr(self, name, other.clone().to(mine.device))
        self.step = int(state["step"])
        for generator, saved in zip(self._streams, state["streams"], strict=True):
            generator.set_state(saved.clone())


_STATE = (
    "flat",
    "moments",
    "learning_rate",
    "best",
    "stale",
    "diverged",
    "redraws",
    "_losses",
)


def typical_distance(points: Points, C: Tensor) -> Tensor:
    """The median squared distance between points and centers (S, B, k, d), 1 where that is 0."""
    r = squared_distances(points.X, C.mT - points.median)
    middle = r.flatten(2).median(dim=2).values.double()
    return torch.where(middle > 0, middle, 1.0)


def _check_stack(settings: Sequence[Settings], seeds: Sequence[int]) -> None:
    if not seeds or len(settings) != len(seeds):
        raise InputError(
            f"{len(settings)} settings for {len(seeds)} seeds; expected one for each, at least one"
        )
    for seed in seeds:
        checked_count("seed", seed, 0)
    for other in settings[1:]:
        for f in fields(Settings):
            a, b = getattr(settings[0], f.name), getattr(other, f.name)
            if f.name not in PER_MODEL and a != b:
                raise InputError(
                    f"models trained together share {f.name}, got {a!r} and {b!r}; only "
                    f"{', '.join(PER_MODEL)} may differ"
                )
