"""SciPy: vector quantization, k-means, and softmax."""

from __future__ import annotations

from typing import Any

from verify.conformance.wild import adapter, means


@adapter(
    "scipy.cluster.vq.vq, then means",
    "scipy",
    note="vq assigns; the adapter takes the means.",
    role="lloyd_step",
    library="numpy",
    ties="any",
    empty="keep",
)
def vq(X: Any, C: Any) -> Any:
    from scipy.cluster.vq import vq as assign

    labels, _ = assign(X, C)
    return means(X, labels, C)


@adapter(
    "scipy.cluster.vq.kmeans2(X, C, iter=1, minit='matrix')",
    "scipy",
    role="lloyd_step",
    library="numpy",
    ties="any",
    empty="keep",
)
def kmeans2(X: Any, C: Any) -> Any:
    from scipy.cluster.vq import kmeans2 as fit

    return fit(X, C, iter=1, minit="matrix")[0]


@adapter("scipy.special.softmax", "scipy", role="weights", library="numpy", kind="softmax")
def softmax(r: Any, tau: Any) -> Any:
    from scipy.special import softmax as weigh

    return weigh(-r / tau, axis=-1)
