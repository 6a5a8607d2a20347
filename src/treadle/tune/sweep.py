"""Measures a model at every thread setting, on treadle and on other engines: `treadle sweep`."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from treadle.compile import Session
from treadle.errors import RunError
from treadle.runtime import interpreter
from treadle.tune.choose import hopeless
from treadle.tune.measure import Progress, Schedule, Timings, by_turns
from treadle.tune.turns import turn

ROUNDS = 7
"""Rounds that count. Each has a turn of each setting that is not hopeless."""

_Z = 1.96
"""So many standard deviations on both sides of its mean hold 95 % of a normal distribution."""


class Setting(NamedTuple):
    """An engine and its numbers of threads."""

    engine: str
    intra_op: int
    inter_op: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What a setting gave.

    Attributes:
        setting: The setting.
        median_ns: The median latency of a run.
        low_ns: The lower end of the median's confidence interval of 95 %.
        high_ns: Its upper end.
        runs_per_second: Those of all clients together.
        rounds: In how many rounds it was measured: fewer than others if it was hopeless.
    """

    setting: Setting
    median_ns: float
    low_ns: float
    high_ns: float
    runs_per_second: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """A model at every setting.

    Attributes:
        clients: How many clients run it at the same time.
        measured: What each setting gave, in the order in which they were asked for.
        refused: Engines that are not installed or cannot run the model, with the reason.
    """

    clients: int
    measured: list[Measured]
    refused: dict[str, str]

    @property
    def engines(self) -> list[str]:
        """The engines that were measured."""
        return list(dict.fromkeys(each.setting.engine for each in self.measured))

    def best(self, engine: str | None = None) -> Measured:
        """Return the setting with the least latency, of `engine` or of all."""
        return min(
            (each for each in self.measured if engine in (None, each.setting.engine)), key=lambda each: each.median_ns
        )


class _RefusedError(Exception):
    pass


def sweep(
    session: Session,
    inputs: Mapping[str, Any],
    settings: Sequence[Setting],
    *,
    model: str | None = None,
    clients: int = 1,
    seconds: float = 10.0,
    progress: Progress | None = None,
) -> Sweep:
    """Measure runs of `session`, and of other engines on the same model, at each of `settings` by turns.

    Args:
        session: A session of the model; settings of the engine "treadle" are limits of its runs.
        inputs: As `Session.run` takes them.
        settings: What to measure.
        model: The file, for other engines. Each turn of theirs is a process of its own: they cannot change their
            numbers of threads.
        clients: How many threads run the model at the same time.
        seconds: About how long the turns take together, without the time in which other engines load the model.
        progress: Is called with the numbers of finished turns and of all.

    Returns:
        What was measured.

    Raises:
        TreadleError: As `Session.run` does.
    """
    share = seconds / (ROUNDS + 1) / max(1, len(settings))
    refused: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "inputs.npz")
        np.savez(file, *map(np.asarray, inputs.values()))

        def one_turn(setting: Setting) -> list[int]:
            engine, intra, inter = setting
            if engine == "treadle":
                return turn(lambda: session.run(inputs, intra_op=intra, inter_op=inter), clients, share)
            request = {**setting._asdict(), "model": model, "names": list(inputs), "inputs": str(file)}
            return _asked({**request, "clients": clients, "seconds": share})

        left = list(settings)
        for setting in {each.engine: each for each in settings if each.engine != "treadle"}.values():
            try:
                one_turn(setting)
            except _RefusedError as error:
                refused[setting.engine] = str(error)
                left = [each for each in left if each.engine != setting.engine]
        schedule = Schedule(ROUNDS, share)
        timings = by_turns(one_turn, left, schedule, drop=_without_hope(left), progress=progress)
    return Sweep(clients, [_measured(timings, setting, clients) for setting in left], refused)


def _without_hope(settings: Sequence[Setting]) -> Callable[[Timings[Setting]], list[Setting]]:
    """Return what names the settings that are clearly worse than the best one of their engine."""

    def drop(timings: Timings[Setting]) -> list[Setting]:
        found = []
        for engine in {setting.engine for setting in settings}:
            own: Timings[Setting] = Timings(
                [{each: ns for each, ns in round_.items() if each.engine == engine} for round_ in timings.rounds],
                timings.latencies,
            )
            found += hopeless(own, ()) if own.rounds[-1] else []
        return found

    return drop


def _asked(request: Mapping[str, Any]) -> list[int]:
    """Return the latencies of a turn in a process of its own. Raises _RefusedError with the engine's reason."""
    program = f"from treadle.tune.rival import main; main({json.dumps(request)!r})"
    with interpreter.start(program, answers=True) as process:
        try:
            answer, _ = process.communicate()
        except BaseException:
            process.kill()
            raise
    try:
        found = json.loads(answer.splitlines()[-1])
    except (IndexError, ValueError):
        raise _RefusedError(f"its process ended with {process.returncode}") from None
    if "refused" in found:
        raise _RefusedError(found["refused"])
    return list(found["latencies"])


def _measured(timings: Timings[Setting], setting: Setting, clients: int) -> Measured:
    ordered = np.sort(timings.latencies[setting])
    if not len(ordered):
        raise RunError(f"{setting.engine} has no run at ({setting.intra_op}, {setting.inter_op})")
    median = timings.median(setting)
    low, high = interval(ordered)
    rate = 1e9 * clients / float(ordered.mean())
    rounds = sum(setting in round_ for round_ in timings.rounds)
    return Measured(setting, median, min(low, median), max(high, median), rate, rounds)


def interval(ordered: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median of a distribution, of which `ordered` is an ascending sample.

    Its ends are values themselves, whatever their distribution: the number of values below the median is binomial
    (Conover, Practical Nonparametric Statistics, 3.2).
    """
    count = len(ordered)
    reach = _Z * math.sqrt(count) / 2
    low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
    return float(ordered[max(0, low)]), float(ordered[min(count - 1, high)])
