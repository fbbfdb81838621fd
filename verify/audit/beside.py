"""The exact transformer beside Lloyd, step by step, and why they part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from constructions import LloydTransformer, lloyd_step
from constructions.arrays import checked
from verify.audit.survey import Survey, survey

SHOWN = 10  # examples kept of anything that can be long


@dataclass(frozen=True)
class Step:
    """One Lloyd step from `before` to `after` (k, d), in rationals.

    An empty cluster keeps its center. `duplicates` are groups of equal centers in `before`.
    """

    number: int
    before: Any
    after: Any
    found: Survey
    empty: list[int]
    duplicates: list[list[int]]

    @property
    def fixed(self) -> bool:
        return bool((self.before == self.after).all())


@dataclass
class Track:
    """The transformer with one code.

    Attributes
    ----------
    centers : where it is now
    parted : the first step at which its centers differ from Lloyd's
    differing : the centers that differ there, with both values
    reasons : why, as dictionaries (see `reasons`)
    harmless : steps with a tie or an empty cluster in which it agreed all the same
    settled : it agreed in a step that moves nothing, so it agrees in all that follow
    """

    code: str
    model: LloydTransformer
    centers: Any
    parted: int | None = None
    differing: list[tuple[int, Any, Any]] = field(default_factory=list)
    reasons: list[dict[str, Any]] = field(default_factory=list)
    harmless: list[int] = field(default_factory=list)
    settled: bool = False


def run(X: Any, C: Any, codes: list[str], steps: int) -> tuple[list[Track], Iterator[Step]]:
    """Tracks that are filled while the steps are iterated over.

    X (n, d) and C (k, d) are object arrays of `fmpq`. One layer at a time, from the centers that
    the track has reached: at inverse temperature infinity this is the same as feeding tokens on,
    because the codes that points carry are rewritten by every layer.
    """
    k, d = C.shape
    tracks = [Track(name, LloydTransformer(d, k, name), C) for name in codes]
    return tracks, _steps(X, C, tracks, steps)


def _steps(X: Any, C: Any, tracks: list[Track], steps: int) -> Iterator[Step]:
    step = None
    for number in range(1, steps + 1):
        if step is not None and step.fixed:
            step = replace(step, number=number)  # the same input again
        else:
            step = _lloyd(X, C, number)
        for track in tracks:
            _advance(track, X, step)
        yield step
        C = step.after


def _lloyd(X: Any, C: Any, number: int) -> Step:
    lloyd = lloyd_step(X, C, empty="keep")
    found = survey(X, C)
    if not np.array_equal(lloyd.assignments, found.assignments):
        raise RuntimeError("two exact computations of the assignments disagree: a bug, report it")
    empty = np.nonzero(lloyd.empty_clusters)[0].tolist()
    return Step(number, C, lloyd.centers, found, empty, _equal_rows(C))


def _advance(track: Track, X: Any, step: Step) -> None:
    if track.settled:
        return
    together = track.parted is None
    new = track.model(X, track.centers)
    if together:
        apart = np.nonzero((new != step.after).any(axis=1))[0].tolist()
        if apart:
            track.parted = step.number
            track.differing = [(j, step.after[j], new[j]) for j in apart]
            track.reasons = reasons(step, track.model.code, apart)
        else:
            if step.found.ties or step.empty:
                track.harmless.append(step.number)
            track.settled = step.fixed
    track.centers = new


def reasons(step: Step, code: Any, apart: list[int]) -> list[dict[str, Any]]:
    """Why the transformer's centers `apart` differ from Lloyd's in this step.

    A point carries the mean code of its nearest centers; a center reads the points whose carried
    code is nearest to its own. So points with the same set of nearest centers fare alike, and for
    each such set it is decided here, in rationals, which centers read it.

    Returns
    -------
    list of dictionaries with `kind`, `centers`, `points` (the first few), `count` (of points),
    `lloyd` and `read_by`. For "tie" and "duplicate" these are tied points, their nearest centers
    (all equal for "duplicate"), Lloyd's choice among these, and the centers that read the points.
    For "empty" and "all_tied", `lloyd` is a center whose code no point carries, because no point
    or only tied points belong to it; `points` are those that it reads, `centers` what these are
    nearest to, and `equal_to` the centers at the same place as `lloyd`.
    """
    groups = _groups(step.found)
    system, _ = checked(C=step.before)
    table = code.array(system)
    carried = {near: table[list(near)].sum(axis=0) / len(near) for near in groups}
    reads: dict[int, list[tuple[int, ...]]] = {}
    for j, own in enumerate(table):
        away = {near: ((own - mean) ** 2).sum() for near, mean in carried.items()}
        least = min(away.values())
        reads[j] = [near for near in groups if away[near] == least]
    found: list[dict[str, Any]] = []
    for near, points in groups.items():
        readers = [j for j in reads if near in reads[j]]
        changed = {near[0]} ^ set(readers)  # by Lloyd or by the transformer, but not by both
        if len(near) > 1 and changed & set(apart) - set(step.empty):
            kind = "duplicate" if _same(step.before, near) else "tie"
            found.append(_reason(kind, near, points, near[0], readers))
    for j in apart:
        foreign = any(len(near) == 1 and near != (j,) for near in reads[j])
        if j in step.empty or foreign:  # no point carries the code of j
            points = sorted(i for near in reads[j] for i in groups[near])
            centers = sorted({c for near in reads[j] for c in near})
            kind = "empty" if j in step.empty else "all_tied"
            reason = _reason(kind, centers, points, j, [j])
            equal = next((g for g in step.duplicates if j in g), [j])
            reason["equal_to"] = [c for c in equal if c != j]
            found.append(reason)
    return sorted(found, key=lambda r: (r["kind"], -r["count"]))


def _reason(kind: str, centers: Any, points: Any, lloyd: int, readers: list[int]) -> dict[str, Any]:
    return {
        "kind": kind,
        "centers": [int(j) for j in centers],
        "points": [int(i) for i in points[:SHOWN]],
        "count": len(points),
        "lloyd": int(lloyd),
        "read_by": readers,
    }


def _groups(found: Survey) -> dict[tuple[int, ...], list[int]]:
    """Points by their set of nearest centers."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, j in enumerate(found.assignments.tolist()):
        groups.setdefault(found.ties.get(i, (j,)), []).append(i)
    return groups


def _equal_rows(C: Any) -> list[list[int]]:
    rows: dict[tuple[Any, ...], list[int]] = {}
    for j, row in enumerate(C.tolist()):
        rows.setdefault(tuple(row), []).append(j)
    return [group for group in rows.values() if len(group) > 1]


def _same(C: Any, near: tuple[int, ...]) -> bool:
    return all(bool((C[j] == C[near[0]]).all()) for j in near)
