"""The kernel of packed attention for texts of any number and length."""

import numpy as np
import pytest
from tests.kernel_runner import run_graph
from tests.open_sizes import OpenSizes
from tests.ops.case import floats, graph_of, i64
from tests.ops.packed_attention import CASES

from treadle import Session
from treadle.codegen.target import detect
from treadle.dtypes import f32
from treadle.dtypes import i64 as indices
from treadle.errors import OutOfRangeError, ShapeError
from treadle.graph.graph import Graph
from treadle.plan.target import Target

_HEADS = {f"{name}_perm": (0, 2, 1, 3) for name in ("q", "k", "v", "out")}


def _graph(tokens: int | str, offsets: int | str, longest: int) -> Graph:
    made = Graph("packed")
    operands = [made.input(name, f32, (1, tokens, 4, 8)) for name in "qkv"]
    operands.append(made.input("offsets", indices, (offsets,)))
    made.outputs = [made.add("packed_attention", operands, {**_HEADS, "longest": longest}, name="y").output]
    return made


def _inputs(*offsets: int) -> dict[str, np.ndarray]:
    return {**{name: floats(f"own{name}", 1, offsets[-1], 4, 8) for name in "qkv"}, "offsets": i64(*offsets)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_chunks_may_run_in_any_order(case, target: Target) -> None:
    """
    Chunks write disjoint memory, stay inside their scratch and outputs, and give the same bits in both orders.
    """
    graph, inputs = graph_of(case)
    forward, backward = (run_graph(graph_of(case)[0], inputs, target=target, reverse_chunks=r) for r in (False, True))

    for value in graph.outputs:
        assert forward[value.name].tobytes() == backward[value.name].tobytes()


def test_a_text_gets_the_bits_that_it_gets_alone() -> None:
    """
    The rows of a text do not depend on the texts around it, nor on how many there are.
    """
    inputs = _inputs(0, 1, 20, 53, 60, 100)
    together = OpenSizes(_graph("tokens", "offsets", 50), tokens=61, offsets=9)
    assert together.families == ["attention"]
    found = together.run(inputs, tokens=100, offsets=6)[0]
    for start, end in ((0, 1), (1, 20), (20, 53), (53, 60), (60, 100)):
        alone = OpenSizes(_graph("tokens", "offsets", 50), tokens=61, offsets=9)
        own = {name: inputs[name][:, start:end] for name in "qkv"}
        rows = alone.run({**own, "offsets": i64(0, end - start)}, tokens=end - start, offsets=2)[0]
        assert rows.tobytes() == found[:, start:end].tobytes()


@pytest.mark.parametrize("offsets", [(0, 5, 31), (0, -1, 30), (0, 21, 30), (3, 2, 30)])
def test_rows_that_do_not_exist_are_refused(offsets: tuple[int, ...]) -> None:
    """
    Offsets outside the rows, falling ones, and texts longer than declared raise an error; nothing is read.
    """
    session = Session(_graph(30, 3, 20))
    inputs = {**_inputs(0, 30), "offsets": i64(*offsets)}

    with pytest.raises(OutOfRangeError):
        session.run(inputs)


def test_operands_that_do_not_fit_are_refused() -> None:
    """
    Queries and keys have as many rows, and offsets are a vector.
    """
    graph = Graph("packed")
    q, k, v = (graph.input(name, f32, (rows, 8)) for name, rows in (("q", 4), ("k", 5), ("v", 5)))
    graph.outputs = [
        graph.add("packed_attention", [q, k, v, graph.input("o", indices, (2,))], {"longest": 5}).output,
    ]
    with pytest.raises(ShapeError, match="must have those of all texts"):
        Session(graph)


def test_tiles_are_those_of_any_number_of_rows() -> None:
    """
    A number of the longest text and an expression of it give the same bits.
    """
    inputs = _inputs(0, 13, 14, 47)
    known = run_graph(OpenSizes(_graph(47, 4, 33)).graph, inputs, target=detect())["y"]
    opened = OpenSizes(_graph("tokens", "offsets", 33), tokens=61, offsets=9)
    found = opened.run(inputs, tokens=47, offsets=4)

    assert known.tobytes() == found[0].tobytes()
