"""The door: what may come in, in which number system it leaves, and what the refusals say."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import array_api_strict as strict
import numpy as np
import pytest
import torch
from flint import fmpq, fmpz

from constructions import InputError, LloydTransformer, lloyd_step, rational_array
from constructions.arrays import checked, checked_count, checked_scalar, checked_task, to_numpy
from constructions.rationals import as_fractions, whole_numbers

X = np.array([[0.0, 0.0], [1.0, 0.0], [4.0, 4.0], [5.0, 4.0]])
C = np.array([[0.0, 0.0], [5.0, 5.0]])
LLOYD = [[0.5, 0.0], [4.5, 4.0]]


def matrix(a):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.matrix(a)


def objects(a, kind):
    out = np.empty(a.shape, dtype=object)
    for place, value in np.ndenumerate(a):
        out[place] = kind(int(value))
    return out


def spoiled(value, place=(1, 1)):
    out = rational_array(X)
    out[place] = value
    return out


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


class Frame:
    """Looks like a data frame: holds an array, is none."""

    values = X

    def __array__(self, dtype=None, copy=None):
        return X


class Subclass(np.ndarray):
    pass


ACCEPTED = {
    "float64": (X, C),
    "float32": (X.astype("f4"), C.astype("f4")),
    "mixed floats": (X.astype("f4"), C),
    "fortran": (np.asfortranarray(X), np.asfortranarray(C)),
    "negative strides": (X[::-1][::-1], np.ascontiguousarray(C[::-1])[::-1]),
    "strided view": (np.repeat(X, 3, axis=0)[::3], np.repeat(C, 2, axis=1)[:, ::2]),
    "read-only": (read_only(X), read_only(C)),
    "big-endian": (X.astype(">f8"), C.astype(">f4")),
    "subclass": (X.view(Subclass), C.view(Subclass)),
    "int8": (X.astype("i1"), C.astype("i1")),
    "uint64": (X.astype("u8"), C.astype("u8")),
    "int and float": (X.astype("i4"), C),
    "torch float64": (torch.tensor(X), torch.tensor(C)),
    "torch float32": (torch.tensor(X).float(), torch.tensor(C).float()),
    "torch transposed": (torch.tensor(X.T.copy()).T, torch.tensor(C.T.copy()).T),
    "torch int32": (torch.tensor(X).int(), torch.tensor(C).int()),
    "torch gradients": (torch.tensor(X, requires_grad=True), torch.tensor(C, requires_grad=True)),
    "torch parameter": (torch.nn.Parameter(torch.tensor(X)), torch.tensor(C)),
    "strict": (strict.asarray(X), strict.asarray(C)),
    "strict int": (strict.asarray(X.astype(int)), strict.asarray(C.astype(int))),
    "fmpq": (rational_array(X), rational_array(C)),
    "Fraction": (rational_array(X, Fraction), rational_array(C, Fraction)),
    "fmpz": (objects(X, fmpz), objects(C, fmpz)),
    "int objects": (objects(X, int), objects(C, int)),
    "numpy int objects": (objects(X, np.int64), objects(C, np.int64)),
    "rationals mixed": (rational_array(X, Fraction), rational_array(C)),
    "exact beside int": (rational_array(X), C.astype(int)),
}


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_every_accepted_array_gives_the_same_answer_and_is_left_alone(name):
    points, centers = ACCEPTED[name]
    before = as_fractions(points), as_fractions(centers)
    step = lloyd_step(points, centers)
    model = LloydTransformer(2, 2)
    results = [step.centers, model(points, centers), model(points, centers, literal=True)]
    for result in results:
        assert as_fractions(result) == [[Fraction(u) for u in row] for row in LLOYD]
        assert type(result) is type(lloyd_step(points, centers).centers)
    assert to_numpy(step.assignments).tolist() == [0, 0, 1, 1]
    assert not to_numpy(step.tied_points).any()
    assert not to_numpy(step.empty_clusters).any()
    assert (as_fractions(points), as_fractions(centers)) == before


def test_the_number_system_is_that_of_the_input():
    for points, centers, dtype in (
        (X.astype("f4"), C.astype("f4"), np.float32),
        (X.astype(">f4"), C.astype(">f4"), np.float32),
        (X.astype("f4"), C, np.float64),
        (X.astype("i8"), C.astype("f4"), np.float64),
        (torch.tensor(X).float(), torch.tensor(C).float(), torch.float32),
        (torch.tensor(X).float(), torch.tensor(C), torch.float64),
    ):
        step = lloyd_step(points, centers)
        assert step.centers.dtype == dtype
        assert LloydTransformer(2, 2)(points, centers).dtype == dtype
        assert "int64" in str(step.assignments.dtype)
        assert "bool" in str(step.tied_points.dtype)
    kinds = {"fmpq": fmpq, "Fraction": Fraction, "fmpz": Fraction, "rationals mixed": fmpq}
    for name, kind in kinds.items():
        centers = lloyd_step(*ACCEPTED[name]).centers
        assert {type(v) for v in centers.ravel()} == {kind}, name


def test_results_never_share_memory_with_the_input():
    model = LloydTransformer(2, 2)
    for result in (model(X, C, steps=0), model(X, C, steps=0, literal=True)):
        assert (result == C).all()
        assert not np.shares_memory(result, C)
    kept = lloyd_step(np.zeros((2, 1)), np.array([[0.0], [9.0]]), empty="keep").centers
    assert kept.tolist() == [[0.0], [9.0]]


def test_views_and_byte_orders_leave_the_caller_s_bytes_alone():
    for make in (np.asfortranarray, lambda a: a[::-1], lambda a: a.astype(">f8")):
        points, centers = make(X.copy()), make(C.copy())
        before = points.tobytes(), centers.tobytes(), points.strides
        lloyd_step(points, centers, empty="keep")
        LloydTransformer(2, 2)(points, centers, steps=3, literal=True)
        assert (points.tobytes(), centers.tobytes(), points.strides) == before


REFUSED = {
    "list": (X.tolist(), "X must be an array"),
    "None": (None, "X must be an array"),
    "text": ("abc", "X must be an array"),
    "frame": (Frame(), "numpy.asarray makes one"),
    "matrix": (matrix(X), "X must be an array"),
    "masked": (np.ma.masked_array(X, X > 4), "masked array"),
    "bool": (X > 0, "element type bool"),
    "complex": (X.astype(complex), "element type complex128"),
    "half": (X.astype("f2"), "half precision"),
    "longdouble": (X.astype("longdouble"), "allowed: float32, float64"),
    "datetime": (X.astype("i8").astype("M8[s]"), "element type datetime64"),
    "strings": (X.astype(str), "element type str"),
    "bytes": (X.astype("S4"), "element type bytes"),
    "records": (np.zeros((4, 2), dtype="i4,f4"), "element type void"),
    "torch bfloat16": (torch.tensor(X).bfloat16(), "half precision"),
    "torch bool": (torch.tensor(X > 0), "element type bool"),
    "torch complex": (torch.tensor(X).cfloat(), "element type complex64"),
    "torch sparse": (torch.tensor(X).to_sparse(), "layout torch.sparse_coo"),
    "torch meta": (torch.tensor(X).to("meta"), "no data"),
    "strict complex": (strict.asarray(X.astype(complex)), "element type complex128"),
    "scalar": (np.float64(1), "expected (..., points, coordinates)"),
    "0-d": (np.array(1.0), "has shape ()"),
    "1-d": (X[0], "a single coordinate is a column"),
    "no points": (X[:0], "X has shape (0, 2): it is empty"),
    "no coordinates": (X[:, :0], "it is empty"),
    "other width": (np.zeros((4, 3)), "X has 3 coordinates but C has 2"),
    "batch": (X[None], "X has batch shape (1,) but C has ()"),
    "fewer points than centers": (X[:1], "k = 2 centers for n = 1 points"),
    "nan": (np.array([[0.0, 0], [0, np.nan]]), "X[1, 1] is nan"),
    "inf": (np.array([[0.0, 0], [-np.inf, 0]]), "X[1, 0] is -inf"),
    "big-endian nan": (np.array([[0.0, np.nan], [0, 0]]).astype(">f8"), "X[0, 1] is nan"),
    "integer beyond float64": (np.array([[2**53, 0], [0, 2]]), "X[0, 0] is 9007199254740992"),
    "unsigned beyond float64": (np.array([[0, 0], [0, 2**64 - 1]], "u8"), "X[1, 1] is 184467440"),
    "torch beside numpy": (torch.tensor(X), "X is torch, C is numpy"),
    "strict beside numpy": (strict.asarray(X), "X is array_api_strict, C is numpy"),
    "exact beside float": (rational_array(X), "Fraction(x) takes a float"),
    "float inside": (spoiled(0.5), "X[1, 1] is float 0.5"),
    "numpy float inside": (spoiled(np.float64(3)), "X[1, 1] is float64"),
    "None inside": (spoiled(None), "X[1, 1] is NoneType None"),
    "NaN inside": (spoiled(math.nan), "X[1, 1] is float nan"),
    "bool inside": (spoiled(True), "X[1, 1] is bool True"),
    "numpy bool inside": (spoiled(np.True_), "X[1, 1] is bool"),
    "text inside": (spoiled("1/2"), "X[1, 1] is str '1/2'"),
    "list inside": (spoiled([1]), "X[1, 1] is list [1]"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_everything_else_is_refused_with_one_line_that_says_why(name):
    points, says = REFUSED[name]
    centers = C if points is None or "inside" not in name else rational_array(C)
    for call in (lloyd_step, LloydTransformer(2, 2), LloydTransformer(2, 2).embed):
        with pytest.raises(InputError) as caught:
            call(points, centers)
        message = str(caught.value)
        assert says in message
        assert "\n" not in message


def test_the_place_of_a_fault_is_named_in_every_library():
    bad = np.zeros((2, 3, 2))
    bad[1, 2, 0] = np.nan
    good = np.zeros((2, 1, 2))
    for make in (np.asarray, torch.tensor, strict.asarray):
        with pytest.raises(InputError, match=r"X\[1, 2, 0\] is nan"):
            lloyd_step(make(bad), make(good))
        with pytest.raises(InputError, match=r"C\[1, 2, 0\] is nan"):
            lloyd_step(make(np.zeros((2, 4, 2))), make(bad))
    points = torch.tensor(bad, requires_grad=True)
    with pytest.raises(InputError, match=r"X\[1, 2, 0\] is nan"):
        lloyd_step(points, torch.tensor(good))


def test_no_array_travels_between_devices():
    second = strict.Device("device1")
    with pytest.raises(InputError, match="different devices"):
        lloyd_step(strict.asarray(X, device=second), strict.asarray(C))
    system, (a,) = checked(a=strict.asarray(X, device=second))
    assert a.device == second
    assert system.full((2,), 1).device == second
    assert system.array(np.eye(2)).device == second
    assert system.indices(3).device == second
    assert system.indicator(a > 0).device == second


def test_parameters():
    for good in (1, 2.5, Fraction(1, 3), fmpq(1, 3), fmpz(2), np.float32(0.5), np.int8(3)):
        assert checked_scalar("t", good, "positive") == good
    assert checked_scalar("t", math.inf, "positive", infinity=True) == math.inf
    for bad in (0, -1, -0.0, math.nan, math.inf, np.longdouble("inf"), Fraction(-1, 2), fmpq(0)):
        with pytest.raises(InputError, match=r"t = .* is out of range; allowed: positive"):
            checked_scalar("t", bad, "positive")
    for bad in (True, None, "1", 1j, [1], np.array(1.0), torch.tensor(1.0)):
        with pytest.raises(InputError, match="t must be a number"):
            checked_scalar("t", bad, "positive")
    assert checked_count("k", np.int64(3), 1) == 3
    for bad in (True, 1.0, "1", None, Fraction(1)):
        with pytest.raises(InputError, match="k must be an integer"):
            checked_count("k", bad, 1)
    with pytest.raises(InputError, match="k = 0 is out of range; allowed: integers >= 1"):
        checked_count("k", 0, 1)


def test_indicators_and_constants_are_of_the_system_s_own_kind():
    """True / 3 would be a float in the middle of rational arithmetic."""
    for table, kind in ((rational_array(X), fmpq), (rational_array(X, Fraction), Fraction)):
        system, (a,) = checked(a=table)
        marks = system.indicator(a > 0)
        assert {type(v) for v in marks.ravel()} == {kind}
        assert type(marks[0, 0] / 3) is kind
        assert system.scalar(0.1) == kind((0.1).as_integer_ratio()[0]) / (0.1).as_integer_ratio()[1]
        assert (system.eps, system.tiny, system.max) == (0.0, 0.0, math.inf)
    single, _ = checked(a=X.astype("f4"))
    assert (single.eps, str(single)) == (2.0**-23, "numpy float32")
    assert str(checked(a=torch.tensor(X))[0]) == "torch float64"
    assert str(checked(a=strict.asarray(X))[0]) == "array_api_strict float64"
    assert str(checked(a=rational_array(X))[0]) == "exact rationals (fmpq)"


def test_means_are_accumulated_wide_and_are_zero_for_nobody():
    values = np.array([1e8, 1.0, -1e8, 1.0], dtype="f4")[:, None]
    mask = np.array([[True] * 4, [False] * 4, [False, True, False, False]])
    for make in (np.asarray, torch.tensor, strict.asarray):
        system, (v,) = checked(v=make(values))
        mean = system.mean(make(mask), v)
        assert "float32" in str(mean.dtype)
        assert to_numpy(mean).tolist() == [[0.5], [0.0], [1.0]]
    system, (v,) = checked(v=rational_array(values))
    assert as_fractions(system.mean(mask, v)) == [[Fraction(1, 2)], [0], [1]]


def test_rational_arrays_hold_exact_values():
    assert rational_array([[0.1]])[0, 0] == fmpq(*(0.1).as_integer_ratio())
    assert rational_array(np.float32([0.1]))[0] == fmpq(*np.float32(0.1).item().as_integer_ratio())
    third = np.longdouble(1) / 3
    assert rational_array(np.array([third]), Fraction)[0] == Fraction(*third.as_integer_ratio())
    for table in (torch.tensor(X), strict.asarray(X, device=strict.Device("device1")), X.tolist()):
        assert as_fractions(rational_array(table)) == as_fractions(X)
    assert type(rational_array([1], Fraction)[0]) is Fraction
    assert as_fractions(torch.tensor(0.25)) == Fraction(1, 4)
    nan = [[math.nan]]
    for bad in (nan, [[math.inf]], [["1"]], [[None]], [[1j]], [[1], [1, 2]], np.ma.array([1.0])):
        with pytest.raises(InputError):
            rational_array(bad)


def test_whole_numbers_keep_the_order_of_distances():
    """Integers replace fractions in comparisons only; both the small and the big kind."""
    third, tiny = Fraction(1, 3), Fraction(1, 10**40)
    a = rational_array([[0, third], [Fraction(1, 7), -2]])
    small, _ = whole_numbers(a, a)
    assert small.dtype == np.int64
    assert small.tolist() == [[0, 7], [3, -42]]
    big, _ = whole_numbers(a + rational_array([[tiny]]), a)
    assert big.dtype == object
    assert {type(v) for v in big.ravel()} == {int}
    limit = math.isqrt((2**63 - 1) // 8)
    assert whole_numbers(rational_array([[limit, limit]]))[0].dtype == np.int64
    assert whole_numbers(rational_array([[limit + 1, 0]]))[0].dtype == object


def test_checked_task_accepts_batches_in_front():
    system, points, centers = checked_task(np.zeros((2, 3, 5, 1)), np.zeros((2, 3, 4, 1)))
    assert (points.shape, centers.shape) == ((2, 3, 5, 1), (2, 3, 4, 1))
    assert system.dtype == np.float64
