"""Cases of the reductions."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers

_ONNX = {
    "reduce_sum": "ReduceSum",
    "reduce_mean": "ReduceMean",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
}
_SHAPES = {
    "all": ((3, 5, 7), None, False),
    "all_kept": ((3, 5, 7), None, True),
    "last": ((9, 37), (1,), False),
    "last_kept": ((9, 37), (1,), True),
    "last_negative": ((4, 5, 17), (-1,), True),
    "first": ((37, 9), (0,), False),
    "middle": ((3, 19, 5), (1,), True),
    "spatial": ((2, 5, 7, 9), (2, 3), True),
    "outer_two": ((4, 3, 21), (0, 1), False),
    "not_adjacent": ((4, 3, 21), (0, 2), False),
    "long_row": ((2, 1025), (1,), False),
    "few_short_rows": ((3, 6), (1,), False),
    "short_rows": ((301, 6), (1,), False),
    "rows_of_2": ((37, 2), (1,), True),
    "rows_of_7": ((5, 13, 7), (2,), False),
    "long_column": ((1025, 3), (0,), False),
    "scalar": ((), None, False),
    "size1": ((1, 1), (1,), False),
}


def _onnx(op: str, x: np.ndarray, axes: tuple[int, ...] | None, *, keepdims: bool) -> OnnxCall:
    operands = (x,) if axes is None else (x, i64(*axes))
    return OnnxCall(_ONNX[op], {"keepdims": int(keepdims)}, operands)


def _case(op: str, name: str, x: np.ndarray, axes: tuple[int, ...] | None, *, keepdims: bool) -> Case:
    attrs = {"axes": axes, "keepdims": keepdims}
    return Case(f"{op}/{name}", op, attrs, (x,), onnx=_onnx(op, x, axes, keepdims=keepdims))


def _special() -> list[Case]:
    x = floats("special", 4, 21)
    x[0, 3], x[1, 4], x[2, 5] = np.nan, np.inf, -np.inf
    empty = np.zeros((3, 0), np.float32)
    whole = integers("reduce", -9, 9, 5, 11)
    truth = np.array([[True, False, True], [False, False, False], [True, True, True]])
    return [
        *(_case(op, "nan_and_inf", x, (1,), keepdims=False) for op in _ONNX),
        *(_case(op, "float64", x.astype(np.float64)[3:], (1,), keepdims=False) for op in _ONNX),
        *(_case(op, "empty", empty, (1,), keepdims=True) for op in ("reduce_sum", "reduce_prod")),
        *(_case(op, "int64", whole, (0,), keepdims=True) for op in _ONNX if op != "reduce_mean"),
        *(_case(op, "int32", whole.astype(np.int32), (1,), keepdims=False) for op in _ONNX if op != "reduce_mean"),
        *(_case(op, "short_nan", np.tile(x[:3, 3:6], (20, 1)), (1,), keepdims=False) for op in _ONNX),
        *(
            _case(op, "short_int8", integers("short", -9, 9, 70, 4).astype(np.int8), (1,), keepdims=False)
            for op in ("reduce_max", "reduce_min")
        ),
        *(_case(op, "bool", truth, (1,), keepdims=False) for op in ("reduce_max", "reduce_min")),
        Case("reduce_sum/no_axes", "reduce_sum", {"axes": (), "keepdims": True}, (floats("none", 3, 4),)),
        Case("reduce_max/empty", "reduce_max", {"axes": (1,), "keepdims": False}, (empty,)),
    ]


CASES = [
    *(
        _case(op, name, floats(name, *shape), axes, keepdims=keepdims)
        for op in _ONNX
        for name, (shape, axes, keepdims) in _SHAPES.items()
        if op in ("reduce_sum", "reduce_max") or name in ("last", "first", "spatial", "all")
    ),
    *_special(),
]
