"""Cases of transpose."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers


def _case(name: str, x: np.ndarray, perm: tuple[int, ...]) -> Case:
    onnx = OnnxCall("Transpose", {"perm": list(perm)}) if perm else None
    return Case(f"transpose/{name}", "transpose", {"perm": perm}, (x,), onnx=onnx)


CASES = [
    _case("matrix", floats("t", 17, 35), (1, 0)),
    _case("matrix_small", floats("t", 3, 2), (1, 0)),
    _case("matrix_large", floats("t", 130, 70), (1, 0)),
    _case("batch_matrices", floats("t", 5, 9, 18), (0, 2, 1)),
    _case("heads", floats("t", 2, 7, 4, 16), (0, 2, 1, 3)),
    _case("heads_transposed", floats("t", 2, 7, 4, 16), (0, 2, 3, 1)),
    _case("to_channels_last", floats("t", 2, 3, 5, 7), (0, 2, 3, 1)),
    _case("to_channels_first", floats("t", 2, 5, 7, 3), (0, 3, 1, 2)),
    _case("reversed", floats("t", 3, 4, 5, 6), (3, 2, 1, 0)),
    _case("identity", floats("t", 3, 4), (0, 1)),
    _case("scalar", floats("t"), ()),
    _case("empty", np.zeros((3, 0, 2), np.float32), (2, 0, 1)),
    _case("five_axes", floats("t", 2, 3, 2, 4, 3), (0, 3, 1, 4, 2)),
    _case("int64", integers("t", 0, 99, 9, 5), (1, 0)),
    _case("bool", floats("t", 9, 5) > 0, (1, 0)),
    _case("float64", floats("t", 9, 5, 3, dtype=np.float64), (2, 1, 0)),
]
