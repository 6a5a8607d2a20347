"""Cases of loop: the body multiplies what it carries by a matrix, adds an item and the number of the iteration."""

import numpy as np

from tests.ops.case import Case, floats
from treadle import dtypes
from treadle.graph.graph import Graph

ROWS = 3


def _body(size: int, *, stacks: bool) -> Graph:
    """Always goes on, and stacks an item if `stacks`."""
    graph = Graph("body")
    number = graph.input("number", dtypes.i64, ())
    state = graph.input("state", dtypes.f32, (ROWS, size))
    item = graph.input("item", dtypes.f32, (ROWS, size))
    matrix = graph.input("matrix", dtypes.f32, (size, size))

    def add(op: str, *operands: object, **attrs: object) -> object:
        return graph.add(op, list(operands), attrs).output

    product = add("add", add("matmul", state, matrix), item)
    after = add("add", product, add("cast", number, to=dtypes.f32))
    graph.outputs = [graph.constant(np.array(True), "again"), after, *([product] if stacks else [])]
    for value in graph.outputs[1:]:
        value.dtype = dtypes.f32
    return graph


def _case(name: str, size: int, items: int, *constant: int, limit: int | None = None, stacks: bool = True) -> Case:
    operands = (
        None if limit is None else np.array(limit),
        None,
        floats("loop.state", ROWS, size),
        floats("loop.items", items, ROWS, size),
        floats("loop.matrix", size, size) / max(size, 1),
    )
    attrs = {"body": _body(size, stacks=stacks), "carried": 1, "sliced": 1, "padded": False}
    return Case(f"loop/{name}", "loop", attrs, operands, frozenset(constant), outputs=3 if stacks else 2)


CASES = [
    _case("odd", 9, 3),
    _case("even", 9, 4),
    _case("once", 17, 1),
    _case("never", 5, 0),
    _case("limit", 8, 5, 0, limit=2),
    _case("limit_below_items", 8, 5, limit=2, stacks=False),
    _case("limit_beyond_items", 8, 5, limit=7, stacks=False),
    _case("known_matrix", 130, 3, 4),
    _case("known_initial_value", 6, 3, 2),
    _case("empty", 0, 3),
]
