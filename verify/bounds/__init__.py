"""The Lipschitz chain of Theorem 3.1 with explicit constants: one sympy expression per bound.

`symbols` and `geometry` say what the expressions are made of, `lemmas` and `theorem` hold the
formulas, `catalog` names them, `evaluate` makes numbers of them, `instances` and `attack` look for
the true worst case from below. Proofs: docs/theory/lipschitz.md.
"""
