"""What runs promise holds inside bodies of every kind: their end, limits, priorities, timelines, bits and depth."""

from __future__ import annotations

import _thread
import importlib.util
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import treadle
from tests.bodies import facade_kinds, onnx_kinds, tensorflow_kinds
from tests.bodies.kinds import ENDLESS, Kind, Run
from tests.models.at_once import wait_for_a_run
from tests.models.small import add
from treadle.errors import RunCancelledError, RunTimeoutError
from treadle.tracing.record import Event

KINDS: dict[str, Kind] = {**onnx_kinds.KINDS, **tensorflow_kinds.KINDS, **facade_kinds.KINDS}
if importlib.util.find_spec("torch") is not None:
    from tests.bodies import torch_kinds

    KINDS |= torch_kinds.KINDS

THREADS = (1, 2, 4)
POOLS = {threads: treadle.Pool(intra_op=threads, inter_op=threads) for threads in THREADS}
FEW = 4
"""Iterations of a run that ends by itself."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*", "ignore:.*torch.jit:DeprecationWarning")


@pytest.fixture(params=KINDS, scope="module")
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a kind. What was compiled for it is dropped behind its tests."""
    yield request.param
    program.cache_clear()


@cache
def program(name: str, depth: int = 1) -> Run:
    """The program of so many bodies of a kind, which has run once."""
    run = KINDS[name].make(depth)
    run(FEW)
    return run


def check(name: str, depth: int, run: Run) -> None:
    """A run gives what is expected, with the same bits at every number of threads."""
    found = {threads: run(FEW, pool=pool)[0] for threads, pool in POOLS.items()}
    wanted = KINDS[name].expected(depth, FEW)
    assert found[1].shape == wanted.shape
    np.testing.assert_allclose(found[1], wanted, rtol=1e-4, atol=1e-5)
    assert {array.tobytes() for array in found.values()} == {found[1].tobytes()}


def events(run: Run, path: Path, **options: object) -> list[Event]:
    with treadle.trace(path) as recording:
        run(FEW, **options)
    return recording.events


def test_bits_are_the_same_at_every_number_of_threads(name: str) -> None:
    check(name, 1, program(name))


def test_bodies_may_be_30_deep(name: str) -> None:
    """And what never ends in their depth stops at its timeout."""
    depth = KINDS[name].deepest
    run = program(name, depth)
    check(name, depth, run)
    with pytest.raises(RunTimeoutError):
        run(ENDLESS, timeout=0.2)
    check(name, depth, run)


@pytest.mark.parametrize("threads", THREADS)
def test_a_loop_that_never_ends_stops_at_its_timeout(name: str, threads: int) -> None:
    run = program(name)
    with pytest.raises(RunTimeoutError):
        run(ENDLESS, pool=POOLS[threads], timeout=0.1)
    check(name, 1, run)


def in_background(run: Run, token: treadle.CancelToken, pool: treadle.Pool) -> tuple[threading.Thread, list[Exception]]:
    """Begins a run without an end in another thread; returns that, and what the run has raised at its end."""
    raised: list[Exception] = []

    def work() -> None:
        try:
            run(ENDLESS, pool=pool, cancel=token)
        except RunCancelledError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_for_a_run(pool)
    time.sleep(0.05)  # the loop has begun by then
    return thread, raised


def test_a_token_ends_a_run(name: str) -> None:
    run, token = program(name), treadle.CancelToken()
    thread, raised = in_background(run, token, POOLS[2])
    token.cancel()
    thread.join()
    assert len(raised) == 1
    check(name, 1, run)


def test_a_run_of_higher_priority_goes_first(name: str) -> None:
    """On the only slot, between two steps of a body; the other run goes on afterwards."""
    if not KINDS[name].gives_way:
        pytest.skip("it runs inside a Python task, which keeps its slot")
    pool = treadle.Pool(intra_op=1, inter_op=1)
    urgent, ones = treadle.Session(add(), pool=pool), np.ones((2, 3), np.float32)
    token = treadle.CancelToken()
    thread, raised = in_background(program(name), token, pool)
    for _ in range(3):
        assert urgent.run({"a": ones, "b": ones}, priority=1, timeout=60)["y"][0, 0] == 2
    assert thread.is_alive()
    token.cancel()
    thread.join()
    assert len(raised) == 1


def test_limits_of_a_call_hold(name: str, tmp_path: Path) -> None:
    """One thread of two executes all steps of a run that asks for one."""
    found = events(program(name), tmp_path / "trace.json", pool=POOLS[2], intra_op=1, inter_op=1)
    assert found
    assert len({event.thread for event in found}) == 1


def test_the_timeline_shows_iterations_and_sides(name: str, tmp_path: Path) -> None:
    found = events(program(name), tmp_path / "trace.json")
    assert {event.iteration for event in found} >= set(range(FEW))
    assert any(KINDS[name].step in event.node for event in found)
    assert not any(KINDS[name].other in event.node for event in found)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_run(name: str, threads: int) -> None:
    run = program(name)
    interrupt = threading.Timer(0.15, _thread.interrupt_main)
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        run(ENDLESS, pool=POOLS[threads], timeout=60)
    interrupt.join()
    check(name, 1, run)
