"""Cases of expand and tile."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers


def _case(op: str, name: str, x: np.ndarray, *numbers: int) -> Case:
    return Case(f"{op}/{name}", op, {}, (x, i64(*numbers)), frozenset({1}), onnx=OnnxCall(op.capitalize()))


CASES = [
    _case("expand", "rows", floats("e", 1, 17), 5, 17),
    _case("expand", "columns", floats("e", 9, 1), 9, 21),
    _case("expand", "new_axes", floats("e", 3), 2, 4, 3),
    _case("expand", "middle", floats("e", 2, 1, 5), 2, 6, 5),
    _case("expand", "smaller_target", floats("e", 3, 4), 1),
    _case("expand", "scalar", floats("e"), 3, 2),
    _case("expand", "to_empty", floats("e", 1, 3), 0, 3),
    _case("expand", "int64", integers("e", 0, 9, 1, 3), 4, 3),
    _case("expand", "bool", floats("e", 1, 5) > 0, 3, 5),
    _case("tile", "rows", floats("t", 2, 9), 3, 1),
    _case("tile", "both", floats("t", 2, 5), 2, 4),
    _case("tile", "once", floats("t", 2, 5), 1, 1),
    _case("tile", "never", floats("t", 2, 5), 0, 1),
    _case("tile", "scalar", floats("t")),
    _case("tile", "int64", integers("t", 0, 9, 4), 3),
]
