"""Cases of split."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers


def _case(name: str, x: np.ndarray, axis: int, sizes: tuple[int, ...] | None, parts: int) -> Case:
    operand = None if sizes is None else i64(*sizes)
    known = OnnxCall("Split", {"axis": axis} | ({"num_outputs": parts} if sizes is None else {}))
    attrs = {"axis": axis, "parts": parts}
    return Case(f"split/{name}", "split", attrs, (x, operand), frozenset({1}), outputs=parts, onnx=known)


CASES = [
    _case("equal", floats("split", 6, 5), 0, None, 3),
    _case("last_shorter", floats("split", 4, 7), 1, None, 3),
    _case("sizes", floats("split", 3, 20), 1, (1, 16, 3), 3),
    _case("channels", floats("split", 2, 9, 4, 3), 1, (4, 5), 2),
    _case("negative_axis", floats("split", 2, 3, 48), -1, None, 3),
    _case("empty_part", floats("split", 5, 3), 0, (5, 0), 2),
    _case("int64", integers("split", 0, 9, 8), 0, (2, 6), 2),
    _case("one_part", floats("split", 5), 0, None, 1),
]
