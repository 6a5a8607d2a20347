"""Cases of argmax and argmin."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers


def _case(op: str, name: str, x: np.ndarray, axis: int, *, keepdims: bool = True, last: bool = False) -> Case:
    known = {"axis": axis, "keepdims": int(keepdims), "select_last_index": int(last)}
    onnx = OnnxCall("ArgMax" if op == "argmax" else "ArgMin", known)
    return Case(f"{op}/{name}", op, {"axis": axis, "keepdims": keepdims, "last": last}, (x,), onnx=onnx)


CASES = [
    case
    for op in ("argmax", "argmin")
    for case in (
        _case(op, "last", floats("arg", 7, 35), 1, keepdims=False),
        _case(op, "first", floats("arg", 35, 7), 0),
        _case(op, "middle_negative", floats("arg", 3, 19, 4), -2),
        _case(op, "ties_first", integers("ties", 0, 3, 5, 40), 1),
        _case(op, "ties_last", integers("ties", 0, 3, 5, 40), 1, last=True),
        _case(op, "float64", floats("arg", 2, 9, dtype=np.float64), 1),
        _case(op, "one_element", floats("arg", 4, 1), 1, keepdims=False),
    )
]
