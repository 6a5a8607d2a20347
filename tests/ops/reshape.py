"""Cases of reshape, flatten, squeeze and unsqueeze."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers


def _reshape(name: str, x: np.ndarray, shape: tuple[int, ...], *, allowzero: bool = False) -> Case:
    known = OnnxCall("Reshape", {"allowzero": int(allowzero)})
    attrs = {"allowzero": allowzero}
    return Case(f"reshape/{name}", "reshape", attrs, (x, i64(*shape)), frozenset({1}), onnx=known)


def _axes(op: str, name: str, x: np.ndarray, axes: tuple[int, ...] | None) -> Case:
    operands = (x,) if axes is None else (x, i64(*axes))
    return Case(f"{op}/{name}", op, {}, operands, frozenset({1}), onnx=OnnxCall(op.capitalize()))


def _flatten(name: str, x: np.ndarray, axis: int) -> Case:
    return Case(f"flatten/{name}", "flatten", {"axis": axis}, (x,), onnx=OnnxCall("Flatten", {"axis": axis}))


_X = floats("reshape", 2, 3, 4, 5)
_ONES = floats("ones", 1, 3, 1, 5)

CASES = [
    _reshape("plain", _X, (6, 20)),
    _reshape("rest", _X, (2, -1)),
    _reshape("copied_dimension", _X, (0, 0, -1)),
    _reshape("to_scalar", floats("one", 1, 1), ()),
    _reshape("allowzero", np.zeros((0, 3), np.float32), (3, 0), allowzero=True),
    _reshape("empty_rest", np.zeros((0, 3), np.float32), (-1, 3)),
    _reshape("int64", integers("reshape", 0, 9, 12), (3, 4)),
    _flatten("axis1", _X, 1),
    _flatten("axis0", _X, 0),
    _flatten("axis_rank", _X, 4),
    _flatten("negative", _X, -1),
    _axes("squeeze", "all", _ONES, None),
    _axes("squeeze", "one", _ONES, (-2,)),
    _axes("unsqueeze", "two", floats("u", 3, 5), (0, -1)),
    _axes("unsqueeze", "scalar", floats("u"), (0,)),
]
