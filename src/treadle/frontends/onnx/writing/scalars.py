"""Scalar operations as ONNX nodes."""

from __future__ import annotations

from treadle.frontends.onnx.writing.tensors import Write, plain
from treadle.frontends.onnx.writing.writer import Unwritable, Writer, dtype_of, operand
from treadle.graph.node import Node

_SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "and": "And", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "bitwise_and": "BitwiseAnd", "bitwise_not": "BitwiseNot",
    "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "div": "Div",
    "eq": "Equal", "erf": "Erf", "exp": "Exp", "floor": "Floor", "ge": "GreaterOrEqual", "gt": "Greater",
    "isinf": "IsInf", "isnan": "IsNaN", "le": "LessOrEqual", "log": "Log", "lt": "Less", "max": "Max", "min": "Min",
    "mul": "Mul", "neg": "Neg", "not": "Not", "or": "Or", "pow": "Pow", "reciprocal": "Reciprocal", "relu": "Relu",
    "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "softplus": "Softplus",
    "sqrt": "Sqrt", "sub": "Sub", "tan": "Tan", "tanh": "Tanh", "where": "Where", "xor": "Xor",
}  # fmt: skip
"""Scalar operation -> the ONNX operator that means the same."""


def _then(first: str, then: str) -> Write:
    """Return a function that writes a node as `first`, and `then` on its result."""

    def write(node: Node, w: Writer) -> None:
        names = [w.name(operand(node, index)) for index in range(len(node.inputs))]
        w.emit(then, [w.emit(first, names)], [w.name(node.output)])

    return write


def _expm1(node: Node, w: Writer) -> None:
    x = operand(node, 0)
    w.emit("Sub", [w.emit("Exp", [w.name(x)]), w.scalar(1, dtype_of(x))], [w.name(node.output)])


def _log1p(node: Node, w: Writer) -> None:
    x = operand(node, 0)
    w.emit("Log", [w.emit("Add", [w.name(x), w.scalar(1, dtype_of(x))])], [w.name(node.output)])


def _erfc(node: Node, w: Writer) -> None:
    x = operand(node, 0)
    w.emit("Sub", [w.scalar(1, dtype_of(x)), w.emit("Erf", [w.name(x)])], [w.name(node.output)])


def _mod(node: Node, w: Writer) -> None:
    if not dtype_of(node.inputs[0]).is_integer:
        raise Unwritable("ONNX has no remainder of floats with the sign of the divisor")
    _remainder(node, w, fmod=False)


def _fmod(node: Node, w: Writer) -> None:
    _remainder(node, w, fmod=True)


def _remainder(node: Node, w: Writer, *, fmod: bool) -> None:
    w.emit("Mod", [w.name(operand(node, 0)), w.name(operand(node, 1))], [w.name(node.output)], fmod=fmod)


def _shift(direction: str) -> Write:
    def write(node: Node, w: Writer) -> None:
        if dtype_of(node.inputs[0]).kind != "uint":
            raise Unwritable("ONNX shifts unsigned integers only")
        names = [w.name(operand(node, 0)), w.name(operand(node, 1))]
        w.emit("BitShift", names, [w.name(node.output)], direction=direction)

    return write


def _clip(node: Node, w: Writer) -> None:
    bounds = [operand(node, index).data for index in (1, 2)]
    if all(bound is not None and bound.size == 1 for bound in bounds):
        ends = [w.constant(bound.reshape(()), "bound") for bound in bounds if bound is not None]
        w.emit("Clip", [w.name(operand(node, 0)), *ends], [w.name(node.output)])
        return
    x, low, high = (w.name(operand(node, index)) for index in range(3))
    w.emit("Min", [w.emit("Max", [x, low]), high], [w.name(node.output)])


SCALARS: dict[str, Write] = {
    **{name: plain(op) for name, op in _SAME.items()},
    "clip": _clip,
    "erfc": _erfc,
    "expm1": _expm1,
    "fmod": _fmod,
    "log1p": _log1p,
    "mod": _mod,
    "ne": _then("Equal", "Not"),
    "rsqrt": _then("Sqrt", "Reciprocal"),
    "shift_left": _shift("LEFT"),
    "shift_right": _shift("RIGHT"),
}
"""Scalar operation -> the function that writes a node of it."""
