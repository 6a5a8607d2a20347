"""Cases of scatter_elements and scatter_nd."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers, random


def _elements(
    name: str, x: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, reduction: str = "none"
) -> Case:
    attrs = {"axis": axis, "reduction": reduction}
    known = OnnxCall("ScatterElements", attrs)
    return Case(f"scatter_elements/{name}", "scatter_elements", attrs, (x, indices, updates), onnx=known)


def _nd(name: str, x: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduction: str = "none") -> Case:
    attrs = {"reduction": reduction}
    return Case(f"scatter_nd/{name}", "scatter_nd", attrs, (x, indices, updates), onnx=OnnxCall("ScatterND", attrs))


def _permutations(rows: int, columns: int) -> np.ndarray:
    """Indices along the last axis without a doubled one, for which the result would be open."""
    return np.stack([random(f"p{row}").permutation(columns) for row in range(rows)])


_X = floats("scatter", 4, 9)
_AGAIN = integers("again", 0, 9, 4, 6)

CASES = [
    _elements("last", _X, _permutations(4, 9)[:, :5], floats("u", 4, 5), 1),
    _elements("first", _X.T.copy(), _permutations(4, 9).T.copy(), floats("u", 9, 4), 0),
    _elements("negative_indices", _X, _permutations(4, 9) - 9, floats("u", 4, 9), -1),
    _elements("int64", integers("x", 0, 9, 4, 9), _permutations(4, 9), integers("u", 0, 9, 4, 9), 1),
    *(_elements(r, _X, _AGAIN, floats("u", 4, 6), 1, r) for r in ("add", "mul", "max", "min")),
    _nd("points", _X, np.array([[0, 1], [3, 8], [-1, 0]]), floats("u", 3)),
    _nd("rows", _X, np.array([[2], [0]]), floats("u", 2, 9)),
    _nd("nested", _X, np.array([[[1, 2]], [[0, 0]]]), floats("u", 2, 1)),
    *(_nd(r, _X, np.array([[2], [2], [0]]), floats("u", 3, 9), r) for r in ("add", "mul", "max", "min")),
]
