"""One implementation in one library and element type: plain numbers in, plain numbers out."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

LIBRARIES = ("numpy", "torch", "jax", "lists")
DTYPES = ("float64", "float32")


class WrongAnswer(Exception):  # noqa: N818 - what came, not what went wrong here
    """An answer that cannot be judged: of the wrong shape or type, or none at all."""


class Subject:
    """A function of arrays, and the library and element type that it is given them in.

    Parameters
    ----------
    function : takes arrays, or nested lists with library "lists"
    library : one of `LIBRARIES`
    dtype : one of `DTYPES`

    Raises
    ------
    ImportError
        the library is not installed.
    """

    def __init__(
        self, function: Callable[..., Any], library: str = "numpy", dtype: str = "float64"
    ) -> None:
        self.function, self.library, self.dtype = function, library, dtype
        if library in ("torch", "jax"):
            importlib.import_module(library)

    @property
    def eps(self) -> float:
        return float(np.finfo(self.dtype).eps)

    def array(self, table: Any) -> Any:
        """A nested list as an array of the library."""
        if self.library == "lists":
            return table
        if self.library == "numpy":
            return np.asarray(table, dtype=self.dtype)
        if self.library == "torch":
            import torch

            return torch.tensor(table, dtype=getattr(torch, self.dtype))
        import jax

        if self.dtype == "float64":
            jax.config.update("jax_enable_x64", True)
        return jax.numpy.asarray(table, dtype=self.dtype)

    def raw(self, *arguments: Any) -> Any:
        """The answer as it comes, in the library's own arrays; lists become arrays."""
        return self.function(*(self.array(a) if isinstance(a, list) else a for a in arguments))

    def __call__(self, *arguments: Any, shape: tuple[int, ...] | None = None) -> Any:
        """The answer in plain floats, of the shape asked for.

        Raises
        ------
        WrongAnswer
            it has another shape, or is no number at all.
        """
        return self.plain(self.raw(*arguments), shape)

    def plain(self, answer: Any, shape: tuple[int, ...] | None = None) -> Any:
        if hasattr(answer, "detach"):
            answer = answer.detach()
        try:
            table = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError) as error:
            kind = type(answer).__name__
            raise WrongAnswer(f"the answer is {kind}, expected numbers") from error
        if shape is not None and table.shape != shape:
            raise WrongAnswer(f"the answer has shape {table.shape}, expected {shape}")
        return table.tolist()

    @property
    def differentiates(self) -> bool:
        return self.library in ("torch", "jax")

    def pulled_back(self, r: list[float], tau: float, upstream: Any) -> list[float]:
        """Gradient (k,) in r of the sum of `upstream` times the answer."""
        if self.library == "torch":
            import torch

            x = self.array(r).requires_grad_()
            answer = self.function(x, tau)
            if not (isinstance(answer, torch.Tensor) and answer.requires_grad):
                raise WrongAnswer("the answer carries no gradient")
            answer.backward(self.array(upstream).reshape(answer.shape))
            return self.plain(x.grad, (len(r),))
        import jax

        answer, pull = jax.vjp(lambda x: self.function(x, tau), self.array(r))
        return self.plain(pull(self.array(upstream).reshape(answer.shape))[0], (len(r),))


def excess(found: Any, right: Any, allowed: Any) -> tuple[float, float]:
    """The entry with the largest error in units of what is allowed: (error, allowed). Nested lists
    of one shape; an answer that is not finite is infinitely wrong."""
    worst = (0.0, 0.0)
    for f, r, a in zip(flat(found), flat(right), flat(allowed), strict=True):
        error = abs(f - float(r)) if math.isfinite(f) else math.inf
        if error * max(worst[1], 5e-324) > worst[0] * max(a, 5e-324) or worst == (0.0, 0.0):
            worst = (error, a)
    return worst


def flat(table: Any) -> list[Any]:
    return [v for row in table for v in flat(row)] if isinstance(table, list) else [table]
