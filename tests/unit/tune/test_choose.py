"""The limits that tuning chooses from latencies, and the reasons that it gives."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from tests.models import small

from treadle import Session
from treadle.compile import runner_of
from treadle.tune.choose import AUTOMATIC, Choice, choose, hopeless, off_critical_path
from treadle.tune.measure import Timings
from treadle.tune.space import Limits, grid


def timings(*rounds: tuple[float, ...], budget: int = 2) -> Timings:
    """Timings of rounds with the latencies at (1, 1), (1, 2), (2, 1) and (2, 2)."""
    tried = grid(budget)
    return Timings([dict(zip(tried, each, strict=True)) for each in rounds], {limits: [] for limits in tried})


def test_automatic_wins_if_it_is_the_best() -> None:
    """
    The reason says what each level gains.
    """
    choice = choose(timings(*[(200, 105, 110, 100)] * 5), 2, 0.5)

    assert choice.limits == AUTOMATIC
    assert choice.why == (
        "2 threads inside an op gain 1.82x; a second op at once gains 1.10x (50% of the work, by estimate, is outside "
        "the critical path). Automatic is the best: there is nothing to set."
    )


def test_automatic_wins_within_two_percent() -> None:
    """
    Even if the difference is the same in every round.
    """
    choice = choose(timings(*[(200, 150, 99, 100)] * 9), 2, 0.0)

    assert choice.limits == AUTOMATIC
    assert "a second op at once gains 0.99x (no two ops are independent)." in choice.why
    assert choice.why.endswith("Automatic is within 2% of the best, (2, 1): there is nothing to set.")


def test_automatic_wins_if_others_are_better_in_some_rounds_only() -> None:
    """
    A difference within the noise is not a reason to set limits.
    """
    choice = choose(timings(*[(200, 150, 90, 100)] * 5, *[(200, 150, 130, 100)] * 4), 2, None)

    assert choice.limits == AUTOMATIC
    assert "(2, 1) took 10% less time than automatic, but in too few of the rounds" in choice.why


def test_limits_that_are_better_in_nearly_every_round_win() -> None:
    """
    The reason says how much better they are.
    """
    choice = choose(timings(*[(200, 150, 90, 100)] * 19, (200, 150, 130, 100)), 2, None)

    assert choice.limits == (2, 1)
    assert choice.why.endswith("(2, 1) takes 10% less time than automatic.")


def test_of_equally_good_limits_those_with_fewer_threads_win() -> None:
    """
    One thread is chosen if a second one gains almost nothing.
    """
    choice = choose(timings(*[(81, 150, 80, 100)] * 5), 2, None)

    assert choice.limits == (1, 1)
    assert choice.why.endswith("no more than 2% more than (2, 1), with fewer threads.")


def test_with_one_cpu_there_is_nothing_to_choose() -> None:
    """
    The reason says so.
    """
    only = Choice(AUTOMATIC, "Only one CPU is available: there is nothing to set.")

    assert choose(timings((100,), budget=1), 1, 0.0) == only


def test_the_reason_names_the_number_of_cpus() -> None:
    """
    For the second level it is the largest number of ops in progress.
    """
    tried = grid(8)
    choice = choose(timings(*[tuple(100.0 / max(limits) for limits in tried)] * 3, budget=8), 8, 0.001)

    assert choice.why.startswith("8 threads inside an op gain 8.00x; up to 8 ops at once gain 1.00x (less than 1% of")


def test_limits_are_dropped_if_they_were_much_worse_in_every_round() -> None:
    """
    After three rounds. Limits to keep, and limits that were near the best in one round, are not dropped.
    """
    much, once = [(200.0, 150.0, 120.0, 100.0)], [(200.0, 150.0, 104.0, 100.0)]

    assert hopeless(timings(*much * 2), []) == []
    assert hopeless(timings(*much * 3), [Limits(1, 1)]) == [(1, 2), (2, 1)]
    assert hopeless(timings(*much * 2, *once), []) == [(1, 1), (1, 2)]


@pytest.mark.parametrize(("model", "independent"), [(small.branches(), True), (small.add(), False)])
def test_only_independent_ops_are_off_the_critical_path(model, independent) -> None:
    """
    A chain has none, whether it was compiled or its artifact was loaded.
    """
    for _ in range(2):
        executable = runner_of(Session(model.SerializeToString())).executable_for(small.inputs_for(model))

        assert executable is not None
        assert (off_critical_path(executable) > 0.1) == independent
        assert independent or off_critical_path(executable) == 0


def test_a_graph_with_several_stages_has_no_single_executable() -> None:
    """
    Python compares texts, and a kernel converts the result: two stages.
    """
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 19]> g (string[n] x) => (float[n] y) '
        '{ word = Constant <value_string = "a"> () same = Equal (x, word) y = Cast <to = 1> (same) }'
    )
    words = {"x": np.array(["a", "b", "a"], object)}

    assert Session(model).run(words)["y"].tolist() == [1, 0, 1]
    assert runner_of(Session(model)).executable_for(words) is None
