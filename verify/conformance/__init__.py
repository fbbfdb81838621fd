"""Implementations under test: somebody's Lloyd step, transformer, attention, weights, surrogate or
sampler, judged by the properties that ours have.

>>> from verify.conformance import conformance, declare, parametrize_with_properties
"""

from verify.conformance.declaration import Declaration, declare
from verify.conformance.engine import Records, conformance
from verify.conformance.examine import Record
from verify.conformance.testing import parametrize_with_properties

__all__ = [
    "Declaration",
    "Record",
    "Records",
    "conformance",
    "declare",
    "parametrize_with_properties",
]
