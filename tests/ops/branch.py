"""Cases of branch: the body `yes` gives the product of two square matrices, `no` their difference."""

import numpy as np

from tests.ops.case import Case, floats
from treadle import dtypes
from treadle.graph.graph import Graph


def _body(op: str) -> Graph:
    graph = Graph(op)
    operands = [graph.input(name, dtypes.f32, ("rows", "columns")) for name in ("a", "b")]
    graph.outputs = [graph.add(op, operands).output]
    graph.outputs[0].dtype = dtypes.f32
    return graph


def _case(name: str, condition: np.ndarray, size: int, *constant: int) -> Case:
    operands = condition, floats("branch.a", size, size), floats("branch.b", size, size)
    attrs = {"yes": _body("matmul"), "no": _body("sub")}
    return Case(f"branch/{name}", "branch", attrs, operands, frozenset(constant))


CASES = [
    _case("yes", np.array(True), 9),
    _case("no", np.array(False), 9),
    _case("condition_of_rank_1", np.array([True]), 5),
    _case("known_condition", np.array(False), 4, 0),
    _case("known_operand", np.array(True), 130, 2),
    _case("empty", np.array(True), 0),
]
