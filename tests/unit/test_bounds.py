"""Bounds: against formulas written out here, exact integers, logarithms, the command line."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
from click.testing import CliRunner

from constructions.codes import code as make_code
from verify.bounds import catalog, instances, lemmas, theorem
from verify.bounds.attack import model_of
from verify.bounds.evaluate import Number, Setting, fast, precise
from verify.bounds.geometry import CODES, scene
from verify.bounds.symbols import PARAMETERS, CeilLog2, EntropySlope, FloorLog2, entropy_slope, k
from verify.cli import leanlloyd

# ---- an independent second answer: plain floats, from the theory page ----------------------


def sets(code: str, d: int, count: int, stated: bool) -> dict[str, tuple[float, float, float]]:
    p = math.ceil(math.log2(count))
    norm, center, radius, width = {
        "binary": (p if stated else math.floor(math.log2(count)), p / 4, p / 4, p),
        "one_hot": (1, 1 / count, 1 - 1 / count, count),
        "none": (0, 0, 0, 0),
        "scalar": ((count - 1) ** 2, (count - 1) ** 2 / 4, (count - 1) ** 2 / 4, 1),
    }[code]
    x = (d**0.5, d**0.5 / 2, d**0.5 / 2)
    c = ((d + norm) ** 0.5, (d / 4 + center) ** 0.5, (d / 4 + radius) ** 0.5)
    return {"x": x, "c": c, "width": (width, 0, 0)}


def alpha(s: Setting, form: str) -> float:
    stated = form != "sharp"
    found = sets(s.code, s.d, s.k, stated)
    x, c = found["x"], found["c"]
    one = tuple((1 + s.B) * a + s.B * b for a, b in zip(x, c, strict=True))
    g = s.gamma / math.sqrt(s.d + found["width"][0])
    omega = 0.5 if s.regularizer == "ne" else 1.0
    if form == "order":
        d_E, d_emb = c[0] ** 2, s.d + found["width"][0]
        return (
            s.k
            * s.n
            * omega
            / s.tau
            * max(1, s.gamma**2)
            * math.sqrt(d_E)
            * max(1, d_E**2 / d_emb)
            * math.exp(s.gamma * d_E / math.sqrt(d_emb))
        )
    total = 0.0
    pairs = ((x, c), (x, x), (c, one), (c, c))
    T = 0.0
    for index, ((R, _, _), (R1, m1, r1)) in enumerate(pairs):
        E = math.exp(g * s.B**2 * (R + R1) ** 2) if form == "exponential" else 1.0
        if form == "sharp":
            values = (
                R1,
                2 * g * s.B**2 * r1**2 * R,
                2 * g * s.B**2 * r1 * min(R1 * (R + R1), r1 * (R + m1 + R1)),
            )
            carry = s.B + 2 * g * s.B**3 * r1 * (R + R1)
        else:
            step = 2 * g * s.B**2 * R1 * (R + R1) * E
            values = (R1, step * R, step * R1)
            carry = s.B + step * s.B
        if index == 2:
            T = carry
    for index, ((R, _, _), (R1, m1, r1)) in enumerate(pairs):
        E = math.exp(g * s.B**2 * (R + R1) ** 2) if form == "exponential" else 1.0
        if form == "sharp":
            values = (
                R1,
                2 * g * s.B**2 * r1**2 * R,
                2 * g * s.B**2 * r1 * min(R1 * (R + R1), r1 * (R + m1 + R1)),
            )
        else:
            step = 2 * g * s.B**2 * R1 * (R + R1) * E
            values = (R1, step * R, step * R1)
        total += (T**2 if index < 2 else 1) * sum(v * v for v in values)
    reach = (1 + s.B + s.B**2) * x[0] + s.B * (1 + s.B) * c[0]
    if form == "sharp":
        steep = float(entropy_slope(s.k)) if s.regularizer == "ne" else 3 - 2 / s.k
    else:
        steep = 1 + s.k * omega * reach**2 / s.tau
    return 2 * s.n * steep * reach * math.sqrt(total)


@pytest.mark.parametrize("form", theorem.FORMS)
@pytest.mark.parametrize("code", ["binary", "one_hot", "none", "scalar"])
@pytest.mark.parametrize("regularizer", ["ne", "l2"])
def test_the_theorem_is_what_the_page_says(form: str, code: str, regularizer: str) -> None:
    for d, count, n, gamma, tau, B in (
        (4, 6, 512, 1.0, 0.1, 1.0),
        (1, 2, 1, 0.3, 10.0, 0.5),
        (8, 25, 3, 0.01, 1.0, 2.0),
    ):
        s = Setting(code, d, count, n, gamma, tau, B, regularizer)
        found = float(precise(theorem.alpha(code, regularizer, form), s))
        assert found == pytest.approx(alpha(s, form), rel=1e-10)
        product = math.prod(
            float(precise(f, s)) for f in theorem.factors(code, regularizer, form).values()
        )
        assert product == pytest.approx(found, rel=1e-12)


def test_printed_values_of_the_page() -> None:
    """The table of the theory page, per point."""
    for code, expected in (("one_hot", 9694.08), ("binary", 14363.4)):
        s = Setting(code, 4, 6, 1)
        assert float(precise(theorem.alpha(code, "l2", "sharp"), s)) == pytest.approx(
            expected, 1e-5
        )


# ---- integers and special functions --------------------------------------------------------


@pytest.mark.parametrize("j", [1, 2, 10, 49, 53, 64, 300])
def test_logarithms_are_exact_at_every_k(j: int) -> None:
    for count, up, down in ((2**j, j, j), (2**j + 1, j + 1, j), (2**j - 1, j, j - 1)):
        if count >= 2:
            assert CeilLog2(sympy.Integer(count)) == up
            assert FloorLog2(sympy.Integer(count)) == down
    s = Setting("binary", 4, 2**j + 1, 1)
    assert precise(catalog.facts("binary")["d_emb"], s) == 4 + j + 1
    assert s.d_emb == 4 + j + 1


@pytest.mark.parametrize("count", [2, 3, 6, 25, 1000, 10**30])
def test_the_entropy_slope_solves_its_equation(count: int) -> None:
    with mpmath.workdps(40):
        G = entropy_slope(count)
        residual = 2 * G - mpmath.log((count - 1) * (G + 1) / (G - 1))
        assert abs(residual) < mpmath.mpf(10) ** -35
    assert entropy_slope(1) == 1
    assert float(EntropySlope(sympy.Integer(count)).evalf()) == pytest.approx(float(G))


@pytest.mark.parametrize("name", sorted(CODES))
@pytest.mark.parametrize("count", [2, 3, 5, 6, 9])
def test_code_geometry_holds_for_the_tables(name: str, count: int) -> None:
    """Width, norm and radius of every code, from its table; the center is one that fits."""
    table = make_code(name, count).table.astype(float).reshape(count, -1)
    g = [float(sympy.sympify(part).subs(k, count)) for part in CODES[name]]
    assert table.shape[1] == g[0]
    norm = max((row @ row for row in table), default=0.0)
    assert norm <= g[1] + 1e-12
    if name != "gray":
        assert norm == pytest.approx(g[1], abs=1e-12)
    middles = {
        "one_hot": np.full(count, 1 / count),
        "circle": np.zeros(2),
        "half": np.zeros(table.shape[1]),
    }
    middle = middles.get(name, (table.max(axis=0) + table.min(axis=0)) / 2)
    assert middle @ middle == pytest.approx(g[2], abs=1e-9)
    assert max((row - middle) @ (row - middle) for row in table) <= g[3] * (1 + 1e-12) + 1e-12


def test_fast_and_precise_agree() -> None:
    for code in CODES:
        for form in theorem.FORMS:
            expression = theorem.alpha(code, "ne", form)
            s = Setting(code, 2, 3, 7, 0.2, 0.5, 0.8, "ne")
            assert float(fast(expression)(*s.arguments)) == pytest.approx(
                float(precise(expression, s)), rel=1e-11
            )


def test_fast_takes_arrays() -> None:
    f = fast(theorem.alpha("binary", "ne", "sharp"))
    d = np.array([2.0, 4.0, 8.0])
    together = f(d, 6, 1, 1.0, 1.0, 1.0)
    assert together == pytest.approx([float(f(v, 6, 1, 1.0, 1.0, 1.0)) for v in d])


def test_overflow_becomes_a_logarithm() -> None:
    s = Setting("binary", 4, 6, 1, gamma=1e6)
    number = Number.of(precise(theorem.alpha("binary", "l2", "exponential"), s))
    assert number.value is None
    assert isinstance(number.log10, float)
    assert number.log10 > 1e6
    assert str(number).startswith("10^")
    beyond = Number.of(mpmath.exp(mpmath.mpf(10) ** 400))
    assert beyond.value is None
    assert isinstance(beyond.log10, str)
    assert Number.of(mpmath.mpf(0)).to_json() == {"value": 0.0, "log10": None}


# ---- what the forms say about each other ---------------------------------------------------


def test_exact_instances_are_below_the_bound_and_above_their_formula() -> None:
    for code in ("none", "binary", "one_hot", "scalar"):
        for gamma, B in ((0.1, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0)):
            s = Setting(code, 4, 6, 2, gamma, 0.1, B, "ne")
            bounds = theorem.lower_bounds(code)
            made = {"LB1": instances.flat(model_of(s), 2, B)}
            if theorem.applies("LB2", s.d, s.k, s.n, B):
                made["LB2"] = instances.steep(model_of(s), 2)
            for name, instance in made.items():
                norm = instances.gradient_norm(model_of(s), instance, s.tau, s.regularizer)
                assert norm >= float(precise(bounds[name], s)) * (1 - 1e-9)
                assert norm <= float(precise(theorem.alpha(code, "ne", "sharp"), s))


def test_forms_are_ordered() -> None:
    for form, weaker in (("sharp", "plain"), ("plain", "exponential")):
        for code in CODES:
            s = Setting(code, 3, 5, 2, 0.7, 0.1, 1.0)
            low, high = (
                precise(lemmas.output(scene(code, stated=f != "sharp"), f), s)
                for f in (form, weaker)
            )
            assert low <= high


def test_every_line_has_a_value_and_a_formula() -> None:
    for bound in catalog.CATALOG.values():
        for code in ("binary", "one_hot", "none"):
            for line in bound.lines(code, "ne"):
                assert precise(line.expression, Setting(code, regularizer="ne")) >= 0
                assert sympy.latex(line.expression)
                assert sympy.sympify(line.expression).free_symbols <= set(PARAMETERS)


# ---- the command ---------------------------------------------------------------------------


def run(*arguments: str) -> Any:
    return CliRunner().invoke(leanlloyd, ["bound", *arguments], standalone_mode=False)


def test_the_command_prints_all_forms_factors_and_lower_bounds() -> None:
    done = run("thm-3.1", "--tau", "0.1", "--norm-bound", "1", "--regularizer", "l2", "--json")
    found = json.loads(done.output)
    s = Setting("binary", 4, 6, 512, tau=0.1)
    for row in found["constants"]:
        assert row["value"] == pytest.approx(alpha(s, row["label"]), rel=1e-10)
    assert set(found["factors"]) == set(theorem.FORMS)
    lower = {row["label"]: row["value"] for row in found["lower_bounds"]}
    assert lower["LB1, formula"] == pytest.approx(8 * math.sqrt(12) * 512 * 4, rel=1e-12)
    assert lower["LB1, measured"] >= lower["LB1, formula"] * (1 - 1e-9)
    assert "LB2, measured" in lower


def test_symbolic_output_can_be_read_back() -> None:
    found = json.loads(run("L7", "--symbolic", "--json").output)
    names = {"CeilLog2": CeilLog2, "FloorLog2": FloorLog2, "EntropySlope": EntropySlope}
    names |= {str(symbol): symbol for symbol in PARAMETERS}
    for row in found["constants"]:
        again = sympy.sympify(row["sympy"], locals=names)
        value = float(precise(again, Setting()))
        assert value == pytest.approx(row["value"], rel=1e-12)
        assert row["tex"]


@pytest.mark.parametrize("name", ["L1", "L2", "L3", "L4", "L5", "L6", "L7", "lem-I.1", "thm-I.2"])
def test_every_bound_prints(name: str) -> None:
    done = run(name, "--code", "one_hot", "-d", "32", "-k", "25", "--gamma", "30")
    assert done.exception is None
    assert "inf" not in re.sub(r"inf -> \w+|\w+ -> inf", "", done.output)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("thm-3.1", "-k", "1"), "k = 1 is out of range"),
        (("thm-3.1", "--gamma", "-1"), "gamma = -1.0 is out of range"),
        (("thm-3.1", "--gamma", "nan"), "gamma = nan is out of range"),
        (("thm-3.1", "-n", "0"), "n = 0 is out of range"),
        (("thm-3.1", "-d", "0"), "d = 0 is out of range"),
        (("thm-3.1", "--norm-bound", "0"), "norm bound = 0.0 is out of range"),
        (("thm-3.1", "--tau", "0"), "tau = 0.0 is out of range"),
        (("thm-3.1", "--code", "morse"), "code morse is not known"),
        (("thm-3.1", "--regularizer", "l3"), "regularizer l3"),
        (("L8",), "no bound 'L8'"),
    ],
)
def test_bad_input_is_one_line_and_usage(arguments: tuple[str, ...], says: str) -> None:
    done = run(*arguments)
    assert getattr(done.exception, "code", None) == 2
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)


def test_gamma_zero_is_allowed() -> None:
    found = json.loads(run("thm-3.1", "--gamma", "0", "--json").output)
    assert all(row["value"] > 0 for row in found["constants"])
    assert replace(Setting(), gamma=0.0).gamma == 0
