"""Cases of sizes: numbers of every dtype that shape arithmetic has; many, and fractions, which are constants."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers
from treadle import dtypes


def _case(name: str, array: np.ndarray) -> Case:
    attrs = {
        "elements": tuple(array.reshape(-1).tolist()),
        "shape": array.shape,
        "dtype": dtypes.from_numpy(array.dtype),
    }
    return Case(f"sizes/{name}", "sizes", attrs, (), onnx=OnnxCall("Constant", {"value": array}, ()))


CASES = [
    _case("int64", np.array([3, -1, 1 << 62])),
    _case("int32", np.array([[3, -1], [0, 7]], np.int32)),
    _case("uint64", np.array([3, (1 << 64) - 1], np.uint64)),
    _case("float32", np.array([3, -1, 1 << 24], np.float32)),
    _case("float64", np.array(7.0)),
    _case("fractions", floats("sizes", 5)),
    _case("signed_zero", np.array([-0.0, np.inf, np.nan], np.float32)),
    _case("booleans", np.array([True, False])),
    _case("most", integers("sizes", -9, 9, 64)),
    _case("more", integers("sizes", -9, 9, 5, 13)),
]
