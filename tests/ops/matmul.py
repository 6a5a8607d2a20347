"""Cases of matmul: every rank, transposition, odd sizes, and what passes fuse into it."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers
from treadle import dtypes
from treadle.graph.expr import Expr, Step

_SHAPES = {
    "vector_vector": ((7,), (7,)),
    "vector_matrix": ((7,), (7, 5)),
    "matrix_vector": ((5, 7), (7,)),
    "vector_batch": ((7,), (3, 7, 5)),
    "batch_vector": ((3, 5, 7), (7,)),
    "one": ((1, 1), (1, 1)),
    "row": ((1, 64), (64, 48)),
    "column": ((33, 64), (64, 1)),
    "inner_one": ((9, 1), (1, 11)),
    "square16": ((16, 16), (16, 16)),
    "odd": ((17, 23), (23, 37)),
    "tall": ((131, 5), (5, 3)),
    "wide": ((3, 5), (5, 131)),
    "deep": ((6, 600), (600, 35)),
    "tile": ((28, 64), (64, 96)),
    "batch": ((4, 9, 10), (4, 10, 11)),
    "batch_shared_right": ((2, 3, 5, 8), (8, 6)),
    "sequence": ((1, 64, 384), (384, 1536)),
    "batch_shared_left": ((5, 8), (2, 3, 8, 6)),
    "batch_broadcast": ((2, 1, 5, 8), (3, 8, 6)),
    "heads": ((2, 4, 19, 16), (2, 4, 16, 19)),
    "empty_rows": ((0, 5), (5, 4)),
    "empty_columns": ((3, 5), (5, 0)),
    "empty_inner": ((3, 0), (0, 4)),
    "empty_batch": ((0, 3, 5), (5, 4)),
}
_WITH_WEIGHTS = (
    "vector_matrix", "row", "column", "inner_one", "square16", "odd", "tall", "wide", "deep", "tile",
    "batch_shared_right", "sequence", "empty_rows", "empty_columns", "empty_inner",
)  # fmt: skip


def _plain(name: str, left: tuple[int, ...], right: tuple[int, ...], *, constant: bool) -> Case:
    a, b = floats(name, *left), floats(name + "b", *right)
    suffix = "_weights" if constant else ""
    attrs = {"transpose_a": False, "transpose_b": False}
    return Case(
        f"matmul/{name}{suffix}", "matmul", attrs, (a, b), frozenset({1} if constant else ()), onnx=OnnxCall("MatMul")
    )


def _transposed() -> list[Case]:
    cases = []
    for left in (False, True):
        for right in (False, True):
            for lead in ((), (3,)):
                a = floats("ta", *lead, *((21, 13) if left else (13, 21)))
                b = floats("tb", *lead, *((35, 21) if right else (21, 35)))
                plain = (a.swapaxes(-1, -2) if left else a, b.swapaxes(-1, -2) if right else b)
                name = f"matmul/transpose_{left:d}{right:d}_rank{a.ndim}"
                attrs = {"transpose_a": left, "transpose_b": right}
                call = OnnxCall("MatMul", {}, plain)
                cases.append(Case(name, "matmul", attrs, (a, b), onnx=call))
                if not lead:
                    cases.append(Case(f"{name}_weights", "matmul", attrs, (a, b), frozenset({1}), onnx=call))
    return cases


_BIAS = Expr((dtypes.f32, dtypes.f32), (Step("add", (0, 1), dtypes.f32),), (2,))
_BIAS_RELU = Expr((dtypes.f32, dtypes.f32), (Step("add", (0, 1), dtypes.f32), Step("relu", (2,), dtypes.f32)), (3,))
_SCALE_RESIDUAL = Expr(
    (dtypes.f32, dtypes.f32, dtypes.f32),
    (Step("const", (), dtypes.f32, 0.125), Step("mul", (0, 3), dtypes.f32), Step("add", (4, 1), dtypes.f32),
     Step("add", (5, 2), dtypes.f32), Step("tanh", (6,), dtypes.f32)),
    (7,),
)  # fmt: skip
_TO_BOOL = Expr((dtypes.f32,), (Step("const", (), dtypes.f32, 0.0), Step("gt", (0, 1), dtypes.boolean)), (2,))


def _fused() -> list[Case]:
    a, b = floats("fa", 19, 24), floats("fb", 24, 45)
    no = {"transpose_a": False, "transpose_b": False}
    row, full = floats("row", 45), floats("full", 19, 45)
    query, key = floats("query", 2, 19, 4, 16), floats("key", 2, 21, 4, 16)
    swap = (0, 2, 1, 3)
    scores = OnnxCall("MatMul", {}, (query.transpose(swap), key.transpose(0, 2, 3, 1)))
    weights, values = floats("weights", 2, 4, 19, 21), floats("values", 2, 21, 4, 16)
    return [
        Case("matmul/epilogue_bias", "matmul", {**no, "epilogue": _BIAS}, (a, b, row), frozenset({1, 2})),
        Case("matmul/epilogue_bias_relu", "matmul", {**no, "epilogue": _BIAS_RELU}, (a, b, row), frozenset({1})),
        Case("matmul/epilogue_residual", "matmul", {**no, "epilogue": _SCALE_RESIDUAL}, (a, b, row, full),
             frozenset({1, 2})),
        Case("matmul/epilogue_scalar", "matmul", {**no, "epilogue": _BIAS}, (a, b, np.float32(2).reshape(()))),
        Case("matmul/epilogue_column", "matmul", {**no, "epilogue": _BIAS}, (a, b, floats("column", 19, 1))),
        Case("matmul/epilogue_to_bool", "matmul", {**no, "epilogue": _TO_BOOL}, (a, b)),
        Case("matmul/a_perm_b_perm", "matmul",
             {"transpose_a": False, "transpose_b": True, "a_perm": swap, "b_perm": swap}, (query, key), onnx=scores),
        Case("matmul/out_perm", "matmul", {**no, "b_perm": swap, "out_perm": swap}, (weights, values)),
        Case("matmul/out_perm_epilogue", "matmul", {**no, "b_perm": swap, "out_perm": swap, "epilogue": _BIAS},
             (weights, values, floats("op", 4, 16))),
    ]  # fmt: skip


def _other_dtypes() -> list[Case]:
    attrs = {"transpose_a": False, "transpose_b": False}
    f64 = (floats("d", 11, 19, dtype=np.float64), floats("e", 19, 21, dtype=np.float64))
    cases = [Case("matmul/float64", "matmul", attrs, f64, onnx=OnnxCall("MatMul"))]
    for dtype in (np.int32, np.int64):
        operands = (integers("a", -99, 99, 5, 9, dtype=dtype), integers("b", -99, 99, 9, 6, dtype=dtype))
        cases.append(Case(f"matmul/{dtype.__name__}", "matmul", attrs, operands, onnx=OnnxCall("MatMul")))
    special = floats("special", 4, 6)
    special[1, 2], special[2, 3] = np.nan, np.inf
    cases.append(Case("matmul/nan_and_inf", "matmul", attrs, (special, floats("s", 6, 18)), onnx=OnnxCall("MatMul")))
    return cases


CASES = [
    *(_plain(name, left, right, constant=False) for name, (left, right) in _SHAPES.items()),
    *(_plain(name, left, right, constant=True) for name, (left, right) in _SHAPES.items() if name in _WITH_WEIGHTS),
    *_transposed(),
    *_fused(),
    *_other_dtypes(),
]
