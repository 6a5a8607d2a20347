"""Memory of models with open dimensions: what runs of many sizes allocate, keep and return."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models.small import FLOAT, ModelWriter
from treadle._native import BufferPool
from treadle.compile import runner_of
from treadle.runtime.executable import Executable
from treadle.runtime.program_template import MOST_BINDINGS, ProgramTemplate

Array = np.ndarray[Any, Any]
WIDTH = 256
ROW = 4 * WIDTH
PLANS = 16
"""How many plans a session keeps."""


@pytest.fixture(autouse=True)
def _no_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is dropped has to be free at once. Sessions compile their model themselves: nothing is on disk."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")
    monkeypatch.setenv("TREADLE_PLAN_CACHE", str(PLANS))
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def model() -> onnx.ModelProto:
    """Two outputs of 256 columns: the rows of x times 2, and their softmax plus 1."""
    w = ModelWriter()
    w.op("Add", "x", "x")
    w.nodes[-1].output[0] = "twice"
    soft = w.op("Softmax", w.op("MatMul", "x", w.random(WIDTH, WIDTH)), axis=-1)
    w.op("Add", w.op("Relu", w.op("MatMul", soft, w.random(WIDTH, WIDTH))), w.constant(np.float32(1)))
    w.nodes[-1].output[0] = "y"
    form = (FLOAT, ["length", WIDTH])
    return w.model({"x": form}, {"twice": form, "y": form})


def rows(length: int) -> Array:
    """Returns an input of so many rows, full of the number."""
    return np.full((length, WIDTH), length, np.float32)


def template_of(session: treadle.Session) -> ProgramTemplate:
    """Returns the template of the session's only open plan."""
    (plan,) = session.open_plans()
    return plan.template


def test_lengths_that_grow_allocate_few_blocks() -> None:
    """
    A decoder's lengths grow by one, and each run reads what the run before returned: new memory is allocated four times
    as the length doubles, for two runs of two outputs, and not for each length.
    """
    session = treadle.Session(model())
    pool = template_of(session).output_pool
    held = session.run({"x": rows(64)})
    for length in range(65, 513):
        held = session.run({"x": rows(length)})
        assert (held["twice"] == 2 * length).all()
    assert 0 < pool.allocations <= 4 * 4 * 3 + 4


def test_random_lengths_allocate_few_blocks_and_keep_little() -> None:
    """
    Of 500 runs with different lengths at most one in five allocates, and no more memory is idle than two runs return.
    """
    before = BufferPool.idle_bytes()
    session = treadle.Session(model())
    pool = template_of(session).output_pool
    for length in np.random.default_rng(0).permutation(np.arange(100, 600)):
        session.run({"x": rows(int(length))})
        assert BufferPool.idle_bytes() - before <= 2 * 2 * 640 * ROW
    assert 0 < pool.allocations <= 100


def test_arenas_are_those_of_earlier_runs() -> None:
    """
    Lengths that grow need a larger arena from time to time; all shorter ones run in it.
    """
    session = treadle.Session(model())
    template = template_of(session)
    for length in range(64, 513):
        session.run({"x": rows(length)})
    grown = template.arena_allocations
    assert 0 < grown <= 8 * 3 + 1
    for length in range(512, 64, -1):
        session.run({"x": rows(length)})
    assert template.arena_allocations == grown


def test_results_that_are_kept_stay_while_others_are_reused() -> None:
    """
    Clients with lengths of their own, who keep some results, never see each other's numbers.
    """
    session = treadle.Session(model())
    wrong: list[str] = []

    def client(number: int) -> None:
        rng = np.random.default_rng(number)
        held: list[tuple[int, Array]] = []
        for length in rng.integers(64, 400, 60):
            held.append((int(length), session.run({"x": rows(int(length))})["twice"]))
            held = [each for each in held if rng.random() < 0.8]
            wrong.extend(f"{length} rows" for length, array in held if not (array == 2 * length).all())

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert wrong == []


def test_a_session_that_is_dropped_returns_its_memory_at_once() -> None:
    """
    Its bindings and the idle memory of its outputs are free; a result that is still held keeps only its own block.
    """
    before = BufferPool.idle_bytes()
    session = treadle.Session(model())
    held = session.run({"x": rows(300)})["y"]
    for length in range(200, 210):
        session.run({"x": rows(length)})
    bound = weakref.ref(runner_of(session).plan_for({"x": rows(205)}).executable)  # type: ignore[attr-defined]
    assert BufferPool.idle_bytes() > before
    del session
    assert bound() is None
    assert BufferPool.idle_bytes() == before
    assert (held >= 1).all()
    del held
    assert BufferPool.idle_bytes() == before


@pytest.mark.parametrize(("disabled", "most"), [("", MOST_BINDINGS + 1), ("open_sizes", PLANS)], ids=["open", "sized"])
def test_plans_and_bindings_are_freed_as_they_are_evicted(
    monkeypatch: pytest.MonkeyPatch, disabled: str, most: int
) -> None:
    """
    No more executables are alive than a template keeps, beside the one for new sizes, or a session whose plans are for
    one size each.
    """
    monkeypatch.setenv("TREADLE_DISABLE", disabled)
    before = len(Executable.instances)
    session = treadle.Session(model())
    for length in range(1, most + 10):
        for each in (length, 100 + length, length):  # sizes that come back have an executable of their own
            session.run({"x": rows(each)})
    assert len(Executable.instances) - before == most
    del session
    assert len(Executable.instances) == before
