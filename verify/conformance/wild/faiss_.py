"""Faiss on the CPU: nearest centers from a flat index, and `Kmeans`. Both take float32 only."""

from __future__ import annotations

from typing import Any

from verify.conformance.property import Excluded
from verify.conformance.wild import adapter, means

SPLIT = "split_clusters in Faiss's Clustering.cpp: an empty cluster takes part of a larger one"
COPIED = "train in Faiss's Clustering.cpp: as many points as centroids are copied as they are"


@adapter(
    "IndexFlatL2(d).search(X, 1), then means",
    "faiss-cpu",
    note="The index assigns; the adapter takes the means.",
    role="lloyd_step",
    library="numpy",
    dtype="float32",
    ties="any",
    empty="keep",
)
def flat_index(X: Any, C: Any) -> Any:
    import faiss
    import numpy as np

    index = faiss.IndexFlatL2(X.shape[1])
    index.add(np.ascontiguousarray(C, dtype=np.float32))
    _, labels = index.search(np.ascontiguousarray(X, dtype=np.float32), 1)
    if (labels < 0).any():
        raise ValueError("search() answers -1: no neighbor was found")
    return means(X, labels[:, 0], C)


@adapter(
    "Kmeans(d, k, niter=1).train(X, init_centroids=C)",
    "faiss-cpu",
    documented={"empty-clusters": SPLIT, "n-equals-k": COPIED},
    role="lloyd_step",
    library="numpy",
    dtype="float32",
    ties="any",
    empty="any",
)
def kmeans(X: Any, C: Any) -> Any:
    import faiss
    import numpy as np

    if len(X) == len(C):
        raise Excluded  # documented: the points are the answer, in their own order
    model = faiss.Kmeans(
        X.shape[1], len(C), niter=1, min_points_per_centroid=1, max_points_per_centroid=10**9
    )
    X, C = (np.ascontiguousarray(a, dtype=np.float32) for a in (X, C))
    model.train(X, init_centroids=C)
    return model.centroids
