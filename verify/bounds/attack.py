"""The search for the true Lipschitz constant: projected gradient ascent on the gradient norm.

For a setting, log |dL/dTheta| is maximized over the parameters (spectral norms at most B), the
points and the centers (unit cube) at once, in float64 and by differentiating twice. Many restarts
run in one batch. A single ascent gets caught at LB1, a strong local maximum, so there are two
stages: first each restart maximizes the part of the gradient that belongs to a random group of
matrices, then all of it. Some restarts start at and near LB1 and LB2, a quarter of them at optima
of a problem in two coordinates, repeated to fill d (docs/theory/lipschitz.md, "The lift").

Everything is a function of (setting, plan): the same seed gives the same witness. An attack can be
saved after any step and continued as if nothing had happened.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from constructions.trainable import MATRICES, Tensor, TrainableTransformer
from verify import handed
from verify.bounds import instances
from verify.bounds.evaluate import Setting
from verify.files import write_atomically

FORMAT = 1
_DATA = ("X", "C")
_NAMES = (*MATRICES, *_DATA)


class AttackError(ValueError):
    """A saved attack or a witness that is not one, or belongs to something else."""


@dataclass(frozen=True)
class Plan:
    """How long to look.

    Attributes
    ----------
    seed : all randomness follows from it
    restarts : ascents in one batch
    steps : of each ascent; a third of them in the first stage
    rate : largest step of an entry, in units of B (matrices) and of 1 (data)
    """

    seed: int = 0
    restarts: int = 32
    steps: int = 1500
    rate: float = 0.05

    @property
    def first_stage(self) -> int:
        return self.steps // 3


@dataclass(frozen=True)
class Witness:
    """The best instance found: nested lists of matrices, points and centers, and what it gives."""

    setting: Setting
    value: float
    parameters: dict[str, Any]
    X: Any
    C: Any

    def gradient_norm(self) -> float:
        """Computed again, one instance and one backward pass."""
        tensors = {m: torch.tensor(v, dtype=torch.float64) for m, v in self.parameters.items()}
        X, C = (torch.tensor(a, dtype=torch.float64) for a in (self.X, self.C))
        found = instances.Instance(tensors, X, C)
        return instances.gradient_norm(
            model_of(self.setting), found, self.setting.tau, self.setting.regularizer
        )

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    def save(self, path: Path) -> None:
        write_atomically(path, json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Witness:
        """Reads what `save` wrote, and checks that it is inside the ball and the cube.

        Raises
        ------
        AttackError
            not a witness, or not an admissible one.
        """
        try:
            data = handed.read(path)
            if data.pop("format") != FORMAT:
                raise AttackError(f"{path}: a witness of another format")
            witness = cls(**{**data, "setting": Setting(**data["setting"])})
            witness.require_admissible()
        except AttackError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AttackError(f"{path}: not a witness ({error})") from None
        return witness

    def require_admissible(self) -> None:
        """Raise `AttackError` unless shapes, norms (to 1e-12) and the cube are respected."""
        s = self.setting
        e = s.d_emb
        for name in MATRICES:
            M = np.asarray(self.parameters[name], dtype=float)
            if M.shape != (e, e) or not np.linalg.norm(M, 2) <= s.B * (1 + 1e-12):
                raise AttackError(f"{name} is not a {e} x {e} matrix of norm at most {s.B:g}")
        for name, a, rows in (("X", self.X, s.n), ("C", self.C, s.k)):
            table = np.asarray(a, dtype=float)
            if table.shape != (rows, s.d) or not ((table >= 0) & (table <= 1)).all():
                raise AttackError(f"{name} is not a {rows} x {s.d} table of numbers in [0, 1]")


def model_of(setting: Setting) -> TrainableTransformer:
    """The model a setting is about."""
    return TrainableTransformer(setting.d, setting.k, setting.code, setting.gamma, bias=False)


class Attack:
    """One batch of ascents.

    Parameters
    ----------
    setting : with gamma > 0 (at 0, attention is uniform and LB1 is all there is to find)
    plan : see `Plan`

    Attributes
    ----------
    step : steps done so far
    best : the best `Witness` so far
    """

    def __init__(self, setting: Setting, plan: Plan) -> None:
        if setting.gamma <= 0:
            raise ValueError(f"gamma = {setting.gamma} is out of range for an attack; allowed: > 0")
        self.setting, self.plan = setting, plan
        self.model = model_of(setting)
        rng = np.random.default_rng(plan.seed)
        self.state = _starts(setting, plan, rng)
        self.mean = {name: torch.zeros_like(a) for name, a in self.state.items()}
        self.square = {name: torch.zeros_like(a) for name, a in self.state.items()}
        self.groups = _groups(plan.restarts, rng)
        self.step = 0
        self.best_value = -math.inf
        self._best: dict[str, Tensor] = {}
        self._look(self.norms(self.state))

    @property
    def done(self) -> bool:
        return self.step >= self.plan.steps

    @property
    def best(self) -> Witness:
        lists = {name: a.tolist() for name, a in self._best.items()}
        return Witness(
            self.setting,
            self.best_value,
            {m: lists[m] for m in MATRICES},
            lists["X"],
            lists["C"],
        )

    def run(self, steps: int | None = None) -> Iterator[Attack]:
        """Go on for so many steps, or to the end; yields itself after each."""
        last = self.plan.steps if steps is None else min(self.plan.steps, self.step + steps)
        while self.step < last:
            self._ascend()
            yield self

    def norms(self, state: dict[str, Tensor], weights: Tensor | None = None) -> Tensor:
        """|dL/dTheta| for each restart; the gradients of the matrices are weighted (R, 12)."""
        s = self.setting
        leaves = {name: state[name] for name in MATRICES}
        if not leaves[MATRICES[0]].requires_grad:
            leaves = {name: a.detach().requires_grad_() for name, a in leaves.items()}
        loss = self.model.loss(leaves, state["X"], state["C"], s.tau, s.regularizer)
        gradients = torch.autograd.grad(
            loss.sum(), [leaves[name] for name in MATRICES], create_graph=True
        )
        squares = torch.stack([(g * g).sum(dim=(-1, -2)) for g in gradients], dim=-1)
        return (squares if weights is None else squares * weights).sum(dim=-1).sqrt()

    def _ascend(self) -> None:
        plan, B = self.plan, self.setting.B
        first = self.step < plan.first_stage
        start, length = (0, plan.first_stage) if first else (plan.first_stage, plan.steps)
        done = (self.step - start) / max(1, length - start)
        rate = plan.rate * (0.02 + 0.98 * (1 + math.cos(math.pi * done)) / 2)
        leaves = {name: a.detach().requires_grad_() for name, a in self.state.items()}
        objective = self.norms(leaves, self.groups if first else None)
        goal = torch.log(objective + 1e-300).sum()
        slopes = torch.autograd.grad(goal, list(leaves.values()))
        age = self.step - start + 1
        if age == 1:  # a new objective: forget the momentum of the old one
            for moment in (self.mean, self.square):
                for a in moment.values():
                    a.zero_()
        with torch.no_grad():
            for (name, a), slope in zip(self.state.items(), slopes, strict=True):
                slope = torch.nan_to_num(slope)
                # one step size a matrix: with one an entry, the points where projected steps
                # come to rest are not the stationary points on the ball
                size = slope * slope
                if name not in _DATA:
                    size = size.mean(dim=(-1, -2), keepdim=True).expand_as(slope)
                m = self.mean[name].mul_(0.9).add_(slope, alpha=0.1)
                v = self.square[name].mul_(0.99).add_(size, alpha=0.01)
                move = (m / (1 - 0.9**age)) / ((v / (1 - 0.99**age)).sqrt() + 1e-12)
                a.add_(move, alpha=rate * (1.0 if name in _DATA else B))
            self.state = _projected(self.state, B)
        self.step += 1
        if not first or self.step % 20 == 0:
            self._look(self.norms(self.state))

    def _look(self, norms: Tensor) -> None:
        """Remember the best restart if it beats the best so far."""
        norms = torch.nan_to_num(norms.detach(), nan=-1.0, posinf=-1.0)
        at = int(norms.argmax())
        if float(norms[at]) > self.best_value:
            self.best_value = float(norms[at])
            self._best = {name: a[at].detach().clone() for name, a in self.state.items()}

    def save(self, path: Path) -> None:
        """Everything that is needed to go on, as a .npz file of plain arrays."""
        arrays: dict[str, Any] = {"groups": self.groups.numpy()}
        for kind, tensors in self._tensors().items():
            arrays |= {f"{kind}/{name}": a.detach().numpy() for name, a in tensors.items()}
        about = {
            "format": FORMAT,
            "setting": asdict(self.setting),
            "plan": asdict(self.plan),
            "step": self.step,
            "best": self.best_value,
        }
        buffer = io.BytesIO()
        np.savez(buffer, about=np.array(json.dumps(about)), **arrays)
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> Attack:
        """An attack that was saved. No code in the file is executed.

        Raises
        ------
        AttackError
            the file is not a saved attack.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                if about["format"] != FORMAT:
                    raise AttackError(f"{path}: an attack of another format")
                attack = cls.__new__(cls)
                attack.setting = Setting(**about["setting"])
                attack.plan = Plan(**about["plan"])
                attack.model = model_of(attack.setting)
                attack.step, attack.best_value = about["step"], about["best"]
                attack.groups = torch.from_numpy(file["groups"])
                for kind in ("state", "mean", "square", "_best"):
                    name = kind.lstrip("_")
                    setattr(
                        attack, kind, {m: torch.from_numpy(file[f"{name}/{m}"]) for m in _NAMES}
                    )
        except AttackError:
            raise
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            reason = type(error).__name__ if isinstance(error, ValueError) else error
            raise AttackError(f"{path}: not a saved attack ({reason})") from None
        attack._require_fitting(path)
        return attack

    def _require_fitting(self, path: Path) -> None:
        """Raise `AttackError` unless all tensors have the shapes of this setting and plan."""
        s, R, e = self.setting, self.plan.restarts, self.setting.d_emb
        shapes = dict.fromkeys(MATRICES, (e, e)) | {"X": (s.n, s.d), "C": (s.k, s.d)}
        for kind, tensors in self._tensors().items():
            for name, a in tensors.items():
                want = shapes[name] if kind == "best" else (R, *shapes[name])
                if tuple(a.shape) != want or a.dtype != torch.float64:
                    raise AttackError(f"{path}: {kind}/{name} is not a float64 table {want}")
        if tuple(self.groups.shape) != (R, len(MATRICES)):
            raise AttackError(f"{path}: the groups do not fit {R} restarts")

    def _tensors(self) -> dict[str, dict[str, Tensor]]:
        return {
            "state": self.state,
            "mean": self.mean,
            "square": self.square,
            "best": self._best,
        }


def _projected(state: dict[str, Tensor], B: float) -> dict[str, Tensor]:
    """The nearest admissible state: singular values at most B, data in the unit cube."""
    found = {name: state[name].clamp(0, 1) for name in _DATA}
    stacked = torch.stack([state[name] for name in MATRICES])
    U, S, V = torch.linalg.svd(stacked)
    inside = (U * S.clamp(max=B)[..., None, :]) @ V
    # rounding can leave the norm a few units in the last place above B
    inside = torch.where(S[..., :1, None] <= B, stacked, inside * (1 - 1e-14))
    return dict(zip(MATRICES, inside, strict=True)) | found


def _groups(restarts: int, rng: np.random.Generator) -> Tensor:
    """Which matrices count in the first stage: one to three of the queries and keys.

    The gradient in the values alone is what LB1 has most of; where queries and keys matter, the
    scores are at work. The first half of the restarts has starts worth keeping: all count.
    """
    turning = [i for i, name in enumerate(MATRICES) if not name.endswith("value")]
    weights = np.zeros((restarts, len(MATRICES)))
    weights[: restarts // 2] = 1
    for row in weights[restarts // 2 :]:
        row[rng.choice(turning, rng.integers(1, 4), replace=False)] = 1
    return torch.from_numpy(weights)


def _starts(setting: Setting, plan: Plan, rng: np.random.Generator) -> dict[str, Tensor]:
    """Random starts of several kinds, some near the exact instances, some lifted."""
    R, e = plan.restarts, setting.d_emb
    shapes = dict.fromkeys(MATRICES, (e, e))
    shapes |= {"X": (setting.n, setting.d), "C": (setting.k, setting.d)}
    state = {name: rng.standard_normal((R, *shape)) for name, shape in shapes.items()}
    for name in MATRICES:
        state[name] *= setting.B / math.sqrt(e)
    for name in _DATA:  # uniform in the cube, or at corners
        uniform = rng.uniform(size=state[name].shape)
        corners = (rng.uniform(size=(R, 1, 1)) < 0.5) & (rng.uniform(size=uniform.shape) < 0.9)
        state[name] = np.where(corners, np.round(uniform), uniform)
    tensors = {name: torch.from_numpy(a) for name, a in state.items()}
    known = _known(setting) + _lifted(setting, plan, rng)
    for at, instance in enumerate(known[: R // 2]):
        for name, a in {**instance.parameters, "X": instance.X, "C": instance.C}.items():
            noise = 0.0 if at < 2 else 0.05 * (setting.B if name in MATRICES else 1)
            tensors[name][at] = a + noise * torch.from_numpy(rng.standard_normal(a.shape))
    return _projected(tensors, setting.B)


def _known(setting: Setting) -> list[instances.Instance]:
    """LB1 and LB2 as they are, then once more (to be disturbed)."""
    model = model_of(setting)
    found = [instances.flat(model, setting.n, setting.B)]
    if setting.d % 2 == 0 and setting.B >= 1:
        found.append(instances.steep(model, setting.n))
    else:
        found *= 2
    return found * 2


def _lifted(setting: Setting, plan: Plan, rng: np.random.Generator) -> list[instances.Instance]:
    """Optima for two coordinates (one, if d is odd) without a code, each repeated to fill d."""
    low = 1 if setting.d % 2 else 2
    times = setting.d // low
    if times == 1:
        return []
    c = setting.gamma / math.sqrt(setting.d_emb)
    small = replace(
        setting, code="none", d=low, gamma=times * c * math.sqrt(low), tau=setting.tau / times
    )
    seed = int(rng.integers(2**32))
    attack = Attack(small, Plan(seed, 2 * plan.restarts, max(1, plan.steps // 3), plan.rate))
    for _ in attack.run():
        pass
    best = attack.norms(attack.state).argsort(descending=True)[: plan.restarts // 4]
    return [
        _lift(setting, times, {name: a[at] for name, a in attack.state.items()})
        for at in best.tolist()
    ]


def _lift(setting: Setting, times: int, small: dict[str, Tensor]) -> instances.Instance:
    """Each coordinate repeated: W M W^T with orthonormal block indicators W, zero on the code."""
    low = setting.d // times
    W = torch.zeros(setting.d_emb, low, dtype=torch.float64)
    W[: setting.d] = torch.eye(low, dtype=torch.float64).repeat_interleave(times, dim=0)
    W /= times**0.5
    parameters = {name: W @ small[name].detach() @ W.T for name in MATRICES}
    X, C = (small[name].detach().repeat_interleave(times, dim=-1) for name in _DATA)
    return instances.Instance(parameters, X, C)
