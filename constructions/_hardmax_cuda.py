"""Hard attention on CuPy arrays in one kernel: never m x n numbers in memory.

The kernel computes what `NumberSystem.mean(nearest(...), values)` computes, from the same
definitions, so that both have the same ties and the same errors:

* A squared distance is the sum of squared differences, coordinate by coordinate from the first,
  with one rounding for each subtraction, product and sum. The compiler may not fuse a product and a
  sum into one operation with one rounding, which would move distances by a unit in the last place
  and make or break ties; hence the `_rn` intrinsics, which are never fused.
* A tie is equality of these numbers.
* Values are added in float64, keys in rising order, and divided by the count outside. The order of
  a matrix product is another one, so the two agree bit for bit where the sums are exact, and
  within the rounding of a sum elsewhere. Two runs of the kernel always agree: no atomic additions.

A warp of 32 lanes has one query. It takes 32 keys at a time, finds the smallest of their distances,
starts over when that is a new minimum, and adds the values of the keys that attain the minimum.
New minima are rare (some log n of n, in random order), so most of the time goes into distances.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from constructions.arrays import Array, NumberSystem

WARPS = 8  # in a thread block

SOURCE = r"""
#ifndef LANES
#define LANES 32
#endif
#define EVERYONE 0xffffffffu

// one rounding each, whatever the compiler's options are
__device__ inline float less(float a, float b) { return __fsub_rn(a, b); }
__device__ inline double less(double a, double b) { return __dsub_rn(a, b); }
__device__ inline float plus_square(float a, float b) { return __fadd_rn(a, __fmul_rn(b, b)); }
__device__ inline double plus_square(double a, double b) { return __dadd_rn(a, __dmul_rn(b, b)); }

extern "C" __global__ void hardmax(
    const REAL* queries,  // (batch, m, p)
    const REAL* keys,     // (batch, n, p)
    const REAL* values,   // (batch, n, v)
    double* sums,         // (batch, m, v), of the values of the nearest keys
    double* counts,       // (batch, m), of the nearest keys
    int* faults,          // 1: a distance overflows; 2: one between distinct points underflows
    long long rows,       // batch * m
    long long m, long long n, long long p, long long v,
    REAL small,           // below it, a distance has lost digits
    REAL largest)         // finite number
{
    const int lane = threadIdx.x % LANES;
    const long long row = (long long)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    if (row >= rows) return;  // all lanes of the warp
    const long long batch = row / m;
    const REAL* query = queries + row * p;
    double* sum = sums + row * v;
    double count = 0;
    REAL best = 0;
    int fault = 0;
    for (long long first = 0; first < n; first += LANES) {
        const bool there = first + lane < n;
        // a lane without a key looks at the last one again, which changes no minimum
        const long long j = there ? first + lane : n - 1;
        const REAL* key = keys + (batch * n + j) * p;
        REAL distance = 0;
        bool apart = false;
        for (long long c = 0; c < p; ++c) {
            const REAL difference = less(query[c], key[c]);
            distance = plus_square(distance, difference);
            apart = apart || difference != 0;
        }
        if (!(distance <= largest)) fault |= 1;
        if (apart && distance < small) fault |= 2;
        REAL lowest = distance;
        for (int step = LANES / 2; step > 0; step /= 2) {
            const REAL other = __shfl_xor_sync(EVERYONE, lowest, step);
            lowest = other < lowest ? other : lowest;
        }
        if (first == 0 || lowest < best) {  // the same in all lanes
            best = lowest;
            count = 0;
            for (long long c = lane; c < v; c += LANES) sum[c] = 0;
        }
        unsigned int ties = __ballot_sync(EVERYONE, there && distance == best);
        for (; ties; ties &= ties - 1) {
            const REAL* value = values + (batch * n + first + __ffs(ties) - 1) * v;
            for (long long c = lane; c < v; c += LANES) sum[c] += (double)value[c];
            count += 1;
        }
    }
    if (lane == 0) counts[row] = count;
    if (fault) atomicOr(faults, fault);
}
"""


def options(element: str) -> tuple[str, ...]:
    """What the compiler is told for "float32" or "float64"."""
    return (f"-DREAL={'float' if element == 'float32' else 'double'}",)


def sums_of_nearest(
    queries: Array, keys: Array, values: Array, system: NumberSystem
) -> tuple[Array, Array, int]:
    """Sums of the values of each query's nearest keys, and how many these are.

    Parameters
    ----------
    queries, keys, values : CuPy arrays (..., m, p), (..., n, p), (..., n, v) of one float type,
        whose leading dimensions broadcast

    Returns
    -------
    sums : (..., m, v) float64
    counts : (..., m, 1) float64
    faults : bit 1 for a distance that overflows, bit 2 for one between distinct points that
        underflows
    """
    import cupy

    dtype = np.dtype(system.dtype)
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in (queries, keys, values)))
    (m, p), (n, v) = queries.shape[-2:], values.shape[-2:]
    rows = math.prod(batch) * m
    with queries.device:
        inputs = [
            cupy.ascontiguousarray(cupy.broadcast_to(a, (*batch, *a.shape[-2:])))
            for a in (queries, keys, values)
        ]
        sums = cupy.empty((*batch, m, v), dtype=np.float64)
        counts = cupy.empty((*batch, m, 1), dtype=np.float64)
        faults = cupy.zeros((1,), dtype=np.int32)
        sizes = map(np.int64, (rows, m, n, p, v))
        limits = map(dtype.type, (system.tiny / system.eps, system.max))
        if rows:
            grid, block = (-(-rows // WARPS),), (32 * WARPS,)
            _kernel(dtype.name)(grid, block, (*inputs, sums, counts, faults, *sizes, *limits))
        return sums, counts, int(faults[0])


@cache
def _kernel(element: str) -> Any:
    import cupy

    return cupy.RawKernel(SOURCE, "hardmax", options=options(element))
