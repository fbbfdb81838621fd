"""The objects of the paper: codes, attention, the Lloyd step, the exact transformer, surrogates.

>>> from constructions import LloydTransformer, lloyd_step, surrogate, surrogate_weights, codes
"""

from typing import Any

from constructions import codes
from constructions.attention import distance_attention
from constructions.codes import Code
from constructions.errors import EmptyClusterError, InputError, NotRationalError
from constructions.exact import LloydTransformer
from constructions.lloyd import LloydStep, lloyd_step
from constructions.rationals import as_fractions, rational_array
from constructions.surrogates import (
    surrogate,
    surrogate_gap,
    surrogate_gradient,
    surrogate_weights,
)
from constructions.tasks import TaskDistribution, Tasks, scale_to_unit_cube

__all__ = [
    "Code",
    "EmptyClusterError",
    "InputError",
    "KMeansSurrogateLoss",
    "LloydStep",
    "LloydTransformer",
    "NotRationalError",
    "TaskDistribution",
    "Tasks",
    "as_fractions",
    "codes",
    "distance_attention",
    "lloyd_step",
    "rational_array",
    "scale_to_unit_cube",
    "surrogate",
    "surrogate_gap",
    "surrogate_gradient",
    "surrogate_weights",
]


def __getattr__(name: str) -> Any:
    """The loss is a torch module: torch is imported when someone asks for it."""
    if name == "KMeansSurrogateLoss":
        from constructions.loss import KMeansSurrogateLoss

        return KMeansSurrogateLoss
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
