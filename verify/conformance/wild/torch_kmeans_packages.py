"""Three k-means packages for PyTorch: kmeans-pytorch, fast-pytorch-kmeans, torch-kmeans."""

from __future__ import annotations

from typing import Any
from unittest import mock

from verify.conformance.property import Excluded
from verify.conformance.wild import adapter


def _kmeans_pytorch(X: Any, C: Any) -> Any:
    """One turn of `kmeans_pytorch.kmeans` from C. It draws its first centers itself, so C stands in
    for the draw; it runs until the centers move less than tol, which is infinite here."""
    import kmeans_pytorch as package

    class Meter:
        """In place of the progress bar: a second turn is one that never ends, as nothing is below
        tol when it is NaN. With NaN in the points themselves the loop is left alone."""

        turns = 0

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def set_postfix(self, **_: Any) -> None: ...

        def update(self) -> None:
            self.turns += 1
            if self.turns > 1 and bool(X.isfinite().all()):
                raise TimeoutError("kmeans() does not end: the centers' shift is NaN")

    with (
        mock.patch.object(package, "initialize", lambda points, k: C.to(points.dtype).clone()),
        mock.patch.object(package, "tqdm", Meter),
    ):
        return package.kmeans(X, len(C), tol=float("inf"))[1]


@adapter(
    "kmeans_pytorch.kmeans(X, k, tol=inf), k > 1",
    "kmeans-pytorch",
    note="The adapter puts C in place of the random draw, and ends a loop that would not end.",
    role="lloyd_step",
    library="torch",
    dtype="float32",
    ties="any",
    empty="nan",
)
def kmeans_pytorch(X: Any, C: Any) -> Any:
    if len(C) == 1:
        raise Excluded  # see the next one
    return _kmeans_pytorch(X, C)


@adapter(
    "kmeans_pytorch.kmeans(X, 1, tol=inf)",
    "kmeans-pytorch",
    only="one-cluster",
    role="lloyd_step",
    library="torch",
    dtype="float32",
    ties="any",
    empty="nan",
)
def kmeans_pytorch_one(X: Any, C: Any) -> Any:
    return _kmeans_pytorch(X, C)


@adapter(
    "fast_pytorch_kmeans.KMeans(k, max_iter=1)",
    "fast-pytorch-kmeans",
    role="lloyd_step",
    library="torch",
    dtype="float32",
    ties="any",
    empty="any",
)
def fast_pytorch_kmeans(X: Any, C: Any) -> Any:
    from fast_pytorch_kmeans import KMeans

    model = KMeans(len(C), max_iter=1)
    model.fit(X, C)
    return model.centroids


@adapter(
    "torch_kmeans.KMeans(num_init=1, max_iter=1)",
    "torch-kmeans",
    documented={
        "one-cluster": "its error message: n_clusters should be > 1",
        "scaling": "torch.nn.functional.pairwise_distance, which it calls, adds eps = 1e-6 to "
        "every difference",
        "n-equals-k": "its error message: k must be smaller than the number of samples",
    },
    role="lloyd_step",
    library="torch",
    dtype="float32",
    ties="any",
    empty="any",
)
def torch_kmeans(X: Any, C: Any) -> Any:
    from torch_kmeans import KMeans

    if len(C) == 1 or len(C) == len(X):
        raise Excluded  # documented: refused
    model = KMeans(num_init=1, max_iter=1, verbose=False, n_clusters=len(C))
    return model(X[None], k=len(C), centers=C[None]).centers[0]
