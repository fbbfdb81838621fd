"""Finite inverse temperature: how far the layer is from Lloyd's step, and how it gets there."""

from __future__ import annotations

import math

from verify.claim import Claim, Kind, Method, Source
from verify.claims.expressivity._finite import (
    APPLIES,
    NO_EMPTY,
    NO_TIES,
    accuracies,
    any_input,
    approach,
    as_computed,
    few_points,
    formula_is_enough,
    layers_bound,
    measure,
    over_layers,
    several_layers,
    sweep,
    two_points,
)
from verify.claims.expressivity._finite_rounding import as_the_formula
from verify.claims.expressivity._finite_tables import broken_ties, curves, needed
from verify.claims.expressivity._shared import Sample
from verify.search import Adversarial, Study

CLAIM = Claim(
    id="finite-gamma",
    title="Finite inverse temperature: a certificate",
    says="At a finite inverse temperature one layer misses Lloyd's centers by at most an explicit "
    "bound made of three effects: centers attend to other centers, to points of other clusters, "
    "and unequally to their own points. The bound falls exponentially, so some finite inverse "
    "temperature is enough for any accuracy; in the limit the layers become those at infinity on "
    "every input, ties and empty clusters included.",
    statement=r"\left\| c_j^{(1)} - \mu_j \right\| \le \frac{k-1}{k-1+e^{g s}} D_C + "
    r"\frac{\nu_j}{\nu_j + e^{g (s - 2 \sqrt{s} \rho)}} D_X + \tanh\!\left(\tfrac{g \rho^2}{4}"
    r"\right) D_j, \quad g = \frac{\gamma}{\sqrt{d_{\mathrm{emb}}}},\ \rho = \frac{(k-1) D_b}{k - 1"
    r" + e^{g \delta}}",
    sources=(
        Source("summary", "App. C, p. 21: equivalence needs gamma to infinity"),
        Source("review", "design 2"),
        Source("beyond", "the bound at a finite inverse temperature"),
    ),
    kind=Kind.UPPER,
    bound=r"\frac{k-1}{k-1+e^{g s}} D_C + \frac{\nu_j}{\nu_j + e^{g (s - 2 \sqrt{s} \rho)}} D_X + "
    r"\tanh\!\left(\tfrac{g \rho^2}{4}\right) D_j",
    hypotheses=(NO_TIES, NO_EMPTY, APPLIES),
    measure=measure,
    checks=(
        Sample(
            "balls",
            scope="k = 2, 3, 5, 10, two families, five codes, half decades of inverse temperature "
            "down to a bound of 1e-200",
            cases=sweep(((2, 1, 4), (3, 2, 8), (5, 2, 12), (10, 4, 24)), 3, 1e-200),
            arithmetic="ball arithmetic (arb)",
        ),
        Sample(
            "float64",
            scope="k = 2, 3, 5, 10, 25, 50, 100, n up to 200, two families, five codes, half "
            "decades of inverse temperature; the bound includes rounding",
            cases=sweep(
                (
                    (2, 1, 12),
                    (3, 2, 24),
                    (5, 4, 40),
                    (10, 4, 60),
                    (25, 4, 100),
                    (50, 4, 120),
                    (100, 4, 200),
                ),
                3,
                1e-11,
            ),
            measure=as_computed,
            arithmetic="numpy float64",
        ),
        Sample(
            "as-the-formula",
            scope="k = 3 and 5, n = 8 and 12, two families, five codes, half decades of inverse "
            "temperature",
            variant="the float64 layer is the layer of the formula, up to its rounding",
            cases=sweep(((3, 2, 8), (5, 2, 12)), 1, 1e-11),
            measure=as_the_formula,
            arithmetic="numpy float64 beside ball arithmetic (arb)",
        ),
        Adversarial(
            "two-points",
            scope="k = n = 2, d = 2, five codes",
            search=two_points,
            reach=0.99,
            group="code",
            arithmetic="ball arithmetic (arb)",
        ),
        Adversarial(
            "few-points",
            scope="k = 2 to 5, n = 3 to 6, d = 2, binary code",
            search=few_points,
            group="k, n",
            arithmetic="ball arithmetic (arb)",
        ),
        Sample(
            "several-layers",
            scope="2 to 4 layers, both ways to iterate, k <= 4, n <= 10, three codes, where a "
            "bound can be given",
            assuming=(NO_TIES.name, NO_EMPTY.name),
            variant="errors of several layers, re-embedding and naive",
            cases=lambda run: (c for c in several_layers(run) if layers_bound(c) < math.inf),
            measure=over_layers,
            arithmetic="ball arithmetic (arb)",
        ),
        Sample(
            "formula",
            scope="k = 2, 6, 25, 100, two families, five codes, epsilon = 0.1 to 1e-12, at the "
            "inverse temperature of the formula and up to 1000 times that",
            assuming=(NO_TIES.name, NO_EMPTY.name),
            variant="the closed-form inverse temperature is enough",
            cases=accuracies,
            measure=formula_is_enough,
            arithmetic="float64, rounded to the safe side",
        ),
        Sample(
            "limit",
            scope="small integer instances, k <= 3, n <= 4, ties, empty clusters and equal centers "
            "included, 3 layers, both ways to iterate",
            assuming=(),
            variant="the limit at infinite inverse temperature, on every input",
            cases=any_input,
            measure=approach,
            arithmetic="ball arithmetic (arb), 120 digits",
        ),
        Study(
            "broken-ties",
            Method.EXACT,
            broken_ties,
            scope="one instance with an exact tie",
            variant="why ties are not tested in floats",
            assuming=(),
            arithmetic="float64 beside ball arithmetic (arb), 120 digits",
        ),
        Study(
            "curves",
            Method.PROPERTY,
            curves,
            scope="k = 6, d = 2, n = 18, three codes",
            arithmetic="ball arithmetic (arb)",
        ),
        Study(
            "needed",
            Method.PROPERTY,
            needed,
            scope="d = 4, k = 6, 25, 100, two families, five codes, epsilon = 0.001",
            variant="the inverse temperature that is needed",
            arithmetic="numpy float64",
        ),
    ),
    falsify="an instance without ties and empty clusters and an inverse temperature where a center "
    "is farther from Lloyd's than the bound",
    theory="expressivity.md#finite-inverse-temperature",
)
