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
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
)
from array_api_compat import device as device_of
from array_api_compat import numpy as np_compat

Array = Any
"""An array of any supported library; the annotation is for the reader, not for the checker."""


class InputError(ValueError):
    """The caller's input is outside the domain. The message says what, where, and what to do."""


class NotRationalError(InputError):
    """An operation whose result is not rational was asked for in exact rationals."""


class EmptyClusterError(ValueError):
    """A cluster has no points, so its mean is undefined.

    Attributes
    ----------
    clusters : list of int, or of tuples (batch..., cluster) when the input has batches
    """

    def __init__(self, clusters: list[Any], what: str) -> None:
        self.clusters = clusters
        super().__init__(what)


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
        return _exact_scalar(value, self.scalar_type)

    def full(self, shape: tuple[int, ...], value: Any) -> Array:
        if self.exact:
            return np.full(shape, self.scalar(value), dtype=object)
        return self.xp.full(shape, float(value), dtype=self.dtype, device=self.device)

    def array(self, table: Any) -> Array:
        """A numpy table of integers, fractions or floats as an array of the system."""
        table = np.asarray(table)
        if self.exact:
            return _map_objects(self.scalar, table)
        return self.xp.asarray(table.astype(np.float64), dtype=self.dtype, device=self.device)

    def indices(self, n: int) -> Array:
        return self.xp.arange(n, device=self.device)

    def indicator(self, mask: Array) -> Array:
        """0 and 1 of the system's own kind where `mask` is False and True."""
        if self.exact:
            return np.where(mask, self.scalar(1), self.scalar(0))
        return self.xp.astype(mask, self.dtype)

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
        return f"{library} {str(self.dtype).removeprefix('torch.')}"


def checked(**named: Any) -> tuple[NumberSystem, list[Array]]:
    """Check arrays given by name and bring them into one number system.

    Integer arrays become float64 (an integer array cannot hold a mean). Two float types are
    promoted to the wider one, in every library alike. Nothing is copied to another device.

    Raises
    ------
    InputError
        not an array; complex, boolean, text, half precision; NaN or infinity, with its place;
        arrays of different libraries or devices; exact beside floating-point numbers.
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
        scalar_type = _exact_type([(n, a) for n, a in arrays.items() if kinds[n] == "exact"])
        system = NumberSystem(np_compat, np.dtype(object), None, scalar_type)
        return system, [_map_objects(system.scalar, np.asarray(a)) for a in arrays.values()]
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
    plain = [_native(a) for a in arrays.values()]
    plain = [
        a if kinds[n] == "float" else xp.astype(a, xp.float64)
        for n, a in zip(arrays, plain, strict=True)
    ]
    dtype = plain[0].dtype if len(plain) == 1 else xp.result_type(*plain)
    plain = [a if a.dtype == dtype else xp.astype(a, dtype) for a in plain]
    for name, a in zip(arrays, plain, strict=True):
        _require_finite(name, a, xp)
    return NumberSystem(xp, dtype, device, float), plain


def checked_scalar(name: str, value: Any, allowed: str, *, infinity: bool = False) -> Any:
    """A positive number given as a parameter (a temperature); `inf` only where allowed.

    Returns the number unchanged, so that rationals stay exact.
    """
    number = isinstance(value, (int, float, np.floating, np.integer, Rational)) or _is_fmpq(value)
    if not number or isinstance(value, bool):
        raise InputError(f"{name} must be a number, got {_describe(value)}; allowed: {allowed}")
    if isinstance(value, (np.floating, np.integer)):
        value = value.item()
    finite = not isinstance(value, float) or math.isfinite(value)
    if not (value > 0 and (finite or infinity)):
        raise InputError(f"{name} = {value} is out of range; allowed: {allowed}")
    return value


def checked_count(name: str, value: Any, minimum: int) -> int:
    """An integer parameter of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be an integer, got {_describe(value)}")
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


def rational_array(table: Any, scalar_type: Any = None) -> Array:
    """A nested list or array of numbers as an object array of exact rationals.

    Floats are taken at their exact binary value. `scalar_type` is `fmpq` by default (about 20
    times as fast as `Fraction`).
    """
    if scalar_type is None:
        from flint import fmpq

        scalar_type = fmpq
    source = np.asarray(table) if isinstance(table, np.ndarray) else np.array(table, dtype=object)
    return _map_objects(lambda v: _exact_scalar(v, scalar_type), source)


def as_fractions(array: Array) -> Any:
    """Nested lists of `Fraction` with the exact values of any supported array."""
    if is_torch_array(array):
        array = array.detach().cpu().numpy()
    values = np.asarray(array)
    if values.ndim == 0:
        return _exact_scalar(values.item(), Fraction)
    return _map_objects(lambda v: _exact_scalar(v, Fraction), values).tolist()


def _kind(name: str, value: Any) -> str:
    """'float', 'int' or 'exact'; raises for everything else."""
    if not is_array_api_obj(value):
        raise InputError(
            f"{name} must be an array (numpy, torch, CuPy, array_api_strict), got "
            f"{_describe(value)}; numpy.asarray makes one"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array; fill or drop the masked entries first")
    if is_numpy_array(value) and value.dtype == object:
        return "exact"
    text = str(value.dtype).rsplit(".", 1)[-1].lstrip("<>=|")
    if is_numpy_array(value):
        text = value.dtype.name
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


def _native(array: Array) -> Array:
    """Plain memory: no reversed views, no foreign byte order (other libraries cannot read them)."""
    if is_numpy_array(array):
        return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    return array


def _require_finite(name: str, array: Array, xp: Any) -> None:
    finite = xp.isfinite(array)
    if bool(xp.all(finite)):
        return
    place = tuple(int(i[0]) for i in xp.nonzero(~finite))
    where = ", ".join(map(str, place))
    raise InputError(
        f"{name}[{where}] is {float(array[place])}; only finite numbers are allowed: "
        "remove or replace it"
    )


def _is_fmpq(value: Any) -> bool:
    return type(value).__name__ in ("fmpq", "fmpz") and type(value).__module__.startswith("flint")


def _exact_scalar(value: Any, scalar_type: Any) -> Any:
    if type(value) is scalar_type:
        return value
    if _is_fmpq(value):
        value = (
            Fraction(int(value.p), int(value.q)) if type(value).__name__ == "fmpq" else int(value)
        )
    elif isinstance(value, np.generic):
        value = value.item()
    fraction = Fraction(value)
    if scalar_type is Fraction:
        return fraction
    return scalar_type(fraction.numerator, fraction.denominator)


def _exact_type(arrays: list[tuple[str, Array]]) -> Any:
    """The rational type of object arrays: fmpq when any entry is one, else Fraction."""
    found: Any = Fraction
    for name, a in arrays:
        for place, value in np.ndenumerate(a):
            if type(value).__name__ == "fmpq" and _is_fmpq(value):
                found = type(value)
            elif not (isinstance(value, Rational) or _is_fmpq(value)) or isinstance(value, bool):
                where = ", ".join(map(str, place))
                raise InputError(
                    f"{name}[{where}] is {_describe(value)}; an object array must hold Fraction, "
                    "fmpq or int"
                )
    return found


def _map_objects(function: Any, table: Any) -> Array:
    out = np.empty(table.shape, dtype=object)
    flat = out.reshape(-1)
    for i, value in enumerate(table.ravel().tolist() if table.dtype != object else table.ravel()):
        flat[i] = function(value)
    return out


def _describe(value: Any) -> str:
    text = repr(value)
    short = text if len(text) <= 40 else text[:37] + "..."
    return f"{type(value).__name__} {short}"
