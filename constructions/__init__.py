"""The objects of the paper: codes, attention, the Lloyd step, the exact transformer, surrogates.

>>> from constructions import LloydTransformer, lloyd_step, surrogate, surrogate_weights, codes
"""

from constructions import codes
from constructions.arrays import EmptyClusterError, InputError, NotRationalError, rational_array
from constructions.codes import Code
from constructions.exact import LloydTransformer
from constructions.lloyd import LloydStep, lloyd_step
from constructions.surrogates import (
    surrogate,
    surrogate_gap,
    surrogate_gradient,
    surrogate_weights,
)

__all__ = [
    "Code",
    "EmptyClusterError",
    "InputError",
    "LloydStep",
    "LloydTransformer",
    "NotRationalError",
    "codes",
    "lloyd_step",
    "rational_array",
    "surrogate",
    "surrogate_gap",
    "surrogate_gradient",
    "surrogate_weights",
]
