"""How times and memory are measured: process CPU time, medians, contestants in turn."""

from __future__ import annotations

import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

CLOCKS = {"cpu": "process CPU time, one thread", "cuda": "time of the GPU"}
_TURN = 0.03
"""Least seconds of a turn."""


def in_turn(work: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, measured in turn so that all see the same machine."""
    return {name: statistics.median(found) for name, found in by_round(work, rounds).items()}


def by_round(work: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each in every round.

    CPU time of the process, all threads, and not wall time: other processes on the machine then
    cost little. On a GPU, time between two events of its stream. Short work is repeated within its
    turn, so that a turn is long against what the contestant before it left in the caches. A first
    turn of each is not counted.
    """
    repeats = {}
    for name, run in work.items():
        run()
        repeats[name] = max(1, math.ceil(_TURN / max(_seconds(run), 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, run in work.items():
            times[name].append(1e3 * _seconds(run, repeats[name]))
    return times


def _seconds(run: Callable[[], Any], repeats: int = 1) -> float:
    """Seconds of one run, the mean of several: of the processor, or of a GPU that is in use."""
    if torch.cuda.is_initialized():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / repeats
    begin = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - begin) / repeats


def compared(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    """The medians of two contestants, their ratio, and the least and largest ratio of a round."""
    a, b = statistics.median(slow), statistics.median(fast)
    ratios = [x / y for x, y in zip(slow, fast, strict=True)]
    return [a, b, a / b, min(ratios), max(ratios)]


def peak_bytes(run: Callable[[], Any]) -> int:
    """Largest number of bytes in tensors that `run` holds at a time, beyond what was there."""
    run()
    if torch.cuda.is_initialized():
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        return int(torch.cuda.max_memory_allocated() - before)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    live = peak = 0
    for event in found.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


def fresh(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a module's function, computed in a new process: with the allocator as it comes,
    whatever this process did to its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return pool.apply(function, arguments)
