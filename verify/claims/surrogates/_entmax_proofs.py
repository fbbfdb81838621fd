"""Symbolic steps about the entmax family; the argument that joins them is in the theory notes."""

from __future__ import annotations

from collections.abc import Iterator

import sympy
import z3

from verify.claim import Run
from verify.oracles import smt
from verify.search import Step, proved


def steps(run: Run) -> Iterator[Step]:
    yield from _gaps()
    yield from _smooth()


def _gaps() -> Iterator[Step]:
    """The gap as a function of the weights, and its maximum over them."""
    first, less, m, k = sympy.symbols("v_a alpha-1 m k", positive=True)
    alpha = 1 + less
    # optimality: r_j - r_a = tau (v_a - v_j) / (alpha-1) on the support, with v = P^(alpha-1);
    # summed with the weights, sum P_j v_j = sum P_j^alpha = N
    p, v = sympy.IndexedBase("P"), sympy.IndexedBase("v")
    j, n = sympy.symbols("j n", integer=True)
    mean = sympy.Sum(p[j] * first, (j, 1, n)) - sympy.Sum(p[j] * v[j], (j, 1, n))
    direct = sympy.Sum(sympy.expand(p[j] * (first - v[j])), (j, 1, n))
    yield proved(
        "gap = tau (P_a^(alpha-1) - sum P_j^alpha) / (alpha-1)",
        sympy.simplify(direct - mean) == 0,
    )
    x = sympy.Symbol("x", positive=True)
    bend = sympy.simplify(sympy.diff(x**alpha, x, 2) / (alpha * less * x ** (less - 1)))
    yield proved("x^alpha is convex, so the gap is largest at equal other weights", bend == 1)
    # with less = 1/(1 + c), c >= 0, the exponent is in (1, 2] and every term is concave in m
    c = sympy.Symbol("c", nonnegative=True)
    part = [m**less, -(m**alpha), -((1 - m) ** alpha)]
    scaled = [
        sympy.diff(part[0], m, 2) / m ** (less - 2),
        sympy.diff(part[1], m, 2) / m ** (less - 1),
        sympy.diff(part[2], m, 2) / (1 - m) ** (less - 1),
    ]
    signs = [sympy.simplify(s).subs(less, 1 / (1 + c)) for s in scaled]
    concave = all(sympy.factor(s).is_nonpositive for s in signs)
    yield proved("the bound is concave in the largest weight m", concave)
    at_two = (m - m**2 - (1 - m) ** 2 / (k - 1)).subs(m, (k + 1) / (2 * k))
    stationary = sympy.diff(m - m**2 - (1 - m) ** 2 / (k - 1), m).subs(m, (k + 1) / (2 * k))
    yield proved(
        "alpha = 2: (k-1)/(4k)",
        sympy.simplify(at_two - (k - 1) / (4 * k)) == 0 and sympy.simplify(stationary) == 0,
    )
    # alpha -> 1, by l'Hopital: numerator 0 at alpha = 1, derivative the entropy gap of (m, rest)
    a = sympy.Symbol("alpha", positive=True)
    top = m ** (a - 1) - m**a - (1 - m) ** a * (k - 1) ** (1 - a)
    entropy = -m * sympy.log(m) - (1 - m) * sympy.log((1 - m) / (k - 1))
    slope = sympy.diff(top, a).subs(a, 1) - (entropy + sympy.log(m))
    vanishes = sympy.simplify(top.subs(a, 1)) == 0
    yield proved(
        "alpha -> 1: the entropy gap H(P) + log P_a",
        vanishes and sympy.simplify(sympy.expand_log(slope, force=True)) == 0,
    )
    # k -> infinity: m^(alpha-1) - m^alpha is largest at m = (alpha-1)/alpha
    best = less / alpha
    stationary = sympy.simplify(sympy.diff(m**less - m**alpha, m).subs(m, best))
    level = (best**less - best**alpha) / less / (less ** (less - 1) * alpha**-alpha)
    same = sympy.simplify(sympy.expand_log(sympy.log(sympy.factor(level)), force=True))
    yield proved(
        "sup over k: (alpha-1)^(alpha-2) alpha^(-alpha)",
        sympy.simplify(stationary) == 0 and sympy.simplify(same) == 0,
    )


def _smooth() -> Iterator[Step]:
    """The Hessian, its bounds up to exponent 3/2, and its blow-up beyond."""
    yield proved("Hessian = A^T diag(d) A / tau, A = I - 1 s^T / t, every k", _hessian_holds())
    # A kills 1 and keeps the complement of 1 and s, so A^T A has the eigenvalues 0, k-2 ones, and
    # what is left of its trace k - 2 + k |s|^2 / t^2
    k, t, square = sympy.symbols("k t ss", positive=True)
    trace = k - 2 * t / t + k * square / t**2
    left = sympy.simplify(trace - (k - 2) - k * square / t**2)
    yield proved("|A|^2 = k |s|^2 / t^2 <= k", left == 0)
    # 1 <= alpha <= 3/2: with x = P^(3-2 alpha)/t and y = P^(2-alpha), both in [0, 1], entries of d
    # are ((2-alpha) x - alpha y) / (alpha-1)
    a, x, y = z3.Reals("alpha x y")
    d = (2 - a) * x - a * y
    unit = [a >= 1, a <= z3.Q(3, 2), x >= 0, x <= 1, y >= 0, y <= 1]
    yield smt.decide(
        "1 < alpha <= 3/2: (alpha k / (alpha-1) tau)-smooth", unit, z3.And(d <= a, -d <= a)
    )
    # alpha = 3/2: s = sqrt(P), |s| = 1, d = 1/t - 3 s
    root, total, size = z3.Reals("root t size")
    yield smt.decide("sqrt(P) >= P, so t >= 1", [root >= 0, root <= 1], root >= root * root)
    top = size <= size * total * total * total
    yield smt.decide("3/2: eigenvalues at most k/t^3 <= k", [total >= 1, size > 0], top)
    w = sympy.symbols("w0:3", positive=True)
    W = sympy.Matrix(w)
    A = sympy.eye(3) - sympy.ones(3, 1) * W.T / sum(w)
    less = A.T * sympy.diag(*w) * A - (sympy.diag(*w) - W * W.T / sum(w))
    yield proved(
        "3/2: A^T diag(s) A = diag s - s s^T / t is at most I, so eigenvalues at least -3",
        less.applyfunc(sympy.simplify) == sympy.zeros(3, 3),
    )
    T = sympy.Symbol("T", positive=True)
    only = 2 / T**3 - 3 * T + 3 / T  # k = 2 has one eigenvalue, a function of t in [1, sqrt 2]
    falls = sympy.expand(-sympy.diff(only, T)).is_positive
    ends = only.subs(T, 1) == 2 and sympy.simplify(only.subs(T, sympy.sqrt(2)) + sympy.sqrt(2)) == 0
    yield proved("3/2, k = 2: eigenvalue between -sqrt(2) and 2", bool(ends and falls))
    # beyond: an entering center has P -> 0 and its entry of d has the factor P^(3-2 alpha)
    over = sympy.Symbol("2 alpha-3", positive=True)
    z = sympy.Symbol("P", positive=True)
    blow = sympy.limit(z**-over, z, 0, "+") == sympy.oo
    yield proved("alpha > 3/2: P^(3-2 alpha) is unbounded", blow)


def _hessian_holds() -> bool:
    """H dr = dg at temperature 1 for every change dP of the weights on the support, entry by
    entry, so for every k.

    With v = P^(alpha-1), s = P/v and t = sum s: r = -v/(alpha-1) up to a constant, its s-weighted
    mean is m, x = r - m, and the gradient is g = P - s x. sum dP = 0 makes sum s dr = 0, so that
    A dr = dr and dm = sum ds x / t.
    """
    a, P, v, t, dr = sympy.symbols("alpha P v t dr")
    sum_ds_x, sum_d_dr = sympy.symbols("sum_ds_x sum_d_dr")
    s = P / v
    dP = -s * dr  # from dr = -dv / (alpha-1) and dv = (alpha-1) v dP / P
    ds = dP / v - P / v**2 * (a - 1) * v * dP / P
    x = (1 / t - v) / (a - 1)  # r - m, because sum s v = sum P = 1
    dg = dP - ds * x - s * (dr - sum_ds_x / t)
    d = ((2 - a) * P / v**2 / t - a * s) / (a - 1)
    entry = sympy.simplify(d * dr - (-ds * x - 2 * s * dr))  # so sum d dr = -sum ds x
    H_dr = d * dr - s / t * sum_d_dr
    return entry == 0 and sympy.simplify(dg - H_dr.subs(sum_d_dr, -sum_ds_x)) == 0
