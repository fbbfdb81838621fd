"""Where tokens lie: norm, center and radius of each token set, by code.

A set of tokens has (R, m, r) if |z| <= R and |z - mu| <= r for all of them, with some center mu of
norm m. In the model, points are [x, 0] and centers [c_j, b_j] with x and c_j in the unit cube, so
squares add up over the two blocks: d, d/4 and d/4 for the cube, and the code's own three numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy

from verify.bounds.symbols import B, CeilLog2, FloorLog2, d, gamma, k, n, tau

Expr = Any  # sympy.Expr


class TokenSet(NamedTuple):
    """Largest norm R, norm m of a center, radius r around it."""

    R: Expr
    m: Expr
    r: Expr

    @property
    def extended(self) -> TokenSet:
        """Each token with one more entry 1: what a matrix with its bias as a column acts on."""
        return TokenSet(sympy.sqrt(self.R**2 + 1), sympy.sqrt(self.m**2 + 1), self.r)


class CodeGeometry(NamedTuple):
    """A code as a function of k: its width p, and the squares of R, m and r of its k vectors.

    `stated` is the square of R in the paper, where it differs: the paper takes ceil(log2 k) for
    the binary code, whose longest vector has floor(log2 k) ones.
    """

    width: Expr
    norm: Expr
    center: Expr
    radius: Expr
    stated: Expr


_HALF = sympy.Rational(1, 2)
_BITS = CeilLog2(k)

CODES: dict[str, CodeGeometry] = {
    "binary": CodeGeometry(_BITS, FloorLog2(k), _BITS / 4, _BITS / 4, _BITS),
    "one_hot": CodeGeometry(k, sympy.Integer(1), 1 / k, 1 - 1 / k, sympy.Integer(1)),
    "none": CodeGeometry(*[sympy.Integer(0)] * 5),
    "scalar": CodeGeometry(
        sympy.Integer(1), (k - 1) ** 2, ((k - 1) / 2) ** 2, ((k - 1) / 2) ** 2, (k - 1) ** 2
    ),
    "half": CodeGeometry(_BITS, _BITS / 4, sympy.Integer(0), _BITS / 4, _BITS / 4),
    "gray": CodeGeometry(_BITS, _BITS, _BITS / 4, _BITS / 4, _BITS),
    "circle": CodeGeometry(
        sympy.Integer(2), sympy.Integer(1), sympy.Integer(0), sympy.Integer(1), sympy.Integer(1)
    ),
    "powers": CodeGeometry(
        sympy.Integer(1),
        4 ** (k - 1),
        ((2 ** (k - 1) + 1) / 2) ** 2,
        ((2 ** (k - 1) - 1) / 2) ** 2,
        4 ** (k - 1),
    ),
}
"""The codes of `constructions.codes` for every k >= 2, without making their tables."""


@dataclass(frozen=True)
class Scene:
    """What a bound is a function of.

    Attributes
    ----------
    points, centers, moved : token sets X_0, C_0 and X_1 (the points after their update)
    c : gamma / sqrt(d_emb)
    d, k, n, tau, B : as in the model; B bounds the spectral norm of every matrix
    bias : whether the matrices have biases; then B bounds each with its bias as one more column
    """

    points: TokenSet
    centers: TokenSet
    c: Expr
    d: Expr = d
    k: Expr = k
    n: Expr = n
    tau: Expr = tau
    B: Expr = B
    bias: bool = False

    @property
    def moved(self) -> TokenSet:
        """x + V_1 (mean of centers) + V_2 (mean of points): norms, centers and radii add up."""
        added = zip(self.points, self._seen(self.points), self._seen(self.centers), strict=True)
        return TokenSet(*(x + self.B * (y + z) for x, y, z in added))

    @property
    def pairs(self) -> dict[str, tuple[TokenSet, TokenSet]]:
        """Queries and keys of the four attention modules."""
        points, centers, moved = map(self._seen, (self.points, self.centers, self.moved))
        return {
            "points_from_centers": (points, centers),
            "points_from_points": (points, points),
            "centers_from_points": (centers, moved),
            "centers_from_centers": (centers, centers),
        }

    def _seen(self, tokens: TokenSet) -> TokenSet:
        """What the matrices act on."""
        return tokens.extended if self.bias else tokens

    @property
    def reach(self) -> Expr:
        """R_Delta: no point is farther than this from an updated center. A point and an initial
        center are within sqrt(d) of each other, and two attention outputs are added."""
        moved, centers = self._seen(self.moved), self._seen(self.centers)
        return sympy.sqrt(self.d) + self.B * moved.R + self.B * centers.R


def scene(code: str, stated: bool = False, bias: bool = False) -> Scene:
    """The scene of a code. `stated`: with the paper's d_E instead of the exact one."""
    g = CODES[code]
    points = TokenSet(sympy.sqrt(d), sympy.sqrt(d) / 2, sympy.sqrt(d) / 2)
    centers = TokenSet(
        sympy.sqrt(d + (g.stated if stated else g.norm)),
        sympy.sqrt(d / 4 + g.center),
        sympy.sqrt(d / 4 + g.radius),
    )
    return Scene(points, centers, gamma / sympy.sqrt(d + g.width), bias=bias)


def abstract_scene() -> tuple[Scene, dict[str, Any]]:
    """A scene in which the numbers of the code are free symbols, and these symbols by name."""
    names = ("d_E", "d_emb", "m_c", "r_c")
    symbols = dict(zip(names, sympy.symbols(" ".join(names), positive=True), strict=True))
    points = TokenSet(sympy.sqrt(d), sympy.sqrt(d) / 2, sympy.sqrt(d) / 2)
    centers = TokenSet(sympy.sqrt(symbols["d_E"]), symbols["m_c"], symbols["r_c"])
    return Scene(points, centers, gamma / sympy.sqrt(symbols["d_emb"])), symbols
