"""Which plan a session uses, and how long it keeps it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.models import small

import treadle
from treadle.compile import runner_of
from treadle.errors import InputError
from treadle.runtime.plans import Plans


def feed(rows: int) -> dict[str, np.ndarray]:
    return {name: np.ones((rows, 3), np.float32) for name in "ab"}


def session() -> treadle.Session:
    writer = small.ModelWriter()
    form = (small.FLOAT, ["n", 3])
    writer.op("Add", "a", "b")
    return treadle.Session(writer.model({"a": form, "b": form}, {"add0": form}))


class Plan:
    """A plan that computes nothing."""

    def trim(self) -> None:
        pass


def test_plans_for_returns_the_plan_of_its_inputs() -> None:
    """
    Also when a run in the background was the last that looked for a plan.
    """
    s = session()
    s.run(feed(3))
    s.run_async(feed(5)).result()

    (plan,) = s.plans_for(feed(3))
    (other,) = s.plans_for(feed(5))

    assert (plan.outputs[0].shape, other.outputs[0].shape) == ((3, 3), (5, 3))


def test_the_hot_plan_is_not_dropped() -> None:
    """
    Runs in the background of other shapes drop one another's plans, not that of the runs.
    """
    compiled: list[object] = []

    def compile_(forms: object, _: object) -> Plan:
        compiled.append(forms)
        return Plan()

    plans = Plans(compile_, 2)
    hot = plans.get(((3,),), ("y",))
    plans.hot = (((3,),), ("y",))
    for rows in (5, 7, 9):
        plans.get(((rows,),), ("y",))

    assert plans.get(((3,),), ("y",)) is hot
    assert compiled == [((3,),), ((5,),), ((7,),), ((9,),)]


def test_a_run_marks_its_plan_as_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The plan of a session's last run stays when two runs in the background bring plans of their own.
    """
    monkeypatch.setenv("TREADLE_PLAN_CACHE", "2")
    s = session()
    s.run(feed(3))
    for rows in (5, 7):
        s.run_async(feed(rows)).result()
        s.run(feed(3))

    assert runner_of(s).recent.plan in runner_of(s).plans.all()


def test_a_failed_compile_leaves_no_lock() -> None:
    """
    Neither a lock nor a key.
    """

    def compile_(*_: object) -> Plan:
        raise InputError("no")

    plans = Plans(compile_, 2)
    for rows in range(5):
        with pytest.raises(InputError):
            plans.get(((rows,),), ("y",))

    assert not plans._pending


def test_outputs_whose_comparison_is_an_array_are_unknown_names() -> None:
    """
    After a run that named its outputs, too.
    """
    s = session()
    s.run(feed(3), ["add0"])

    with pytest.raises(InputError, match="there is no output"):
        s.run(feed(3), [np.array([1, 2])])  # type: ignore[list-item]


def test_an_array_is_refused_as_arithmetic() -> None:
    """
    `math=` takes one name.
    """
    with pytest.raises(InputError, match="math"):
        treadle.Session(small.add(), math=np.array(["fast", "exact"]))  # type: ignore[arg-type]
