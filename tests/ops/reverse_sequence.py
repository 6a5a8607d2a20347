"""Cases of reverse_sequence."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers


def _case(name: str, x: np.ndarray, lengths: list[int], *, time_axis: int = 0, dtype: type = np.int64) -> Case:
    attrs = {"time_axis": time_axis, "batch_axis": 1 - time_axis}
    operands = (x, np.array(lengths, dtype))
    onnx = OnnxCall("ReverseSequence", attrs, (x, np.array(lengths, np.int64)))
    return Case(f"reverse_sequence/{name}", "reverse_sequence", attrs, operands, onnx=onnx)


CASES = [
    _case("time_first", floats("reverse", 7, 3, 5), [7, 1, 4]),
    _case("batch_first", floats("reverse", 3, 7, 5), [2, 7, 3], time_axis=1),
    _case("single_elements", integers("reverse", 0, 99, 9, 4), [9, 8, 2, 1]),
    _case("long_rows", floats("reverse", 4, 2, 19, 33), [3, 4]),
    _case("bytes", integers("reverse", 0, 99, 6, 2, 21, dtype=np.uint8), [6, 5]),
    _case("i32_lengths", floats("reverse", 2, 6, 8), [5, 6], time_axis=1, dtype=np.int32),
    _case("nothing_reversed", floats("reverse", 5, 2, 3), [1, 1]),
]
