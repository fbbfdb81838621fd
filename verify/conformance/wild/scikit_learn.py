"""scikit-learn: `KMeans` with both algorithms, and one `partial_fit` of `MiniBatchKMeans`."""

from __future__ import annotations

from typing import Any

from verify.conformance.wild import adapter


def _one_step(algorithm: str, X: Any, C: Any) -> Any:
    from sklearn.cluster import KMeans

    model = KMeans(len(C), init=C, n_init=1, max_iter=1, tol=0, algorithm=algorithm)
    return model.fit(X).cluster_centers_


@adapter(
    "KMeans(algorithm='lloyd', max_iter=1)",
    "scikit-learn",
    role="lloyd_step",
    library="numpy",
    ties="any",
    empty="relocate",
)
def kmeans_lloyd(X: Any, C: Any) -> Any:
    return _one_step("lloyd", X, C)


@adapter(
    "KMeans(algorithm='elkan', max_iter=1)",
    "scikit-learn",
    role="lloyd_step",
    library="numpy",
    ties="any",
    empty="relocate",
)
def kmeans_elkan(X: Any, C: Any) -> Any:
    return _one_step("elkan", X, C)


@adapter(
    "MiniBatchKMeans().partial_fit(X), all points in one batch",
    "scikit-learn",
    note="The first batch, with no weight from earlier ones, is one Lloyd step.",
    role="lloyd_step",
    library="numpy",
    ties="any",
    empty="keep",
)
def mini_batch(X: Any, C: Any) -> Any:
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(len(C), init=C, n_init=1, reassignment_ratio=0, random_state=0)
    return model.partial_fit(X).cluster_centers_
