"""Norms of tokens, of updated centers, and of distances."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import sympy
import torch
from hypothesis import strategies as st

from constructions.trainable import Tensor, TrainableTransformer
from verify.bounds.geometry import scene
from verify.bounds.symbols import B, d
from verify.claim import Case, Claim, Kind, Measured, Method, Run
from verify.claims.lipschitz._shared import (
    as_case,
    at,
    climb,
    model_starts,
    models,
    read,
    rounding,
    source,
)
from verify.search import Adversarial, Proof, Property, Step, proved

QUANTITIES = ("|x_1|", "|c_1|", "distance")


def bounds(code: str) -> dict[str, sympy.Expr]:
    s = scene(code)
    return {
        "|x_1|": s.moved.R,
        "|c_1|": (1 + B) * s.centers.R + B * s.moved.R,
        "distance": s.reach,
    }


def largest(model: TrainableTransformer, state: dict[str, Tensor], quantity: str) -> Tensor:
    """The largest norm of its kind in each restart."""
    X, C = state["X"], state["C"]
    points, centers = model.layer(state, *model.tokens(X, C))
    if quantity == "distance":
        gaps = X[..., :, None, :] - centers[..., None, :, : model.d]
        return gaps.flatten(-3, -2).norm(dim=-1).amax(dim=-1)
    return (points if quantity == "|x_1|" else centers).norm(dim=-1).amax(dim=-1)


def measure(case: Case) -> Measured:
    model, parameters, X, C, setting = read(case)
    value = float(largest(model, {**parameters, "X": X, "C": C}, case["quantity"]))
    bound = at(bounds(case["code"])[case["quantity"]], setting)
    return Measured(value, bound, rounding(setting, bound))


def search(
    codes: tuple[str, ...], norms: tuple[float, ...]
) -> Callable[[Run, int], Iterator[tuple[str, Case]]]:
    def look(run: Run, seed: int) -> Iterator[tuple[str, Case]]:
        rng = np.random.default_rng(seed)
        for code in codes:
            for norm in norms:
                model = TrainableTransformer(2, 3, code, 20.0, bias=False)
                for quantity in QUANTITIES:
                    start, project = model_starts(model, 3, norm, run.count(6, 6), rng)

                    def objective(
                        state: dict[str, Tensor],
                        model: TrainableTransformer = model,
                        quantity: str = quantity,
                    ) -> Tensor:
                        return torch.log(largest(model, state, quantity))

                    best = climb(objective, start, project, run.count(100, 70), 0.05)
                    for row in range(len(best["X"])):
                        case = as_case(model, best, row, B=norm, quantity=quantity)
                        yield f"{code}, B = {norm:g}, {quantity}", case

    return look


def chain(run: Run) -> Iterator[Step]:
    """An attention output is V times a convex combination of tokens, so it is at most B R'."""
    root = sympy.sqrt(d)
    for code in ("binary", "one_hot", "none", "scalar"):
        s = scene(code)
        R = s.centers.R
        steps = {
            "|x_1| <= (1 + B) sqrt(d) + B sqrt(d_E)": s.moved.R - ((1 + B) * root + B * R),
            "|c_1| <= (1 + B + B^2) sqrt(d_E) + B (1 + B) sqrt(d)": bounds(code)["|c_1|"]
            - ((1 + B + B**2) * R + B * (1 + B) * root),
            "distance <= (1 + B + B^2) sqrt(d) + B (1 + B) sqrt(d_E)": s.reach
            - ((1 + B + B**2) * root + B * (1 + B) * R),
        }
        for scope, difference in steps.items():
            yield proved(f"{code}: {scope}", sympy.expand(difference) == 0)
    # every token (1, ..., 1), V = B I: all means are that token, for every attention
    point = root
    x_1 = point + B * point + B * point
    c_1 = point + B * x_1 + B * point
    exact = bounds("none")
    yield proved("no code: all ones reach |x_1|", sympy.expand(exact["|x_1|"] - x_1) == 0)
    yield proved("no code: all ones reach |c_1|", sympy.expand(exact["|c_1|"] - c_1) == 0)
    yield proved(
        "no code: zeros and ones reach the distance",
        sympy.expand(exact["distance"] - (c_1 - 0)) == 0,
    )


CLAIM = Claim(
    id="lem-I.1",
    title="Norms of tokens and centers are bounded",
    says="With data in the unit cube and matrices of norm at most B, updated points, updated "
    "centers and the distances between points and updated centers are bounded by explicit "
    "multiples of the square roots of d and d_E, whatever the attention weights. Without a code "
    "all of these bounds are reached.",
    statement=r"\|x_1\| \le (1+B)\sqrt d + B\sqrt{d_E}, \quad \|c_1\| \le (1+B+B^2)\sqrt{d_E} + "
    r"B(1+B)\sqrt d, \quad \|x_i - \bar c_j\| \le R_\Delta = (1+B+B^2)\sqrt d + B(1+B)\sqrt{d_E}",
    sources=source("App. I, p. 34"),
    kind=Kind.TIGHT,
    bound=r"(1+B+B^2)\sqrt d + B(1+B)\sqrt{d_E} \quad \text{and likewise}",
    measure=measure,
    checks=(
        Proof("chain", Method.SYMBOLIC, chain, scope="every d, k, n, B; four codes"),
        Property(
            "random",
            scope="d <= 3, k <= 5, n <= 5, four codes, B = 0.5, 1, 2",
            strategy=models(quantity=st.sampled_from(QUANTITIES)),
            count=300,
            arithmetic="float64 with a rounding bound",
        ),
        Adversarial(
            "ascent",
            scope="no code, d = 2, k = n = 3, gamma = 20",
            search=search(("none",), (0.5, 2.0)),
            reach=0.97,
            group="quantity",
            arithmetic="float64 with a rounding bound",
        ),
        Adversarial(
            "ascent-codes",
            scope="binary and one-hot codes, d = 2, k = n = 3, gamma = 20",
            search=search(("binary", "one_hot"), (1.0,)),
            reach=0.94,
            group="quantity",
            arithmetic="float64 with a rounding bound",
        ),
    ),
    falsify="a model in the norm ball and a task in the unit cube with a longer token or distance",
    theory="lipschitz.md#norms",
    conflict="The review takes d_E = d_emb for the binary code; the longest binary code has "
    "floor(log2 k) ones (claim embedding-norm).",
)
