"""Cases of top_k."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers


def _case(name: str, x: np.ndarray, k: int, axis: int = -1, *, largest: bool = True) -> Case:
    known = OnnxCall("TopK", {"axis": axis, "largest": int(largest), "sorted": 1})
    attrs = {"axis": axis, "largest": largest, "sorted": True}
    return Case(f"top_k/{name}", "top_k", attrs, (x, i64(k)), frozenset({1}), outputs=2, onnx=known)


CASES = [
    _case("five", floats("top", 4, 35), 5),
    _case("one", floats("top", 3, 17), 1),
    _case("all", floats("top", 2, 9), 9),
    _case("none", floats("top", 2, 9), 0),
    _case("smallest", floats("top", 3, 17), 4, largest=False),
    _case("first_axis", floats("top", 17, 3), 3, 0),
    _case("ties", integers("top", 0, 4, 3, 20), 6),
    _case("ties_smallest", integers("top", 0, 4, 3, 20), 6, largest=False),
]
