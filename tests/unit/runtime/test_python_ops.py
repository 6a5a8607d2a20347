"""Python functions in worker processes: arguments, results and errors."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.models import small

import treadle
from treadle import dtypes
from treadle.errors import RunCancelledError, RunError, RunTimeoutError, ThreadSettingError, WorkerError
from treadle.graph.graph import Graph
from treadle.ops.op import Info
from treadle.runtime.python_ops.executor import run_function
from treadle.runtime.python_ops.process_pool import process_pool


@pytest.fixture(autouse=True)
def processes() -> Iterator[None]:
    """Each test on processes, and nothing of it left behind."""
    descriptors, shared = open_descriptors(), sorted(Path("/dev/shm").iterdir())
    with treadle.python_ops(executor="process"):
        yield
        mine = process_pool.pids()
    assert not process_pool.pids()
    assert not any(Path(f"/proc/{pid}").exists() for pid in mine), "a worker, or what remained of it, was left behind"
    assert open_descriptors() <= descriptors
    assert sorted(Path("/dev/shm").iterdir()) == shared
    treadle.threads.set(intra_op=0, inter_op=0)


def open_descriptors() -> int:
    return sum("socket" in target or "memfd" in target for target in map(link, Path("/proc/self/fd").iterdir()))


def link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def session_of(*functions: Callable[[list[Any]], list[Any]], dtype: dtypes.DType = dtypes.f32) -> treadle.Session:
    """x: f32[4] to y0, y1, ...: the results of the functions, [4] too."""
    graph = Graph("test")
    x = graph.input("x", dtypes.f32, (4,))
    for number, function in enumerate(functions):
        attrs = {
            "function": function,
            "infer": lambda _: [Info(dtype, (4,))],
            "label": "PyFunc",
            "cost": 1e6,
            "movable": True,
        }
        y = graph.add("call", [x], attrs, name=f"f{number}").outputs[0]
        y.name, y.dtype, y.shape = f"y{number}", dtype, (4,)
        graph.outputs.append(y)
    return treadle.Session(graph)


X = {"x": np.arange(4, dtype=np.float32)}


def ends(pid: int) -> bool:
    """Whether the process ends within a minute."""
    for _ in range(3000):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.02)
    return False


def twice(arrays: list[Any]) -> list[Any]:
    return [array * 2 for array in arrays]


def own_pid(_: list[Any]) -> list[Any]:
    return [np.full(4, os.getpid(), np.float32)]


def meeting(folder: Path, number: int) -> Callable[[list[Any]], list[Any]]:
    """A function that gives its process's id, when as many of its kind have begun in `folder` as `number`."""

    def meet(_: list[Any]) -> list[Any]:
        (folder / f"{os.getpid()} {time.monotonic_ns()}").touch()
        while len(list(folder.iterdir())) < number:
            time.sleep(0.001)
        return [np.full(4, os.getpid(), np.float32)]

    return meet


def test_arrays_of_every_kind_are_sent_and_returned() -> None:
    """
    Any rank, size and dtype, views, strings; results whose sizes are known only after the call.
    """
    given = [
        np.float64(3.5).reshape(()),
        np.zeros((0, 3), np.int8),
        np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::2],
        np.array([True, False]),
        np.arange(5).astype(ml_dtypes.bfloat16),
        np.array(["a", b"b", "long" * 50], object),
        np.ones((1000, 999), np.float32),
        np.array([1 + 2j]),
    ]
    found = run_function(lambda arrays: [os.getpid(), *arrays, np.ones(arrays[6].size * 3, np.uint8)], given)

    assert found[0] != os.getpid()
    for before, after in zip(given, found[1:-1], strict=True):
        assert after.dtype == before.dtype
        assert after.shape == before.shape
        np.testing.assert_array_equal(after, before)
        after[...] = after  # it is the caller's own
    assert found[-1].nbytes == 3 * 999_000


def test_a_graph_runs_its_functions_in_worker_processes() -> None:
    """
    Nodes that say they are movable; others stay.
    """
    session = session_of(twice, own_pid)
    found = session.run(X)

    np.testing.assert_array_equal(found["y0"], [0, 2, 4, 6])
    assert found["y1"][0] in process_pool.pids()
    with treadle.python_ops(executor="thread"):
        assert session.run(X)["y1"][0] == os.getpid()


def test_onnx_operators_without_a_kernel_run_in_worker_processes() -> None:
    """
    With the same results as on threads.
    """
    w = small.ModelWriter()
    w.op("Det", "x")
    w.nodes[-1].output[0] = "y"
    session = treadle.Session(w.model({"x": (small.FLOAT, [2, 3, 3])}, {"y": (small.FLOAT, [2])}))
    given = {"x": np.random.default_rng(1).random((2, 3, 3), np.float32)}
    there = session.run(given)["y"]
    assert len(process_pool.pids()) == 1
    with treadle.python_ops(executor="thread"):
        np.testing.assert_array_equal(session.run(given)["y"], there)


def test_a_function_may_keep_and_change_its_arrays() -> None:
    """
    What it keeps is not overwritten by later calls, and what it changes is its own.
    """
    kept: list[Any] = []

    def keep(arrays: list[Any]) -> list[Any]:
        arrays[0] += 1
        kept.append(arrays[0])
        return [np.concatenate(kept)]

    for number in range(3):
        given = np.full(100_000, number, np.int64)
        (found,) = run_function(keep, [given])
        np.testing.assert_array_equal(found[::100_000], np.arange(1, number + 2))
        assert given[0] == number


def test_exceptions_come_back_with_their_traceback() -> None:
    """
    The very exception, caused by the traceback as text; one that cannot be sent comes as RuntimeError.
    """

    class OwnError(Exception):
        pass

    def own(_: list[Any]) -> list[Any]:
        raise OwnError("mine", 3)

    def unsendable(_: list[Any]) -> list[Any]:
        raise ValueError(threading.Lock())

    with pytest.raises(RunError, match=r"node 'f0' \(PyFunc\) raised OwnError") as caught:
        session_of(own).run(X)
    error = caught.value.__cause__
    assert isinstance(error, OwnError)
    assert error.args == ("mine", 3)
    assert 'raise OwnError("mine", 3)' in str(error.__cause__)
    with pytest.raises(RuntimeError, match="ValueError: <unlocked"):
        run_function(unsendable, [])
    assert len(process_pool.pids()) == 1, "an exception is no reason for another worker"


def test_functions_of_modules_that_only_this_process_has_are_sent_by_value() -> None:
    """
    A module made by exec(), as notebooks and runpy make them; one that nobody has is told.
    """
    module = types.ModuleType("made_up_here")
    exec("def double(x):\n    return x * factor\n\nfactor = 2\n", module.__dict__)
    sys.modules["made_up_here"] = module
    double = module.double
    np.testing.assert_array_equal(run_function(lambda arrays: [double(arrays[0])], [X["x"]])[0], X["x"] * 2)
    np.testing.assert_array_equal(run_function(lambda arrays: [double(arrays[0])], [X["x"]])[0], X["x"] * 2)
    del sys.modules["made_up_here"]

    def missing(_: list[Any]) -> list[Any]:
        import made_up_there  # noqa: F401

        return []

    with pytest.raises(ModuleNotFoundError, match="made_up_there"):
        run_function(missing, [])


def test_a_function_that_cannot_be_sent_is_refused_before_it_runs() -> None:
    """
    A function that holds a lock: the error says what it is and what to do.
    """
    lock = threading.Lock()

    with pytest.raises(WorkerError, match=r"node 'f0' .*cannot pickle '_thread.lock'.*executor='thread'"):
        session_of(lambda arrays: arrays if lock.locked() else arrays[:1]).run(X)


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda _: os._exit(3), "ended with exit code 3"),
        (lambda _: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
    ],
)
def test_a_worker_that_dies_raises_worker_error_and_the_session_stays_usable(
    end: Callable[[Any], Any], how: str
) -> None:
    """
    The error names the node and how the process ended; the next run has another one.
    """
    session = session_of(twice, lambda arrays: end(arrays) if arrays[0][0] else arrays)
    with pytest.raises(WorkerError, match=f"node 'f1' .*{how}"):
        session.run({"x": np.ones(4, np.float32)})

    np.testing.assert_array_equal(session.run(X)["y1"], X["x"])


def test_a_worker_that_died_idle_is_replaced() -> None:
    """
    The caller sees no error.
    """
    run_function(twice, [])
    (pid,) = process_pool.pids()
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)

    np.testing.assert_array_equal(run_function(twice, [X["x"]])[0], X["x"] * 2)


def test_a_worker_that_forked_and_died_is_noticed(tmp_path: Path) -> None:
    """
    A process that it left behind keeps its ends of the channel open.
    """

    def leave(_: list[Any]) -> list[Any]:
        if (child := os.fork()) == 0:
            time.sleep(200)  # longer than a test may take
            os._exit(0)
        left.write_text(str(child))
        os._exit(4)

    left = tmp_path / "left"
    with pytest.raises(WorkerError, match="exit code 4"):
        run_function(leave, [])
    os.kill(int(left.read_text()), signal.SIGKILL)


def test_timeouts_and_cancelling_end_the_wait_and_the_work() -> None:
    """
    The run ends at once, the process that is busy with it too.
    """
    session = session_of(lambda arrays: [time.sleep(200) or arrays[0]])  # longer than a test may take
    token = treadle.CancelToken()
    for error, given in ((RunTimeoutError, {"timeout": 0.3}), (RunCancelledError, {"cancel": token})):
        timer = threading.Timer(0.3, token.cancel if "cancel" in given else lambda: None)
        timer.start()
        with pytest.raises(error):
            session.run(X, **given)
        timer.join()
        assert not process_pool.pids()


def test_there_are_as_many_workers_as_inter_op(tmp_path: Path) -> None:
    """
    The number follows the limits at any time, also down.
    """
    for inter_op in (1, 3, 2):
        treadle.threads.set(intra_op=1, inter_op=inter_op)
        (folder := tmp_path / str(inter_op)).mkdir()
        found = session_of(*[meeting(folder, inter_op)] * 4).run(X)
        assert {int(y[0]) for y in found.values()} == set(process_pool.pids())
        assert len(process_pool.pids()) == inter_op
    gone = process_pool.pids()
    with treadle.threads.limit(inter_op=1):
        assert len(process_pool.pids()) == 1
    treadle.python_ops(executor="thread")
    assert not process_pool.pids()
    assert all(map(ends, gone))


def test_independent_functions_run_at_once(tmp_path: Path) -> None:
    """
    With inter_op=2 they wait for each other; with 1 each says when it began and ended, and one is behind the other.
    """

    def span(arrays: list[Any]) -> list[Any]:
        start = time.monotonic()
        time.sleep(0.05)
        return [np.array([start - began, time.monotonic() - began, 0, 0])]

    began = time.monotonic()
    treadle.threads.set(intra_op=1, inter_op=1)
    first, second = session_of(span, span, dtype=dtypes.f64).run(X).values()
    assert max(first[0], second[0]) >= min(first[1], second[1])
    treadle.threads.set(intra_op=1, inter_op=2)
    assert len({int(y[0]) for y in session_of(*[meeting(tmp_path, 2)] * 2).run(X).values()}) == 2


def test_a_child_made_by_fork_has_workers_of_its_own() -> None:
    """
    And leaves those of its parent alone.
    """
    run_function(twice, [X["x"]])
    before = process_pool.pids()
    child = os.fork()
    if child == 0:
        mine = process_pool.pids()
        same = (run_function(twice, [X["x"]])[0] == X["x"] * 2).all()
        os._exit(0 if not mine and same and set(process_pool.pids()).isdisjoint(before) else 1)
    assert os.waitpid(child, 0)[1] == 0

    run_function(twice, [X["x"]])
    assert process_pool.pids() == before


def test_executors_are_checked_and_blocks_nest() -> None:
    """
    Other values raise; leaving a block restores the previous executor.
    """

    def here() -> bool:
        return int(run_function(own_pid, [])[0][0]) == os.getpid()

    with pytest.raises(ThreadSettingError, match="wanted 'thread' or 'process', got 'threads'"):
        treadle.python_ops(executor="threads")
    assert not here()
    with treadle.python_ops(executor="thread"):
        assert here()
        with treadle.python_ops(executor="process"):
            assert not here()
        assert here()
    assert not here()
    with treadle.python_ops(executor="process"):
        treadle.python_ops(executor="thread")
        assert here(), "what is set for good takes effect at once"
    assert here()
    again = treadle.python_ops(executor="process")
    with again, again:
        assert not here()
    assert here()
