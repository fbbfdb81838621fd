"""The lemmas of the chain as functions from token sets to expressions.

Every function here is the only source of its formula: claims evaluate it, the command line prints
it. Proofs stand in docs/theory/lipschitz.md under the same names. `c` is gamma / sqrt(d_emb), `B`
the bound on the spectral norms; (R, m, r) are the numbers of a `TokenSet`.
"""

from __future__ import annotations

from typing import NamedTuple

import sympy

from verify.bounds.geometry import Expr, Scene, TokenSet
from verify.bounds.symbols import EntropySlope, k

FORMS = ("sharp", "plain", "exponential")
"""Three constants for the same thing: the sharp one; the paper's way with the global stability of
softmax; the paper's way with exp(dispersion)."""

OMEGA = {"ne": sympy.Rational(1, 2), "l2": sympy.Integer(1)}
"""Lipschitz constant of the weights in the Euclidean norm."""


def dispersion_ball(query: TokenSet, keys: TokenSet, c: Expr, B: Expr) -> Expr:
    """Largest difference of two scores of one query, from norms alone."""
    return _dispersion(B * query.R, B * keys.R, c)


def dispersion(query: TokenSet, keys: TokenSet, c: Expr, B: Expr) -> Expr:
    """Largest difference of two scores of one query, keys seen from their center."""
    return _dispersion(B * (query.R + keys.m), B * keys.r, c)


def _dispersion(chi: Expr, kappa: Expr, c: Expr) -> Expr:
    short = sympy.Max(chi - kappa, 0, evaluate=False)
    return c * ((chi + kappa) ** 2 - short**2)


class Stability(NamedTuple):
    """How far one attention output moves per unit of change in the value, query or key matrix
    (spectral norm), in the query token, or in the tokens that are keys and values (the largest
    of their moves)."""

    value: Expr
    query: Expr
    key: Expr
    token: Expr
    others: Expr


def attention(query: TokenSet, keys: TokenSet, c: Expr, B: Expr, form: str) -> Stability:
    """The constants of one attention module, in one of the `FORMS`."""
    R, (R1, m1, r1) = query.R, keys
    if form == "sharp":
        # what the scores have in common for all keys does not matter, so keys count from their
        # center: radius r' in place of norm R'
        turn = 2 * c * B**2 * r1
        return Stability(
            value=R1,
            query=turn * r1 * R,
            key=turn * smaller(R1 * (R + R1), r1 * (R + m1 + R1)),
            token=turn * B * r1,
            others=B + turn * B * (R + R1),
        )
    E = sympy.exp(c * B**2 * (R + R1) ** 2) if form == "exponential" else sympy.Integer(1)
    turn = 2 * c * B**2 * R1 * (R + R1) * E
    return Stability(value=R1, query=turn * R, key=turn * R1, token=turn * B, others=B + turn * B)


class ScoreChange(NamedTuple):
    """How far the scores of one query move per unit of change: the largest score, and the largest
    difference of two scores."""

    largest: Expr
    spread: Expr


def scores(query: TokenSet, keys: TokenSet, c: Expr, B: Expr) -> dict[str, ScoreChange]:
    """By what is changed: the query matrix, the key matrix, the query token, the key tokens."""
    R, (R1, m1, r1) = query.R, keys
    both = 2 * c * B * (R + R1)
    return {
        "query": ScoreChange(both * R, 4 * c * B * R * r1),
        "key": ScoreChange(both * R1, 4 * c * B * smaller(R1 * (R + R1), r1 * (R + m1 + R1))),
        "token": ScoreChange(both * B, 4 * c * B**2 * r1),
        "others": ScoreChange(both * B, 2 * both * B),
    }


def modules(scene: Scene, form: str) -> dict[str, Stability]:
    """The constants of the four attention modules, by name."""
    return {
        name: attention(query, keys, scene.c, scene.B, form)
        for name, (query, keys) in scene.pairs.items()
    }


def output(scene: Scene, form: str) -> Expr:
    """phi: how far any updated center moves per unit of change of all twelve matrices, in the
    Frobenius norm of all of them together."""
    return combined(modules(scene, form))


def combined(parts: dict[str, Stability]) -> Expr:
    """phi from the constants of the four modules: the first two act through the third."""
    first = sum(_matrices(parts[m]) for m in ("points_from_centers", "points_from_points"))
    second = sum(_matrices(parts[m]) for m in ("centers_from_points", "centers_from_centers"))
    return sympy.sqrt(parts["centers_from_points"].others ** 2 * first + second)


def _matrices(s: Stability) -> Expr:
    return s.value**2 + s.query**2 + s.key**2


def slope(regularizer: str, count: Expr = k) -> Expr:
    """G: the Lipschitz constant of the surrogate in the maximum norm, the same at every tau."""
    return EntropySlope(count) if regularizer == "ne" else 3 - 2 / count


def slope_euclidean(regularizer: str, count: Expr = k) -> Expr:
    """The same in the Euclidean norm; for the entropy an upper bound that is exact at k = 2."""
    if regularizer == "l2":
        return sympy.sqrt(4 - 3 / count)
    G, G2 = EntropySlope(count), EntropySlope(sympy.Integer(2))
    return sympy.sqrt((1 + G) ** 2 + (G2 - 1) * (G - 1)) / 2


def product_rule(scene: Scene, regularizer: str) -> Expr:
    """The paper's way to the same constant: 1 + k omega r_max / tau with r_max = R_Delta^2."""
    return 1 + scene.k * OMEGA[regularizer] * scene.reach**2 / scene.tau


def smaller(a: Expr, b: Expr) -> Expr:
    """min(a, b), left alone: sympy would compare the two for every possible code."""
    return sympy.Min(a, b, evaluate=False)
