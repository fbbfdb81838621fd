"""The bounds by name, for the command line and the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy

from verify.bounds import lemmas, theorem
from verify.bounds.geometry import CODES, Expr, scene
from verify.bounds.symbols import B, d, k, n


@dataclass(frozen=True)
class Line:
    """One number of a bound.

    Attributes
    ----------
    label : what it bounds, for people
    expression : in d, k, n, gamma, tau, B
    note : how it is meant, or ""
    """

    label: str
    expression: Expr
    note: str = ""


@dataclass(frozen=True)
class Bound:
    """A named bound: `lines(code, regularizer)`, and of what `factors` it is made.

    `claim` is the id of the claim that measures it.
    """

    name: str
    title: str
    claim: str
    lines: Callable[[str, str], list[Line]]
    factors: Callable[[str, str], dict[str, dict[str, Expr]]] = lambda code, regularizer: {}


def _norms(code: str, regularizer: str) -> list[Line]:
    s = scene(code)
    return [
        Line("d_E", s.centers.R**2, "largest squared norm of a center's token"),
        Line("d_E, as the paper states it", scene(code, stated=True).centers.R ** 2),
        Line("|x_1|", s.moved.R, "updated point"),
        Line("|c_1|", (1 + B) * s.centers.R + B * s.moved.R, "updated center's token"),
        Line("R_Delta", s.reach, "updated center, and its distance to any point"),
    ]


def _dispersion(code: str, regularizer: str) -> list[Line]:
    s = scene(code)
    found = []
    for name, (query, keys) in s.pairs.items():
        found.append(Line(f"{name}, centered", lemmas.dispersion(query, keys, s.c, B)))
        found.append(Line(f"{name}, ball", lemmas.dispersion_ball(query, keys, s.c, B)))
    return found


def _softmax(code: str, regularizer: str) -> list[Line]:
    half, root = sympy.Rational(1, 2), sympy.sqrt(2)
    constants = {
        "2 -> 2": half,
        "1 -> 1": half,
        "inf -> inf": half,
        "inf -> 1": sympy.Integer(1),
        "inf -> 2": 1 / root,
        "2 -> 1": 1 / root,
        "1 -> 2": root / 4,
        "1 -> inf": half / 2,
    }
    found = [Line(f"softmax, {name}", value) for name, value in constants.items()]
    s = scene(code)
    for name, (query, keys) in s.pairs.items():
        spread = sympy.exp(lemmas.dispersion(query, keys, s.c, B))
        count = n if name.endswith("points") else k
        weight = spread / (spread + count - 1)
        found.append(Line(f"{name}: largest weight", weight, "no attention weight exceeds it"))
    sparse = 4 * sympy.floor(k / 2) * sympy.ceiling(k / 2) / k
    return [
        *found,
        Line("sparsemax, 2 -> 2", sympy.Integer(1)),
        Line("sparsemax, inf -> 1", sparse),
    ]


def _scores(code: str, regularizer: str) -> list[Line]:
    s = scene(code)
    return [
        Line(f"{name}, {what}, {kind}", value)
        for name, (query, keys) in s.pairs.items()
        for what, change in lemmas.scores(query, keys, s.c, B).items()
        for kind, value in zip(("largest", "spread"), change, strict=True)
    ]


def _attention(code: str, regularizer: str) -> list[Line]:
    return [
        Line(f"{name}, {what}, {form}", value)
        for form in lemmas.FORMS
        for s in (scene(code, stated=form != "sharp"),)
        for name, (query, keys) in s.pairs.items()
        for what, value in lemmas.attention(query, keys, s.c, B, form)._asdict().items()
    ]


def _output(code: str, regularizer: str) -> list[Line]:
    return [
        Line(f"phi, {form}", lemmas.output(scene(code, stated=form != "sharp"), form))
        for form in lemmas.FORMS
    ]


def _output_factors(code: str, regularizer: str) -> dict[str, dict[str, Expr]]:
    found = {}
    for form in lemmas.FORMS:
        s = scene(code, stated=form != "sharp")
        parts = {}
        for name, (query, keys) in s.pairs.items():
            steps = lemmas.attention(query, keys, s.c, B, form)
            if name == "centers_from_points":
                parts["T (moved points -> centers)"] = steps.others
            parts[f"{name}: value, query, key"] = sympy.sqrt(
                steps.value**2 + steps.query**2 + steps.key**2
            )
        found[f"phi, {form}"] = parts
    return found


def _loss(code: str, regularizer: str) -> list[Line]:
    s = scene(code)
    G = lemmas.slope(regularizer)
    return [
        Line("G", G, "surrogate per max-norm change of the distances, at every tau"),
        Line("G, Euclidean", lemmas.slope_euclidean(regularizer), "per Euclidean change"),
        Line("omega", lemmas.OMEGA[regularizer], "weights per Euclidean change of r / tau"),
        Line(
            "1 + k omega R_Delta^2 / tau",
            lemmas.product_rule(scene(code, stated=True), regularizer),
            "the product rule's G, reconstruction",
        ),
        Line("2 n G R_Delta", 2 * n * G * s.reach, "loss per largest move of a center"),
    ]


def _theorem(code: str, regularizer: str) -> list[Line]:
    return [
        Line(form, theorem.alpha(code, regularizer, form), theorem.MEANING[form])
        for form in theorem.FORMS
    ]


def _theorem_factors(code: str, regularizer: str) -> dict[str, dict[str, Expr]]:
    return {form: theorem.factors(code, regularizer, form) for form in theorem.FORMS}


CATALOG = {
    bound.name: bound
    for bound in (
        Bound("L1", "norms of tokens and centers", "lem-I.1", _norms),
        Bound("L2", "dispersion of attention scores", "softmax-dispersion", _dispersion),
        Bound("L3", "stability of softmax", "softmax-dispersion", _softmax),
        Bound("L4", "stability of attention scores", "attention-stability", _scores),
        Bound("L5", "stability of attention outputs", "attention-stability", _attention),
        Bound("L6", "stability of the model's output", "thm-I.1", _output, _output_factors),
        Bound("L7", "stability of the smoothed loss", "lem-I.2", _loss),
        Bound("thm-3.1", "Lipschitz constant of the loss", "thm-3.1", _theorem, _theorem_factors),
    )
}


def facts(code: str) -> dict[str, Any]:
    """Sizes that belong to a code: d_emb, and d_E exactly and as stated."""
    g = CODES[code]
    return {"d_emb": d + g.width, "d_E": d + g.norm, "d_E, as stated": d + g.stated}
