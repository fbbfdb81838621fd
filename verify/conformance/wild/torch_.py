"""PyTorch: `cdist` in its three modes, softmax, and attention by squared distances."""

from __future__ import annotations

import math
from typing import Any

from verify.conformance.wild import adapter

STEP: dict[str, Any] = {
    "role": "lloyd_step",
    "library": "torch",
    "dtype": "float32",
    "ties": "any",
    "empty": "keep",
}
NOTE = "cdist gives distances; the adapter takes argmin and means."


def _step(mode: str, X: Any, C: Any) -> Any:
    import torch

    labels = torch.cdist(X, C, compute_mode=mode).argmin(-1)
    rows = [X[labels == j].mean(0) if bool((labels == j).any()) else c for j, c in enumerate(C)]
    return torch.stack(rows)


@adapter("torch.cdist, default mode, then argmin and mean", "torch", note=NOTE, **STEP)
def cdist(X: Any, C: Any) -> Any:
    return _step("use_mm_for_euclid_dist_if_necessary", X, C)


@adapter("torch.cdist, 'use_mm_for_euclid_dist', then argmin and mean", "torch", note=NOTE, **STEP)
def cdist_matrix_product(X: Any, C: Any) -> Any:
    return _step("use_mm_for_euclid_dist", X, C)


@adapter(
    "torch.cdist, 'donot_use_mm_for_euclid_dist', then argmin and mean", "torch", note=NOTE, **STEP
)
def cdist_differences(X: Any, C: Any) -> Any:
    return _step("donot_use_mm_for_euclid_dist", X, C)


@adapter("torch.softmax", "torch", role="weights", library="torch", kind="softmax")
def softmax(r: Any, tau: Any) -> Any:
    return (-r / tau).softmax(-1)


@adapter(
    "scaled_dot_product_attention with one more coordinate",
    "torch",
    documented={
        "far-from-origin": "docs/public-libraries.md: the form 2 q·k − |k|², which is the "
        "adapter's and not PyTorch's, loses digits far from the origin"
    },
    note="2 q·k − |k|² in place of −|q − k|², which differs by −|q|², the same for all keys.",
    role="attention",
    library="torch",
)
def distance_attention(Q: Any, K: Any, V: Any, scale: Any) -> Any:
    """-|q - k|^2 = 2 q.k - |k|^2 - |q|^2, and the last term moves no weight: one more coordinate,
    1 in the query and -|k|^2 / 2 in the key, makes the distance a dot product."""
    import torch

    one = torch.ones_like(Q[..., :1])
    squares = -(K * K).sum(-1, keepdim=True) / 2
    query, key = torch.cat([Q, one], -1), torch.cat([K, squares], -1)
    attend = torch.nn.functional.scaled_dot_product_attention
    if not math.isfinite(scale):
        raise ValueError(f"scale = {scale}: a finite number is needed")
    return attend(query, key, V, scale=2 * float(scale))


@adapter("scaled_dot_product_attention", "torch", role="attention", library="torch")
def dot_product_attention(Q: Any, K: Any, V: Any, scale: Any) -> Any:
    import torch

    return torch.nn.functional.scaled_dot_product_attention(Q, K, V, scale=float(scale))
