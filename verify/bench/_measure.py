"""How times and memory are measured: process CPU time, medians, contestants in turn."""

from __future__ import annotations

import math
import multiprocessing
import os
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
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its notes on starting and stopping
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    live = peak = 0
    for event in found.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


def afresh(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments) in a process of its own, so that what was measured before does not show:
    an allocator that has served large tensors keeps their pages for the next ones."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


class Crew:
    """Processes that do the same work side by side, each in a loop of its own: how often they do it
    in a second, all together, on the clock on the wall.

    Parameters
    ----------
    prepare : a module's function, called once in every process; it returns the work
    arguments : of `prepare`
    processes : how many
    """

    def __init__(self, prepare: Callable[..., Callable[[], Any]], arguments: Any, processes: int):
        context = multiprocessing.get_context("spawn")
        self._pools = [context.Pool(1, _begin, (prepare, arguments)) for _ in range(processes)]

    def rate(self, seconds: float) -> float:
        """Repetitions a second, in so many seconds at least."""
        turns = [pool.apply_async(_turn, (seconds,)) for pool in self._pools]
        return sum(turn.get() for turn in turns)

    def dismiss(self) -> None:
        for pool in self._pools:
            pool.terminate()


def _begin(prepare: Callable[..., Callable[[], Any]], arguments: Any) -> None:
    _work.append(prepare(*arguments))
    _work[0]()


def _turn(seconds: float) -> float:
    begin, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < seconds or not count:
        _work[0]()
        count += 1
    return count / passed


_work: list[Callable[[], Any]] = []  # of this process
