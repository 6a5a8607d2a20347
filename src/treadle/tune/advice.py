"""One sentence of advice on a model's speed, for readers who know neither the model nor this library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.tune import waits as reasons

NOTICEABLE = 0.1
"""A smaller part of the workers' time is not worth a remark."""

GAIN = 1.05
"""Threads that make a model less than so many times as fast gain nothing that could be told from noise."""

GOOD_SHARE = 0.6
"""Ops that reach less of a core's limit, by arithmetic or by memory, have room."""


@dataclass(frozen=True, slots=True)
class Slowest:
    """The node that takes longest on one thread: its part of all the work, and what it reaches of one core's limit.

    `limit` names that limit: "arithmetic" or "memory"; None where nothing is known of its work.
    """

    node: str
    part: float
    share: float | None
    limit: str | None
    kernel: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The parts of the workers' time in which they did not get on: by reason of waiting, and by slower execution."""

    waits: Mapping[str, float]
    slowed: float


_WAITS = {
    reasons.WAKING: (
        "waking a second thread takes {part:.0%} of the workers' time, so send requests one right after another, or "
        "several at once"
    ),
    reasons.ONE_CHUNK: (
        "{part:.0%} of the workers' time passes beside ops that only one thread can execute, so serve several requests "
        "at once to use the other CPUs"
    ),
    reasons.TOO_SHORT: (
        "{part:.0%} of the workers' time passes beside ops too short to share, so give the model larger batches, or "
        "serve several requests at once"
    ),
    reasons.LAST_CHUNKS: (
        "{part:.0%} of the workers' time is spent on waiting for the last chunks of ops, which larger inputs make rarer"
    ),
    reasons.BETWEEN: (
        "{part:.0%} of the workers' time passes between ops, so a model of fewer, larger ops would be faster"
    ),
}


def advise(cpus: int, speedup: float, lost: Lost, slowest: Slowest) -> str:
    """Return the sentence for a model that `cpus` workers make `speedup` times as fast as one."""
    if cpus > 1:
        begin = f"{cpus} threads make the model {speedup:.2f} times as fast as one"
        if speedup < GAIN:
            begin = f"{cpus} threads gain nothing over one ({speedup:.2f} times as fast)"
        largest = max(lost.waits, key=lost.waits.__getitem__, default=None)
        if lost.slowed >= NOTICEABLE and (largest is None or lost.slowed >= lost.waits[largest]):
            return (
                f"{begin}: ops take longer when threads share memory ({lost.slowed:.0%} of the workers' time), so "
                "fewer bytes would help more than threads, as in a model of 8-bit weights."
            )
        if largest is not None and lost.waits[largest] >= NOTICEABLE:
            return f"{begin}: {_WAITS[largest].format(part=lost.waits[largest])}."
        all_of_it = "" if speedup < GAIN else ", which is nearly all that they can give"
        return f"{begin}{all_of_it}: {_of_slowest(slowest)}."
    return f"One thread executes everything: {_of_slowest(slowest)}."


def _of_slowest(slowest: Slowest) -> str:
    node = f"the slowest op, {slowest.node!r} ({slowest.part:.0%} of the work)"
    if slowest.kernel == "reference":
        return f"{node}, runs in Python, so a form of it with a native kernel would gain most"
    if slowest.share is None or slowest.limit is None:
        return f"{node}, is where a change of the model gains most"
    if slowest.share >= GOOD_SHARE:
        less = "fewer operations" if slowest.limit == "arithmetic" else "fewer bytes"
        share = min(slowest.share, 1.0)
        return f"{node}, reaches {share:.0%} of the limit of {slowest.limit}, so only {less} make it faster"
    return f"{node}, reaches {slowest.share:.0%} of the limit of {slowest.limit}"
