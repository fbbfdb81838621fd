"""Earth mover's distances, blocks of a matrix, and statements that planted blocks make false."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from constructions.tasks import FAMILIES, SCALINGS
from verify.claims.tasks import family_distances as claim


def test_the_sum_over_sorted_values_is_the_earth_movers_distance():
    rng = np.random.default_rng(0)
    rows = np.sort(rng.standard_cauchy((6, 50)) + rng.integers(0, 2, (6, 50)), axis=1)
    found = claim.earth_movers(rows)
    for i, j in np.ndindex(6, 6):
        assert found[i, j] == pytest.approx(wasserstein_distance(rows[i], rows[j]), rel=1e-12)
    assert claim.earth_movers(np.array([[0.0, 1.0], [2.0, 3.0]])).tolist() == [[0, 2], [2, 0]]


@pytest.mark.parametrize("scaling", SCALINGS)
def test_squared_distances_of_tasks(scaling):
    r = claim.distances("cauchy", scaling, 2, 3)
    assert r.shape == (2, 512 * 6)
    assert np.all(np.diff(r) >= 0)
    assert np.all(r[:, :6] == 0)  # the centers are points
    assert np.array_equal(claim.distances("cauchy", scaling, 2, 3), r)
    assert not np.array_equal(claim.distances("cauchy", scaling, 2, 4), r)


def test_blocks_are_medians_without_the_diagonal():
    matrix = np.arange(100.0).reshape(10, 10)
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
    blocks = claim.block_medians(matrix)
    assert blocks[0, 0] == matrix[0, 1]
    assert blocks[1, 2] == np.median(matrix[2:4, 4:6])
    assert np.array_equal(blocks, blocks.T)
    whole = np.arange(80 * 80.0).reshape(80, 80)
    few = claim.of_size(whole, 4)
    assert few.shape == (20, 20)
    assert few[4, 5] == whole[16, 17]


def planted(changes: dict[tuple[str, str], float]) -> np.ndarray:
    """Blocks for which all statements hold, and changes to them."""
    blocks = np.full((5, 5), 1.0)
    blocks[claim.CAUCHY] = blocks[:, claim.CAUCHY] = 9.0
    for (f, g), value in (
        {("cauchy", "cauchy"): 1.0, ("cauchy", "laplace"): 5.0} | changes
    ).items():
        i, j = FAMILIES.index(f), FAMILIES.index(g)
        blocks[i, j] = blocks[j, i] = value
    return blocks


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, []),
        ({("normal", "laplace"): 6.0}, ["cauchy-is-far", "others-are-near"]),
        ({("normal", "laplace"): 2.1}, ["others-are-near"]),
        ({("normal", "laplace"): 2.1, ("laplace", "laplace"): 1.1}, []),
        ({("cauchy", "cauchy"): 5.1}, ["cauchy-is-like-cauchy"]),
        ({("cauchy", "gumbel"): 4.9}, ["laplace-is-nearest"]),
    ],
)
def test_statements_are_false_where_they_should_be(changes, wrong):
    blocks = planted(changes)
    found = [name for name, (_, ratio) in claim.STATEMENTS.items() if ratio(blocks) < 1]
    assert found == wrong
