"""Searches of many settings at once, in two coordinates and the first entries of the code.

Repeating each coordinate q times and scaling the code by 1 / sqrt(q) turns a problem in two
coordinates into one in 2 q (docs/theory/lipschitz.md, "The lift"), so settings of any even d, of
any gamma and tau and of any code are one batch of small problems. What comes out is put into the
large model, and only what is measured there counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from constructions.codes import code as make_code
from constructions.surrogates import surrogate
from constructions.trainable import (
    MATRICES,
    Tensor,
    TrainableTransformer,
    squared_distances,
)
from verify.bounds import instances
from verify.bounds.attack import model_of
from verify.bounds.evaluate import Setting
from verify.claims.lipschitz._shared import Project, climb, in_cube, in_spectral_ball, noise

LOW, CODE = 2, 5
"""Coordinates of the small problems, and how many entries of the code they keep."""

_DATA = ("X", "C")

Pool = dict[str, Tensor]
"""Small instances: matrices, points and centers by name, one entry each."""


class Searcher:
    """The small problems of some settings with d even and with k, n, B and the regularizer in
    common; `restarts` ascents each."""

    def __init__(self, settings: Sequence[Setting], restarts: int) -> None:
        self.settings, self.restarts = settings, restarts
        first = settings[0]
        self.k, self.n, self.B, self.regularizer = first.k, first.n, first.B, first.regularizer
        # scores get their factor through queries and keys, so the model itself has factor 1
        width = LOW + CODE
        self.model = TrainableTransformer(width, self.k, "none", math.sqrt(width), bias=False)

        def each(values: Any) -> Tensor:
            """One entry for each ascent."""
            table = torch.tensor(np.array(values), dtype=torch.float64)
            return table.repeat_interleave(restarts, dim=0)

        times = np.array([s.d // LOW for s in settings], dtype=float)
        self.root = each([s.gamma / math.sqrt(s.d_emb) for s in settings] * times)[
            :, None, None
        ].sqrt()
        self.tau = each(np.array([s.tau for s in settings]) / times)
        used = [LOW + min(CODE, s.d_emb - s.d) for s in settings]
        self.used = each(np.arange(width) < np.array(used)[:, None])  # entries of a token
        self.codes = each([_first_entries(s) for s in settings] / np.sqrt(times)[:, None, None])

    def objective(self, leaves: dict[str, Tensor], counts: Tensor | None = None) -> Tensor:
        """log of the norm of the gradient, of the matrices that count (R, 12)."""
        turned = {
            name: leaves[name] if name.endswith("value") else leaves[name] * self.root
            for name in MATRICES
        }
        X, C = leaves["X"], leaves["C"]
        points = torch.cat([X, X.new_zeros(*X.shape[:-1], CODE)], dim=-1)
        _, moved = self.model.layer(turned, points, torch.cat([C, self.codes], dim=-1))
        r = squared_distances(X, moved[..., :LOW]) / self.tau[:, None, None]
        loss = self.tau * surrogate(r, 1.0, self.regularizer).sum(dim=-1)
        gradients = torch.autograd.grad(
            loss.sum(), [leaves[name] for name in MATRICES], create_graph=True
        )
        squares = torch.stack([(g * g).sum(dim=(-1, -2)) for g in gradients], dim=-1)
        if counts is not None:
            squares = squares * counts
        return torch.log(squares.sum(dim=-1) + 1e-300) / 2

    def best(self, seed: int, steps: int, known: Pool | None = None) -> Pool:
        """The best small instances found, one for each setting.

        First, half of the ascents maximize the gradient in one to three of the queries and keys.
        Then all is maximized, in two rounds; in between, what was found for one setting becomes a
        start for the others, where it is better than their own.

        Parameters
        ----------
        known : instances to start from as well, in the second round
        """
        rng = np.random.default_rng(seed)
        project: dict[str, Project] = dict.fromkeys(_DATA, in_cube)
        project |= dict.fromkeys(MATRICES, self._project)
        third = max(1, steps // 3)
        counts = self._counts(rng)
        state = climb(lambda s: self.objective(s, counts), self._starts(rng), project, third)
        state = climb(self.objective, state, project, third)
        pool = self._winners(state)
        if known is not None:
            pool = {name: torch.cat([a, known[name]]) for name, a in pool.items()}
        order = self._crossed(pool).argsort(dim=1, descending=True)
        taken = min(self.restarts // 2, order.shape[1])
        which = torch.arange(len(self.settings) * self.restarts) % self.restarts
        for at in range(taken):
            for name, a in pool.items():
                state[name][which == at] = a[order[:, at]]
        state = climb(self.objective, state, project, third)
        pool = {name: torch.cat([a, pool[name]]) for name, a in self._winners(state).items()}
        first = self._crossed(pool).argmax(dim=1)
        return {name: a[first] for name, a in pool.items()}

    def values(self, state: Pool) -> Tensor:
        """The objective, without derivatives."""
        leaves = {name: a.detach().requires_grad_() for name, a in state.items()}
        return torch.nan_to_num(self.objective(leaves).detach(), nan=-math.inf)

    def _winners(self, state: Pool) -> Pool:
        """The best ascent of each setting."""
        at = self.values(state).view(-1, self.restarts).argmax(dim=1)
        at = at + torch.arange(len(self.settings)) * self.restarts
        return {name: a[at] for name, a in state.items()}

    def _crossed(self, pool: Pool) -> Tensor:
        """(settings, pool) the objective of every instance in every setting."""
        rows = []
        for setting in self.settings:
            one = Searcher([setting], len(pool["X"]))
            state = {name: a if name in _DATA else one._project(a) for name, a in pool.items()}
            rows.append(one.values(state))
        return torch.stack(rows)

    def _project(self, a: Tensor) -> Tensor:
        """Into the norm ball, on the entries that a token has."""
        return in_spectral_ball(self.B)(a * self.used[:, :, None] * self.used[:, None, :])

    def _starts(self, rng: np.random.Generator) -> dict[str, Tensor]:
        """Of each setting: LB1, LB2, both disturbed, then random ones."""
        e, count = LOW + CODE, len(self.settings)
        total = count * self.restarts
        start = {name: noise(rng, total, e, e) / math.sqrt(e) * self.B for name in MATRICES}
        for name, rows in (("X", self.n), ("C", self.k)):
            uniform = rng.uniform(size=(total, rows, LOW))
            corners = rng.uniform(size=(total, 1, 1)) < 0.5
            start[name] = torch.from_numpy(np.where(corners, np.round(uniform), uniform))
        small = TrainableTransformer(LOW, self.k, np.zeros((self.k, CODE)), bias=False)
        flat, steep = instances.flat(small, self.n, self.B), instances.steep(small, self.n)
        which = torch.arange(total) % self.restarts
        for at, known in enumerate((flat, steep, flat, steep)):
            for name, a in {**known.parameters, "X": known.X, "C": known.C}.items():
                size = 0.05 * (at >= 2)
                start[name][which == at] = a + size * noise(rng, count, *a.shape)
        return start

    def _counts(self, rng: np.random.Generator) -> Tensor:
        turning = [i for i, name in enumerate(MATRICES) if not name.endswith("value")]
        table = np.ones((len(self.settings) * self.restarts, len(MATRICES)))
        for at, row in enumerate(table):
            if at % self.restarts >= max(4, self.restarts // 2):
                row[:] = 0
                row[rng.choice(turning, rng.integers(1, 4), replace=False)] = 1
        return torch.from_numpy(table)


def _first_entries(setting: Setting) -> Any:
    """(k, CODE) the first entries of the code, zeros where it is shorter."""
    table = make_code(setting.code, setting.k).table.astype(float)[:, :CODE]
    return np.pad(table, ((0, 0), (0, CODE - table.shape[1])))


def put_into(setting: Setting, pool: Pool, at: int) -> instances.Instance:
    """An instance of the pool in the model of a setting: coordinates repeated, code as it is."""
    times = setting.d // LOW
    kept = min(CODE, setting.d_emb - setting.d)
    W = np.zeros((setting.d_emb, LOW + CODE))
    W[: setting.d, :LOW] = np.repeat(np.eye(LOW), times, axis=0) / math.sqrt(times)
    W[setting.d : setting.d + kept, LOW : LOW + kept] = np.eye(kept)
    parameters = {name: torch.from_numpy(W @ pool[name][at].numpy() @ W.T) for name in MATRICES}
    X, C = (pool[name][at].repeat_interleave(times, dim=1) for name in _DATA)
    return instances.Instance(parameters, X, C)


def gradient_norm(setting: Setting, found: instances.Instance) -> float:
    return instances.gradient_norm(model_of(setting), found, setting.tau, setting.regularizer)
