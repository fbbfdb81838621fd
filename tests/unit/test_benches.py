"""The benches on small problems: that they run, and that the contestants compute the same."""

from __future__ import annotations

import pytest
import torch

from verify.bench import attention, lloyd, multistep, sampling, train
from verify.bench._measure import in_turn, peak_bytes


def test_both_lloyd_steps_reach_the_same_inertia() -> None:
    table = lloyd.measure(scale=0.001, rounds=1)
    assert len(table.rows) == len(lloyd.SHAPES)
    assert all(len(row) == len(table.columns) and row[-1] < 1e-5 for row in table.rows)


def test_both_transformers_give_the_same_centers() -> None:
    plain_fast, codes = attention.measure(clusters=(6,), batches=(1,), rounds=1)
    assert [row[2] for row in plain_fast.rows] == list(attention.CODES)
    assert all(row[-1] < 1e-5 for row in plain_fast.rows)
    assert all(len(row) == len(codes.columns) for row in codes.rows)
    table = multistep.measure(shapes=((2, 64, 4),), steps=3, rounds=1)
    assert table.rows[0][-1] < 1e-5


def test_both_training_loops_arrive_at_the_same_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert train.difference(n=64, batch=4) < 1e-6
    monkeypatch.setattr(train, "REGULARIZERS", ("l2",))
    tables = train.measure(shapes=((2, 3),), n=32, batch=2, rounds=1)
    assert [[len(row) for row in t.rows] for t in tables] == [[len(t.columns)] for t in tables]


def test_sampling_has_a_row_a_shape() -> None:
    assert [row[:2] for row in sampling.measure(rounds=1).rows] == [[4, 6], [32, 6], [32, 25]]


def test_peak_memory_is_that_of_what_lives_together() -> None:
    def twice_in_turn() -> None:
        for _ in range(2):
            torch.zeros(1000)

    def both() -> None:
        _ = [torch.zeros(1000) for _ in range(2)]

    assert 4000 <= peak_bytes(twice_in_turn) < 5000
    assert 8000 <= peak_bytes(both) < 9000


def test_times_are_in_milliseconds_of_work() -> None:
    a = torch.rand(300, 300)
    times = in_turn({"less": lambda: a @ a, "more": lambda: [a @ a for _ in range(20)]}, 5)
    assert 0 < times["less"] < times["more"]
