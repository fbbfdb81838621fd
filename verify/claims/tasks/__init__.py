"""Appendix D: how clustering tasks are made."""
