"""The arithmetics: what they hold, when one counts as available, and the command line for them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch
from array_api_compat import device as device_of

from constructions import InputError, as_fractions, lloyd_step
from verify import arithmetic
from verify.arithmetic import ARITHMETICS, Arithmetic, UnavailableError, UnknownArithmeticError
from verify.cli import main

HERE = [a for a in ARITHMETICS if not a.why_not]


@pytest.fixture
def afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing is known about what is available, before and after."""
    arithmetic._why_not.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    arithmetic._why_not.cache_clear()


@pytest.mark.parametrize("used", HERE, ids=[a.name for a in HERE])
def test_numbers_go_in_and_come_out_unchanged(used: Arithmetic) -> None:
    table = [[0.5, -3.0, 0.0], [1.25, 2.0**-6, 96.0]]
    for given in (table, np.array(table), np.array(table, dtype=">f8")[:, ::-1][:, ::-1]):
        placed = used.put(given)
        assert used.get(placed).astype(np.float64).tolist() == table
    sums = used.get(placed + placed)
    assert sums.astype(np.float64).tolist() == (2 * np.array(table)).tolist()
    assert used.get(used.put(np.zeros((0, 3)))).shape == (0, 3)
    assert used.get(used.put(2.0)).shape == ()
    third = used.rounded([Fraction(1, 3), Fraction(1, 4)])
    assert abs(as_fractions(third[0]) - Fraction(1, 3)) <= Fraction(used.eps / 4)
    assert as_fractions(third[1]) == Fraction(1, 4)
    if used.exact:
        assert as_fractions(used.get(used.put([Fraction(1, 3)]))) == [Fraction(1, 3)]
        return
    nearly = [1 + Fraction(used.eps) / 4]
    for bad in ([Fraction(1, 3)], [Fraction(2) ** 60 + 1], [2**53 + 1], nearly):
        with pytest.raises(ValueError, match=f"{used.name} cannot hold"):
            used.put(bad)
    if used.element != "bfloat16":
        assert used.get(placed).dtype == used.element
        assert used.eps == np.finfo(used.element).eps
    assert torch.finfo(getattr(torch, used.element)).eps == used.eps


@pytest.mark.parametrize("used", HERE, ids=[a.name for a in HERE])
def test_an_array_is_where_the_arithmetic_says(used: Arithmetic) -> None:
    placed = used.put([1.0, 2.0])
    module = type(placed).__module__.partition(".")[0]
    assert module == {"flint": "numpy", "fractions": "numpy"}.get(used.library, used.library)
    if used.library == "array_api_strict":
        name = "CPU_DEVICE" if used.device == "cpu" else used.device
        assert device_of(placed) == array_api_strict.Device(name)
    whole = used.place(np.array([3, 4])) if not used.exact else np.array([3, 4])
    assert "int" in str(whole.dtype)
    told = used.describe()
    assert told["library"] == used.library
    assert told["version"] != "unknown"
    assert ("threads" in told) == (not used.exact)
    if used.library == "torch":
        assert told["float32 products"] == torch.get_float32_matmul_precision() == "highest"
    json.dumps(told)


def test_names_and_order() -> None:
    names = [a.name for a in ARITHMETICS]
    assert len(set(names)) == len(names) == 18
    assert arithmetic.selected(()) == list(ARITHMETICS)
    chosen = arithmetic.selected(("torch-cpu32", "fmpq", "fmpq"))
    assert [a.name for a in chosen] == ["fmpq", "torch-cpu32"]
    with pytest.raises(UnknownArithmeticError, match="unknown arithmetic 'float8'; allowed: fmpq"):
        arithmetic.selected(("numpy64", "float8"))


def test_half_precision_is_refused_by_the_core_alike() -> None:
    for used in HERE:
        if used.half:
            with pytest.raises(InputError, match="half precision loses the margins"):
                lloyd_step(used.put([[0.0], [1.0]]), used.put([[0.0]]))


# --- availability --------------------------------------------------------------------------------


class Missing:
    """The type of arrays of a library that makes none."""


def fake(afresh: pytest.MonkeyPatch, name: str, asarray: Any) -> None:
    afresh.setitem(
        sys.modules, name, SimpleNamespace(asarray=asarray, ndarray=Missing, generic=Missing)
    )
    afresh.setattr(arithmetic, "_cuda_devices", lambda: 1)


def test_a_kernel_that_ran_counts_and_not_an_import(afresh: pytest.MonkeyPatch) -> None:
    """Public cases 17, 18 and the design's own: CuPy imports without a GPU, and fails later."""

    def no_driver(array: Any) -> Any:
        raise RuntimeError("cudaErrorInsufficientDriver at 0x7f00, pid 4711")

    def off_by_one(array: Any) -> Any:
        return np.asarray(array) + 1

    cupy = arithmetic.get("cupy64")
    fake(afresh, "cupy", no_driver)
    assert cupy.why_not == "its kernel failed with RuntimeError"  # nothing of this host
    arithmetic._why_not.cache_clear()
    fake(afresh, "cupy", off_by_one)
    assert cupy.why_not == "its kernel failed with ValueError"  # numbers changed on the way
    arithmetic._why_not.cache_clear()

    class Halved(np.ndarray):
        def __truediv__(self, other: Any) -> Any:
            return np.asarray(self) / np.asarray(other) / 2

    fake(afresh, "cupy", lambda array: np.asarray(array).view(Halved))
    assert cupy.why_not == "its kernel gave a wrong result"
    with pytest.raises(UnavailableError, match="cupy64 is not available: its kernel gave a wrong"):
        cupy.describe()


def test_what_is_missing_is_named(afresh: pytest.MonkeyPatch) -> None:
    afresh.setitem(sys.modules, "array_api_strict", None)  # importing it fails
    strict = arithmetic.get("strict32").why_not
    assert strict == "array-api-strict is not installed (pip install 'leanlloyd')"
    afresh.setattr(arithmetic, "_cuda_devices", lambda: 0)
    assert {a.why_not for a in ARITHMETICS if a.gpu} == {"no CUDA device"}
    assert not arithmetic.get("numpy64").why_not
    told = arithmetic.settings(("strict32", "numpy64"))
    assert told["strict32"] == {"not run": strict}
    assert told["numpy64"]["element"] == "float64"
    arithmetic._why_not.cache_clear()
    afresh.setattr(arithmetic, "_cuda_devices", lambda: 1)
    afresh.setitem(sys.modules, "cupy", None)
    expected = "cupy-cuda13x is not installed (pip install 'leanlloyd[gpu]')"
    assert arithmetic.get("cupy32").why_not == expected
    afresh.setattr(torch.version, "cuda", None)
    assert arithmetic.get("torch-cuda64").why_not == "this torch is built without CUDA"


def test_a_required_gpu_that_is_missing(afresh: pytest.MonkeyPatch) -> None:
    afresh.setattr(arithmetic, "_cuda_devices", lambda: 0)
    assert arithmetic.missing(("numpy64",)) == []
    assert arithmetic.missing(("numpy64", "cupy64")) == [
        "cupy64 is required but not available: no CUDA device"
    ]
    assert len(arithmetic.missing()) == 6
    for text, required in (("1", True), ("yes", True), ("0", False), ("", False)):
        afresh.setenv(arithmetic.REQUIRE_GPU, text)
        assert arithmetic.gpu_required() is required
    afresh.delenv(arithmetic.REQUIRE_GPU)
    assert arithmetic.gpu_required() is False


# --- the command line ----------------------------------------------------------------------------


@pytest.fixture
def leanlloyd(afresh: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command in this process; gives exit code, output and errors. There is no GPU."""
    afresh.setattr(arithmetic, "_cuda_devices", lambda: 0)
    afresh.delenv(arithmetic.REQUIRE_GPU, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        afresh.setattr(sys, "argv", ["leanlloyd", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


def test_the_list_of_arithmetics(leanlloyd: Any) -> None:
    code, out, _ = leanlloyd("check", "--arithmetic", "list")
    assert code == 0
    assert len(out.splitlines()) == len(ARITHMETICS)
    assert "numpy64          available\n" in out
    assert "cupy32           not available: no CUDA device\n" in out
    rows = json.loads(leanlloyd("check", "--arithmetic", "list", "--json")[1])
    assert [row["name"] for row in rows] == [a.name for a in ARITHMETICS]
    assert rows[2]["available"] is True
    assert rows[-1]["why_not"] == "no CUDA device"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--arithmetic", "numpy"), 2, "unknown arithmetic 'numpy'; allowed: fmpq, fraction, "),
        (
            ("thm-2.1", "--arithmetic", "numpy64"),
            2,
            "--arithmetic does not apply to thm-2.1; it is for ",
        ),
        (("--arithmetic", "cupy64"), 4, "none of these arithmetics can be used here"),
        (
            ("--arithmetic", "numpy64", "--arithmetic", "cupy64", "--require-gpu"),
            1,
            "cupy64 is required but not available: no CUDA device",
        ),
        (("same-bits", "--require-gpu"), 1, "torch-cuda64 is required but not available"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    leanlloyd: Any, arguments: tuple[str, ...], code: int, says: str
) -> None:
    found, out, err = leanlloyd("check", *arguments)
    assert found == code
    assert out == ""
    assert says in err.splitlines()[-1]


def test_only_the_arithmetics_named_are_run(leanlloyd: Any, afresh: pytest.MonkeyPatch) -> None:
    arguments = ("same-bits", "--profile", "smoke", "-j", "1", "--json")
    named = ("--arithmetic", "torch-cpu32", "--arithmetic", "fmpq", "--arithmetic", "cupy64")
    code, out, err = leanlloyd("check", *arguments, *named)
    assert code == 0
    assert "leanlloyd: not run: cupy64: no CUDA device" in err
    (row,) = json.loads(out)["claims"]
    assert row["evidence"][0]["arithmetic"] == "fmpq, torch-cpu32"
    assert [r[0] for r in row["evidence"][0]["tables"][0]["rows"]] == [
        "fmpq",
        "torch-cpu32",
        "cupy64",
    ]
    assert "not run: cupy64 (no CUDA device)" in row["evidence"][0]["sentence"]
    afresh.setenv(arithmetic.REQUIRE_GPU, "1")
    code, _, err = leanlloyd("check", *arguments)
    assert code == 1
    assert "cupy64 is required but not available" in err
