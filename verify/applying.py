"""A trained model on someone's points: its centers beside those of Lloyd and of scikit-learn."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from constructions import lloyd_step
from verify.audit.reading import Table
from verify.audit.starting import start
from verify.clusterer import Box, apply_steps, name_of, require_fit, warnings_for
from verify.experiments.trained import Trained

Array = Any

ENDINGS = (".csv", ".json", ".npz")
FIGURES = (".svg", ".png")
STARTS = 10  # of scikit-learn, the best one counts


def applied(
    trained: Trained, which: int, table: Table, steps: int, init: str, seed: int
) -> dict[str, Any]:
    """The report, as JSON.

    Parameters
    ----------
    which : seed of the model
    init, seed : as for `verify.audit.starting.start`

    Raises
    ------
    InputError, CommandError
        data that do not fit the model, or cannot be computed with.
    """
    s = trained.cell.settings
    require_fit(trained, table.values.shape)
    begun = start(table, s.k, init, seed, "none")
    X, C = begun.X.astype(np.float64), begun.C.astype(np.float64)
    centers = apply_steps(trained, which, X, C, steps)
    box = Box.around(np.concatenate([X, C]), s.scaling)
    lloyd, given = _beside(X, centers, seed)
    _, cube = _beside(box.inside(X), [box.inside(c) for c in centers], seed)
    last = centers[-1]
    return {
        "model": {
            "source": name_of(trained),
            "seed": which,
            "d": s.d,
            "k": s.k,
            "n": s.n,
            "code": s.code,
            "regularizer": s.regularizer,
            "tau": s.temperature,
        },
        "data": {"source": table.source, "n": len(X), "d": X.shape[1]},
        "scaling": s.scaling,
        "steps": steps,
        "init": init,
        "seed": seed,
        "warnings": warnings_for(trained, X),
        "start": C.tolist(),
        "centers": last.tolist(),
        "lloyd_centers": lloyd.tolist(),
        "assignments": _nearest(box.inside(X), box.inside(last)).tolist(),
        "loss": {"as given": given, "unit cube": cube},
    }


def _beside(X: Array, centers: list[Array], seed: int) -> tuple[Array, dict[str, float]]:
    """Lloyd's centers after as many steps from the same start, and the losses of all methods."""
    from sklearn.cluster import KMeans

    C = centers[0]
    for _ in centers[1:]:
        C = lloyd_step(X, C, empty="keep").centers
    best = KMeans(len(C), n_init=STARTS, random_state=seed).fit(X)
    ends = {"start": centers[0], "model": centers[-1], "lloyd": C}
    losses = {name: _loss(X, c) for name, c in ends.items()}
    return C, losses | {"best_of_ten": _loss(X, best.cluster_centers_)}


def _nearest(X: Array, C: Array) -> Array:
    return np.argmin([((X - c) ** 2).sum(axis=1) for c in C], axis=0)


def _loss(X: Array, C: Array) -> float:
    return float(np.min([((X - c) ** 2).sum(axis=1) for c in C], axis=0).sum())


def text_of(found: dict[str, Any]) -> str:
    """The report for people."""
    model, data = found["model"], found["data"]
    lines = [
        f"{model['source']}, seed {model['seed']}: d = {model['d']}, k = {model['k']}, code "
        f"{model['code']}, {model['regularizer']} at tau = {model['tau']:g}, trained on n = "
        f"{model['n']}",
        f"{data['source']}: n = {data['n']}, d = {data['d']}",
        f"Points and centers were scaled into the unit cube ({found['scaling']}), as in the "
        "training, and the centers back.",
        *(f"warning: {text}" for text in found["warnings"]),
        "",
        f"K-means loss after {found['steps']} steps, start {found['init']}. Each column is a "
        "problem of its own: Lloyd and",
        "scikit-learn ran on the points as given, and on the scaled ones.",
        "",
    ]
    names = {
        "start": "initial centers",
        "model": "trained model",
        "lloyd": "Lloyd, same start and steps",
        "best_of_ten": f"scikit-learn, best of {STARTS}",
    }
    given, cube = found["loss"]["as given"], found["loss"]["unit cube"]
    rows = [["", "as given", "unit cube"]]
    rows += [[text, f"{given[name]:.6g}", f"{cube[name]:.6g}"] for name, text in names.items()]
    lines += aligned(rows)
    sizes = np.bincount(found["assignments"], minlength=model["k"])
    centers = [["cluster", "points", "center"]]
    for j, (size, center) in enumerate(zip(sizes, found["centers"], strict=True)):
        centers.append([str(j), str(size), "  ".join(f"{v:.6g}" for v in center)])
    return "\n".join([*lines, "", *aligned(centers)])


def aligned(rows: list[list[str]]) -> list[str]:
    """Lines of a table: the first and the last column to the left, others to the right."""
    *front, _ = widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ends = len(widths) - 1
    return [
        "  ".join(
            text.rjust(width) if 0 < i < ends else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, [*front, widths[-1]], strict=True))
        ).rstrip()
        for row in rows
    ]


def file_of(found: dict[str, Any], X: Array, ending: str) -> str | bytes:
    """The result as a file: .json is the report, .npz holds arrays, .csv one row a center and one
    a point."""
    if ending == ".json":
        return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if ending == ".npz":
        out = io.BytesIO()
        names = ("start", "centers", "lloyd_centers", "assignments")
        arrays: dict[str, Any] = {name: np.array(found[name]) for name in names}
        np.savez(out, **arrays)
        return out.getvalue()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kind", "cluster", *(f"x{a}" for a in range(1, X.shape[1] + 1))])
    for j, center in enumerate(found["centers"]):
        writer.writerow(["center", j, *map(repr, center)])
    for j, x in zip(found["assignments"], X.tolist(), strict=True):
        writer.writerow(["point", j, *map(repr, x)])
    return text.getvalue()


def draw(found: dict[str, Any], X: Array, path: Path) -> bytes:
    """Points and both sets of centers as an SVG or PNG file, by the ending; the same bytes for the
    same findings. With more than two coordinates, along the two principal directions of the
    points."""
    import matplotlib
    from matplotlib.figure import Figure

    sets = [np.array(found[name]) for name in ("start", "centers", "lloyd_centers")]
    axes_names = ("x1", "x2")
    if X.shape[1] > 2:
        middle = X.mean(axis=0)
        _, _, directions = np.linalg.svd(X - middle, full_matrices=False)
        X, *sets = ((A - middle) @ directions[:2].T for A in (X, *sets))
        axes_names = ("first principal direction", "second principal direction")
    elif X.shape[1] == 1:
        X, *sets = (np.concatenate([A, np.zeros_like(A)], axis=1) for A in (X, *sets))
        axes_names = ("x1", "")
    style = {"svg.hashsalt": "leanlloyd", "svg.fonttype": "none", "font.size": 9}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(6, 5), layout="constrained")
        axes = figure.subplots()
        labels = np.array(found["assignments"])
        axes.scatter(X[:, 0], X[:, 1], c=labels % 20, cmap="tab20", s=9, alpha=0.6, linewidths=0)
        shown: tuple[dict[str, Any], ...] = (
            {"marker": "+", "color": "black", "label": "initial centers"},
            {"marker": "o", "edgecolors": "black", "facecolors": "none", "label": "trained model"},
            {"marker": "x", "color": "black", "label": "Lloyd"},
        )
        for A, look in zip(sets, shown, strict=True):
            axes.scatter(A[:, 0], A[:, 1], s=80, **look)
        axes.set_xlabel(axes_names[0])
        axes.set_ylabel(axes_names[1])
        axes.set_title(f"{Path(found['data']['source']).name}, {found['steps']} steps")
        axes.legend(frameon=False)
        buffer = io.BytesIO()
        kind = path.suffix.lower().lstrip(".")
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()
