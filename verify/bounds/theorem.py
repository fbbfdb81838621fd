"""Theorem 3.1: the Lipschitz constant of the smoothed loss in the parameters, in four forms."""

from __future__ import annotations

import sympy

from verify.bounds import lemmas
from verify.bounds.geometry import CODES, Expr, Scene, scene
from verify.bounds.symbols import B, d, gamma, k, n, tau

FORMS = ("order", "exponential", "plain", "sharp")

MEANING = {
    "order": "the paper's order with constant 1 (not a bound: its constant is unknown)",
    "exponential": "the paper's chain with explicit constants, exponentials included",
    "plain": "the same chain without exponentials",
    "sharp": "sharp steps: no exponential, no 1/tau, no factor k",
}


def alpha(code: str, regularizer: str, form: str) -> Expr:
    """The constant as an expression in d, k, n, gamma, tau and B.

    `order` has no B: the paper normalizes it away.
    """
    if form == "order":
        g = CODES[code]
        return order(d + g.stated, d + g.width, lemmas.OMEGA[regularizer])
    return chain(scene(code, stated=form != "sharp"), regularizer, form)


def order(d_E: Expr, d_emb: Expr, omega: Expr) -> Expr:
    """k n (omega/tau) max(1, gamma^2) sqrt(d_E) max(1, x^2) exp(gamma x), x = d_E/sqrt(d_emb)."""
    x = d_E / sympy.sqrt(d_emb)
    return (
        (k * n * omega / tau)
        * sympy.Max(1, gamma**2)
        * sympy.sqrt(d_E)
        * sympy.Max(1, x**2, evaluate=False)
        * sympy.exp(gamma * x)
    )


def chain(where: Scene, regularizer: str, form: str) -> Expr:
    """2 n (slope of the loss) R_Delta phi: from parameters to centers, to distances, to loss."""
    if form == "sharp":
        steep = lemmas.slope(regularizer, where.k)
    else:
        steep = lemmas.product_rule(where, regularizer)
    return 2 * where.n * steep * where.reach * lemmas.output(where, form)


def factors(code: str, regularizer: str, form: str) -> dict[str, Expr]:
    """What a form is a product of, by a name for people; the product is the constant."""
    if form == "order":
        g = CODES[code]
        d_E, x = d + g.stated, (d + g.stated) / sympy.sqrt(d + g.width)
        return {
            "k n": k * n,
            "omega / tau": lemmas.OMEGA[regularizer] / tau,
            "max(1, gamma^2)": sympy.Max(1, gamma**2),
            "sqrt(d_E)": sympy.sqrt(d_E),
            "max(1, d_E^2 / d_emb)": sympy.Max(1, x**2, evaluate=False),
            "exp(gamma d_E / sqrt(d_emb))": sympy.exp(gamma * x),
        }
    where = scene(code, stated=form != "sharp")
    steep = (
        {"slope G(k)": lemmas.slope(regularizer)}
        if form == "sharp"
        else {"1 + k omega R_Delta^2 / tau": lemmas.product_rule(where, regularizer)}
    )
    return {
        "2 n": 2 * n,
        **steep,
        "R_Delta": where.reach,
        "phi": lemmas.output(where, form),
    }


def lower_bounds(code: str) -> dict[str, Expr]:
    """Exact instances of `verify.bounds.instances`: lower bounds for the true constant.

    LB1 holds for every B; LB2 for B >= 1 (its matrices have norm 1, and larger balls contain
    them) and even d, k and n.
    """
    flat = 4 * n * B * (1 + B) * d * sympy.sqrt((1 + 2 * B) ** 2 + 1 + 2 * B**2)
    steep = n * gamma**2 * d**3 / (4 * (d + CODES[code].width))
    return {"LB1": flat, "LB2": steep}


def applies(name: str, d: int, k: int, n: int, B: float) -> bool:
    """Whether a lower bound of `lower_bounds` is for these parameters."""
    return name == "LB1" or (B >= 1 and all(size % 2 == 0 for size in (d, k, n)))
