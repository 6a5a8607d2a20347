"""Large results come in the memory of earlier ones, but only of those that nobody can see any more."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models import small

import treadle
from treadle._native import BufferPool
from treadle.errors import KnobError
from treadle.runtime.outputs import MIN_BYTES

Array = np.ndarray[Any, Any]
SIZE = 256
BYTES = 4 * SIZE * SIZE
assert BYTES >= MIN_BYTES, "large enough to be kept"


def model(size: int = SIZE) -> bytes:
    """y = x + x, for square matrices."""
    w = small.ModelWriter()
    w.op("Add", "x", "x")
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (small.FLOAT, [None, size])}, {"y": (small.FLOAT, [None, size])})


def process(text: str) -> tuple[int, str, str]:
    """How a Python that runs `text` ends: status, stdout, stderr."""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def run(session: treadle.Session, value: float, size: int = SIZE) -> Array:
    """A matrix full of `value`."""
    return session.run({"x": np.full((size, size), value / 2, np.float32)})["y"]


@pytest.fixture
def session() -> treadle.Session:
    """A session that has run once and whose results have been dropped."""
    made = treadle.Session(model())
    run(made, 0)
    made.trim()
    return made


def test_the_memory_of_a_dropped_result_is_reused(session: treadle.Session) -> None:
    """
    When a result is dropped, the next run writes to the same memory, and computes what it would have in new memory.
    """
    first = run(session, 1)
    address = first.ctypes.data
    del first

    second = run(session, 2)

    assert second.ctypes.data == address
    assert (second == 2).all()


def test_results_are_ordinary_arrays(session: treadle.Session) -> None:
    """
    Results are plain, contiguous, writable, aligned to a line of the cache, and can be pickled.
    """
    result = run(session, 3)

    assert type(result) is np.ndarray
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert result.flags.aligned
    assert result.ctypes.data % 64 == 0
    result += 1
    assert (pickle.loads(pickle.dumps(result)) == 4).all()


@pytest.mark.parametrize(
    "hold",
    [
        lambda result: result,
        lambda result: result[3:5, ::2],
        lambda result: result.reshape(-1).view(np.int32)[7:],
        lambda result: result.T,
        memoryview,
        lambda result: memoryview(result[1:]).cast("B"),
        lambda result: np.frombuffer(result, np.uint8),
        np.from_dlpack,
        lambda result: result.ctypes.data_as(ctypes.c_void_p),
        lambda result: result.flat,
        np.nditer,
        lambda result: result.base,
        pickle.PickleBuffer,
    ],
    ids=["array", "slice", "view", "transpose", "memoryview", "cast", "frombuffer", "dlpack", "ctypes", "flat",
         "nditer", "base", "pickle"],
)  # fmt: skip
def test_memory_with_a_reference_is_not_reused(session: treadle.Session, hold: Callable[[Array], object]) -> None:
    """
    As long as a view, a buffer or an iterator of a result exists, runs write elsewhere.
    """
    result = run(session, 1)
    address = result.ctypes.data
    held = hold(result)
    del result
    gc.collect()

    others = [run(session, 2) for _ in range(3)]

    assert address not in [other.ctypes.data for other in others]
    del held
    gc.collect()
    assert run(session, 3).ctypes.data == address


def test_results_that_live_together_share_no_memory(session: treadle.Session) -> None:
    """
    A hundred results, some dropped at random as more are made, all keep their values.
    """
    rng = np.random.default_rng(0)
    alive: dict[int, Array] = {}
    for number in range(100):
        alive[number] = run(session, number)
        if len(alive) > 5:
            del alive[int(rng.choice(list(alive)))]
        for each, result in alive.items():
            assert (result == each).all()
    addresses = [result.ctypes.data for result in alive.values()]
    assert len(set(addresses)) == len(addresses)


def test_threads_that_run_and_drop_at_once_keep_their_values(session: treadle.Session) -> None:
    """
    Eight clients, each holding its last three results, never see another's numbers.
    """
    wrong: list[str] = []

    def client(number: int) -> None:
        held: list[tuple[float, Array]] = []
        for turn in range(60):
            value = 100.0 * number + turn
            held.append((value, run(session, value)))
            held = held[-3:]
            wrong.extend(f"{each} in client {number}" for each, result in held if not (result == each).all())

    clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()

    assert wrong == []


def test_idle_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    No more than TREADLE_OUTPUTS_MB is kept when many results are dropped at once.
    """
    monkeypatch.setenv("TREADLE_OUTPUTS_MB", "1")
    session = treadle.Session(model())
    results = [run(session, number) for number in range(20)]
    del results

    assert BufferPool.idle_bytes() <= 1 << 20
    session.trim()


def test_a_limit_of_zero_keeps_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With TREADLE_OUTPUTS_MB=0 results own their memory, and what is no number is refused when a plan is made.
    """
    monkeypatch.setenv("TREADLE_OUTPUTS_MB", "0")
    gc.collect()
    before = BufferPool.idle_bytes()
    session = treadle.Session(model())
    assert run(session, 1).flags.owndata
    assert BufferPool.idle_bytes() == before

    monkeypatch.setenv("TREADLE_OUTPUTS_MB", "much")
    with pytest.raises(KnobError, match="TREADLE_OUTPUTS_MB"):
        run(treadle.Session(model(SIZE + 1)), 1, SIZE + 1)


def test_trim_and_the_end_of_the_session_free_memory() -> None:
    """
    What a session keeps ends with trim() or with the session, also where results outlive it.
    """
    session = treadle.Session(model())
    gc.collect()
    before = BufferPool.idle_bytes()
    run(session, 1)
    assert BufferPool.idle_bytes() == before + BYTES
    session.trim()
    assert BufferPool.idle_bytes() == before

    run(session, 1)
    late = run(session, 2)
    early = run(session, 3)
    del early
    assert BufferPool.idle_bytes() == before + BYTES
    del session
    gc.collect()
    assert BufferPool.idle_bytes() == before
    assert (late == 2).all()
    del late
    assert BufferPool.idle_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="the size of processes can be limited on Linux only")
def test_idle_memory_is_freed_when_the_system_has_no_more() -> None:
    """
    A run that gets no memory has what other plans keep given back, and succeeds; where that does not do, it says so,
    and the session stays usable.
    """
    text = (
        "import numpy as np, treadle\n"
        "from tests.limited_memory import limit_memory\n"
        "from tests.unit.runtime.test_outputs import BufferPool, model\n"
        "feeds = [{'x': np.ones((rows << 10, 256), np.float32)} for rows in (96, 97, 400)]\n"
        "sessions = [treadle.Session(model()) for _ in feeds]\n"
        "for session, feed in zip(sessions, feeds): session.run(feed), session.trim()\n"
        "sessions[0].run(feeds[0])\n"
        "assert BufferPool.idle_bytes() == 96 << 20\n"
        "limit_memory(50 << 20)\n"
        "held = sessions[1].run(feeds[1])['y']\n"
        "assert (held == 2).all() and BufferPool.idle_bytes() == 0\n"
        "try: sessions[2].run(feeds[2])\n"
        "except treadle.errors.MemoryLimitError: print('refused')\n"
        "del held\n"
        "assert (sessions[0].run(feeds[0])['y'] == 2).all()\n"
    )

    assert process(text) == (0, "refused\n", "")


def test_small_results_are_left_to_numpy() -> None:
    """
    Results of less than 128 KiB own their memory.
    """
    session = treadle.Session(model(8))

    assert run(session, 1, 8).flags.owndata


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")
def test_a_child_uses_idle_memory_of_its_own(session: treadle.Session) -> None:
    """
    Memory that was idle at a fork() is used by parent and child, neither seeing what the other writes.
    """
    first, kept = run(session, 1), run(session, 2)
    address = first.ctypes.data
    del first
    child = os.fork()
    if child == 0:
        again = run(session, 7)
        fine = again.ctypes.data == address and (again == 7).all() and (kept == 2).all()
        os._exit(0 if fine else 1)
    mine = run(session, 8)
    assert os.waitpid(child, 0)[1] == 0
    assert mine.ctypes.data == address
    assert (mine == 8).all()


def test_results_may_outlive_the_interpreter() -> None:
    """
    A process whose globals hold a session and results until the very end ends quietly.
    """
    text = (
        "import numpy as np, treadle\n"
        "from tests.unit.runtime.test_outputs import model, run\n"
        "session = treadle.Session(model()); results = [run(session, n) for n in range(3)]; del results[1]\n"
        "class Holder: pass\n"
        "h = Holder(); h.self, h.results, h.session = h, results, session\n"
    )

    assert process(text) == (0, "", "")


def test_many_results_of_medium_size_reuse_memory() -> None:
    """
    Outputs of 64 KiB are kept where a model has enough of them for the allocator to give their memory back, and left to
    it where there is one.
    """
    shape = [SIZE // 4, SIZE]
    for count, kept in ((1, 0), (4, 4)):
        w = small.ModelWriter()
        for number in range(count):
            w.op("Add", "x", w.random(*shape))
            w.nodes[-1].output[0] = f"y{number}"
        session = treadle.Session(
            w.model({"x": (small.FLOAT, shape)}, {f"y{n}": (small.FLOAT, shape) for n in range(count)})
        )
        gc.collect()
        before = BufferPool.idle_bytes()
        session.run({"x": np.zeros(shape, np.float32)})
        assert BufferPool.idle_bytes() - before == kept * (64 << 10)
