"""Convergence of training and generalization of what is trained."""
