"""Cases of softmax and log_softmax."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats

_SHAPES = {
    "row": ((1, 1000), 1),
    "rows": ((13, 37), 1),
    "short_rows": ((9, 3), -1),
    "attention": ((2, 3, 19, 19), -1),
    "first": ((21, 5), 0),
    "channels": ((2, 11, 4, 5), 1),
    "one": ((6, 1), 1),
    "vector": ((17,), 0),
    "empty_batch": ((0, 5), 1),
}


def _cases(name: str, x: np.ndarray, axis: int) -> list[Case]:
    return [
        Case(f"softmax/{name}", "softmax", {"axis": axis}, (x,), onnx=OnnxCall("Softmax", {"axis": axis})),
        Case(f"log_softmax/{name}", "log_softmax", {"axis": axis}, (x,)),
    ]


_MASKED = floats("masked", 4, 21)
_MASKED[:, 13:] = -np.inf
_MASKED[2, 4] = np.nan

_NOTHING = _MASKED.copy()
_NOTHING[1] = -np.inf


def _safe(name: str, x: np.ndarray, axis: int) -> Case:
    return Case(f"softmax/safe_{name}", "softmax", {"axis": axis, "safe": True}, (x,))


CASES = [
    *(case for name, (shape, axis) in _SHAPES.items() for case in _cases(name, floats(name, *shape) * 4, axis)),
    *_cases("large_numbers", floats("large", 5, 19) * 1e4, 1),
    *_cases("masked", _MASKED, 1),
    *_cases("nothing", _NOTHING, 1),
    _safe("row", _NOTHING, 1),
    _safe("short_row", _NOTHING[:, 10:15], 1),
    _safe("columns", _NOTHING.T.copy(), 0),
    _safe("float64", _NOTHING.astype(np.float64), 1),
    *_cases("float64", floats("f64", 5, 9, dtype=np.float64), 1),
]
