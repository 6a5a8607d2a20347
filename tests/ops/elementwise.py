"""Cases of the scalar ops, alone and as fused expressions."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers, random
from treadle import dtypes
from treadle.graph.expr import Expr, Step

_SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -2.5, 1e-30, 1e-40, 80.0, -80.0, -104.0, 3e38]

_UNARY = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "exp": "Exp", "log": "Log", "expm1": None, "log1p": None,
    "sqrt": "Sqrt", "rsqrt": None, "reciprocal": "Reciprocal", "floor": "Floor", "ceil": "Ceil", "round": "Round",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "erf": "Erf", "erfc": None, "softplus": None, "relu": "Relu", "isnan": "IsNaN", "isinf": "IsInf",
}  # fmt: skip
_ALSO_F64 = (
    "exp", "log", "expm1", "log1p", "asinh", "tanh", "erf", "erfc", "sigmoid", "sqrt", "floor", "round", "isinf",
)  # fmt: skip
_BINARY = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "min": "Min", "max": "Max",
    "eq": "Equal", "ne": None, "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "mod": None, "fmod": None,
}  # fmt: skip
_LOGICAL = {"and": "And", "or": "Or", "xor": "Xor"}
_BITWISE = {"bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor"}


def _named(op: str | None, **attrs: object) -> OnnxCall | None:
    return None if op is None else OnnxCall(op, attrs)


def _unary_input(op: str, dtype: type) -> np.ndarray:
    ordinary = floats(op, 36, dtype=np.float64) * (0.4 if op in ("asin", "acos", "atanh") else 3.0)
    if op == "tan":
        ordinary = np.clip(ordinary, -1.3, 1.3)
    special = _SPECIAL[:13] if op in ("sin", "cos", "tan") else _SPECIAL
    return np.concatenate([np.asarray(special), ordinary]).astype(dtype)


def _unary() -> list[Case]:
    cases = []
    for op, onnx in _UNARY.items():
        wide = [np.float64] if op in _ALSO_F64 else []
        cases += [
            Case(f"{op}/specials_{dtype.__name__}", op, {}, (_unary_input(op, dtype),), onnx=_named(onnx))
            for dtype in (np.float32, *wide)
        ]
    for op in ("neg", "abs", "sign", "relu"):
        x = integers(op, -9, 9, 3, 11, dtype=np.int32)
        cases.append(Case(f"{op}/int32", op, {}, (x,), onnx=_named(_UNARY[op])))
    cases.append(Case("not/bool", "not", {}, (random("not").random((5, 7)) > 0.5,), onnx=OnnxCall("Not")))
    x = integers("bitwise_not", -(1 << 40), 1 << 40, 19)
    cases.append(Case("bitwise_not/int64", "bitwise_not", {}, (x,), onnx=OnnxCall("BitwiseNot")))
    cases += [
        Case(f"exp/size{size}", "exp", {}, (floats("exp", size),), onnx=OnnxCall("Exp"))
        for size in (0, 1, 3, 15, 16, 17, 1000)
    ]
    cases.append(Case("exp/scalar", "exp", {}, (floats("exp"),), onnx=OnnxCall("Exp")))
    return cases


def _binary_inputs(op: str, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    if np.issubdtype(dtype, np.integer):
        a, b = integers(op, -50, 50, 5, 9, dtype=dtype), integers(op + "b", 1, 6, 5, 9, dtype=dtype)
        if op in ("div", "mod", "fmod"):
            b = np.where(integers(op + "c", 0, 2, 5, 9) == 0, b, -b).astype(dtype)
        return a, b
    a, b = floats(op, 37, dtype=dtype), floats(op + "b", 37, dtype=dtype)
    if op == "pow":
        return np.abs(a), b
    special = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, 2], dtype)
    if op in ("mod", "fmod"):
        special = np.array([0, 1, 5.5], dtype)
        b = b + np.sign(b)
    return np.concatenate([a, special]), np.concatenate(
        [b, special[::-1] if op not in ("mod", "fmod") else special + 2]
    )


def _binary() -> list[Case]:
    cases = []
    for op, onnx in _BINARY.items():
        also = [np.float64, np.int32] if op in ("add", "div", "max", "lt", "mod") else []
        for dtype in (np.float32, np.int64, *also):
            name = f"{op}/{dtype.__name__}"
            # ONNX's Python reference divides and takes powers of integers as floats.
            known = None if np.issubdtype(dtype, np.integer) and op in ("div", "pow") else _named(onnx)
            cases.append(Case(name, op, {}, _binary_inputs(op, dtype), onnx=known))
    for op, onnx in _LOGICAL.items():
        a, b = (random(op + side).random((4, 9)) > 0.5 for side in "ab")
        cases.append(Case(f"{op}/bool", op, {}, (a, b), onnx=_named(onnx)))
    for op, onnx in _BITWISE.items():
        a, b = (integers(op + side, -1000, 1000, 4, 9, dtype=np.int32) for side in "ab")
        cases.append(Case(f"{op}/int32", op, {}, (a, b), onnx=_named(onnx)))
    for op, direction in (("shift_left", "LEFT"), ("shift_right", "RIGHT")):
        a, b = integers(op, 0, 1000, 21, dtype=np.uint32), integers(op, 0, 8, 21, dtype=np.uint32)
        cases.append(Case(f"{op}/uint32", op, {}, (a, b), onnx=OnnxCall("BitShift", {"direction": direction})))
    return cases


_BROADCASTS = {
    "scalar_right": ((5, 7), ()),
    "scalar_left": ((), (33,)),
    "row": ((6, 17), (17,)),
    "column": ((6, 17), (6, 1)),
    "channel": ((2, 5, 3, 7), (5, 1, 1)),
    "outer": ((9, 1), (1, 10)),
    "middle": ((3, 1, 5), (3, 4, 5)),
    "both": ((2, 1, 4, 1), (3, 1, 6)),
    "empty": ((0, 5), (5,)),
    "empty_outer": ((4, 1), (1, 0)),
    "large_row": ((70, 129), (129,)),
}


def _broadcasting() -> list[Case]:
    cases = []
    for name, (left, right) in _BROADCASTS.items():
        for op, onnx in (("sub", "Sub"), ("lt", "Less"))[: 2 if name in ("row", "column", "outer") else 1]:
            x, y = floats(name, *left), floats(name + "y", *right)
            cases.append(Case(f"{op}/broadcast_{name}", op, {}, (x, y), onnx=OnnxCall(onnx)))
    x, y = floats("constant", 3, 19), floats("constant", 19)
    cases.append(Case("mul/by_constant", "mul", {}, (x, y), frozenset({1}), onnx=OnnxCall("Mul")))
    return cases


def _ternary() -> list[Case]:
    condition = random("where").random((4, 1, 9)) > 0.5
    x, y = floats("where", 5, 9), floats("wherey", 4, 5, 1)
    bounds = (np.float32(-0.5), np.float32(0.75))
    special = np.array([np.nan, np.inf, -np.inf, 0, 1, -1], np.float32)
    small = integers("clip", -9, 9, 23)
    return [
        Case("where/broadcast", "where", {}, (condition, x, y), onnx=OnnxCall("Where")),
        Case("where/int64", "where", {}, (condition, small[:9], small[9:18]), onnx=OnnxCall("Where")),
        Case("where/scalar", "where", {}, (condition, x, np.array(np.nan, np.float32)), onnx=OnnxCall("Where")),
        Case("where/bool", "where", {}, (condition, x > 0, y > 0), onnx=OnnxCall("Where")),
        Case("clip/floats", "clip", {}, (floats("clip", 3, 21), *map(np.asarray, bounds)), onnx=OnnxCall("Clip")),
        Case("clip/specials", "clip", {}, (special, *map(np.asarray, bounds)), onnx=OnnxCall("Clip")),
        Case("clip/int64", "clip", {}, (small, np.array(-3), np.array(4)), onnx=OnnxCall("Clip")),
        Case("clip/constant_bounds", "clip", {}, (floats("clip", 40), *map(np.asarray, bounds)), frozenset({1, 2}),
             onnx=OnnxCall("Clip")),
    ]  # fmt: skip


def _f32(op: str, *args: int, value: float | None = None) -> Step:
    return Step(op, args, dtypes.f32, value)


_GELU = Expr(
    (dtypes.f32,),
    (_f32("const", value=0.5), _f32("mul", 0, 1), _f32("const", value=2**-0.5), _f32("mul", 0, 3), _f32("erf", 4),
     _f32("const", value=1.0), _f32("add", 5, 6), _f32("mul", 2, 7)),
    (8,),
)  # fmt: skip
_TWO_RESULTS = Expr(
    (dtypes.f32, dtypes.f32),
    (_f32("add", 0, 1), _f32("relu", 2), Step("gt", (0, 1), dtypes.boolean)),
    (3, 4),
)
_MIXED = Expr(
    (dtypes.i64, dtypes.f32, dtypes.boolean),
    (Step("cast", (0,), dtypes.f32), _f32("mul", 3, 1), _f32("where", 2, 4, 1), _f32("sigmoid", 5)),
    (6,),
)
_OF_A_BYTE = Expr(
    (dtypes.i8,),
    (Step("cast", (0,), dtypes.f32), _f32("const", value=0.05), _f32("mul", 1, 2), _f32("sigmoid", 3),
     _f32("const", value=255.0), _f32("mul", 4, 5), _f32("round", 6), Step("cast", (7,), dtypes.u8)),
    (8,),
)  # fmt: skip
"""As of a quantized activation, which is read from a table."""

_PASSED_THROUGH = Expr((dtypes.f32, dtypes.f32), (_f32("neg", 1),), (0, 2))


def _expressions() -> list[Case]:
    x, row = floats("expr", 5, 33), floats("exprrow", 33)
    mixed = (integers("expr", -9, 9, 4, 1), floats("expr", 4, 19), random("expr").random(19) > 0.5)
    return [
        *(Case(f"elementwise/gelu{n}", "elementwise", {"expr": _GELU}, (floats("gelu", n),)) for n in (0, 1, 17, 300)),
        *(
            Case(f"elementwise/of_a_byte{n}", "elementwise", {"expr": _OF_A_BYTE}, (np.arange(n).astype(np.int8),))
            for n in (300, 1091, 70_000)
        ),
        Case("elementwise/two_results", "elementwise", {"expr": _TWO_RESULTS}, (x, row), outputs=2),
        Case("elementwise/mixed_dtypes", "elementwise", {"expr": _MIXED}, mixed),
        Case("elementwise/passed_through", "elementwise", {"expr": _PASSED_THROUGH}, (row, x), outputs=2),
        Case("elementwise/identity_node", "identity", {}, (x,), onnx=OnnxCall("Identity")),
    ]


CASES = [*_unary(), *_binary(), *_broadcasting(), *_ternary(), *_expressions()]
