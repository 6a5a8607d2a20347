"""Measures latencies at several limits by turns, so that other load on the machine affects all limits alike."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from treadle.errors import InternalError
from treadle.tune.space import Limits
from treadle.tune.turns import Clock, turn

K = TypeVar("K", bound=Hashable)
"""What differs between the runs that take turns, such as limits."""

Run = Callable[[Limits], Mapping[str, Any]]
"""Runs the model once with these limits and returns its outputs."""

Progress = Callable[[int, int], None]
"""Called after each turn with the number of finished turns and of all turns."""


@dataclass(slots=True)
class Timings(Generic[K]):
    """Latencies in ns: the median at each limits for every round that counts, and those of all runs by limits."""

    rounds: list[dict[K, float]] = field(default_factory=list)
    latencies: dict[K, list[int]] = field(default_factory=dict)

    def median(self, limits: K) -> float:
        """Returns the median over the rounds' medians, in ns."""
        return statistics.median(round_[limits] for round_ in self.rounds if limits in round_)

    def spread(self, limits: K) -> tuple[float, float]:
        """Returns the 10th and the 90th percentile of all runs, in ns."""
        low, high = np.percentile(self.latencies[limits], [10, 90])
        return float(low), float(high)

    def ratios(self, limits: K, other: K) -> list[float]:
        """Returns the latency at `limits` divided by that at `other`, for each round that measured both."""
        return [round_[limits] / round_[other] for round_ in self.rounds if limits in round_ and other in round_]

    def ratio(self, limits: K, other: K) -> float:
        """Returns the median of ratios(), from which load that changes between rounds cancels out."""
        return statistics.median(self.ratios(limits, other))


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to measure: `rounds` rounds that count, each with a turn of `seconds` for each of the limits.

    A turn has at least `least` runs. Its first run does not count if there are more, because another CPU may have to
    wake up. After `enough` rounds, no round starts that would exceed `most` seconds in total.
    """

    rounds: int
    seconds: float
    least: int = 1
    enough: int = 3
    most: float = float("inf")


def interleaved(
    run: Run,
    tried: Sequence[Limits],
    schedule: Schedule,
    *,
    drop: Callable[[Timings[Limits]], Iterable[Limits]] | None = None,
    progress: Progress | None = None,
    now: Clock = time.perf_counter_ns,
) -> Timings[Limits]:
    """Measures `run` at each of the limits `tried`, as by_turns() does."""

    def one_turn(limits: Limits) -> list[int]:
        return turn(lambda: run(limits), 1, schedule.seconds, schedule.least, now)

    return by_turns(one_turn, tried, schedule, drop=drop, progress=progress, now=now)


def by_turns(
    turn: Callable[[K], list[int]],
    tried: Sequence[K],
    schedule: Schedule,
    *,
    drop: Callable[[Timings[K]], Iterable[K]] | None = None,
    progress: Progress | None = None,
    now: Clock = time.perf_counter_ns,
) -> Timings[K]:
    """Takes a `turn` of each of `tried`, in random order each round, after one round that does not count.

    A turn returns latencies in ns. After each round, `drop` may return what later rounds leave out. `now` is a clock in
    ns.
    """
    timings: Timings[K] = Timings(latencies={each: [] for each in tried})
    left, order = list(tried), random.Random(0)  # noqa: S311 - only the order of turns
    start = now()
    for number in range(schedule.rounds + 1):
        began = now()
        medians: dict[K, float] = {}
        for done, each in enumerate(order.sample(left, len(left)), 1):
            latencies = turn(each)
            if number:
                timings.latencies[each] += latencies
                medians[each] = statistics.median(latencies)
            if progress is not None:
                progress(number * len(left) + done, (schedule.rounds + 1) * len(left))
        if number:
            timings.rounds.append(medians)
        if drop is not None and number:
            dropped = set(drop(timings))
            left = [each for each in left if each not in dropped]
        ended = now()
        if number >= schedule.enough and 2 * ended - began - start > schedule.most * 1e9:
            break
    return timings


def same_everywhere(run: Run, tried: Sequence[Limits]) -> bool:
    """Returns True if outputs are bitwise the same at all of `tried`, False if they differ from run to run.

    Raises InternalError if outputs depend on the limits.
    """
    expected = _bits(run(tried[0]))
    if _bits(run(tried[0])) != expected:
        return False
    for limits in tried[1:]:
        if _bits(run(limits)) != expected:
            raise InternalError(
                f"the outputs at (intra_op, inter_op) = {tuple(limits)} are not those at {tuple(tried[0])}, although "
                "treadle promises that; please report it, with the model"
            )
    return True


def _bits(outputs: Mapping[str, Any]) -> list[Any]:
    return [_plain(value) for value in outputs.values()]


def _plain(value: Any) -> Any:
    """Returns what is equal for values of the same bits: bytes of numbers, and lists, dicts and texts as they are."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    return value.tolist() if value.dtype.kind == "O" else value.tobytes()
