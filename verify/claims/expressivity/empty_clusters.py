"""What each construction returns for an empty cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from constructions import EmptyClusterError
from verify.claim import Case, Claim, Kind, Measured, Run, Source
from verify.claims.expressivity._shared import (
    RATIONAL_CODES,
    SCRIPT,
    against,
    closed_form,
    transformer_centers,
)
from verify.oracles import clustering as oracle
from verify.proofs.record import MachineChecked
from verify.search import Exhaustive, Property
from verify.strategies import SMALL, growing_grids, instances


def some_empty(case: Case) -> bool:
    return bool(oracle.empty_clusters(case["X"], case["C"]))


def empty_without_ties(case: Case) -> bool:
    return some_empty(case) and not oracle.tied_points(case["X"], case["C"])


def far_centers(*codes: str) -> Any:
    """Points 0 to 2, centers 0 to 5: some are far from every point."""

    def cases(run: Run) -> Iterator[Case]:
        return growing_grids(1, 3, 3, 2, codes=codes, centers_from=5)

    return cases


def global_mean(case: Case) -> Any:
    """Lloyd for clusters with points, the mean of all data for those without."""
    empty = oracle.empty_clusters(case["X"], case["C"])
    centers = oracle.lloyd(case["X"], case["C"])
    return [oracle.mean(case["X"]) if j in empty else c for j, c in enumerate(centers)]


def divides_by_zero(case: Case) -> Measured:
    """Left: the linear construction reports 0/0. Right: some center is nearest to no point."""
    try:
        transformer_centers(case, False, center_update="linear")
        reported = False
    except EmptyClusterError:
        reported = True
    near = {j for x in case["X"] for j in oracle.nearest(x, case["C"])}
    return Measured(reported, len(near) < len(case["C"]))


def kept(case: Case) -> Measured:
    """Against a Lloyd step that keeps the center of an empty cluster."""
    return against(lambda c: oracle.lloyd(c["X"], c["C"]), "Lloyd, empty center kept")(case)


CLAIM = Claim(
    id="empty-clusters",
    title="Empty clusters: the center jumps",
    says="A center without points does not stay where it is and does not become undefined: it "
    "jumps to the mean of the points whose code is nearest to its own. With one-hot codes that is "
    "the mean of all data. Only linear attention divides zero by zero, exactly when a center is "
    "nearest to no point.",
    statement=r"c_j \leftarrow \operatorname{avg}\{ x_i : i \in \arg\min_i \|b_j - y_i\| \}"
    r"\quad\text{also when cluster } j \text{ is empty}",
    sources=(
        Source("summary", "App. B, pp. 18-20 (excluded by hypothesis)"),
        Source("beyond", "what is returned when the hypothesis fails"),
    ),
    kind=Kind.EQUALITY,
    bound=r"\max_{j} \left\| c_j - \text{closed form}_j \right\|_\infty = 0",
    measure=against(closed_form, "closed form"),
    checks=(
        Exhaustive(
            "closed-form",
            scope="instances with an empty cluster: d = 1, n <= 3, k <= 3, points 0 to 2, centers "
            "0 to 5; binary, one-hot and scalar code",
            cases=lambda run: filter(some_empty, far_centers("binary", "one_hot", "scalar")(run)),
        ),
        Property(
            "random",
            scope="d <= 3, k <= 9, n <= 12, t <= 3, centers anywhere, six codes",
            strategy=instances(
                SMALL, RATIONAL_CODES, max_d=3, max_n=12, max_steps=3, free_centers=True
            ).filter(some_empty),
            count=150,
        ),
        Exhaustive(
            "one-hot-mean",
            scope="one-hot code, an empty cluster and no tie, d = 1, n <= 3, k <= 3",
            variant="with one-hot codes the empty center jumps to the mean of all data",
            cases=lambda run: filter(empty_without_ties, far_centers("one_hot")(run)),
            measure=against(global_mean, "mean of all data"),
        ),
        Exhaustive(
            "linear-undefined",
            scope="linear attention, d = 1, n <= 3, k <= 3, points 0 to 2, centers 0 to 5",
            variant="linear attention is 0/0 exactly when a center is nearest to no point, and "
            "says so",
            kind=Kind.IFF,
            cases=far_centers("one_hot"),
            measure=divides_by_zero,
        ),
        Exhaustive(
            "not-kept",
            scope="binary code, from the smallest instance up",
            variant="an empty center stays where it is (it does not)",
            cases=lambda run: filter(empty_without_ties, far_centers("binary")(run)),
            measure=kept,
            until_violation=True,
        ),
        MachineChecked(
            "coq",
            {
                "stacked_closed_form": "b78488a9b66ee70d",
                "reembedded_closed_form": "07b152df113f6719",
            },
            scope="the closed form on every input, distinct codes, every n, k, d, p and t",
        ),
        MachineChecked(
            "coq-not-kept",
            {"empty_cluster_counterexample": "6fb26e46cb15dbd1"},
            scope="X = (0, 0), C = (0, 1), one step, over every ordered field",
            variant="an empty center does not always stay where it is",
        ),
    ),
    falsify="an input with an empty cluster where the literal layer and the closed form differ",
    theory="expressivity.md#empty-clusters",
    script=SCRIPT,
)
