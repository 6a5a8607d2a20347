"""A failure in any task of a graph, at every number of threads: the right error, and nothing else is harmed."""

from __future__ import annotations

import threading
from random import Random

import numpy as np
import pytest

import treadle
from treadle import dtypes
from treadle.errors import KernelError, RunError
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.op import Info

LIMITS = [(1, 1), (1, 3), (2, 2), (3, 1), (4, 4)]
LAYERS, WIDTH, SIZE = 4, 4, 48


class Faulty:
    """A session of layers of Python functions (also blocking ones) with a kernel after each, of which one can fail.

    A function adds up what it gets, a kernel divides that by an input of its own; `positions` names them all.
    """

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        graph = Graph()
        self.positions: list[str] = []
        self.failing: str | None = None
        sources = [graph.input("x", dtypes.i32, (SIZE,))]
        for layer in range(LAYERS):
            made = []
            for column in range(WIDTH):
                place = f"{layer}.{column}"
                chosen = [sources[column % len(sources)], *random.sample(sources, random.randint(0, len(sources) // 2))]
                made.append(self._kernel(graph, place, self._function(graph, place, chosen, random.random() < 0.2)))
            sources = made
        graph.outputs = sources
        self.session = treadle.Session(graph)
        self.wanted = self.run(1, 1)

    def _function(self, graph: Graph, place: str, sources: list[Value], blocking: bool) -> Value:
        name = f"function {place}"
        self.positions.append(name)

        def add_up(arrays: list[np.ndarray]) -> list[np.ndarray]:
            if self.failing == name:
                raise ArithmeticError(name)
            return [np.sum(arrays, axis=0, dtype=np.int32)]

        attrs = {
            "function": add_up,
            "infer": lambda infos: [Info(infos[0].dtype, infos[0].shape, None)],
            "blocking": blocking,
            "label": "add_up",
        }
        return graph.add("call", sources, attrs, name=name).output

    def _kernel(self, graph: Graph, place: str, source: Value) -> Value:
        name = f"kernel {place}"
        self.positions.append(name)
        divisor = graph.input(name, dtypes.i32, (SIZE,))
        return graph.add("div", [source, divisor], {}, name=name).output

    def run(self, intra_op: int, inter_op: int, failing: str | None = None) -> list[bytes]:
        """The outputs; or what the node named `failing` makes of it."""
        self.failing = failing
        ones = np.ones(SIZE, np.int32)
        inputs = {name: ones for name in self.positions if name.startswith("kernel")}
        inputs["x"] = np.arange(SIZE, dtype=np.int32)
        if failing in inputs:
            inputs[failing] = ones * (np.arange(SIZE) != SIZE - 1)
        outputs = self.session.run(inputs, intra_op=intra_op, inter_op=inter_op)
        return [array.tobytes() for array in outputs.values()]


@pytest.fixture(scope="module", params=range(3))
def faulty(request: pytest.FixtureRequest) -> Faulty:
    return Faulty(request.param)


@pytest.mark.parametrize(("intra_op", "inter_op"), LIMITS)
def test_a_failure_at_any_position_names_its_node_and_leaves_the_session_usable(
    faulty: Faulty, intra_op: int, inter_op: int
) -> None:
    """
    Each of the functions and kernels fails once, alone. The error is its own, and the run after it is right.
    """
    assert len(faulty.positions) == 2 * LAYERS * WIDTH
    for name in faulty.positions:
        error, said = (KernelError, "by zero") if name.startswith("kernel") else (RunError, "ArithmeticError")
        with pytest.raises(error, match=said) as caught:
            faulty.run(intra_op, inter_op, failing=name)

        assert f"node {name!r}" in str(caught.value)
        assert faulty.run(intra_op, inter_op) == faulty.wanted


def test_failures_harm_no_run_beside_them(faulty: Faulty) -> None:
    """
    While one client's run fails at every position in turn, another session's runs all come out right.
    """
    other = Faulty(100)
    end, faults = threading.Event(), list[str]()

    def healthy() -> None:
        while not end.is_set():
            if other.run(2, 2) != other.wanted:
                faults.append("a wrong result")

    client = threading.Thread(target=healthy)
    client.start()
    try:
        for name in faulty.positions:
            with pytest.raises((KernelError, RunError), match=name):
                faulty.run(2, 2, failing=name)
    finally:
        end.set()
        client.join()

    assert faults == []
