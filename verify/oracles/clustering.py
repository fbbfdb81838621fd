"""Lloyd's step and the paper's transformer layer, on plain lists of exact fractions.

Written with the standard library alone: the report pastes this file in front of a counterexample
to make a script that runs anywhere.
"""

from fractions import Fraction

Row = list[Fraction]


def squared_distance(a: Row, b: Row) -> Fraction:
    return sum(((u - v) ** 2 for u, v in zip(a, b, strict=True)), Fraction(0))


def nearest(point: Row, places: list[Row]) -> list[int]:
    """Indices of all places at the smallest distance from the point."""
    distances = [squared_distance(point, place) for place in places]
    best = min(distances)
    return [j for j, r in enumerate(distances) if r == best]


def mean(rows: list[Row]) -> Row:
    return [Fraction(sum(column)) / len(rows) for column in zip(*rows, strict=True)]


def lloyd(X: list[Row], C: list[Row], steps: int = 1) -> list[Row]:
    """Centers after some Lloyd steps: lowest index at ties, an empty cluster keeps its center."""
    for _ in range(steps):
        labels = [nearest(x, C)[0] for x in X]
        C = [
            mean([x for x, label in zip(X, labels, strict=True) if label == j] or [c])
            for j, c in enumerate(C)
        ]
    return C


def tied_points(X: list[Row], C: list[Row]) -> list[int]:
    return [i for i, x in enumerate(X) if len(nearest(x, C)) > 1]


def empty_clusters(X: list[Row], C: list[Row]) -> list[int]:
    return sorted(set(range(len(C))) - {nearest(x, C)[0] for x in X})


def averaging_attention(queries: list[Row], keys: list[Row], values: list[Row]) -> list[Row]:
    """Attention at infinite inverse temperature: the mean value over the nearest keys."""
    return [mean([values[i] for i in nearest(q, keys)]) for q in queries]


def add(a: list[Row], b: list[Row], sign: int = 1) -> list[Row]:
    return [[u + sign * v for u, v in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]


def transformer(X: list[Row], C: list[Row], codes: list[Row], steps: int = 1) -> list[Row]:
    """Centers after some layers of the constructed transformer.

    A point token is (place x, code y), a center token (place c, code b). The point modules
    compare places and move codes, the center modules compare codes and move places; the value of
    a self-attention is negative. What a selector matrix would multiply by zero is left out.
    """
    Y = [[Fraction(0)] * len(codes[0]) for _ in X]
    for _ in range(steps):
        cross = averaging_attention(X, C, codes)
        own = averaging_attention(X, X, Y)
        Y = add(add(Y, cross), own, -1)
        cross = averaging_attention(codes, Y, X)
        own = averaging_attention(codes, codes, C)
        C = add(add(C, cross), own, -1)
    return C


def closed_form(X: list[Row], C: list[Row], codes: list[Row], steps: int = 1) -> list[Row]:
    """What the layer comes down to for distinct codes: each point carries the mean code of its
    nearest centers, each center takes the mean of the points whose code is nearest to its own."""
    for _ in range(steps):
        carried = [mean([codes[j] for j in nearest(x, C)]) for x in X]
        C = [mean([X[i] for i in nearest(b, carried)]) for b in codes]
    return C


def linear_one_hot(X: list[Row], C: list[Row], steps: int = 1) -> list[Row] | None:
    """Centers of the one-hot construction with normalized linear attention: a tied point is
    shared in equal parts. None where a center is nearest to no point (0/0)."""
    for _ in range(steps):
        near = [nearest(x, C) for x in X]
        new = []
        for j in range(len(C)):
            shares = [Fraction(j in js, len(js)) for js in near]
            if sum(shares) == 0:
                return None
            new.append(
                [
                    sum(s * u for s, u in zip(shares, column, strict=True)) / sum(shares)
                    for column in zip(*X, strict=True)
                ]
            )
        C = new
    return C


def main(X: list[Row], C: list[Row], codes: list[Row], steps: int = 1) -> None:
    """Print both answers."""
    print("points         ", *[tuple(map(str, x)) for x in X])
    print("centers        ", *[tuple(map(str, c)) for c in C])
    print("tied points    ", tied_points(X, C))
    print("empty clusters ", empty_clusters(X, C))
    print("Lloyd          ", *[tuple(map(str, c)) for c in lloyd(X, C, steps)])
    print("transformer    ", *[tuple(map(str, c)) for c in transformer(X, C, codes, steps)])
