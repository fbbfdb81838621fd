"""The k-means problem by brute force, and two ways to scale it, on plain lists of exact fractions.

Written with the standard library alone: the report pastes this file in front of a counterexample
to make a script that runs anywhere.
"""

from fractions import Fraction

Row = list[Fraction]
Partition = tuple[int, ...]  # the cluster of each point, numbered by first appearance


def squared_distance(a: Row, b: Row) -> Fraction:
    return sum(((u - v) ** 2 for u, v in zip(a, b, strict=True)), Fraction(0))


def partitions(n: int, k: int) -> list[Partition]:
    """All ways to split n points into at most k clusters."""
    found: list[Partition] = [()]
    for _ in range(n):
        found = [(*p, j) for p in found for j in range(min(k, max(p, default=-1) + 2))]
    return found


def mean(rows: list[Row]) -> Row:
    return [Fraction(sum(column)) / len(rows) for column in zip(*rows, strict=True)]


def cost(X: list[Row], partition: Partition) -> Fraction:
    """Squared distances of the points to the means of their clusters, summed."""
    total = Fraction(0)
    for label in set(partition):
        members = [x for x, j in zip(X, partition, strict=True) if j == label]
        center = mean(members)
        total += sum((squared_distance(x, center) for x in members), Fraction(0))
    return total


def optimal_partitions(X: list[Row], k: int) -> list[Partition]:
    """All partitions of smallest cost."""
    costs = {p: cost(X, p) for p in partitions(len(X), k)}
    best = min(costs.values())
    return [p for p, value in costs.items() if value == best]


def nearest(X: list[Row], C: list[Row]) -> list[list[int]]:
    """For each point, the indices of all its nearest centers."""
    found = []
    for x in X:
        distances = [squared_distance(x, c) for c in C]
        found.append([j for j, r in enumerate(distances) if r == min(distances)])
    return found


def assignment_cost(X: list[Row], C: list[Row], labels: list[int]) -> Fraction:
    """Squared distances of the points to the centers they are given to, summed."""
    return sum((squared_distance(x, C[j]) for x, j in zip(X, labels, strict=True)), Fraction(0))


def scaled(X: list[Row], C: list[Row], scaling: str) -> tuple[list[Row], list[Row]]:
    """Points and centers, shifted by the smallest value of each coordinate, then divided by the
    largest shifted value: of each coordinate ("per-dimension"), or of all ("common")."""
    low = [min(column) for column in zip(*X, *C, strict=True)]
    spans = [max(column) - min(column) for column in zip(*X, *C, strict=True)]
    if scaling == "common":
        spans = [max(spans)] * len(spans)

    def move(rows: list[Row]) -> list[Row]:
        return [
            [(u - a) / Fraction(s or 1) for u, a, s in zip(row, low, spans, strict=True)]
            for row in rows
        ]

    return move(X), move(C)


def main(X: list[Row], C: list[Row]) -> None:
    """Print the answers to the data as they are, and to the data scaled in both ways."""
    tables = {"as it is": (X, C)}
    for scaling in ("per-dimension", "common"):
        tables[f"{scaling} scaling"] = scaled(X, C, scaling)
    for name, (points, centers) in tables.items():
        print(name)
        print("  points            ", *[tuple(map(str, x)) for x in points])
        print("  centers           ", *[tuple(map(str, c)) for c in centers])
        for p in partitions(len(points), len(centers)):
            print("  partition", p, "costs", cost(points, p))
        print("  optimal partitions", *optimal_partitions(points, len(centers)))
        print("  nearest centers   ", nearest(points, centers))
