"""The sentence of advice follows from what the workers lost most time by."""

from __future__ import annotations

import pytest

from treadle.tune import waits as reasons
from treadle.tune.advice import Lost, Slowest, advise

CONV = Slowest("conv_3", 0.4, 0.9, "arithmetic", "conv")


@pytest.mark.parametrize(
    ("waits", "slowed", "words"),
    [
        ({reasons.WAKING: 0.3, reasons.ONE_CHUNK: 0.2}, 0.0, "waking a second thread takes 30%"),
        ({reasons.ONE_CHUNK: 0.4}, 0.1, "40% of the workers' time passes beside ops that only one thread"),
        ({reasons.TOO_SHORT: 0.2}, 0.0, "larger batches"),
        ({reasons.LAST_CHUNKS: 0.2}, 0.0, "last chunks"),
        ({reasons.BETWEEN: 0.2}, 0.0, "fewer, larger ops"),
        ({reasons.ONE_CHUNK: 0.1}, 0.3, "fewer bytes would help more than threads"),
        ({reasons.ONE_CHUNK: 0.05}, 0.05, "nearly all that they can give"),
    ],
)
def test_the_largest_loss_is_named(waits: dict[str, float], slowed: float, words: str) -> None:
    text = advise(2, 1.5, Lost(waits, slowed), CONV)
    assert text.startswith("2 threads make the model 1.50 times as fast as one")
    assert words in text
    assert text.endswith(".")


@pytest.mark.parametrize(
    ("slowest", "words"),
    [
        (CONV, "reaches 90% of the limit of arithmetic, so only fewer operations"),
        (Slowest("gather", 0.5, 1.4, "memory", "gather"), "reaches 100% of the limit of memory, so only fewer bytes"),
        (Slowest("odd", 0.5, 0.2, "memory", "conv"), "reaches 20% of the limit of memory."),
        (Slowest("decode", 0.5, 0.2, "memory", "reference"), "runs in Python"),
        (Slowest("loop", 0.5, None, None, "control flow"), "is where a change of the model gains most"),
    ],
)
def test_one_thread_is_told_of_the_slowest_op(slowest: Slowest, words: str) -> None:
    text = advise(1, 1.0, Lost({}, 0.0), slowest)
    assert text.startswith("One thread executes everything")
    assert words in text


def test_threads_that_gain_nothing_are_not_praised() -> None:
    text = advise(2, 0.97, Lost({}, 0.0), CONV)
    assert text.startswith("2 threads gain nothing over one (0.97 times as fast): the slowest op")
