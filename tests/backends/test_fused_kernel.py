"""The kernel behind hard attention on CuPy: compiled without a GPU, run on 32 threads of the CPU,
and held against the array code on a GPU where there is one."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constructions import InputError
from constructions._hardmax_cuda import SOURCE, options
from constructions.arrays import checked
from constructions.attention import attend, nearest
from verify import arithmetic

ELEMENTS = ("float32", "float64")

# What the kernel asks of CUDA, for a warp of 32 threads of the CPU.
ON_THE_CPU = """
#include <barrier>
#include <thread>
#include <vector>
struct Place { int x; };
static thread_local Place threadIdx, blockIdx;
static const Place blockDim = {32};
static std::barrier<> together(32);
static double slots[32];
static unsigned int votes[32];
#define __global__
#define __device__
static float __fsub_rn(float a, float b) { return a - b; }
static float __fadd_rn(float a, float b) { return a + b; }
static float __fmul_rn(float a, float b) { return a * b; }
static double __dsub_rn(double a, double b) { return a - b; }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dmul_rn(double a, double b) { return a * b; }
static int __ffs(unsigned int word) { return __builtin_ffs(word); }
static void atomicOr(int* word, int bits) { __atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST); }
template <typename T> static T __shfl_xor_sync(unsigned int, T mine, int step) {
    slots[threadIdx.x] = mine;
    together.arrive_and_wait();
    const T other = slots[threadIdx.x ^ step];
    together.arrive_and_wait();
    return other;
}
static unsigned int __ballot_sync(unsigned int, bool vote) {
    votes[threadIdx.x] = vote;
    together.arrive_and_wait();
    unsigned int word = 0;
    for (int lane = 0; lane < 32; ++lane) word |= votes[lane] << lane;
    together.arrive_and_wait();
    return word;
}
"""
LAUNCH = """
extern "C" void launch(const REAL* q, const REAL* k, const REAL* x, double* sums, double* counts,
                       int* faults, const long long* sizes, REAL small, REAL largest) {
    std::vector<std::thread> lanes;
    for (int lane = 0; lane < 32; ++lane)
        lanes.emplace_back([=] {
            threadIdx.x = lane;
            for (blockIdx.x = 0; blockIdx.x < sizes[0]; ++blockIdx.x)
                hardmax(q, k, x, sums, counts, faults, sizes[0], sizes[1], sizes[2], sizes[3],
                        sizes[4], small, largest);
        });
    for (std::thread& lane : lanes) lane.join();
}
"""


def instances(dtype: Any) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Queries, keys and values on small grids: many ties, sizes around a warp's, wide values,
    empty vectors, and batches that broadcast. Every sum is exact."""
    rng = np.random.default_rng(0)
    for shape_q, shape_k, v, spread in (
        ((1, 1), (1, 1), 1, 3),
        ((5, 2), (31, 2), 3, 2),
        ((5, 2), (32, 2), 40, 2),
        ((9, 1), (33, 1), 1, 40),
        ((3, 17), (65, 17), 2, 2),
        ((2, 0), (34, 0), 2, 1),
        ((2, 3), (40, 3), 0, 1),
        ((2, 3, 2), (2, 7, 2), 2, 2),
        ((3, 2), (2, 1, 40, 2), 1, 2),
    ):
        q, k, x = (
            rng.integers(-spread, spread + 1, shape) / 4
            for shape in (shape_q, shape_k, (*shape_k[:-1], v))
        )
        yield q.astype(dtype), k.astype(dtype), x.astype(dtype)


def array_code(queries: Any, keys: Any, values: Any) -> tuple[Any, Any]:
    """The mask of the nearest keys, and the mean of their values, by the code for all libraries."""
    system, (q, k, v) = checked(q=queries, k=keys, v=values)
    near = nearest(q, k, system)
    return near, system.mean(near, v)


@pytest.fixture(scope="module", params=ELEMENTS)
def on_the_cpu(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Callable[..., Any]:
    """The kernel's own source, compiled for the CPU: what `sums_of_nearest` returns."""
    compiler = shutil.which("g++")
    if compiler is None or sys.platform == "win32":
        pytest.skip("no C++ compiler (g++) to build the kernel's source for the CPU with")
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "kernel.cpp").write_text(ON_THE_CPU + SOURCE + LAUNCH)
    built = subprocess.run(
        [compiler, "-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "-shared", "-fPIC",
         "-Wall", "-Wextra", "-Werror", *options(request.param), "kernel.cpp", "-o", "kernel.so"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    launch = ctypes.CDLL(str(folder / "kernel.so")).launch
    real = ctypes.c_float if request.param == "float32" else ctypes.c_double
    launch.argtypes = [ctypes.c_void_p] * 7 + [real] * 2

    def run(queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> Any:
        batch = np.broadcast_shapes(queries.shape[:-2], keys.shape[:-2], values.shape[:-2])
        inputs = [
            np.ascontiguousarray(np.broadcast_to(a, batch + a.shape[-2:]))
            for a in (queries, keys, values)
        ]
        (m, p), (n, v) = queries.shape[-2:], values.shape[-2:]
        sums, counts = np.full((*batch, m, v), np.nan), np.full((*batch, m, 1), np.nan)
        faults = np.zeros(1, np.int32)
        sizes = np.array([math.prod(batch) * m, m, n, p, v], np.int64)
        limits = np.finfo(queries.dtype)
        launch(
            *(a.ctypes.data for a in (*inputs, sums, counts, faults, sizes)),
            float(limits.smallest_normal) / float(limits.eps),
            float(limits.max),
        )
        return sums, counts, int(faults[0])

    run.dtype = np.dtype(request.param).type  # type: ignore[attr-defined]
    return run


def test_its_source_on_the_cpu_is_the_array_code(on_the_cpu: Any) -> None:
    """The same ties, the same counts and, where sums are exact, the same bits."""
    dtype = on_the_cpu.dtype
    for q, k, v in instances(dtype):
        near, mean = array_code(q, k, v)
        sums, counts, faults = on_the_cpu(q, k, v)
        assert faults == 0
        assert np.array_equal(counts[..., 0], near.sum(axis=-1))
        assert np.array_equal((sums / counts).astype(dtype), mean)


def test_its_sums_run_over_the_keys_in_rising_order(on_the_cpu: Any) -> None:
    """On numbers that round: a plain loop gives the same bits. Keys repeat, so that there are ties
    between numbers of many digits."""
    dtype = on_the_cpu.dtype
    rng = np.random.default_rng(1)
    keys = rng.normal(size=(12, 3)).astype(dtype)[rng.integers(0, 12, 50)]
    queries = np.vstack([keys[:4], rng.normal(size=(6, 3)).astype(dtype)])
    values = (rng.normal(size=(50, 2)) * 1e3).astype(dtype)
    near, _ = array_code(queries, keys, values)
    sums, counts, _ = on_the_cpu(queries, keys, values)
    assert counts.max() > 4
    for i, marks in enumerate(near):
        total = np.zeros(2)
        for j in np.flatnonzero(marks):
            total = total + values[j].astype(np.float64)
        assert sums[i].tolist() == total.tolist()


def far_apart(dtype: Any) -> tuple[float, float]:
    """Coordinates whose squares overflow and underflow."""
    return (3e19, 1e-20) if dtype is np.float32 else (1e200, 1e-200)


def test_it_sees_overflow_and_underflow_where_the_array_code_does(on_the_cpu: Any) -> None:
    dtype = on_the_cpu.dtype
    huge, small = far_apart(dtype)
    base = np.zeros((40, 2), dtype)
    for number, place, fault in ((huge, 39, 1), (small, 33, 2), (0.0, 0, 0)):
        keys = base.copy()
        keys[place, 1] = number
        assert on_the_cpu(base[:3], keys, base)[2] == fault
        if fault:
            with pytest.raises(InputError, match="overflows" if fault == 1 else "underflows"):
                array_code(base[:3], keys, base)


def without_fused_products(code: str) -> bool:
    """Whether each product and each sum of floats in PTX is rounded by itself."""
    return "fma." not in code and ("mul.rn.f" in code or "mul.f" in code)


def test_the_check_for_fused_products_can_fail() -> None:
    assert not without_fused_products("fma.rn.f32 %f1, %f2, %f3;  mul.rn.f32 %f1, %f2, %f3;")
    assert not without_fused_products("add.rn.f64")
    assert without_fused_products("mul.rn.f32 %f1, %f2, %f3; mad.lo.s32 %r1, %r2, %r3;")


@pytest.mark.parametrize("element", ELEMENTS)
def test_nvcc_compiles_it(element: str, tmp_path: Path) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("no CUDA compiler (nvcc) on this machine")
    (tmp_path / "kernel.cu").write_text(SOURCE)
    built = subprocess.run(
        [compiler, "--ptx", "-Werror", "all-warnings", *options(element), "kernel.cu"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert without_fused_products((tmp_path / "kernel.ptx").read_text())


def runtime_compiler() -> Any:
    """The library NVRTC from a CUDA toolkit or from the package nvidia-cuda-nvrtc, or None."""
    package = find_spec("nvidia")
    folders = [Path(p) for p in (package.submodule_search_locations or ())] if package else []
    packaged = [str(f) for folder in folders for f in sorted(folder.glob("*/lib/libnvrtc.so.*"))]
    for name in (*packaged, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


@pytest.mark.parametrize("element", ELEMENTS)
def test_the_runtime_compiler_compiles_it(element: str) -> None:
    """NVRTC, which CuPy uses; it needs no GPU."""
    nvrtc = runtime_compiler()
    if nvrtc is None:
        pytest.skip("NVRTC is not installed (pip install nvidia-cuda-nvrtc)")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), SOURCE.encode(), b"hardmax.cu", 0, None, None
    )
    assert made == 0
    told = [option.encode() for option in options(element)]
    failed = nvrtc.nvrtcCompileProgram(program, len(told), (ctypes.c_char_p * len(told))(*told))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert failed == 0, log.value.decode()
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, code)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    assert without_fused_products(code.value.decode())


@pytest.mark.parametrize("element", ELEMENTS)
def test_on_a_gpu_it_is_the_array_code(element: str) -> None:
    where = arithmetic.get("cupy64" if element == "float64" else "cupy32")
    if where.why_not and arithmetic.gpu_required():
        pytest.fail(f"{where.name} is required but not available: {where.why_not}")
    if where.why_not:
        pytest.skip(f"{where.name} is not available: {where.why_not}")
    dtype = np.dtype(element).type
    for q, k, v in instances(dtype):
        here = [where.place(a) for a in (q, k, v)]
        system, here = checked(**dict(zip("qkv", here, strict=True)))
        fused = attend(*here, math.inf, system)
        assert (type(fused), fused.dtype) == (type(here[0]), dtype)
        _, mean = array_code(*here)
        assert np.array_equal(where.get(fused), where.get(mean))
        assert np.array_equal(where.get(fused), array_code(q, k, v)[1])
    rng = np.random.default_rng(2)
    many = [where.place(rng.random((3000, d)).astype(dtype)) for d in (5, 5, 6)]
    system, many = checked(**dict(zip("qkv", many, strict=True)))
    one, two = (where.get(attend(*many, math.inf, system)).tobytes() for _ in range(2))
    assert one == two
    huge, small = far_apart(dtype)
    for number, words in ((huge, "overflows"), (small, "underflows")):
        keys = where.place(np.array([[0.0], [number]], dtype))
        system, (keys,) = checked(keys=keys)
        with pytest.raises(InputError, match=words):
            attend(keys, keys, keys, math.inf, system)
