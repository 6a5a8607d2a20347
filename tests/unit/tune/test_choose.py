"""Which limits are chosen from what was measured, and what is said."""

from __future__ import annotations

import pytest
from tests.models import small

from treadle import Session
from treadle.compile import runner_of
from treadle.tune.choose import AUTOMATIC, Choice, beside, choose, hopeless
from treadle.tune.measure import Timings
from treadle.tune.space import Limits, grid


def timings(*rounds: tuple[float, ...], budget: int = 2) -> Timings:
    """Of rounds with the latencies at (1, 1), (1, 2), (2, 1) and (2, 2)."""
    tried = grid(budget)
    return Timings([dict(zip(tried, each, strict=True)) for each in rounds], {limits: [] for limits in tried})


def test_automatic_stays_where_it_is_the_best() -> None:
    """
    And what each level gains is said.
    """
    choice = choose(timings(*[(200, 105, 110, 100)] * 5), 2, 0.5)

    assert choice.limits == AUTOMATIC
    assert choice.why == (
        "2 threads inside an op gain 1.82x; a second op at once gains 1.10x (50% of the work, by estimate, lies beside "
        "the longest path). Automatic is the best: there is nothing to set."
    )


def test_automatic_stays_within_two_percent() -> None:
    """
    However steady the difference is.
    """
    choice = choose(timings(*[(200, 150, 99, 100)] * 9), 2, 0.0)

    assert choice.limits == AUTOMATIC
    assert "a second op at once gains 0.99x (no two ops are independent)." in choice.why
    assert choice.why.endswith("Automatic is within 2% of the best, (2, 1): there is nothing to set.")


def test_automatic_stays_where_others_are_better_in_some_rounds_only() -> None:
    """
    Noise is no reason.
    """
    choice = choose(timings(*[(200, 150, 90, 100)] * 5, *[(200, 150, 130, 100)] * 4), 2, None)

    assert choice.limits == AUTOMATIC
    assert "(2, 1) took 10% less time than automatic, but in too few of the rounds" in choice.why


def test_what_is_better_in_nearly_every_round_is_chosen() -> None:
    """
    And how much better it is.
    """
    choice = choose(timings(*[(200, 150, 90, 100)] * 19, (200, 150, 130, 100)), 2, None)

    assert choice.limits == (2, 1)
    assert choice.why.endswith("(2, 1) takes 10% less time than automatic.")


def test_fewer_threads_are_chosen_of_what_is_equally_good() -> None:
    """
    One thread, where a second makes next to no difference.
    """
    choice = choose(timings(*[(81, 150, 80, 100)] * 5), 2, None)

    assert choice.limits == (1, 1)
    assert choice.why.endswith("no more than 2% more than (2, 1), with fewer threads.")


def test_with_one_cpu_there_is_nothing_to_choose() -> None:
    """
    And that is said.
    """
    only = Choice(AUTOMATIC, "Only one CPU is available: there is nothing to set.")

    assert choose(timings((100,), budget=1), 1, 0.0) == only


def test_more_cpus_are_spoken_of_by_their_number() -> None:
    """
    Of the second level it is the most that may be in progress.
    """
    tried = grid(8)
    choice = choose(timings(*[tuple(100.0 / max(limits) for limits in tried)] * 3, budget=8), 8, 0.001)

    assert choice.why.startswith("8 threads inside an op gain 8.00x; up to 8 ops at once gain 1.00x (less than 1% of")


def test_limits_are_hopeless_if_they_were_much_worse_in_every_round() -> None:
    """
    After three rounds; those to be kept, and those that were near the best in one round, are not.
    """
    much, once = [(200.0, 150.0, 120.0, 100.0)], [(200.0, 150.0, 104.0, 100.0)]

    assert hopeless(timings(*much * 2), []) == []
    assert hopeless(timings(*much * 3), [Limits(1, 1)]) == [(1, 2), (2, 1)]
    assert hopeless(timings(*much * 2, *once), []) == [(1, 1), (1, 2)]


@pytest.mark.parametrize(("model", "independent"), [(small.branches(), True), (small.add(), False)])
def test_work_beside_the_longest_path_is_that_of_independent_ops(model, independent) -> None:
    """
    A chain has none, whether it was compiled now or found on disk.
    """
    for _ in range(2):
        layout = runner_of(Session(model.SerializeToString())).layout_for(small.inputs_for(model))

        assert layout is not None
        assert (beside(layout) > 0.1) == independent
        assert independent or beside(layout) == 0


def test_a_graph_in_several_parts_has_no_one_layout() -> None:
    """
    Where a shape depends on data.
    """
    model = small.data_dependent()

    assert runner_of(Session(model)).layout_for(small.inputs_for(model)) is None
