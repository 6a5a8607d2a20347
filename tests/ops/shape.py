"""Cases of shape, size, range and constant_of_shape."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64

_X = floats("shape", 2, 3, 5)
_ALL = frozenset({0, 1, 2})


def _shape(name: str, start: int, end: int | None) -> Case:
    known = {"start": start} | ({} if end is None else {"end": end})
    return Case(f"shape/{name}", "shape", {"start": start, "end": end}, (_X,), onnx=OnnxCall("Shape", known))


def _range(name: str, *numbers: np.ndarray) -> Case:
    return Case(f"range/{name}", "range", {}, numbers, _ALL, onnx=OnnxCall("Range"))


def _filled(name: str, value: np.ndarray, *shape: int) -> Case:
    known = OnnxCall("ConstantOfShape", {"value": value})
    return Case(
        f"constant_of_shape/{name}", "constant_of_shape", {"value": value}, (i64(*shape),), frozenset({0}), onnx=known
    )


CASES = [
    _shape("whole", 0, None),
    _shape("part", 1, 3),
    _shape("negative", -2, -1),
    _shape("beyond", -9, 9),
    _shape("crossed", 2, 1),
    Case("size/whole", "size", {}, (_X,), onnx=OnnxCall("Size")),
    _range("int64", *map(np.array, (2, 17, 3))),
    _range("int32_down", *(np.array(n, np.int32) for n in (10, -3, -4))),
    _range("float32", *(np.array(n, np.float32) for n in (0, 1, 0.25))),
    _range("none", *map(np.array, (5, 2, 1))),
    _filled("zeros", np.zeros(1, np.float32), 2, 3),
    _filled("sevens", np.array([7]), 4),
    _filled("scalar", np.ones(1, np.float32)),
    _filled("empty", np.ones(1, np.float32), 0, 3),
]
