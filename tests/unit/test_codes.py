"""Cluster codes against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import array_api_strict as strict
import numpy as np
import pytest
import torch
from flint import fmpq, fmpz

from constructions import Code, InputError, NotRationalError, codes
from constructions.arrays import checked

SYSTEMS = {
    "float32": checked(a=np.zeros(1, "f4"))[0],
    "float64": checked(a=np.zeros(1))[0],
    "torch": checked(a=torch.zeros(1))[0],
    "exact": checked(a=np.array([Fraction(0)], dtype=object))[0],
}


def test_tables_for_five_clusters():
    """Written out by hand, one row a cluster, least significant bit first."""
    bits = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    expected = {
        "binary": bits,
        "gray": [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1]],
        "half": [[b - Fraction(1, 2) for b in row] for row in bits],
        "one_hot": np.eye(5).tolist(),
        "scalar": [[0], [1], [2], [3], [4]],
        "powers": [[1], [2], [4], [8], [16]],
        "none": [[], [], [], [], []],
    }
    for name, table in expected.items():
        assert codes.code(name, 5).table.tolist() == table, name
    circle = codes.code("circle", 4).table
    np.testing.assert_allclose(circle, [[1, 0], [0, 1], [-1, 0], [0, -1]], atol=1e-15)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 9, 16, 17])
def test_width_separation_diameter_and_norm(k):
    width = math.ceil(math.log2(k))  # right for these k
    apart = (lambda value: value) if k > 1 else (lambda value: math.inf)
    far = (lambda value: value) if k > 1 else (lambda value: 0)
    weight = max(bin(j).count("1") for j in range(k))
    hamming = max(bin(i ^ j).count("1") for i in range(k) for j in range(k))
    expected = {
        "binary": (width, apart(1), hamming, weight),
        "half": (width, apart(1), hamming, Fraction(width, 4)),
        "one_hot": (k, apart(2), far(2), 1),
        "scalar": (1, apart(1), (k - 1) ** 2, (k - 1) ** 2),
        "powers": (1, apart(1), (2 ** (k - 1) - 1) ** 2, 4 ** (k - 1)),
        "none": (0, apart(0), 0, 0),
    }
    for name, (p, separation, diameter, norm) in expected.items():
        code = codes.code(name, k)
        assert (code.k, code.width) == (k, p), name
        assert (code.separation, code.diameter, code.norm) == (separation, diameter, norm), name
        assert code.distinct == (k == 1 or name != "none"), name
    gray = codes.code("gray", k)
    assert (gray.width, gray.separation, gray.distinct) == (width, apart(1), True)
    assert all(np.abs(a - b).sum() == 1 for a, b in zip(gray.table, gray.table[1:], strict=False))
    circle = codes.code("circle", k)
    assert (circle.width, circle.distinct, circle.rational) == (2, True, False)
    np.testing.assert_allclose(circle.norm, 1, rtol=1e-15)
    if k > 1:
        np.testing.assert_allclose(circle.separation, 4 * math.sin(math.pi / k) ** 2, rtol=1e-13)


def test_widths_come_from_integers_not_from_logarithms():
    """Public case 25: floating logarithms are off by one at some powers of two."""
    assert math.ceil(math.log(2**29, 2)) == 30  # the trap
    assert [codes.width_of(k) for k in (1, 2, 2**13, 2**13 + 1, 2**29)] == [0, 1, 13, 14, 29]
    assert all(codes.width_of(2**b) == b for b in range(200))


def test_powers_of_two_are_safe_at_ties_and_consecutive_numbers_are_not():
    """No average of several codes 2^j is a code; (1 + 3) / 2 = 2 is."""
    for k in range(1, 11):
        table = {int(v) for v in codes.powers(k).table[:, 0]}
        for subset in range(1, 2**k):
            members = [2**j for j in range(k) if subset >> j & 1]
            average = Fraction(sum(members), len(members))
            assert (average in table) == (len(members) == 1)
    assert (codes.scalar(4).table[1] + codes.scalar(4).table[3]) / 2 == codes.scalar(4).table[2]


CUSTOM = {
    "nested list": [[0], [Fraction(1, 2)], [3]],
    "floats": np.array([[0.0], [0.5], [3.0]]),
    "fortran float32": np.asfortranarray(np.array([[0.0], [0.5], [3.0]], dtype="f4")),
    "torch": torch.tensor([[0.0], [0.5], [3.0]], requires_grad=True),
    "strict on a device": strict.asarray([[0.0], [0.5], [3.0]], device=strict.Device("device1")),
    "flint": [[fmpz(0)], [fmpq(1, 2)], [fmpz(3)]],
    "code": Code("mine", np.array([[Fraction(0)], [Fraction(1, 2)], [Fraction(3)]])),
}


@pytest.mark.parametrize("name", sorted(CUSTOM))
def test_codes_of_one_s_own(name):
    code = codes.code(CUSTOM[name], 3)
    assert code.table.tolist() == [[0], [Fraction(1, 2)], [3]]
    assert code.separation == Fraction(1, 4)
    for system in SYSTEMS.values():
        table = code.array(system)
        assert table.dtype == system.dtype
        assert [[float(v) for v in row] for row in table] == [[0.0], [0.5], [3.0]]


def test_codes_that_are_refused():
    for choice, says in {
        "unary": "unknown code 'unary'; allowed: binary, one_hot",
        None: "a code array has shape (k, p)",
    }.items():
        with pytest.raises(InputError, match=says.replace("(", r"\(").replace(")", r"\)")):
            codes.code(choice, 2)
    for choice in (
        [[0], [math.nan]],
        [[0], [math.inf]],
        [["a"], ["b"]],
        [[1j], [2]],
        [[None], [1]],
        [[0], [1, 2]],
        np.zeros(2),
        np.zeros((2, 1, 1)),
        np.ma.masked_array([[0.0], [1.0]], [[1], [0]]),
        {},
    ):
        with pytest.raises(InputError, match="code array"):
            codes.code(choice, 2)
    with pytest.raises(InputError, match="the code has 2 rows for k = 3"):
        codes.code([[0], [1]], 3)
    for k in (0, -1, 2.0, True):
        with pytest.raises(InputError, match="k "):
            codes.code("binary", k)


def test_codes_enter_floats_only_if_they_stay_codes():
    """Rounding must neither make an entry infinite nor two codes equal."""
    third = Fraction(1, 3)
    close = codes.code([[third], [third + Fraction(1, 2**30)]], 2)
    assert len(set(close.array(SYSTEMS["float64"]).ravel().tolist())) == 2
    with pytest.raises(InputError, match="rounds two codes to the same in numpy float32"):
        close.array(SYSTEMS["float32"])
    assert len(set(close.array(SYSTEMS["exact"]).ravel())) == 2
    same = codes.code([[third], [third]], 2)  # the caller's wish, not rounding
    assert same.array(SYSTEMS["float32"]).shape == (2, 1)
    for k, name in ((129, "float32"), (1025, "float64")):
        with pytest.raises(InputError, match=f"the powers code for k = {k} overflows"):
            codes.code("powers", k).array(SYSTEMS[name])
        assert codes.code("powers", k - 1).array(SYSTEMS[name])[-1, 0] == 2.0 ** (k - 2)
    assert codes.code("powers", 2000).array(SYSTEMS["exact"])[-1, 0] == Fraction(2**1999)
    with pytest.raises(NotRationalError, match="the circle code is not rational"):
        codes.code("circle", 3).array(SYSTEMS["exact"])


def test_empty_codes_have_width_zero():
    for choice in ("none", [[], []], np.zeros((2, 0))):
        code = codes.code(choice, 2)
        assert (code.width, code.separation, code.distinct) == (0, 0, False)
        assert code.array(SYSTEMS["exact"]).shape == (2, 0)
        assert tuple(code.array(SYSTEMS["torch"]).shape) == (2, 0)
    assert codes.code("none", 1).distinct
