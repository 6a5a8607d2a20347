"""Measuring by turns, with a clock that the test controls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from treadle.errors import InternalError
from treadle.tune.measure import Schedule, Timings, interleaved, same_everywhere
from treadle.tune.space import Limits, grid

MS = 10**6
ONE, BOTH = Limits(1, 1), Limits(2, 2)


class Machine:
    """Runs that take `ms` by limits; if the machine `slows`, later runs take longer."""

    def __init__(self, ms: dict[Limits, float], slows: float = 0.0) -> None:
        self.ms, self.slows, self.time, self.ran = ms, slows, 0.0, list[Limits]()

    def run(self, limits: Limits) -> dict[str, np.ndarray]:
        self.time += self.ms[limits] * MS * (1 + self.slows * len(self.ran))
        self.ran.append(limits)
        return {}

    def now(self) -> int:
        return int(self.time)


def test_limits_take_turns_in_every_round() -> None:
    """
    Each has one turn per round, in random order; the first round does not count.
    """
    tried = grid(2)
    machine = Machine(dict.fromkeys(tried, 10.0))

    timings = interleaved(machine.run, tried, Schedule(5, 0.0), now=machine.now)
    turns = [tuple(machine.ran[first : first + 4]) for first in range(0, len(machine.ran), 4)]

    assert all(sorted(turn) == tried for turn in turns)
    assert len(set(turns)) > 1
    assert (len(turns), len(timings.rounds)) == (6, 5)


def test_the_first_run_of_a_turn_does_not_count() -> None:
    """
    It counts if it is the only one: a slow model has one run per turn.
    """
    machine = Machine({ONE: 10.0})

    quick = interleaved(machine.run, [ONE], Schedule(1, 0.1), now=machine.now)
    slow = interleaved(machine.run, [ONE], Schedule(1, 0.005), now=machine.now)

    assert len(quick.latencies[ONE]) == 9
    assert len(slow.latencies[ONE]) == 1


def test_ratios_are_those_of_one_round() -> None:
    """
    A machine that becomes ten times slower changes medians but hardly changes ratios.
    """
    machine = Machine({ONE: 20.0, BOTH: 10.0}, slows=0.1)

    timings = interleaved(machine.run, [ONE, BOTH], Schedule(45, 0.0), now=machine.now)

    assert timings.rounds[-1][ONE] > 8 * timings.rounds[0][ONE]
    assert timings.ratio(ONE, BOTH) == pytest.approx(2, rel=0.1)
    assert timings.median(BOTH) < timings.median(ONE)


def test_dropped_limits_are_not_measured_any_more() -> None:
    """
    Their latencies so far are kept.
    """
    machine = Machine({ONE: 20.0, BOTH: 10.0})

    def drop(timings: Timings) -> list[Limits]:
        return [ONE] if len(timings.rounds) == 2 else []

    timings = interleaved(machine.run, [ONE, BOTH], Schedule(6, 0.0), drop=drop, now=machine.now)

    assert (len(timings.latencies[ONE]), len(timings.latencies[BOTH])) == (2, 6)
    assert timings.spread(ONE) == (20 * MS, 20 * MS)
    assert timings.ratio(ONE, BOTH) == 2


def test_no_round_starts_that_would_take_too_long() -> None:
    """
    A minimal number of rounds is measured for every model.
    """
    machine = Machine({ONE: 1000.0})

    few = interleaved(machine.run, [ONE], Schedule(9, 0.1, enough=3, most=1.0), now=machine.now)
    more = interleaved(machine.run, [ONE], Schedule(9, 0.1, enough=3, most=6.0), now=machine.now)

    assert (len(few.rounds), len(more.rounds)) == (3, 5)


def test_progress_is_called_after_every_turn() -> None:
    """
    The last call reports the total.
    """
    told: list[tuple[int, int]] = []
    machine = Machine({ONE: 1.0, BOTH: 1.0})

    interleaved(machine.run, [ONE, BOTH], Schedule(2, 0.0), progress=lambda *done: told.append(done), now=machine.now)

    assert told == [(done, 6) for done in range(1, 7)]


def outputs(*values: float) -> Iterator[dict[str, np.ndarray]]:
    return iter([{"y": np.array([value])} for value in values])


def test_outputs_that_depend_on_limits_are_an_internal_error() -> None:
    """
    Outputs that differ at one setting are not: the model is random. Signs of zeros and NaNs count as bits.
    """
    steady, random, wrong = outputs(0, 0, 0), outputs(1, 2), outputs(0.0, 0.0, -0.0)

    assert same_everywhere(lambda _: next(steady), [ONE, BOTH])
    assert not same_everywhere(lambda _: next(random), [ONE, BOTH])
    with pytest.raises(InternalError, match=r"\(2, 2\) are not those at \(1, 1\)"):
        same_everywhere(lambda _: next(wrong), [ONE, BOTH])


def test_strings_are_compared_by_value() -> None:
    """
    Two arrays of equal strings hold different objects.
    """
    assert same_everywhere(lambda limits: {"y": np.array([f"{limits and 'a'}b"], object)}, [ONE, BOTH])
