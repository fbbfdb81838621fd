"""Sections 3 and 4, Appendices C, F and G: what trained transformers do."""
