"""Cases of one_hot."""

import numpy as np

from tests.ops.case import Case, OnnxCall, i64, integers


def _case(name: str, indices: np.ndarray, depth: int, values: np.ndarray, axis: int = -1) -> Case:
    known = OnnxCall("OneHot", {"axis": axis}, (indices, np.array(depth), values))
    return Case(f"one_hot/{name}", "one_hot", {"axis": axis}, (indices, i64(depth), values), frozenset({1}), onnx=known)


CASES = [
    _case("last", integers("hot", 0, 7, 5), 7, np.array([0, 1], np.float32)),
    _case("first", integers("hot", 0, 7, 2, 5), 7, np.array([-1, 3], np.float32), 0),
    _case("middle", integers("hot", 0, 4, 2, 5), 4, np.array([0, 1]), 1),
    _case("out_of_range", np.array([-8, -7, -1, 0, 6, 7]), 7, np.array([0, 1], np.float32)),
    _case("scalar", np.array(3), 5, np.array([0, 1], np.float32)),
]
