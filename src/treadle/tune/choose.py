"""Chooses limits from measured latencies, and gives the reason.

The automatic limits win unless others are better by more than noise. Of equally good ones, those with fewer threads
win.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from treadle.runtime.executable import Executable
from treadle.tune.measure import K, Timings
from treadle.tune.space import Limits

AUTOMATIC = Limits(0, 0)
MARGIN = 0.02
"""Limits that save less than this part of the latency are not worth setting."""
MOST_ROUNDS = 90
"""The percentage of rounds in which limits must be better than automatic."""
HOPELESS = 1.1
"""Limits that were worse than the best by this factor in each of MIN_ROUNDS rounds are not measured any more."""
MIN_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Choice:
    """The limits to set (AUTOMATIC: none), and the reason in a sentence or two."""

    limits: Limits
    why: str


def choose(timings: Timings[Limits], budget: int, off_path: float | None) -> Choice:
    """Chooses limits by `timings`, measured with `budget` available CPUs.

    `off_path` is the part of the model's work outside the critical path (see off_critical_path), None if unknown.
    """
    automatic = Limits(budget, budget)
    if budget == 1:
        return Choice(AUTOMATIC, "Only one CPU is available: there is nothing to set.")
    limits, verdict = _best(timings, automatic)
    return Choice(limits, f"{_gains(timings, budget, off_path)} {verdict}")


def hopeless(timings: Timings[K], kept: Iterable[K]) -> list[K]:
    """Returns the limits that are clearly worse than the best so far, except those in `kept`."""
    if len(timings.rounds) < MIN_ROUNDS:
        return []
    last = timings.rounds[-1]
    best = min(last, key=timings.median)
    return [limits for limits in last if limits not in kept and min(timings.ratios(limits, best)) > HOPELESS]


def off_critical_path(executable: Executable) -> float:
    """Returns the part of the work, by estimated time, outside the critical path: 0 if no two ops are independent."""
    whole = executable.cost_ns
    part = 1 - executable.critical_path_ns / whole if whole else 0.0
    return part if part > 1e-9 else 0.0


def _best(timings: Timings[Limits], automatic: Limits) -> tuple[Limits, str]:
    ratios = {limits: timings.ratio(limits, automatic) for limits in timings.latencies}
    fastest = min(ratios, key=ratios.__getitem__)
    less = 1 - ratios[fastest]
    better = [
        limits for limits, ratio in ratios.items() if ratio < 1 - MARGIN and _mostly_below(timings, limits, automatic)
    ]
    if better:
        first = min(better, key=ratios.__getitem__)
        alike = [limits for limits in better if ratios[limits] <= ratios[first] * (1 + MARGIN)]
        chosen = min(alike, key=lambda limits: (max(limits), sum(limits), ratios[limits]))
        verdict = f"{_text(chosen)} takes {1 - ratios[chosen]:.0%} less time than automatic"
        if chosen != first:
            verdict += f", and no more than {MARGIN:.0%} more than {_text(first)}, with fewer threads"
        return chosen, f"{verdict}."
    if fastest == automatic:
        return AUTOMATIC, "Automatic is the best: there is nothing to set."
    if less <= MARGIN:
        return AUTOMATIC, f"Automatic is within {MARGIN:.0%} of the best, {_text(fastest)}: there is nothing to set."
    return AUTOMATIC, (
        f"{_text(fastest)} took {less:.0%} less time than automatic, but in too few of the rounds to tell it from "
        "noise: there is nothing to set."
    )


def _mostly_below(timings: Timings[Limits], limits: Limits, other: Limits) -> bool:
    return bool(np.percentile(timings.ratios(limits, other), MOST_ROUNDS) < 1)


def _gains(timings: Timings[Limits], budget: int, off_path: float | None) -> str:
    """Says what each of the two levels gains, the second on top of the first."""
    shared = timings.ratio(Limits(1, 1), Limits(budget, 1))
    at_once = timings.ratio(Limits(budget, 1), Limits(budget, budget))
    ops = "a second op at once gains" if budget == 2 else f"up to {budget} ops at once gain"
    return f"{budget} threads inside an op gain {shared:.2f}x; {ops} {at_once:.2f}x{_reason(off_path)}."


def _reason(off_path: float | None) -> str:
    if off_path is None:
        return ""
    if not off_path:
        return " (no two ops are independent)"
    part = "less than 1%" if off_path < 0.01 else f"{off_path:.0%}"
    return f" ({part} of the work, by estimate, is outside the critical path)"


def _text(limits: Limits) -> str:
    return f"({limits.intra_op}, {limits.inter_op})"
