"""Surrogates: exact in rationals, within derived bounds in floats, and what others got wrong.

Oracles: the projection onto the simplex by Michelot's algorithm and the optimality conditions, in
fractions; 40-digit bisection; scipy's softmax; the entmax library. eps is the distance from 1 to
the next number of the type at hand.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import array_api_strict as strict
import mpmath
import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from constructions import (
    InputError,
    _entmax,
    rational_array,
    surrogate,
    surrogate_gap,
    surrogate_gradient,
    surrogate_weights,
    surrogates,
)
from constructions.arrays import NotRationalError, checked
from constructions.rationals import as_fractions, to_numpy
from verify.strategies import distances

ALPHAS = (1, 1 + 1e-10, 1.00001, 1.1, 1.5, 1.75, 1.99999, 2, 2.00001, 3, 5)
FLOATS = (np.float64, np.float32)
FUNCTIONS = (surrogate, surrogate_gap, surrogate_weights, surrogate_gradient)


def eps_of(dtype) -> Fraction:
    return Fraction(float(np.finfo(dtype).eps))


def projection(r, tau):
    """The nearest point of the simplex to -r/tau, by Michelot: project onto the plane of sum 1 and
    drop what is negative, until nothing is."""
    z = [-v / tau for v in r]
    support = list(range(len(z)))
    while True:
        shift = (sum(z[j] for j in support) - 1) / Fraction(len(support))
        kept = [j for j in support if z[j] > shift]
        if kept == support:
            return [max(v - shift, Fraction(0)) for v in z]
        support = kept


def by_bisection(r, tau, alpha):
    """Entmax weights to 40 digits."""
    with mpmath.workdps(50):
        u = [(mpmath.mpf(float(v)) - float(min(r))) / mpmath.mpf(float(tau)) for v in r]
        b = mpmath.mpf(float(alpha)) - 1

        def weights(s):
            if b == 0:
                return [mpmath.exp(-v - s) for v in u]
            return [max(1 - b * (v + s), mpmath.mpf(0)) ** (1 / b) for v in u]

        low, high = mpmath.mpf(0), mpmath.log(len(u)) + 1 if b == 0 else 1 / b
        for _ in range(145):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(weights(middle)) >= 1 else (low, middle)
        return weights(low)


@st.composite
def vectors(draw, max_k=12, min_k=1):
    """Entries that tie, repeat and sit at the ends of supports, and entries in general position."""
    k = draw(st.integers(min_k, max_k))
    near = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 1 / 3, 1e-7, 40.0])
    wide = st.floats(0, 3, width=32)
    return draw(st.lists(st.one_of(near, wide), min_size=k, max_size=k))


temperatures = st.sampled_from([0.125, 0.1, 1.0, 3.0, 0.015625, 100.0])
dtypes = st.sampled_from(FLOATS)


def in_type(dtype, r, tau):
    """The vector and the temperature as numbers of the type, and the same as fractions."""
    r, tau = np.array(r, dtype=dtype), float(dtype(tau))
    return r, tau, [Fraction(float(v)) for v in r], Fraction(tau)


def distance_to_kink(r, tau):
    """How far the nearest j is from entering or leaving the support, in units of tau."""
    sums = [sum(max(v - w, 0) for w in r) for v in r]
    return min(abs(s / tau - 1) for s in sums)


# --- exact -----------------------------------------------------------------------------------


@given(distances(max_k=14), st.sampled_from([None, Fraction]))
@settings(max_examples=200)
def test_rational_weights_are_the_projection_onto_the_simplex(case, kind):
    r, tau = case["r"], case["tau"]
    array = rational_array(r, kind)
    p = as_fractions(surrogate_weights(array, tau, "l2"))
    assert p == projection(r, tau)
    assert sum(p) == 1
    # optimality: r_j + tau p_j is one number on the support and no smaller off it
    level = [v + tau * w for v, w in zip(r, p, strict=True)]
    on = {v for v, w in zip(level, p, strict=True) if w > 0}
    assert len(on) == 1
    assert min(level) == min(on)
    S = sum(v * w for v, w in zip(r, p, strict=True))
    assert as_fractions(surrogate(array, tau, "l2")) == S
    assert as_fractions(surrogate_gap(array, tau, "l2")) == S - min(r)


@given(distances(max_k=9))
@settings(max_examples=150)
def test_rational_gradients_are_the_derivative(case):
    """Between kinks the surrogate is a quadratic polynomial: a central difference is exact."""
    r, tau = case["r"], case["tau"]
    room = distance_to_kink(r, tau) * tau
    assume(room > 0)
    h = room / (2 * len(r))
    g = as_fractions(surrogate_gradient(rational_array(r), tau, "l2"))
    for j in range(len(r)):
        shifted = [[v + (s * h if i == j else 0) for i, v in enumerate(r)] for s in (1, -1)]
        up, down = as_fractions(surrogate(rational_array(shifted), tau, "l2"))
        assert (up - down) / (2 * h) == g[j]
    assert sum(g) == 1


@pytest.mark.parametrize("k", [2, 3, 7, 8, 9, 20])
def test_every_support_size_is_met(k, rng):
    """Public fault: a threshold that is right for one-hot results only. Any weights P on any
    support are those of r = const - P, with larger entries where P is 0."""
    for size in range(1, k + 1):
        parts = [int(x) for x in rng.integers(1, 50, size)]
        p = [Fraction(x, sum(parts)) for x in parts] + [Fraction(0)] * (k - size)
        order = rng.permutation(k)
        p = [p[i] for i in order]
        r = [1 - w if w else 1 + Fraction(int(rng.integers(0, 3)), 7) for w in p]
        assert as_fractions(surrogate_weights(rational_array(r), 1, "l2")) == p


def test_rationals_are_refused_where_the_result_is_not_rational():
    r = rational_array([0, 1])
    for function, name in itertools.product(FUNCTIONS, ("ne", 1, 1.5, 3)):
        with pytest.raises(NotRationalError, match="use 'l2'"):
            function(r, 1, name)
    assert as_fractions(surrogate(r, 1, Fraction(2))) == 0


# --- known values ----------------------------------------------------------------------------


def test_the_value_that_a_library_got_wrong():
    r = [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]
    array = rational_array(r)
    assert as_fractions(surrogate_weights(array, 1, "l2")) == [
        Fraction(7, 10), Fraction(3, 10), 0,
    ]  # fmt: skip
    assert as_fractions(surrogate(array, 1, "l2")) == Fraction(22, 100)


def test_the_surrogate_is_not_monotone():
    values = [surrogate(rational_array([0, x]), 1, "l2") for x in (Fraction(1, 2), Fraction(3, 4))]
    assert [as_fractions(v) for v in map(np.asarray, values)] == [Fraction(1, 8), Fraction(3, 32)]


@pytest.mark.parametrize(
    ("k", "ne", "l2"),
    [(2, 0.27846, 0.125), (3, 0.46306, 0.16667), (6, 0.81455, 0.20833), (25, 1.66702, 0.24),
     (100, 2.62865, 0.2475), (1000, 4.42050, 0.24975)],
)  # fmt: skip
def test_the_largest_gap_is_that_of_the_theory(k, ne, l2):
    """Reached where all other entries are equally far: tau (1 + W), tau / 2."""
    tau = 0.3
    W = scipy.special.lambertw((k - 1) / math.e).real
    for name, far, gap in (("ne", 1 + W, ne), ("l2", 0.5, l2)):
        r = np.array([0.0] + [tau * far] * (k - 1))
        assert surrogate_gap(r, tau, name) / tau == pytest.approx(gap, abs=5.1e-6)
        for other in (0.9, 1.1):
            assert surrogate_gap(r * other, tau, name) < surrogate_gap(r, tau, name)


@pytest.mark.parametrize(
    ("alpha", "gaps"),
    [(1.1, (0.25517, 0.70184, 1.32687)), (1.25, (0.22469, 0.56421, 0.95432)),
     (1.5, (0.18330, 0.39752, 0.57191)), (1.75, (0.15083, 0.28507, 0.36070))],
)  # fmt: skip
def test_the_largest_gap_of_the_entmax_family(alpha, gaps):
    b = alpha - 1
    for k, gap in zip((2, 6, 25), gaps, strict=True):

        def weights_to_r(m, k=k):  # the r with weight m on the minimum and equal weights elsewhere
            return (m**b - ((1 - m) / (k - 1)) ** b) / b

        best = minimize_scalar(
            lambda m, k=k, f=weights_to_r: -(1 - m) * f(m), bounds=(1 / k, 1), method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        r = np.array([0.0] + [weights_to_r(best.x)] * (k - 1))
        assert surrogate_gap(r, 1, alpha) == pytest.approx(gap, abs=5.1e-6)
        assert surrogate_weights(r, 1, alpha)[0] == pytest.approx(best.x, abs=1e-12)


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2, 3])
@pytest.mark.parametrize("multiplicity", [1, 2, 3])
def test_the_gap_is_zero_from_the_threshold_on(alpha, multiplicity):
    edge = multiplicity ** (1.0 - alpha) / (alpha - 1)
    for far, zero in ((edge * (1 + 1e-9), True), (edge * (1 - 1e-3), False)):
        gap = surrogate_gap(np.array([0.0] * multiplicity + [far, far + 1]), 1, alpha)
        assert (gap == 0) == zero


# --- floats against exact answers ------------------------------------------------------------


@given(vectors(20), temperatures, dtypes)
@settings(max_examples=200)
@example([0.1, 0.5, 0.9], 1.0, np.float32)
@example([0.0] + [0.999] * 19, 1.0, np.float32)
@example([0.0] * 20, 1.0, np.float32)
def test_l2_floats_are_within_the_derived_bounds(r, tau, dtype):
    """Of a weight and of their sum (`sparsemax_threshold`), and what follows for the rest."""
    r, tau, exact_r, exact_tau = in_type(dtype, r, tau)
    eps, k = eps_of(dtype), len(r)
    p, exact_p = as_fractions(surrogate_weights(r, tau, "l2")), projection(exact_r, exact_tau)
    off = (k + 6) * eps / 2
    assert max(abs(a - b) for a, b in zip(p, exact_p, strict=True)) <= off
    assert min(p) >= 0
    assert abs(sum(p) - 1) <= sum(w > 0 for w in p) * off
    low = min(exact_r)
    gap = sum(w * (v - low) for w, v in zip(exact_p, exact_r, strict=True))
    # an entry with any weight, exact or computed, is at most about tau above the smallest
    bound = k * (off + eps) * exact_tau + (k + 2) * eps * gap
    assert abs(as_fractions(surrogate_gap(r, tau, "l2")) - gap) <= bound
    S = as_fractions(surrogate(r, tau, "l2"))
    assert abs(S - (low + gap)) <= bound + eps * abs(low + gap)
    assert low <= S
    if distance_to_kink(exact_r, exact_tau) > 4 * k * off:
        assert [w > 0 for w in p] == [w > 0 for w in exact_p]
        s = sum(w > 0 for w in p)
        g = as_fractions(surrogate_gradient(r, tau, "l2"))
        exact_g = [2 * w - Fraction(1, s) if w else Fraction(0) for w in exact_p]
        assert max(abs(a - b) for a, b in zip(g, exact_g, strict=True)) <= 2 * off + 2 * eps


@pytest.mark.parametrize("alpha", ALPHAS)
@given(r=vectors(10), tau=temperatures, dtype=dtypes)
@settings(max_examples=12)
def test_every_exponent_agrees_with_forty_digits(alpha, r, tau, dtype):
    """A few eps, also for exponents next to 1 and 2, where formulas degenerate."""
    r, tau, _, _ = in_type(dtype, r, tau)
    eps = float(np.finfo(dtype).eps)
    p, exact = surrogate_weights(r, tau, alpha), by_bisection(r, tau, alpha)
    assert p.dtype == dtype
    assert max(abs(float(w) - v) for w, v in zip(p, exact, strict=True)) <= 4 * eps
    gap = mpmath.fsum(w * (float(v) - float(min(r))) for w, v in zip(exact, r, strict=True))
    scale = sum(float(v) - float(min(r)) for v, w in zip(r, p, strict=True) if w > 0)
    assert abs(surrogate_gap(r, tau, alpha) - gap) <= 5 * eps * scale + np.finfo(dtype).tiny


@given(vectors(9, min_k=2), temperatures, st.sampled_from([1, 1.00001, 1.1, 1.3, 1.5, 1.75, 2, 3]))
@settings(max_examples=70)
def test_gradients_sum_to_one_and_have_the_closed_form(r, tau, alpha):
    """P_j - s_j (u_j - m) in 40 digits; for L2 and above, away from kinks."""
    r = np.array(r)
    g = surrogate_gradient(r, tau, alpha)
    assert np.isfinite(g).all()
    p = by_bisection(r, tau, alpha)
    assume(alpha < 2 or min(w for w in p if w > 0) > 1e-3)
    if alpha == 2:
        assume(distance_to_kink([Fraction(v) for v in r], Fraction(tau)) > 1e-9)
    with mpmath.workdps(40):
        slope = [w ** (2 - mpmath.mpf(alpha)) if w > 0 else mpmath.mpf(0) for w in p]
        u = [(mpmath.mpf(v) - min(r)) / mpmath.mpf(tau) for v in r]
        mean = mpmath.fdot(slope, u) / mpmath.fsum(slope)
        exact = [w - s * (v - mean) for w, s, v in zip(p, slope, u, strict=True)]
        # a small weight has a steep slope: s_j dP_j/P_j is what its rounding does to s_j
        steep = max(float(s / w) for s, w in zip(slope, p, strict=True) if w > 0)
    bound = 2.0**-52 * (40 + (0 if alpha in (1, 2) else 8 * min(steep, 1e9)))
    assert max(abs(float(a - b)) for a, b in zip(g, exact, strict=True)) <= bound
    assert abs(float(np.sum(g)) - 1) <= len(r) * bound


@given(vectors(12), temperatures, dtypes)
@settings(max_examples=100)
def test_a_sparser_regularizer_is_never_larger(r, tau, dtype):
    r = np.array(r, dtype=dtype)
    grid = (1, 1 + 1e-10, 1.00001, 1.1, 1.25, 1.5, 1.75, 1.99999, 2, 2.00001, 2.5, 3)
    gaps = [float(surrogate_gap(r, tau, alpha)) for alpha in grid]
    slack = 10 * float(np.finfo(dtype).eps) * float(sum(r - r.min()))
    assert all(b <= a + slack for a, b in itertools.pairwise(gaps))
    mean = float(np.mean(r.astype(float) - r.min()))
    assert gaps[0] <= mean + slack


def test_thousands_of_entries():
    rng = np.random.default_rng(0)
    for dtype, spread, tau in itertools.product(FLOATS, (1e-6, 0.01, 1.0, 30.0), (1.0, 0.1)):
        r, tau, exact_r, exact_tau = in_type(dtype, rng.random(1000) * spread, tau)
        p = surrogate_weights(r, tau, "l2")
        exact = projection(exact_r, exact_tau)
        error = max(abs(Fraction(float(a)) - b) for a, b in zip(p, exact, strict=True))
        off = 35 * eps_of(dtype)
        assert error <= off
        assert abs(sum(as_fractions(p)) - 1) <= np.count_nonzero(p) * off


# --- other implementations -------------------------------------------------------------------


@given(vectors(12), temperatures)
@settings(max_examples=60)
def test_softmax_is_scipy_s(r, tau):
    r = np.array(r)
    expected = scipy.special.softmax(-r / tau)
    assert surrogate_weights(r, tau, "ne") == pytest.approx(expected, rel=1e-12, abs=1e-300)


@given(st.lists(vectors(9, min_k=9), min_size=1, max_size=4), temperatures)
@settings(max_examples=60)
def test_sparse_weights_are_the_entmax_library_s(rows, tau):
    entmax = pytest.importorskip("entmax")
    r = torch.tensor(rows, dtype=torch.float64)
    for alpha, other, accuracy in (
        ("l2", entmax.sparsemax, 1e-12),
        (1.5, entmax.entmax15, 1e-12),
        (1.25, lambda z, dim: entmax.entmax_bisect(z, 1.25, dim=dim), 1e-9),
        (3, lambda z, dim: entmax.entmax_bisect(z, 3.0, dim=dim), 1e-6),
    ):
        off = surrogate_weights(r, tau, alpha) - other(-r / tau, dim=-1)
        assert float(off.abs().max()) <= accuracy


# --- public reports, by kind -----------------------------------------------------------------


def f32(*values):
    return np.array(values, dtype=np.float32)


REPORTS = {
    "zero temperature as a limit": (np.array([0.0, 1, 4]), 1e-300, "ne", (1, 0, 0)),
    "scaled before the minimum is subtracted": (f32(2, 2.5), 1 / 3e38, "ne", (1, 0)),
    "large but finite is not the hard limit": (
        np.array([0.1, 0.1 + 1e-7, 0.3]), 1e-4, "ne", (0.50025, 0.49975, 0)),
    "sparse where softmax is not": (np.array([0.1, 0.1 + 1e-7, 0.3]), 9e-8, "l2", (1, 0, 0)),
    "threshold from sums of cumulative sums": (np.array([0.1, 0.5, 0.9]), 1, "l2", (0.7, 0.3, 0)),
    "large numbers without a shift": (-f32(3e7, 3e7 - 2, 1e7), 1, "l2", (1, 0, 0)),
    "large equal numbers without a shift": (-f32(2.5e8, 2.5e8, 1e8), 1, "l2", (0.5, 0.5, 0)),
    "r / tau overflows": (f32(0.2, 0.2, 0.9), 1e-40, "l2", (0.5, 0.5, 0)),
    "r / tau overflows, softmax": (f32(0.2, 0.2, 0.9), 1e-40, "ne", (0.5, 0.5, 0)),
    "entropy through the bisection": (-np.array([0.3, 0.1, 0.2]), 1, 1, (0.3672, 0.3006, 0.3322)),
    "entropy nearly through the bisection": (
        -np.array([0.3, 0.1, 0.2]), 1, 1.00001, (0.3672, 0.3006, 0.3322)),
    "rounded to half precision": (f32(300.2, 300.6, 303), 1, "l2", (0.7, 0.3, 0)),
    "order among equals": (np.array([4.0, 1, 4, 1, 1]), 1, "l2", (0, 1 / 3, 0, 1 / 3, 1 / 3)),
    "a single entry": (np.array([3.0]), 1, 1.5, (1,)),
}  # fmt: skip


@pytest.mark.parametrize("report", list(REPORTS))
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_faults_that_were_reported_elsewhere(report, library):
    r, tau, alpha, expected = REPORTS[report]
    if library == "torch":
        r = torch.tensor(r, requires_grad=True)
    p = surrogate_weights(r, tau, alpha)
    assert to_numpy(p) == pytest.approx(np.array(expected), abs=5e-5)
    assert np.isfinite(to_numpy(surrogate(r, tau, alpha))).all()
    assert np.isfinite(to_numpy(surrogate_gradient(r, tau, alpha))).all()


@pytest.mark.parametrize("bad", [(math.inf, math.inf), (0.0, math.nan, 1.0), (1.0, math.inf)])
@pytest.mark.parametrize("put", [np.array, torch.tensor, strict.asarray])
def test_what_is_not_finite_is_refused_with_its_place(bad, put):
    place = next(i for i, v in enumerate(bad) if not math.isfinite(v))
    for function in FUNCTIONS:
        with pytest.raises(InputError, match=rf"r\[{place}\] is (inf|nan); only finite"):
            function(put(bad), 1, "l2")


@pytest.mark.parametrize("put", [np.array, torch.tensor, strict.asarray])
def test_no_center_is_an_error_and_no_point_is_an_empty_answer(put):
    for function in FUNCTIONS:
        with pytest.raises(InputError, match=r"\(2, 0\); expected \(\.\.\., k\) with k >= 1"):
            function(put(np.zeros((2, 0))), 1, "l2")
        with pytest.raises(InputError, match="expected"):
            function(put(np.array(1.0)), 1, "l2")
        for alpha in (1, 1.5, 2, 3):
            found = function(put(np.zeros((0, 3), dtype=np.float32)), 1, alpha)
            assert found.shape[0] == 0
            assert "float32" in str(found.dtype)
    r = torch.zeros((0, 3), requires_grad=True)
    surrogate(r, 1, "l2").sum().backward()
    assert r.grad.shape == (0, 3)


@pytest.mark.parametrize(
    ("tau", "says"),
    [(0, "out of range"), (-1.0, "out of range"), (math.nan, "out of range"),
     (math.inf, "out of range"), (True, "must be a number"), (None, "must be a number"),
     ("1", "must be a number"), (torch.tensor(1.0), "must be a number"),
     (10**400, "not a float64 number"), (Fraction(1, 10**400), "not a float64 number")],
)  # fmt: skip
def test_temperatures_outside_the_domain(tau, says):
    for function in FUNCTIONS:
        with pytest.raises(InputError, match=says):
            function(np.array([0.0, 1.0]), tau, "l2")


@pytest.mark.parametrize("alpha", ["L2", "", 0.99, 0, -1, math.nan, math.inf, True, None, 1001, []])
def test_regularizers_outside_the_domain(alpha):
    for function in FUNCTIONS:
        with pytest.raises(InputError, match="allowed: 'ne', 'l2', or an entmax exponent"):
            function(np.array([0.0, 1.0]), 1, alpha)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_refused(dtype):
    with pytest.raises(InputError, match="convert to float32 or float64"):
        surrogate(torch.tensor([0.0, 1.0], dtype=dtype), 1, "l2")


def test_the_temperature_does_not_change_the_type():
    for tau in (np.float64(0.1), np.float32(0.5), 1, Fraction(1, 3)):
        assert surrogate(f32(0, 1), tau, "l2").dtype == np.float32
        assert surrogate(torch.tensor([0.0, 1]), tau, 1.5).dtype == torch.float32
    assert surrogate(np.array([0, 1, 3]), 1, "ne").dtype == np.float64


# --- the ends of the number range --------------------------------------------------------------


SCALES = {
    np.float64: (5e-324, 1e-310, 1e-300, 1.0, 1e300, 1.7e308),
    np.float32: (1e-45, 1e-39, 1e-37, 1.0, 1e37, 3.4e38),
}
EXTREME = (5e-324, 1e-300, 1e-45, 1e-38, 1e-5, 1.0, 1e5, 1e38, 1e300, 1.7e308)


@given(
    dtypes.flatmap(
        lambda d: st.tuples(
            st.just(d),
            st.lists(
                st.tuples(st.sampled_from(SCALES[d]), st.sampled_from([0.0, 0.3, 0.5, 1.0])),
                min_size=1,
                max_size=12,
            ),
        )
    ),
    st.sampled_from(EXTREME),
    st.sampled_from([1, 1.00001, 1.5, 2, 3]),
    st.sampled_from([np.asarray, torch.tensor]),
)
@settings(max_examples=250)
@example((np.float64, [(1e300, 1.0), *[(1.0, 0.3)] * 11]), 1e-38, 2, np.asarray)
@example((np.float32, [(3.4e38, 1.0), *[(1.0, 0.0)] * 11]), 1e-5, 2, torch.tensor)
@example((np.float32, [(3.4e38, 1.0), *[(1.0, 0.0)] * 11]), 1e-300, 2, torch.tensor)
def test_nothing_overflows_at_any_temperature(typed, tau, alpha, put):
    dtype, entries = typed
    values = np.array([scale * factor for scale, factor in entries], dtype=dtype)
    eps, k = float(np.finfo(dtype).eps), len(values)
    r = put(values)
    p = to_numpy(surrogate_weights(r, tau, alpha)).astype(float)
    assert (p >= 0).all()
    assert abs(p.sum() - 1) <= k * (k + 6) * eps / 2
    assert p[values == values.min()].min() == p.max()
    gap, S = (float(f(r, tau, alpha)) for f in (surrogate_gap, surrogate))
    assert np.isfinite([gap, S]).all()
    assert gap >= 0
    assert float(values.min()) <= S <= float(values.max()) * (1 + 2 * k * eps)
    g = to_numpy(surrogate_gradient(r, tau, alpha))
    assert np.isfinite(g).all()
    assert abs(g.astype(float).sum() - 1) <= 40 * k * eps
    if put is torch.tensor:
        r.requires_grad_()
        value = surrogate(r, tau, alpha)
        value.backward()
        assert float(value.detach()) == S
        assert np.isfinite(to_numpy(r.grad)).all()


@pytest.mark.parametrize("alpha", [1, 1.5, 2, 3])
def test_limits_of_the_temperature_are_reached(alpha):
    for dtype in FLOATS:
        r = np.array([0.25, 0.5, 0.25, 2.0], dtype=dtype)
        assert surrogate(r, 1e-300, alpha) == 0.25
        eps = float(np.finfo(dtype).eps)
        assert float(surrogate(r, 1e300, alpha)) == pytest.approx(0.75, rel=4 * eps)
        assert surrogate_weights(r, 1e300, alpha) == pytest.approx(np.full(4, 0.25), rel=1e-6)


def test_a_spread_beyond_the_largest_number():
    """It has no weight at an ordinary temperature, and is refused at one of its own size."""
    r = np.array([-1.5e308, 1.5e308, -1.5e308])
    for alpha in (1, 1.5, 2, 3):
        assert surrogate_weights(r, 1.0, alpha).tolist() == [0.5, 0, 0.5]
        assert surrogate(r, 1e300, alpha) == -1.5e308
        assert np.isfinite(surrogate_gradient(r, 1e300, alpha)).all()
        with pytest.raises(InputError, match="divide both by one factor"):
            surrogate(r, 1.5e308, alpha)
    with pytest.raises(InputError, match="divide both by one factor"):
        surrogate(f32(-3e38, 3e38), 1e300, "l2")


# --- invariances -----------------------------------------------------------------------------


@given(vectors(12), temperatures, dtypes, st.integers(-30, 30))
@settings(max_examples=100)
def test_a_power_of_two_scales_every_bit(r, tau, dtype, power):
    """S(c r, c tau) = c S(r, tau), and floats do not round when c is a power of two."""
    r, c = np.array(r, dtype=dtype), 2.0**power
    assume(not 0 < np.min(r[r > 0], initial=1) * c < 1e-25)
    for alpha in (1, 1.5, 2, 3):
        scaled = surrogate(r * dtype(c), tau * c, alpha)
        assert scaled == surrogate(r, tau, alpha) * dtype(c)
        scaled = surrogate_weights(r * dtype(c), tau * c, alpha)
        assert (scaled == surrogate_weights(r, tau, alpha)).all()


@given(vectors(12), temperatures, dtypes, st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_order_matters_to_the_last_bits_only(r, tau, dtype, random):
    r = np.array(r, dtype=dtype)
    order = list(range(len(r)))
    random.shuffle(order)
    eps = float(np.finfo(dtype).eps)
    for alpha in (1, 1.5, 2, 3):
        p, q = surrogate_weights(r, tau, alpha), surrogate_weights(r[order], tau, alpha)
        assert np.abs(p[order] - q).max() <= 8 * eps
        near = r[p > 0] - r.min()
        a, b = surrogate_gap(r, tau, alpha), surrogate_gap(r[order], tau, alpha)
        assert abs(a - b) <= 10 * eps * near.sum()


@given(distances(max_k=8), st.builds(Fraction, st.integers(-99, 99), st.integers(1, 9)))
@settings(max_examples=50)
def test_a_shift_moves_the_value_and_nothing_else(case, shift):
    r, tau = rational_array(case["r"]), case["tau"]
    moved = rational_array([v + shift for v in case["r"]])
    (value,) = rational_array([shift])
    assert surrogate(moved, tau, "l2") == surrogate(r, tau, "l2") + value
    assert (surrogate_weights(moved, tau, "l2") == surrogate_weights(r, tau, "l2")).all()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.lib.stride_tricks.as_strided(a, writeable=False),
    ],
    ids=["rows reversed", "columns reversed", "Fortran", "strided", "big-endian", "read-only"],
)
def test_views_are_like_copies_and_stay_as_they_are(view, rng):
    a = view(rng.random((5, 9)))
    copy = np.array(a, dtype=float, order="C")
    for function, alpha in itertools.product(FUNCTIONS, (1, 1.5, 2, 3)):
        assert (function(a, 0.3, alpha) == function(copy, 0.3, alpha)).all()
    assert (a == copy).all()


@pytest.mark.parametrize("k", [1, 2, 6, 8, 9, 63, 64, 200])
def test_blocks_and_batches_are_rows(k, rng, monkeypatch):
    """A small block size makes many blocks, the last of them short."""
    r = rng.random((2, 5, 3, k))
    whole = [f(r, 0.2, "l2") for f in FUNCTIONS]
    rows = [np.array([f(row, 0.2, "l2") for row in r.reshape(-1, k)]) for f in FUNCTIONS]
    monkeypatch.setattr(surrogates, "_BLOCK", 4 * k)
    blocks = [f(r, 0.2, "l2") for f in FUNCTIONS]
    t = torch.tensor(r, requires_grad=True)
    value = surrogate(t, 0.2, "l2")
    value.sum().backward()
    for one, two, three in zip(whole, rows, blocks, strict=True):
        assert one.shape == three.shape
        assert np.abs(one - three).max() <= 1e-14
        assert np.abs(one - two.reshape(one.shape)).max() <= 1e-14
    assert np.abs(to_numpy(value) - whole[0]).max() <= 1e-14
    assert np.abs(to_numpy(t.grad) - whole[3]).max() <= 1e-14


# --- torch -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "k"), [("ne", 4), (1.25, 4), (1.5, 11), (1.75, 4), ("l2", 4), ("l2", 11), (3, 3)]
)
def test_gradients_of_every_function_and_of_the_gradient(alpha, k):
    """Of the gradient function as well, so up to the third derivative of the surrogate."""
    generator = torch.Generator().manual_seed(k)
    r = torch.rand(2, k, dtype=torch.float64, generator=generator).requires_grad_()
    for f in FUNCTIONS:
        assert torch.autograd.gradcheck(lambda r, f=f: f(r, 0.3, alpha), (r,))
        assert torch.autograd.gradgradcheck(lambda r, f=f: f(r, 0.3, alpha), (r,), fast_mode=True)


@pytest.mark.parametrize("alpha", ["ne", 1.5, "l2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_backward_pass_is_the_closed_form(alpha, dtype):
    generator = torch.Generator().manual_seed(0)
    base = torch.rand(7, 12, dtype=dtype, generator=generator)
    for r in (base, base.mT, base[::2, 1:], base[:, 0].expand(4, 7)):
        leaf = r.detach().requires_grad_()
        scale = torch.rand(r.shape[0], dtype=dtype, generator=generator)
        value = surrogate(leaf, 0.25, alpha)
        value.backward(scale, retain_graph=True)
        once = leaf.grad.clone()
        value.backward(scale)
        assert torch.equal(leaf.grad, 2 * once)
        expected = scale[:, None] * surrogate_gradient(r, 0.25, alpha)
        assert float((once - expected).abs().max()) <= 20 * torch.finfo(dtype).eps
        assert torch.equal(value.detach(), surrogate(r, 0.25, alpha))
        (again,) = torch.autograd.grad(surrogate(leaf, 0.25, alpha), leaf, scale, create_graph=True)
        assert again.requires_grad
        assert float((again.detach() - expected).abs().max()) <= 20 * torch.finfo(dtype).eps
        with torch.no_grad():
            assert not surrogate(leaf, 0.25, alpha).requires_grad


@pytest.mark.parametrize("alpha", [1, 1.5, 2, 3])
@pytest.mark.parametrize(
    "r", [[0.0, 0.0, 0.0], [0.0, 1e308, 1e308], [2.0, 2.0, 1e30], [0.0], [0.0, 0.5, 1.0]]
)
def test_gradients_are_finite_where_formulas_are_not(r, alpha):
    """Points on their centers, entries so far that nothing is left of them, entries at a kink."""
    leaf = torch.tensor(r, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(surrogate(leaf, 1.0, alpha), leaf, create_graph=True)
    assert float(g.sum().detach()) == pytest.approx(1)
    (h,) = torch.autograd.grad(g.square().sum(), leaf)
    assert bool(torch.isfinite(h).all())


def test_the_parts_take_what_the_whole_takes():
    """`weights`, `gradient_from` and `sparsemax_threshold`, which others build on."""
    u = np.array([[0.0, 0.5, 0.75], [0.0, 2.0, 3.0]])
    system, _ = checked(u=u)
    assert surrogates.sparsemax_threshold(u, system).tolist() == [[0.75], [1.0]]
    p = surrogates.weights(u, 2, system)
    assert p.tolist() == [[0.75, 0.25, 0], [1, 0, 0]]
    assert surrogates.gradient_from(u, p, 2, system).tolist() == [[1, 0, 0], [1, 0, 0]]
    assert [surrogates.exponent_of(x) for x in ("ne", "l2", 1.5)] == [1, 2, 1.5]


@pytest.mark.parametrize("k", range(1, 9))
def test_the_network_sorts(k):
    """All sequences of 0 and 1, hence all sequences."""
    for sequence in itertools.product((0, 1), repeat=k):
        columns = list(sequence)
        for i, j in _entmax._sorting_network(k):
            if columns[i] > columns[j]:
                columns[i], columns[j] = columns[j], columns[i]
        assert columns == sorted(columns)
