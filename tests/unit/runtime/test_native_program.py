"""Programs of the native core from Python: building, running, failing."""

import ctypes
import gc
import threading
import time
import traceback
import weakref

import numpy as np
import pytest

from treadle import _native

Kernel = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_int64,
    ctypes.c_void_p,
)


@pytest.fixture(params=[1, 2, 4, 8])
def team(request):
    team = _native.Team("test", request.param, request.param)
    yield team
    team.close()
    assert team.threads == 0


def step(function, pointers=(), cost_ns=1e6):
    return (function, list(pointers), [], 1, cost_ns)


def build(steps, edges=(), buffers=(), arena_bytes=0, *, blocking=False):
    successors = [[] for _ in steps]
    for before, after in edges:
        successors[before].append(after)
    tasks = [(i, 1, float(-i), blocking) for i in range(len(steps))]
    return _native.Program(list(steps), tasks, successors, list(buffers), arena_bytes, 0)


def test_steps_get_the_addresses_of_their_buffers(team):
    """
    A step gets outputs first, then inputs, each with its offset; the addresses of bound buffers change between runs.
    """
    constant = np.arange(4.0)
    seen = []
    program = build(
        [step(seen.append, [(0, 16), (1, 8), (2, 0)])],
        buffers=[("arena", 64), ("constant", constant.ctypes.data), ("bound", 0)],
        arena_bytes=128,
    )
    for address in (4096, 8192):
        program.run(team, [address])

    assert [addresses[1:] for addresses in seen] == [
        (constant.ctypes.data + 8, 4096),
        (constant.ctypes.data + 8, 8192),
    ]
    assert all((addresses[0] - 16) % 64 == 0 for addresses in seen)
    assert program.arena_bytes == 128


def test_kernels_by_address_run_every_chunk(team):
    """
    Each chunk runs once, with the arguments of its step.
    """
    counts = np.zeros(32, np.int64)

    @Kernel
    def kernel(pointers, args, chunk, _scratch):
        ctypes.cast(pointers[0], ctypes.POINTER(ctypes.c_int64))[chunk] += args[0]
        return 0

    address = ctypes.cast(kernel, ctypes.c_void_p).value
    program = _native.Program([(address, [(0, 0)], [7], 32, 1e6)], [(0, 1, 1.0, False)], [[]], [("bound", 0)], 0, 0)
    program.run(team, [counts.ctypes.data])

    assert counts.tolist() == [7] * 32


def test_tasks_run_after_their_predecessors(team):
    """
    In a diamond of four tasks the first runs before the middle ones, and the last after both.
    """
    done = []
    program = build([step(lambda _, i=i: done.append(i)) for i in range(4)], edges=[(0, 1), (0, 2), (1, 3), (2, 3)])
    program.run(team, [])

    assert (done[0], done[3], sorted(done)) == (0, 3, [0, 1, 2, 3])


def test_an_exception_reaches_the_caller_with_its_traceback(team):
    """
    The exception is the same object, later tasks are dropped, and the program stays usable.
    """
    later = []
    switch = {"fail": True}
    error = KeyError("mine")

    def culprit(_):
        if switch["fail"]:
            raise error

    program = build([step(culprit), step(later.append)], edges=[(0, 1)])
    with pytest.raises(KeyError) as caught:
        program.run(team, [])

    assert caught.value is error
    assert "culprit" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert later == []
    switch["fail"] = False
    program.run(team, [])
    assert len(later) == 1


def test_a_kernel_failure_names_step_and_code(team):
    """
    A kernel that returns a non-zero code raises KernelFailure.
    """

    @Kernel
    def kernel(_pointers, _args, chunk, _scratch):
        return 9 if chunk == 2 else 0

    address = ctypes.cast(kernel, ctypes.c_void_p).value
    program = _native.Program([(address, [], [], 4, 1e6)], [(0, 1, 1.0, False)], [[]], [], 0, 0)
    with pytest.raises(_native.KernelFailure, match="step 0: kernel returned code 9") as caught:
        program.run(team, [])

    assert (caught.value.step, caught.value.code) == (0, 9)


def test_many_threads_run_one_program(team):
    """
    Each concurrent run has a context; contexts are kept for later runs and can be trimmed.
    """
    results = np.zeros(8, np.int64)
    program = build([step(lambda at: ctypes.c_int64.from_address(at[0]).__setattr__("value", 1), [(0, 0)])],
                    buffers=[("bound", 0)])  # fmt: skip
    callers = [threading.Thread(target=program.run, args=(team, [results[i:].ctypes.data])) for i in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()

    assert results.tolist() == [1] * 8
    assert 1 <= program.contexts <= 8
    program.trim()
    assert program.contexts == 0


def test_a_step_may_run_another_program(team):
    """
    A nested run executes on the slot of its caller.
    """
    done = []
    inner = build([step(done.append), step(done.append)])
    outer = build([step(lambda _: inner.run(team, [])) for _ in range(5)])
    outer.run(team, [])

    assert len(done) == 10


def test_a_blocking_task_takes_no_slot():
    """
    A blocking task may wait for a task that needs the only slot.
    """
    team = _native.Team("test", 1, 1)
    ready = threading.Event()
    waits = build([step(lambda _: ready.wait(30))], blocking=True)
    waiter = threading.Thread(target=waits.run, args=(team, []))
    waiter.start()
    build([step(lambda _: ready.set())]).run(team, [])
    waiter.join(10)

    assert not waiter.is_alive()
    team.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": [(0, [], [], 1, 0.0)]}, "step 0: wanted either a non-null kernel address or a callable"),
        ({"steps": [(print, [], [], 2, 0.0)]}, "chunks must be 1, got 2"),
        ({"steps": [(print, [(3, 0)], [], 1, 0.0)]}, "step 0, pointer 0: buffer must be in 0..1"),
        ({"buffers": [("heap", 0)]}, "buffer 0: kind must be 'arena', 'constant' or 'bound', got 'heap'"),
        ({"successors": [[0]]}, "cycle"),
        ({"arena_bytes": -1}, "arena_bytes must be at least 0, got -1"),
    ],
)
def test_faulty_programs_are_refused(change, message):
    """
    ValueError names the faulty entry, what is allowed, and the value.
    """
    parts = {
        "steps": [(print, [], [], 1, 0.0)],
        "tasks": [(0, 1, 1.0, False)],
        "successors": [[]],
        "buffers": [("bound", 0)],
        "arena_bytes": 0,
        "scratch_bytes": 0,
    }
    with pytest.raises(ValueError) as caught:
        _native.Program(**(parts | change))

    assert message in str(caught.value)


def test_a_wrong_number_of_addresses_is_refused(team):
    """
    A run needs one address for each bound buffer.
    """
    with pytest.raises(ValueError, match="run: wanted 1 bound addresses, got 2"):
        build([step(print)], buffers=[("bound", 0)]).run(team, [1, 2])


def test_a_program_in_a_reference_cycle_is_collected():
    """
    A step's function refers to its own program.
    """

    class Owner:
        def __init__(self):
            self.program = build([step(lambda _: self)])

    alive = weakref.ref(Owner())
    gc.collect()

    assert alive() is None


def test_runs_release_the_gil(team):
    """
    Python code executes on another thread while a kernel runs.
    """
    sleep = ctypes.CDLL(None).usleep  # ctypes releases the GIL while it runs

    @Kernel
    def kernel(_pointers, _args, _chunk, _scratch):
        for _ in range(10_000):
            sleep(1000)
            if len(ticks) > 5:
                return 0
        return 1

    address = ctypes.cast(kernel, ctypes.c_void_p).value
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    build([step(address)]).run(team, [])
    stop.set()
    ticker.join()

    assert len(ticks) > 5


def test_events_name_step_slot_and_time(team):
    """
    There is one event for each worker's part in a step.
    """
    program = build([step(lambda _: time.sleep(0.001)) for _ in range(6)])
    _native.trace_start()
    program.run(team, [])
    events = _native.trace_stop()

    assert sorted(event[1] for event in events) == list(range(6))
    for program_id, _step, its_team, place, thread, start, end, chunks, _run, iteration in events:
        assert (program_id, iteration) == (program.id, -1)
        assert its_team == events[0][2] > 0
        assert 0 <= place < team.limits[0]
        assert thread > 0
        assert end - start >= 1_000_000
        assert chunks == 1
    assert _native.trace_stop() == []
