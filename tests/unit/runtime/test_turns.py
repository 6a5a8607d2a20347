"""Runs of new sizes take turns on the same programs."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from tests.models import small

import treadle
from treadle.compile import runner_of
from treadle.errors import InputError
from treadle.runtime.executable import Executable
from treadle.runtime.program_template import ProgramTemplate
from treadle.runtime.turns import MOST_IDLE, Turn


def model() -> onnx.ModelProto:
    """Returns a model whose output is the sum of the rows of x, times the number of rows."""
    writer = small.ModelWriter()
    total = writer.op("ReduceSum", "x", writer.constant(np.array([0])), keepdims=0)
    rows = writer.op("Cast", writer.op("Size", "x"), to=onnx.TensorProto.FLOAT)
    writer.op("Mul", total, rows)
    writer.nodes[-1].output[0] = "y"
    return writer.model({"x": (small.FLOAT, ["rows", 4])}, {"y": (small.FLOAT, [4])})


def check(session: treadle.Session, rows: int) -> None:
    """Runs on so many rows, and compares."""
    result = session.run({"x": np.full((rows, 4), rows, np.float32)})["y"]
    np.testing.assert_array_equal(result, np.full(4, rows * rows * rows * 4, np.float32))


def turn_of(session: treadle.Session) -> Turn:
    """Returns the plan of the last run."""
    recent = runner_of(session).recent
    assert recent is not None
    assert isinstance(recent.plan, Turn)
    return recent.plan


def test_new_sizes_take_turns_on_one_program() -> None:
    """Whether they come once or twice, one after the other."""
    session = treadle.Session(model())
    check(session, 1)
    check(session, 2)
    before = len(Executable.instances)
    for rows in range(3, 30):
        check(session, rows)
        check(session, rows)
    assert len(Executable.instances) == before


def test_sizes_that_come_back_after_others_get_a_program_of_their_own() -> None:
    session = treadle.Session(model())
    for rows in (1, 2, 3):
        check(session, rows)
    before = len(Executable.instances)
    for rows in (2, 3, 2, 3):  # the program is still bound to 3 rows
        check(session, rows)
    assert len(Executable.instances) == before + 1


def test_the_plan_of_sizes_whose_program_serves_others_is_one_for_them_alone() -> None:
    session = treadle.Session(model())
    for rows in (1, 2):
        check(session, rows)
    two = turn_of(session)
    check(session, 3)
    (result,) = two.run([np.ones((2, 4), np.float32)], runner_of(session).threads.team())
    np.testing.assert_array_equal(result, np.full(4, 2 * 2 * 4, np.float32))
    check(session, 3)
    (plan,) = session.plans_for({"x": np.ones((3, 4), np.float32)})
    assert plan.outputs[0].shape == (4,)


def test_threads_with_sizes_of_their_own_share_few_programs() -> None:
    """Each gets the results of its sizes, whoever uses the programs meanwhile; few are kept when all have ended."""
    session = treadle.Session(model())
    check(session, 1)
    before = len(Executable.instances)
    wrong: list[BaseException] = []

    def client(number: int) -> None:
        try:
            for rows in np.random.default_rng(number).permutation(40) + 2 + 40 * number:
                check(session, int(rows))
        except BaseException as error:  # noqa: BLE001 - told by the test
            wrong.append(error)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(12)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert wrong == []
    assert len(Executable.instances) - before <= MOST_IDLE


def test_a_run_that_fails_gives_its_program_back() -> None:
    session = treadle.Session(model())
    for rows in (1, 2):
        check(session, rows)
    before = len(Executable.instances)
    with pytest.raises(treadle.errors.RunTimeoutError):
        session.run({"x": np.ones((3, 4), np.float32)}, timeout=0)
    with pytest.raises(InputError):
        session.run({"x": np.ones((3, 5), np.float32)})
    for rows in (4, 5, 6):
        check(session, rows)
    assert len(Executable.instances) == before


def test_a_plan_that_is_shown_gives_its_program_back() -> None:
    session = treadle.Session(model())
    for rows in (1, 2):
        check(session, rows)
    before = len(Executable.instances)
    session.plans_for({"x": np.ones((3, 4), np.float32)})
    for rows in (4, 5, 6):
        check(session, rows)
    assert len(Executable.instances) == before + 1  # that of 3 rows, for these alone


def test_sizes_for_which_there_is_no_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session stays usable."""
    session = treadle.Session(model())
    for rows in (1, 2):
        check(session, rows)

    def fails(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(ProgramTemplate, "rebind", fails)
        patched.setattr(ProgramTemplate, "bind_next", fails)
        patched.setattr(ProgramTemplate, "bind", fails)
        with pytest.raises(treadle.errors.MemoryLimitError):
            check(session, 3)
    check(session, 3)


def test_trim_reaches_idle_programs() -> None:
    """The arenas of all bindings of a plan are free, and so is what an idle program keeps."""
    session = treadle.Session(model())
    for rows in range(1, 40):
        check(session, rows)
    (plan,) = session.open_plans()
    allocated = plan.template.arena_allocations
    assert allocated > 0
    session.trim()
    check(session, 39)
    assert plan.template.arena_allocations == allocated + 1
