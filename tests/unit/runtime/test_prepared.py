"""Runs whose arrays are known to fit go to the plan at once."""

from __future__ import annotations

import numpy as np
import pytest

import treadle
from treadle import dtypes
from treadle.compile import runner_of
from treadle.errors import InputError
from treadle.graph.graph import Graph


def session() -> treadle.Session:
    graph = Graph("sums")
    a = graph.input("a", dtypes.f32, ("n", 3))
    b = graph.input("b", dtypes.f32, (3,))
    graph.outputs = [*graph.add("add", [a, b]).outputs, *graph.add("mul", [a, b]).outputs]
    return treadle.Session(graph)


def test_a_prepared_run_computes_as_run_does() -> None:
    """
    Arrays in the order of the inputs give arrays in the order of the outputs, fresh ones each time.
    """
    made = session()
    a, b = np.random.default_rng(0).random((4, 3), np.float32), np.ones(3, np.float32)
    run = runner_of(made).prepare({"b": b, "a": a})
    for scale in (1, 2):
        wanted = list(made.run({"a": a * scale, "b": b}).values())
        found = run([a * scale, b])
        assert all(map(np.array_equal, found, wanted))
    assert found[0] is not run([a, b])[0]


def test_arrays_that_do_not_fit_are_refused_when_a_run_is_prepared() -> None:
    """
    As run refuses them.
    """
    with pytest.raises(InputError, match="axis 1 must be 3"):
        runner_of(session()).prepare({"a": np.ones((4, 2), np.float32), "b": np.ones(3, np.float32)})


def test_a_run_goes_from_addresses_to_addresses() -> None:
    """
    Inputs first, then outputs, each in their order; nothing else is written.
    """
    made = session()
    a, b = np.random.default_rng(0).random((4, 3), np.float32), np.ones(3, np.float32)
    run = runner_of(made).prepare_at({"a": a, "b": b})
    assert run is not None
    into = np.zeros((2, 6, 3), np.float32)
    run([a.ctypes.data, b.ctypes.data, into[0, 1].ctypes.data, into[1, 1].ctypes.data], (a, b, into))

    wanted = made.run({"a": a, "b": b}).values()
    assert all(np.array_equal(got[1:5], array) for got, array in zip(into, wanted, strict=True))
    assert not into[:, [0, 5]].any()


def test_a_plan_with_shared_output_blocks_takes_no_addresses() -> None:
    """
    Large ones share blocks, in memory of earlier ones.
    """
    assert runner_of(session()).prepare_at({"a": np.ones((40_000, 3), np.float32), "b": np.ones(3, np.float32)}) is None
