"""The arithmetics: every number system, library and device that a check can compute in.

One implementation runs in all of them (`constructions.arrays`), so the same numbers can be put
into each, and the results compared. An arithmetic counts as available when a kernel ran in it and
gave the right value, not when its library can be imported: CuPy imports without a GPU and fails
at its first operation. Nothing falls back to another arithmetic in silence; `why_not` says why
one cannot be used here, in words that do not depend on the host.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import import_module, metadata
from typing import Any

import numpy as np

from constructions.rationals import as_fractions, rational_array, to_numpy

REQUIRE_GPU = "LEANLLOYD_REQUIRE_GPU"
"""Environment variable: when set (to anything but 0), a GPU that is missing is a failure."""

_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_PACKAGES = {  # distributions that may hold a library, and what installs one
    "flint": (("python-flint",), "leanlloyd"),
    "numpy": (("numpy",), "leanlloyd"),
    "torch": (("torch",), "leanlloyd"),
    "array_api_strict": (("array-api-strict",), "leanlloyd"),
    "cupy": (("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"), "leanlloyd[gpu]"),
}


class UnknownArithmeticError(ValueError):
    """No arithmetic of that name. The message lists all."""


class UnavailableError(RuntimeError):
    """The arithmetic cannot be used here. The message says why."""


@dataclass(frozen=True)
class Arithmetic:
    """One library, device and element type.

    Attributes
    ----------
    name : as on the command line
    library : the module: flint, fractions, numpy, array_api_strict, torch or cupy
    device : cpu, device1 (the second device of array_api_strict) or cuda
    element : fmpq, Fraction, float64, float32, float16 or bfloat16
    """

    name: str
    library: str
    device: str
    element: str

    @property
    def exact(self) -> bool:
        return self.element not in _EPS

    @property
    def half(self) -> bool:
        """Whether numbers have 16 bits. The core refuses them; products add up in float32."""
        return self.element in ("float16", "bfloat16")

    @property
    def gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def eps(self) -> float:
        """Distance from 1 to the next number; 0 for rationals."""
        return _EPS.get(self.element, 0.0)

    @property
    def why_not(self) -> str:
        """Why this arithmetic cannot be used here; empty when a kernel ran and was right."""
        return _why_not(self)

    def put(self, array: Any) -> Any:
        """Numbers as an array of this arithmetic, on its device, none of them changed.

        Parameters
        ----------
        array : numbers that the element type can hold: a numpy array or nested lists of floats,
            integers or exact rationals

        Raises
        ------
        ValueError
            the element type would round a number.
        """
        if self.exact:
            return rational_array(array, Fraction if self.element == "Fraction" else None)
        source = np.asarray(array)
        if source.dtype == object:
            flat = np.array([float(v) for v in source.ravel()], dtype=np.float64)
            wide = flat.reshape(source.shape)
        else:
            wide = source.astype(np.float64)
        if self.library == "torch":
            torch = import_module("torch")
            placed = torch.tensor(wide).to(getattr(torch, self.element)).to(self.device)
        else:
            placed = self.place(wide.astype(self.element))
        if not _same(self.get(placed).astype(np.float64), source):
            raise ValueError(f"{self.name} cannot hold these numbers without rounding them")
        return placed

    def place(self, array: np.ndarray[Any, Any]) -> Any:
        """A numpy array in this library and on this device, with the element type that it has."""
        library: Any = import_module(self.library)
        if self.library == "torch":
            return library.tensor(array, device=self.device)
        if self.library == "array_api_strict":
            device = "CPU_DEVICE" if self.device == "cpu" else self.device
            return library.asarray(array, device=library.Device(device))
        return library.asarray(array)

    def rounded(self, exact: Any) -> np.ndarray[Any, Any]:
        """The numbers of this arithmetic nearest to rationals, as `get` would return them.

        A rational is rounded to float64 first. That is the nearest number of a shorter type, too,
        unless the rational is closer to the middle between two of them than float64 can tell.
        """
        if self.exact:
            return np.asarray(self.put(exact))
        wide = np.array([float(v) for v in np.ravel(np.array(exact, dtype=object))])
        wide = wide.reshape(np.shape(np.array(exact, dtype=object)))
        if self.library == "torch":
            torch = import_module("torch")
            return self.get(torch.tensor(wide).to(getattr(torch, self.element)))
        return wide.astype(self.element)

    def get(self, result: Any) -> np.ndarray[Any, Any]:
        """A result of this arithmetic as a numpy array; bfloat16, which numpy lacks, as float32."""
        if self.exact:  # already one, or a single number
            return np.asarray(result)
        if self.element == "bfloat16" and str(getattr(result, "dtype", "")) == "torch.bfloat16":
            result = result.float()
        return np.asarray(to_numpy(result))

    def describe(self) -> dict[str, Any]:
        """What really applies in this process: versions, device, threads, reduced precision.

        Raises
        ------
        UnavailableError
            see `why_not`.
        """
        if self.why_not:
            raise UnavailableError(f"{self.name} is not available: {self.why_not}")
        found: dict[str, Any] = {
            "library": self.library,
            "version": _version(self.library),
            "device": self.device,
            "element": self.element,
        }
        if self.library == "torch":
            found |= _describe_torch(self.gpu)
        elif self.library == "cupy":
            found |= _describe_cupy()
        elif not self.exact:
            found["threads"] = _blas_threads()
        return found


_FLOATS = {"64": "float64", "32": "float32", "16": "float16", "bf16": "bfloat16"}

ARITHMETICS = (
    Arithmetic("fmpq", "flint", "cpu", "fmpq"),
    Arithmetic("fraction", "fractions", "cpu", "Fraction"),
    *(
        Arithmetic(f"{prefix}{bits}", library, device, _FLOATS[bits])
        for prefix, library, device, sizes in (
            ("numpy", "numpy", "cpu", ("64", "32")),
            ("strict", "array_api_strict", "cpu", ("64", "32")),
            ("strict-device", "array_api_strict", "device1", ("64", "32")),
            ("torch-cpu", "torch", "cpu", ("64", "32", "16", "bf16")),
            ("torch-cuda", "torch", "cuda", ("64", "32", "16", "bf16")),
            ("cupy", "cupy", "cuda", ("64", "32")),
        )
        for bits in sizes
    ),
)
"""All of them, exact ones first."""


def get(name: str) -> Arithmetic:
    """The arithmetic of that name; raises `UnknownArithmeticError`."""
    for arithmetic in ARITHMETICS:
        if arithmetic.name == name:
            return arithmetic
    known = ", ".join(a.name for a in ARITHMETICS)
    raise UnknownArithmeticError(f"unknown arithmetic {name!r}; allowed: {known}")


def selected(names: Sequence[str]) -> list[Arithmetic]:
    """The arithmetics named, in their usual order; all when none is named.

    Raises
    ------
    UnknownArithmeticError
        a name is not known.
    """
    wanted = {get(name) for name in names}
    return [a for a in ARITHMETICS if a in wanted or not names]


def gpu_required() -> bool:
    """Whether the environment turns a missing GPU into a failure."""
    return os.environ.get(REQUIRE_GPU, "0") not in ("", "0")


def missing(names: Sequence[str] = ()) -> list[str]:
    """Sentences about GPU arithmetics, of those named, that cannot be used here."""
    return [
        f"{a.name} is required but not available: {a.why_not}"
        for a in selected(names)
        if a.gpu and a.why_not
    ]


def settings(names: Sequence[str] = ()) -> dict[str, Any]:
    """For `run.json`: what applies to each arithmetic here, or why it did not run."""
    return {a.name: {"not run": a.why_not} if a.why_not else a.describe() for a in selected(names)}


def _same(held: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> bool:
    """Whether float64 numbers are what was given: floats, integers or exact rationals."""
    large = source.dtype.kind in "iu" and bool(np.any(abs(source.astype(np.float64)) >= 2.0**53))
    if large or source.dtype == object:  # compared as such: float64 may not hold them either
        return bool(np.all(np.isfinite(held))) and as_fractions(held) == as_fractions(source)
    return np.array_equal(held, source, equal_nan=source.dtype.kind == "f")


@cache
def _why_not(arithmetic: Arithmetic) -> str:
    if arithmetic.gpu and not _cuda_devices():
        return "no CUDA device"
    try:
        import_module(arithmetic.library)
    except ImportError:
        (distribution, *_), extra = _PACKAGES[arithmetic.library]
        return f"{distribution} is not installed (pip install '{extra}')"
    on_gpu_by_torch = arithmetic.library == "torch" and arithmetic.gpu
    if on_gpu_by_torch and import_module("torch").version.cuda is None:
        return "this torch is built without CUDA"
    try:
        # a product of matrices and a division: what the kernels of the constructions are made of
        array = arithmetic.put([[1.0, 2.0], [3.0, 4.0]])
        ran = arithmetic.get(array @ array / arithmetic.put([[2.0]]))
        right = as_fractions(ran.astype(np.float64)) if not arithmetic.exact else as_fractions(ran)
    except Exception as error:  # whatever a missing driver or an unsupported device raises
        return f"its kernel failed with {type(error).__name__}"
    expected = [[Fraction(7, 2), Fraction(5)], [Fraction(15, 2), Fraction(11)]]
    return "" if right == expected else "its kernel gave a wrong result"


@cache
def _cuda_devices() -> int:
    """How many CUDA devices the driver has; asked without torch or CuPy, which may be absent or
    built without CUDA."""
    count = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        if driver.cuInit(0) == 0:
            driver.cuDeviceGetCount(ctypes.byref(count))
    return count.value


def _version(library: str) -> str:
    if library == "fractions":
        return f"Python {sys.version.split()[0]}"
    for distribution in _PACKAGES[library][0]:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    return "unknown"


def _describe_torch(gpu: bool) -> dict[str, Any]:
    torch = import_module("torch")
    found = {
        "threads": torch.get_num_threads(),
        # "highest" means that float32 products are made in float32, not in TF32 or bfloat16
        "float32 products": torch.get_float32_matmul_precision(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
    }
    if gpu:
        reduced = torch.backends.cuda.matmul
        found |= {
            "device name": torch.cuda.get_device_name(),
            "CUDA": torch.version.cuda,
            "TF32 allowed": reduced.allow_tf32,
            "float16 sums in float32": not reduced.allow_fp16_reduced_precision_reduction,
            "bfloat16 sums in float32": not reduced.allow_bf16_reduced_precision_reduction,
        }
    return found


def _describe_cupy() -> dict[str, Any]:
    cupy = import_module("cupy")
    name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"]
    return {
        "device name": name.decode() if isinstance(name, bytes) else str(name),
        "CUDA": cupy.cuda.runtime.runtimeGetVersion(),
        "TF32 allowed": os.environ.get("CUPY_TF32", "0") not in ("", "0"),
    }


def _blas_threads() -> int:
    """Threads of numpy's linear algebra library; 1 where it has no pool."""
    from threadpoolctl import threadpool_info

    return max((p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"), default=1)
