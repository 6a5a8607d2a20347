"""Cases of cumsum, cumprod, cummax, cummin and logcumsumexp."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers

_ONNX = {"cumsum": "CumSum", "cumprod": "CumProd"}


def _case(op: str, name: str, x: np.ndarray, axis: int, *, exclusive: bool = False, reverse: bool = False) -> Case:
    how = {"exclusive": int(exclusive), "reverse": int(reverse)}
    known = OnnxCall(_ONNX[op], how, (x, np.array(axis))) if op in _ONNX else None
    attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return Case(f"{op}/{name}", op, attrs, (x,), onnx=known)


def _cases(op: str) -> list[Case]:
    return [
        _case(op, "last", floats(op, 3, 37), 1),
        _case(op, "first", floats(op, 37, 3), 0),
        _case(op, "middle", floats(op, 2, 9, 5), -2),
        _case(op, "exclusive", floats(op, 3, 17), 1, exclusive=True),
        _case(op, "reverse", floats(op, 3, 17), 1, reverse=True),
        _case(op, "exclusive_reverse", floats(op, 3, 17), 1, exclusive=True, reverse=True),
        _case(op, "one", floats(op, 3, 1), 1, exclusive=True),
    ]


CASES = [
    *(case for op in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp") for case in _cases(op)),
    *(_case(op, "int64", integers(op, -9, 9, 4, 13), 1) for op in ("cumsum", "cumprod", "cummax", "cummin")),
]
