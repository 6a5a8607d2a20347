"""Runs that may end early do not wait for ops that NumPy and the onnx package's reference compute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models.at_once import wait_for_a_run
from tests.models.small import FLOAT, ModelWriter, node
from tests.models.test_data_loops import body
from treadle.errors import RunCancelledError, RunTimeoutError
from treadle.frontends.onnx import reference

X = {"x": np.array([[2, 1], [1, 3]], np.float32)}


def determinant() -> onnx.ModelProto:
    """An operator of the reference between two kernels."""
    w = ModelWriter()
    w.op("Neg", w.op("Det", w.op("Mul", "x", "x")))
    return w.model({"x": (FLOAT, [2, 2])}, {"neg2": (FLOAT, None)})


def in_a_loop() -> onnx.ModelProto:
    """The same in the body of a loop."""
    w = ModelWriter()
    nodes = [node("Identity", ["on"], "again"), node("Det", ["x"], "det"), node("Add", ["s", "det"], "next")]
    w.op("Loop", w.constant(np.array(2)), "", w.constant(np.float32(0)), body=body(nodes, {"s": FLOAT}, "next"))
    return w.model({"x": (FLOAT, [2, 2])}, {"loop0": (FLOAT, None)})


def behind_a_size() -> onnx.ModelProto:
    """The same behind a size that depends on data."""
    w = ModelWriter()
    mask = w.op("Cast", w.op("Reshape", "x", w.constant(np.array([-1]))), to=onnx.TensorProto.BOOL)
    rows = w.op("Compress", "x", mask)
    w.op("Add", w.op("ReduceSum", rows, keepdims=0), w.op("Det", "x"))
    return w.model({"x": (FLOAT, [2, 2])}, {w.nodes[-1].output[0]: (FLOAT, None)})


class Gate:
    """Holds calls of the reference until it is opened."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.inside = threading.Event()
        self.callers: list[int] = []

    def pass_(self) -> None:
        """Waits until the gate is open."""
        self.callers.append(threading.get_ident())
        self.inside.set()
        assert self.is_open.wait(60)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Stands before each call of the reference."""
    made, plain = Gate(), reference.ForeignFunction.__call__

    def call(self: reference.ForeignFunction, arrays: Any) -> Any:
        made.pass_()
        return plain(self, arrays)

    monkeypatch.setattr(reference.ForeignFunction, "__call__", call)
    monkeypatch.setenv("TREADLE_CACHE", "off")
    yield made
    made.is_open.set()


MODELS = pytest.mark.parametrize("model", [determinant, in_a_loop, behind_a_size])


@MODELS
@pytest.mark.parametrize("threads", [1, 2])
def test_a_timeout_does_not_wait_for_the_reference(
    model: Callable[[], onnx.ModelProto], threads: int, gate: Gate
) -> None:
    """The session may be used at once; what was left goes on, and its result is dropped."""
    pool = treadle.Pool(intra_op=threads, inter_op=threads)
    session = treadle.Session(model(), pool=pool)
    gate.is_open.set()
    (wanted,) = session.run(X).values()
    gate.is_open.clear()
    gate.inside.clear()
    with pytest.raises(RunTimeoutError):
        session.run(X, timeout=0.2)
    assert gate.inside.is_set()
    assert threading.get_ident() != gate.callers[-1]
    assert pool.threads.status()["abandoned"] == 1

    other = treadle.Session(determinant(), pool=pool)
    gate.is_open.set()
    np.testing.assert_allclose(next(iter(other.run(X).values())), -(2 * 2 * 9 - 1), rtol=1e-5)
    for options in ({}, {"timeout": 60}, {"timeout": 60, "intra_op": 1, "inter_op": 1}):
        assert next(iter(session.run(X, **options).values())).tobytes() == wanted.tobytes()
    while pool.threads.status()["abandoned"]:
        time.sleep(0.001)
    assert pool.threads.status()["slots"] == 0


@MODELS
def test_a_token_does_not_wait_for_the_reference(model: Callable[[], onnx.ModelProto], gate: Gate) -> None:
    pool = treadle.Pool(intra_op=1, inter_op=1)
    session, token = treadle.Session(model(), pool=pool), treadle.CancelToken()
    future = session.run_async(X, cancel=token)
    wait_for_a_run(pool)
    assert gate.inside.wait(60)
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result(60)
    gate.is_open.set()


def test_a_run_without_an_end_keeps_to_its_thread(gate: Gate) -> None:
    gate.is_open.set()
    treadle.Session(determinant()).run(X, intra_op=1, inter_op=1)
    assert set(gate.callers) == {threading.get_ident()}
