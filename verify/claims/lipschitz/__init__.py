"""Lipschitz constants: the chain behind Theorem 3.1, link by link."""
