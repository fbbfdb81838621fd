r"""The paper's clustering tasks: mixtures of five families of distributions, in the unit cube.

A task is n points from a mixture of k components, and k of the points as initial centers:

    m_c uniform in [0, 1]^d,    x = m_c + s_c * z  (lognormal: exp of that),    c drawn by weight,

with z standard in its family, independent in each coordinate, and s_c = `scale`. Anisotropic
tasks multiply each entry of s_c by a uniform number of (0, 1); unequal mixtures draw the weights
uniformly before they are normalized. Then points and centers are scaled into the unit cube.

What is random is kept apart from what is computed: `TaskDistribution.draw` makes a `Draws` of
plain uniform and normal numbers, and `TaskDistribution.assemble` is a function of it, written
against the array API, so that numbers drawn on another device by another generator will do.

Source: the paper's Appendix D; docs/theory/tasks.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from constructions.arrays import (
    Array,
    NumberSystem,
    checked,
    checked_count,
    checked_scalar,
    checked_task,
    quiet,
)
from constructions.errors import InputError
from constructions.recording import noted

FAMILIES = ("normal", "cauchy", "gumbel", "laplace", "lognormal")
SCALINGS = ("per-dimension", "common")
GAUSSIAN = ("normal", "lognormal")  # the families whose noise is normal; the others' is uniform


class Tasks(NamedTuple):
    """A batch of tasks.

    Attributes
    ----------
    X : (B, n, d) float64 points in [0, 1]^d
    C : (B, k, d) float64 initial centers, k of the points drawn without replacement
    redraws : (B,) integers: entries that were drawn again because they were not finite
    """

    X: Array
    C: Array
    redraws: Array


@dataclass(frozen=True)
class Draws:
    """The randomness of a batch of tasks, before it means anything.

    "Uniform" is strictly between 0 and 1: at the ends, quantiles are infinite.

    Attributes
    ----------
    places : (B, k, d) uniform: the mixture centers
    members : (B, n) uniform: which component a point comes from
    noise : (B, n, d) standard normal for the families in `GAUSSIAN`, else uniform
    widths : (B, k, d) uniform, or None for isotropic scales
    shares : (B, k) uniform, or None for equal weights
    """

    places: Array
    members: Array
    noise: Array
    widths: Array | None = None
    shares: Array | None = None


@dataclass(frozen=True)
class TaskDistribution:
    """A distribution of clustering tasks.

    Parameters
    ----------
    family : "normal", "cauchy", "gumbel", "laplace" or "lognormal"
    n, d, k : points, coordinates, clusters; 1 <= k <= n, d >= 1
    scale : positive number, the scale parameter of every component
    equal_weights : whether the components are equally likely
    isotropic : whether all components have the same scale in all coordinates
    scaling : "per-dimension" or "common", see `scale_to_unit_cube`

    Raises
    ------
    InputError
        a parameter out of its range.

    >>> import numpy as np
    >>> tasks = TaskDistribution("laplace", n=100, d=2, k=3).sample(np.random.default_rng(0), 8)
    >>> tasks.X.shape, tasks.C.shape
    ((8, 100, 2), (8, 3, 2))

    Source: the paper's Appendix D; docs/theory/tasks.md, "Sampling".
    """

    family: str = "normal"
    n: int = 512
    d: int = 4
    k: int = 6
    scale: float = 0.1
    equal_weights: bool = True
    isotropic: bool = True
    scaling: str = "per-dimension"

    def __post_init__(self) -> None:
        _one_of("family", self.family, FAMILIES)
        _one_of("scaling", self.scaling, SCALINGS)
        checked_count("d", self.d, 1)
        checked_count("k", self.k, 1)
        checked_count("n", self.n, self.k)
        checked_scalar("scale", self.scale, "a positive finite number")

    def sample(self, rng: np.random.Generator, batch: int = 1) -> Tasks:
        """Tasks in float64.

        Parameters
        ----------
        rng : numpy Generator. Give each worker its own, spawned from one `SeedSequence`.
        batch : number of tasks, at least 1

        Raises
        ------
        InputError
            `rng` is not a Generator, or `batch` is not a positive integer.
        """
        X, redraws = self.points(rng, batch)
        X = scale_to_unit_cube(X, scaling=self.scaling)
        # Points are exchangeable, so the first k are k of them drawn without replacement.
        return Tasks(X, X[:, : self.k].copy(), redraws)

    def points(self, rng: np.random.Generator, batch: int = 1) -> tuple[Array, Array]:
        """The points of `sample` before they are scaled, (B, n, d), and the redraws (B,).

        A value that overflows (a scale of 100 will do for lognormal tasks) is drawn again, which
        conditions the distribution on finite values. With the paper's scales it does not occur.
        Takes what `sample` takes and raises what it raises.
        """
        draws = self.draw(rng, batch)
        X = self.assemble(draws)
        redraws = np.zeros(batch, dtype=np.int64)
        while not np.all(finite := np.isfinite(X)):
            redraws += np.sum(~finite, axis=(1, 2))
            draws.noise[~finite] = self._noise(rng, (int(np.sum(~finite)),))
            X = self.assemble(draws)
        return X, redraws

    def draw(self, rng: np.random.Generator, batch: int = 1) -> Draws:
        """The randomness of `batch` tasks. Takes what `sample` takes and raises what it raises."""
        if not isinstance(rng, np.random.Generator):
            raise InputError(
                f"rng must be a numpy Generator, got {type(rng).__name__}; "
                "numpy.random.default_rng(seed) makes one"
            )
        batch = checked_count("batch", batch, 1)
        parts = (batch, self.k, self.d)
        return Draws(
            places=open_uniform(rng, parts),
            members=open_uniform(rng, (batch, self.n)),
            noise=self._noise(rng, (batch, self.n, self.d)),
            widths=None if self.isotropic else open_uniform(rng, parts),
            shares=None if self.equal_weights else open_uniform(rng, parts[:2]),
        )

    @quiet
    def assemble(self, draws: Draws) -> Array:
        """The points (B, n, d) that the draws stand for, not yet scaled into the unit cube.

        Runs in the library, element type and device of the draws. Values that overflow are
        infinite.

        Raises
        ------
        InputError
            draws of another distribution, of different libraries or devices, or not finite.
        """
        draws = self._checked(draws)
        xp = array_namespace(draws.noise)
        batch, k, d = draws.places.shape
        index = noted("components", self.components(draws))
        index = xp.reshape(index + k * xp.arange(batch, device=device_of(index))[:, None], (-1,))

        def of_component(table: Array) -> Array:
            rows = xp.take(xp.reshape(table, (batch * k, d)), index, axis=0)
            return xp.reshape(rows, draws.noise.shape)

        spread = noted("standard variate", standard(self.family, draws.noise)) * float(self.scale)
        if draws.widths is not None:
            spread = spread * of_component(draws.widths)
        noted("spread", spread)
        X = noted("argument", of_component(draws.places) + spread)
        return xp.exp(X) if self.family == "lognormal" else X

    def components(self, draws: Draws) -> Array:
        """Which component each point comes from: (B, n) integers below k."""
        xp = array_namespace(draws.members)
        shares = draws.shares
        if shares is None:
            shares = xp.ones_like(draws.places[..., 0])
        limits = xp.cumulative_sum(shares, axis=-1)
        limits = limits[..., :-1] / limits[..., -1:]
        passed = draws.members[..., None, :] >= limits[..., :, None]
        return xp.sum(xp.astype(passed, xp.int64), axis=-2)

    def _checked(self, draws: Draws) -> Draws:
        wanted = {
            "places": (self.k, self.d),
            "members": (self.n,),
            "noise": (self.n, self.d),
            "widths": None if self.isotropic else (self.k, self.d),
            "shares": None if self.equal_weights else (self.k,),
        }
        given = {name: getattr(draws, name) for name in wanted}
        named = {name: value for name, value in given.items() if value is not None}
        system, arrays = checked(**named)
        system.require_float("a task", "convert the draws to floats")
        found = dict(zip(named, arrays, strict=True))
        batch = tuple(found["noise"].shape[:1])
        for name, shape in wanted.items():
            have = tuple(found[name].shape) if name in found else None
            if have != (None if shape is None else (*batch, *shape)):
                raise InputError(
                    f"the draws have {name} of shape {have}; {self} takes "
                    + ("none" if shape is None else f"(batch, {', '.join(map(str, shape))})")
                )
        return Draws(**found)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        if self.family in GAUSSIAN:
            return rng.standard_normal(shape)
        return open_uniform(rng, shape)


def open_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Uniform on the odd multiples of 2^-53: strictly inside (0, 1), symmetric about 1/2."""
    return (rng.integers(2**52, size=shape) + 0.5) * 2.0**-52


def standard(family: str, noise: Array) -> Array:
    """The standard variate of a family from its noise (see `Draws`): the quantile function, or
    the noise itself where that is normal. Finite for every float strictly between 0 and 1."""
    if family in GAUSSIAN:
        return noise
    xp = array_namespace(noise)
    if family == "gumbel":
        return -xp.log(-xp.log(noise))
    # Mirror the upper half: 1 - noise is exact there, and neither tail loses digits.
    tail = xp.minimum(noise, 1 - noise)
    size = 1 / xp.tan(math.pi * tail) if family == "cauchy" else -xp.log(2 * tail)
    return xp.where(noise < 0.5, -size, size)


@quiet
def scale_to_unit_cube(X: Array, C: Array | None = None, scaling: str = "per-dimension") -> Any:
    """Shift and scale points, and centers with them, into [0, 1]^d.

    Every coordinate is shifted by its smallest value (over points and centers together), and
    divided by its own largest shifted value ("per-dimension", the usual min-max scaling) or by the
    largest one of all coordinates ("common", which keeps the k-means problem). What is constant
    becomes 0.

    The result is in [0, 1] exactly, and the largest value is 1 exactly, in floats too: it is a
    quotient a / b of correctly rounded differences with 0 <= a <= b.

    Parameters
    ----------
    X : (..., n, d) finite points in any supported number system
    C : (..., k, d) finite centers, k <= n, or None
    scaling : "per-dimension" or "common"

    Returns
    -------
    X, or the pair (X, C) if centers are given, in the number system of the input

    Raises
    ------
    InputError
        NaN, infinity, wrong shapes, unknown scaling.

    >>> import numpy as np
    >>> scale_to_unit_cube(np.array([[-1.5e308, 7.0], [1.5e308, 7.0]]))
    array([[0., 0.],
           [1., 0.]])

    Source: the paper's Appendix D; docs/theory/tasks.md, "Scaling".
    """
    _one_of("scaling", scaling, SCALINGS)
    if C is not None:
        system, X, C = checked_task(X, C)
        n = X.shape[-2]
        both = rescale(system.xp.concat([X, C], axis=-2), scaling, system)
        return both[..., :n, :], both[..., n:, :]
    system, (X,) = checked(X=X)
    if X.ndim < 2 or 0 in X.shape:
        raise InputError(
            f"X has shape {tuple(X.shape)}; expected (..., points, coordinates), none of them 0"
        )
    return rescale(X, scaling, system)


def rescale(X: Array, scaling: str, system: NumberSystem) -> Array:
    """`scale_to_unit_cube` for points that have been checked."""
    xp = system.xp
    low = xp.min(X, axis=-2, keepdims=True)
    high = xp.max(X, axis=-2, keepdims=True)
    if not system.exact:
        # Halve what spans more than the largest float; elsewhere the factor 1 changes nothing.
        half = xp.where(
            high / 2 - low / 2 > system.max / 2, system.full((1,), 0.5), system.full((1,), 1)
        )
        if scaling == "common":
            half = xp.min(half, axis=-1, keepdims=True)
        X, low, high = X * half, low * half, high * half
    extent = high - low
    if scaling == "common":
        extent = xp.max(extent, axis=-1, keepdims=True)
    noted("extent", extent)
    return (X - low) / xp.where(extent == 0, system.full((1,), 1), extent)


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(
            f"{name} = {value!r} is not known; allowed: " + ", ".join(map(repr, allowed))
        )
