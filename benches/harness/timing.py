"""Latencies: measured inside an engine's process, and collected from several processes that take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from benches.harness.process import EngineProcess

MAX_RUNS = 20_000
"""The most runs of one turn."""

MIN_RUNS = 3

T = TypeVar("T")


def latencies(run: Callable[[], object], seconds: float) -> list[int]:
    """Runs for `seconds`, at least MIN_RUNS and at most MAX_RUNS times, and returns the latencies in ns."""
    found: list[int] = []
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while len(found) < MIN_RUNS or (time.perf_counter_ns() < end and len(found) < MAX_RUNS):
        before = time.perf_counter_ns()
        run()
        found.append(time.perf_counter_ns() - before)
    return found


def turn_orders(items: Sequence[T], rounds: int) -> Iterator[Sequence[T]]:
    """Yields the items in the order of their turns for each round: reversed in every other round."""
    for round_ in range(rounds):
        yield items if round_ % 2 else items[::-1]


@dataclass(frozen=True, slots=True)
class Timing:
    """The median latency in ns of each round of one engine."""

    rounds: list[float]

    @property
    def median_ns(self) -> float:
        return statistics.median(self.rounds)

    def figures(self) -> dict[str, Any]:
        """The figures that JSON files hold."""
        return {"median_ns": self.median_ns, "round_medians_ns": self.rounds}


def time_by_turns(processes: Sequence[EngineProcess], rounds: int, seconds: float) -> dict[str, Timing]:
    """Times processes that answer a number of seconds with latencies in ns; one more round before does not count.

    Returns a Timing by the name of each engine.
    """
    medians: dict[str, list[float]] = {process.name: [] for process in processes}
    for order in turn_orders(processes, rounds + 1):
        for process in order:
            medians[process.name].append(statistics.median(process.ask(seconds)))
    return {name: Timing(found[1:]) for name, found in medians.items()}


def ratio(timings: dict[str, Timing], numerator: str, denominator: str) -> float:
    """The ratio of two median latencies."""
    return timings[numerator].median_ns / timings[denominator].median_ns
