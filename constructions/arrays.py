"""Number systems: which arrays may enter, and how exact constants are made in each of them.

Every function of the non-trainable core is written once, against the Python array API standard.
It runs on numpy, torch, CuPy and array_api_strict arrays of float32 or float64, and on numpy
object arrays of exact rationals (`fractions.Fraction` or python-flint `fmpq`). This module is the
door: it checks what comes in, and hands out a `NumberSystem` that knows the few things the array
API leaves open (how to write 1/2 exactly, and that an indicator must be 0 and 1 *of the system's
own kind*, because `True / 3` is a float while `Fraction(1) / 3` is not).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Rational
from typing import Any, TypeVar

import numpy as np
from array_api_compat import (
    array_namespace,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
)
from array_api_compat import device as device_of
from array_api_compat import numpy as np_compat

from constructions.errors import EmptyClusterError, InputError, NotRationalError
from constructions.rationals import (
    Array,
    as_fractions,
    describe,
    exact_scalar,
    exact_type,
    is_flint,
    map_objects,
    rational_array,
    to_numpy,
)

__all__ = [
    "Array",
    "EmptyClusterError",
    "InputError",
    "NotRationalError",
    "NumberSystem",
    "as_fractions",
    "checked",
    "checked_count",
    "checked_scalar",
    "checked_task",
    "checked_tensors",
    "quiet",
    "rational_array",
]

F = TypeVar("F", bound=Callable[..., Any])

_WHOLE = 2**53  # integers up to here, and no further, are all float64 numbers


@dataclass(frozen=True)
class NumberSystem:
    """One library, element type and device.

    Attributes
    ----------
    xp : the array API namespace
    dtype : the library's dtype (object for rationals)
    device : the library's device, None for rationals
    scalar_type : `float`, `Fraction` or `fmpq`
    """

    xp: Any
    dtype: Any
    device: Any
    scalar_type: Any

    @property
    def exact(self) -> bool:
        return self.scalar_type is not float

    @property
    def eps(self) -> float:
        """Distance from 1 to the next number; 0 for rationals."""
        return 0.0 if self.exact else float(self.xp.finfo(self.dtype).eps)

    @property
    def tiny(self) -> float:
        """Smallest positive number of full precision; 0 for rationals."""
        return 0.0 if self.exact else float(self.xp.finfo(self.dtype).smallest_normal)

    @property
    def max(self) -> float:
        return math.inf if self.exact else float(self.xp.finfo(self.dtype).max)

    def scalar(self, value: Any) -> Any:
        """`value` as one number of the system; a float is taken at its exact binary value."""
        if not self.exact:
            return float(value)
        return exact_scalar(value, self.scalar_type)

    def full(self, shape: tuple[int, ...], value: Any) -> Array:
        if self.exact:
            return np.full(shape, self.scalar(value), dtype=object)
        return self.xp.full(shape, float(value), dtype=self.dtype, device=self.device)

    def array(self, table: Any) -> Array:
        """A numpy table of integers, fractions or floats as an array of the system."""
        table = np.asarray(table)
        if self.exact:
            return map_objects(self.scalar, table)
        return self.xp.asarray(table.astype(np.float64), dtype=self.dtype, device=self.device)

    def indices(self, n: int) -> Array:
        return self.xp.arange(n, device=self.device)

    def indicator(self, mask: Array) -> Array:
        """0 and 1 of the system's own kind where `mask` is False and True."""
        if self.exact:
            return np.where(mask, self.scalar(1), self.scalar(0))
        return self.xp.astype(mask, self.dtype)

    def widened(self, array: Array) -> Array:
        """Numbers in the type that sums are made in: float64 for floats, so that a mean of
        float32 numbers is right to the last bit or two, whatever they cancel."""
        return array if self.exact else self.xp.astype(array, self.xp.float64)

    def narrowed(self, array: Array) -> Array:
        """Back from `widened`, checked for overflow."""
        if self.exact:
            return array
        if not bool(self.xp.all(self.xp.isfinite(array))):
            raise InputError(
                f"a sum of coordinates overflows in {self}; rescale all coordinates by one factor, "
                "or use exact rationals"
            )
        return self.xp.astype(array, self.dtype)

    def mean(self, mask: Array, values: Array) -> Array:
        """Mean of the values (..., n, v) that each row of the mask (..., m, n) marks; 0 for a row
        that marks none: (..., m, v)."""
        if self.exact:
            return self._exact_mean(mask, values)
        weights = self.widened(mask)
        counts = self.xp.sum(weights, axis=-1, keepdims=True)
        counts = self.xp.where(counts == 0, counts + 1, counts)
        # sum first, then divide: exact whenever the sum is
        return self.narrowed(weights @ self.widened(values) / counts)

    def _exact_mean(self, mask: Array, values: Array) -> Array:
        """Adds what is marked, instead of multiplying everything by 0 or 1."""
        out = np.empty((*mask.shape[:-1], values.shape[-1]), dtype=object)
        for place in np.ndindex(mask.shape[:-1]):
            rows = values[place[:-1]][mask[place]]
            out[place] = rows.sum(axis=0) / self.scalar(max(len(rows), 1))
        return out

    def require_float(self, operation: str, instead: str) -> None:
        """Raise `NotRationalError` when the system is exact and `operation` is not rational."""
        if self.exact:
            raise NotRationalError(
                f"{operation} is not rational, so it cannot be computed in {self}; {instead}"
            )

    def __str__(self) -> str:
        if self.exact:
            return f"exact rationals ({self.scalar_type.__name__})"
        library = self.xp.__name__.removeprefix("array_api_compat.")
        return f"{library} {str(self.dtype).rsplit('.', 1)[-1]}"


def quiet(function: F) -> F:
    """No numpy warnings (or errors, under the caller's `numpy.seterr`) from inside: overflow and
    underflow are looked for in the results, and reported as `InputError`."""
    return np.errstate(all="ignore")(function)


def checked(**named: Any) -> tuple[NumberSystem, list[Array]]:
    """Check arrays given by name and bring them into one number system.

    Integer arrays become float64 (an integer array cannot hold a mean). Two float types are
    promoted to the wider one, in every library alike. Nothing is copied to another device.

    Raises
    ------
    InputError
        not an array; complex, boolean, text, half precision, sparse or masked; NaN or infinity,
        with its place; integers beyond 2^53; arrays of different libraries or devices; exact
        beside floating-point numbers.
    """
    kinds = {name: _kind(name, value) for name, value in named.items()}
    arrays = dict(named)
    if "exact" in kinds.values():
        stray = [name for name, kind in kinds.items() if kind not in ("exact", "int")]
        if stray or not all(is_numpy_array(a) for a in arrays.values()):
            name = (
                stray[0] if stray else next(n for n, a in arrays.items() if not is_numpy_array(a))
            )
            exact = next(n for n, kind in kinds.items() if kind == "exact")
            raise InputError(
                f"{exact} holds exact rationals but {name} does not; convert {name} to an object "
                f"array of Fraction (Fraction(x) takes a float at its exact value), or {exact} "
                "to float64"
            )
        scalar_type = exact_type([(n, a) for n, a in arrays.items() if kinds[n] == "exact"])
        system = NumberSystem(np_compat, np.dtype(object), None, scalar_type)
        return system, [map_objects(system.scalar, np.asarray(a)) for a in arrays.values()]
    try:
        xp = array_namespace(*arrays.values())
    except TypeError:
        libraries = ", ".join(
            f"{name} is {type(a).__module__.split('.')[0]}" for name, a in arrays.items()
        )
        raise InputError(f"arrays of different libraries: {libraries}; convert to one") from None
    devices = {name: device_of(a) for name, a in arrays.items()}
    if len({str(d) for d in devices.values()}) > 1:
        places = ", ".join(f"{name} on {d}" for name, d in devices.items())
        raise InputError(f"arrays on different devices: {places}; move them to one")
    device = next(iter(devices.values()))
    plain = [
        _native(a) if kinds[name] == "float" else _floated(name, _native(a), xp)
        for name, a in arrays.items()
    ]
    dtype = plain[0].dtype if len(plain) == 1 else xp.result_type(*plain)
    plain = [a if a.dtype == dtype else xp.astype(a, dtype) for a in plain]
    for name, a in zip(arrays, plain, strict=True):
        _require_finite(name, a, xp)
    return NumberSystem(xp, dtype, device, float), plain


def checked_tensors(**named: Any) -> None:
    """Check torch tensors given by name: one float type, one device, ordinary memory.

    NaN and infinity may pass, so that a model that diverged shows it.

    Raises
    ------
    InputError
        not a torch tensor; integers, booleans or complex numbers; sparse or without data; tensors
        of different element types or devices.
    """
    first: tuple[str, Any] | None = None
    for name, value in named.items():
        if not is_torch_array(value):
            raise InputError(
                f"{name} must be a torch tensor, got {describe(value)}; torch.as_tensor makes one"
            )
        _require_ordinary(name, value)
        if not value.is_floating_point():
            raise InputError(f"{name} has element type {value.dtype}; allowed: float types")
        first = first or (name, value)
        for what, mine, other in (
            ("element type", value.dtype, first[1].dtype),
            ("device", value.device, first[1].device),
        ):
            if mine != other:
                raise InputError(
                    f"{name} has {what} {mine}, but {first[0]} has {other}; convert one of them"
                )


def checked_scalar(name: str, value: Any, allowed: str, *, infinity: bool = False) -> Any:
    """A positive number given as a parameter (a temperature); `inf` only where allowed.

    Returns the number unchanged, so that rationals stay exact.
    """
    number = isinstance(value, (int, float, np.floating, np.integer, Rational))
    if not (number or is_flint(type(value))) or isinstance(value, bool):
        raise InputError(f"{name} must be a number, got {describe(value)}; allowed: {allowed}")
    if isinstance(value, (np.floating, np.integer)):
        value = value.item()
    finite = not isinstance(value, (float, np.floating)) or math.isfinite(value)
    if not (value > 0 and (finite or infinity)):
        raise InputError(f"{name} = {value} is out of range; allowed: {allowed}")
    return value


def checked_count(name: str, value: Any, minimum: int) -> int:
    """An integer parameter of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be an integer, got {describe(value)}")
    if value < minimum:
        raise InputError(f"{name} = {value} is out of range; allowed: integers >= {minimum}")
    return int(value)


def checked_task(X: Any, C: Any) -> tuple[NumberSystem, Array, Array]:
    """Points X (..., n, d) and centers C (..., k, d) with 1 <= k <= n and d >= 1."""
    system, (X, C) = checked(X=X, C=C)
    for name, a, rows in (("X", X, "points"), ("C", C, "centers")):
        if a.ndim < 2:
            raise InputError(
                f"{name} has shape {tuple(a.shape)}; expected (..., {rows}, coordinates): "
                "one row a token, so a single coordinate is a column"
            )
        if 0 in a.shape:
            raise InputError(f"{name} has shape {tuple(a.shape)}: it is empty")
    if X.shape[-1] != C.shape[-1]:
        raise InputError(
            f"X has {X.shape[-1]} coordinates but C has {C.shape[-1]}; they must agree"
        )
    if tuple(X.shape[:-2]) != tuple(C.shape[:-2]):
        raise InputError(f"X has batch shape {tuple(X.shape[:-2])} but C has {tuple(C.shape[:-2])}")
    if C.shape[-2] > X.shape[-2]:
        raise InputError(
            f"k = {C.shape[-2]} centers for n = {X.shape[-2]} points; allowed: 1 <= k <= n"
        )
    return system, X, C


def _kind(name: str, value: Any) -> str:
    """'float', 'int' or 'exact'; raises for everything else."""
    # some releases of array_api_compat take np.matrix for an array; its * is a matrix product
    if not is_array_api_obj(value) or isinstance(value, np.matrix):
        raise InputError(
            f"{name} must be an array (numpy, torch, CuPy, array_api_strict), got "
            f"{describe(value)}; numpy.asarray makes one"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array; fill or drop the masked entries first")
    if is_torch_array(value):
        _require_ordinary(name, value)
    if is_numpy_array(value) and value.dtype == object:
        return "exact"
    text = value.dtype.name if is_numpy_array(value) else str(value.dtype).rsplit(".", 1)[-1]
    if text in ("float32", "float64"):
        return "float"
    if text.startswith(("int", "uint")):
        return "int"
    advice = {
        "bool": "use numbers",
        "float16": "half precision loses the margins; convert to float32 or float64",
        "bfloat16": "half precision loses the margins; convert to float32 or float64",
    }.get(text, "allowed: float32, float64, integers, or exact rationals (object)")
    raise InputError(f"{name} has element type {text}; {advice}")


def _require_ordinary(name: str, tensor: Array) -> None:
    if str(tensor.layout) != "torch.strided" or tensor.is_meta:
        what = "has no data (device meta)" if tensor.is_meta else f"has layout {tensor.layout}"
        raise InputError(f"{name} {what}; allowed: ordinary (strided) tensors with data")


def _native(array: Array) -> Array:
    """Plain memory: no reversed views, no foreign byte order (other libraries cannot read them)."""
    if is_numpy_array(array):
        return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    return array


def _floated(name: str, array: Array, xp: Any) -> Array:
    """Integers as float64, unless that would move one of them onto its neighbor."""
    floats = xp.astype(array, xp.float64)
    fits = (floats >= -_WHOLE) & (floats <= _WHOLE)
    # 2^53 + 1 rounds to 2^53, which is why the limit itself is refused as well
    fits = fits & (floats != _WHOLE) & (floats != -_WHOLE)
    advice = "float64 cannot hold integers from 2^53 on; rescale them or use exact rationals"
    _require(fits, name, array, xp, advice)
    return floats


def _require(good: Array, name: str, array: Array, xp: Any, advice: str) -> None:
    """Raise `InputError` with the first place where `good` is False, and what stands there."""
    if bool(xp.all(good)):
        return
    first = int(xp.argmax(xp.astype(xp.reshape(~good, (-1,)), xp.int64)))
    place = tuple(int(i) for i in np.unravel_index(first, array.shape))
    value = to_numpy(array[place]).item()
    raise InputError(f"{name}[{', '.join(map(str, place))}] is {value}; {advice}")


@quiet
def _require_finite(name: str, array: Array, xp: Any) -> None:
    # a sum is finite only if all its terms are: one pass over the numbers in the ordinary case
    if not bool(xp.isfinite(xp.sum(array))):
        advice = "only finite numbers are allowed: remove or replace it"
        _require(xp.isfinite(array), name, array, xp, advice)
