"""Cases of gather, gather_elements and gather_nd."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers


def _gather(name: str, x: np.ndarray, indices: np.ndarray, axis: int = 0, *, constant: bool = False) -> Case:
    constants = frozenset({1} if constant else ())
    return Case(
        f"gather/{name}", "gather", {"axis": axis}, (x, indices), constants, onnx=OnnxCall("Gather", {"axis": axis})
    )


def _elements(name: str, x: np.ndarray, indices: np.ndarray, axis: int) -> Case:
    # The other reference wants equal sizes outside the axis, which ONNX does not.
    fits = all(i == dim for at, (i, dim) in enumerate(zip(indices.shape, x.shape, strict=True)) if at != axis % x.ndim)
    known = OnnxCall("GatherElements", {"axis": axis}) if fits and axis >= 0 else None
    return Case(f"gather_elements/{name}", "gather_elements", {"axis": axis}, (x, indices), onnx=known)


def _nd(name: str, x: np.ndarray, indices: np.ndarray, batch_dims: int = 0) -> Case:
    known = OnnxCall("GatherND", {"batch_dims": batch_dims})
    return Case(f"gather_nd/{name}", "gather_nd", {"batch_dims": batch_dims}, (x, indices), onnx=known)


_IMAGE = floats("image", 3, 5, 7)

CASES = [
    _gather("embedding", floats("table", 50, 32), integers("tokens", 0, 50, 2, 9)),
    _gather("embedding_odd", floats("table", 50, 37), integers("tokens", 0, 50, 1, 5, dtype=np.int32)),
    _gather("axis1", _IMAGE, i64(4, 0, 4), 1),
    _gather("last_axis", _IMAGE, i64(6, 1), -1),
    _gather("negative_indices", _IMAGE, i64(-1, 0, -3)),
    _gather("scalar_index", _IMAGE, np.array(2), 1),
    _gather("scalar_constant_index", _IMAGE, np.array(-1), 1, constant=True),
    _gather("from_vector", floats("v", 9), integers("i", 0, 9, 4, 4)),
    _gather("scalar_from_vector", floats("v", 9), np.array(4)),
    _gather("no_indices", _IMAGE, np.zeros((0,), np.int64)),
    _gather("int64", integers("x", 0, 99, 6, 5), i64(5, 5, 0)),
    _gather("bool", _IMAGE > 0, i64(1, 1)),
    _elements("first", _IMAGE, integers("ge", 0, 3, 2, 5, 7), 0),
    _elements("last", _IMAGE, integers("ge", -7, 7, 3, 5, 9), -1),
    _elements("smaller", _IMAGE, integers("ge", 0, 5, 2, 4, 6), 1),
    _elements("int64", integers("x", 0, 99, 6, 5), integers("gi", 0, 6, 6, 5), 0),
    _nd("points", _IMAGE, np.array([[0, 1, 2], [2, -1, 6]])),
    _nd("one_element", _IMAGE, i64(1, 2, 3)),
    _nd("rows", _IMAGE, np.array([[[0, 1]], [[2, 4]]])),
    _nd("batched", _IMAGE, np.array([[1], [0], [4]]), 1),
    _nd("batched_rows", floats("b", 2, 3, 4, 5), integers("bi", 0, 3, 2, 6, 1), 1),
    _nd("batched_twice", floats("b", 2, 3, 4, 5), integers("bi", 0, 4, 2, 3, 2, 1), 2),
]
