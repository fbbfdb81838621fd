"""Results on general inputs are within a derived error bound of the true ones."""

from __future__ import annotations

from typing import Any

from verify.claim import Case, Claim, Kind, Source
from verify.claims.arithmetic._matrix import Matrix, beyond_rounding, guarded
from verify.claims.arithmetic._operation import Operation


def draw(operation: Operation, rng: Any) -> Case:
    return operation.general(rng)


CLAIM = Claim(
    id="rounding-bounds",
    title="Within a derived rounding bound in every arithmetic",
    says="On general inputs, every entry of a result is within a forward error bound that is "
    "derived for the operation, and every decision (an assignment, a support) is the right one "
    "where its margin exceeds the bound; rational arithmetic gives the rational result itself.",
    statement=r"\bigl| f_{\mathrm{fl}}(x)_i - f(x)_i \bigr| \le B_i(x, \mathrm{eps})",
    sources=(Source("beyond", "one implementation for all arithmetics"),),
    kind=Kind.UPPER,
    bound=r"B_i(x, \mathrm{eps})",
    measure=guarded(beyond_rounding),
    checks=(
        Matrix(
            "matrix",
            draw,
            lambda ratio: f"{ratio:.2g} of the bound" if ratio else "equal",
            "Largest error over its bound; inputs with a decision that rounding could turn in that "
            "precision, or with no finite bound, are undecidable",
            count=24,
            looseness=1e-3,
        ),
    ),
    falsify="an operation, an arithmetic and an input whose result is farther from the truth than "
    "its bound, or a wrong decision with a margin above the bound",
    theory="arithmetic.md#rounding-bounds",
)
