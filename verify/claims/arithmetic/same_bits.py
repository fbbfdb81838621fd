"""The same bits in every arithmetic, where every step is exact."""

from __future__ import annotations

from typing import Any

from verify.claim import Case, Claim, Kind, Source
from verify.claims.arithmetic._matrix import Matrix, differing, guarded
from verify.claims.arithmetic._operation import Operation


def draw(operation: Operation, rng: Any) -> Case:
    return operation.exact(rng)


CLAIM = Claim(
    id="same-bits",
    title="The same bits in every arithmetic, where every step is exact",
    says="On inputs for which every step is exact, or is the one rounding of an exact number, each "
    "operation gives bit for bit the rational result converted, in every library, on every device "
    "and in every element type; and the result stays in that library, device and type.",
    statement=r"f_{\mathrm{fl}}(x) = \mathrm{fl}\bigl(f_{\mathbb Q}(x)\bigr)",
    sources=(Source("beyond", "one implementation for all arithmetics"),),
    kind=Kind.EQUALITY,
    bound=r"\#\{\text{entries whose bits differ}\} = 0",
    measure=guarded(differing),
    checks=(
        Matrix(
            "matrix",
            draw,
            lambda ratio: "bit-equal",
            "Bit for bit the rational result converted",
            count=24,
        ),
    ),
    falsify="an operation, an arithmetic and an input of small dyadic numbers, with a result that "
    "is not the rational one",
    theory="arithmetic.md#the-same-bits",
)
