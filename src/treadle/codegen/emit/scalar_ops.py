"""The scalar ops of expressions: one line an op, each a function of (kernel, operation)."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from treadle.codegen.emit import (
    math_arc,
    math_area,
    math_erf,
    math_exp,
    math_integer,
    math_log,
    math_pow,
    math_round,
    math_trig,
)
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_base import absolute
from treadle.codegen.emit.vectors import binary_intrinsic, like, unary_intrinsic
from treadle.dtypes import DType, boolean
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """One application of a scalar op: its operands, the dtype of the (first compared) operands, the active lanes."""

    values: list[ir.Value]
    dtype: DType
    active: ir.Value | None


Emitter = Callable[[Kernel, Operation], ir.Value]


def _negate(k: Kernel, o: Operation) -> ir.Value:
    return k.b.fneg(o.values[0]) if o.dtype.is_float else k.b.neg(o.values[0])


def _absolute(k: Kernel, o: Operation) -> ir.Value:
    (x,) = o.values
    if o.dtype.is_float:
        return absolute(k, x)
    return binary_intrinsic(k, "smax", x, k.b.neg(x)) if o.dtype.kind == "int" else x


def _sign(k: Kernel, o: Operation) -> ir.Value:
    (x,) = o.values
    zero, one, minus = like(x, 0), like(x, 1), like(x, -1)
    if o.dtype.is_float:
        below = k.b.select(k.b.fcmp_ordered("<", x, zero), minus, k.b.fadd(x, zero))
        return k.b.select(k.b.fcmp_ordered(">", x, zero), one, below)
    if o.dtype.kind == "int":
        below = k.b.select(k.b.icmp_signed("<", x, zero), minus, zero)
        return k.b.select(k.b.icmp_signed(">", x, zero), one, below)
    return k.b.select(k.b.icmp_unsigned("!=", x, zero), one, zero)


def _sqrt(k: Kernel, o: Operation) -> ir.Value:
    return unary_intrinsic(k, "sqrt", o.values[0])


def _rsqrt(k: Kernel, o: Operation) -> ir.Value:
    return k.b.fdiv(like(o.values[0], 1.0), _sqrt(k, o))


def _reciprocal(k: Kernel, o: Operation) -> ir.Value:
    (x,) = o.values
    return k.b.fdiv(like(x, 1.0), x) if o.dtype.is_float else _divide(k, Operation([like(x, 1), x], o.dtype, o.active))


def _not(k: Kernel, o: Operation) -> ir.Value:
    return k.b.not_(o.values[0])


def _isnan(k: Kernel, o: Operation) -> ir.Value:
    (x,) = o.values
    return k.b.fcmp_unordered("uno", x, x)


def _isinf(k: Kernel, o: Operation) -> ir.Value:
    (x,) = o.values
    return k.b.fcmp_ordered("==", absolute(k, x), like(x, float("inf")))


def _divide(k: Kernel, o: Operation) -> ir.Value:
    if o.dtype.is_float:
        return k.b.fdiv(*o.values)
    x, y = o.values
    return math_integer.divide(k, x, y, o.dtype.kind == "int", o.active)


def _mod(k: Kernel, o: Operation) -> ir.Value:
    if o.dtype.is_float:
        return math_round.floor_mod(k, *o.values)
    x, y = o.values
    return math_integer.floor_remainder(k, x, y, o.dtype.kind == "int", o.active)


def _fmod(k: Kernel, o: Operation) -> ir.Value:
    if o.dtype.is_float:
        return math_round.fmod(k, *o.values)
    x, y = o.values
    return math_integer.remainder(k, x, y, o.dtype.kind == "int", o.active)


def _pow(k: Kernel, o: Operation) -> ir.Value:
    if o.dtype.is_float:
        return math_pow.power(k, *o.values)
    x, y = o.values
    return math_integer.power(k, x, y, o.dtype.kind == "int")


def extreme(k: Kernel, left: ir.Value, right: ir.Value, dtype: DType, which: str) -> ir.Value:
    """The `min` or `max` of two values; NaN if one is NaN."""
    if dtype.is_float:
        if isinstance(left, ir.Constant):
            left, right = right, left
        order = ">" if which == "max" else "<"
        result = k.b.select(k.b.fcmp_ordered(order, right, left), right, left)
        if isinstance(right, ir.Constant):
            return result
        return k.b.select(k.b.fcmp_unordered("uno", right, right), right, result)
    if dtype == boolean:
        return k.b.or_(left, right) if which == "max" else k.b.and_(left, right)
    return binary_intrinsic(k, ("s" if dtype.kind == "int" else "u") + which, left, right)


def _min(k: Kernel, o: Operation) -> ir.Value:
    x, y = o.values
    return extreme(k, x, y, o.dtype, "min")


def _max(k: Kernel, o: Operation) -> ir.Value:
    x, y = o.values
    return extreme(k, x, y, o.dtype, "max")


def _clip(k: Kernel, o: Operation) -> ir.Value:
    x, low, high = o.values
    return extreme(k, extreme(k, x, low, o.dtype, "max"), high, o.dtype, "min")


def _relu(k: Kernel, o: Operation) -> ir.Value:
    (x,) = o.values
    return extreme(k, x, like(x, 0), o.dtype, "max")


def _where(k: Kernel, o: Operation) -> ir.Value:
    return k.b.select(*o.values)


def _shift_left(k: Kernel, o: Operation) -> ir.Value:
    return math_integer.shift_left(k, *o.values)


def _shift_right(k: Kernel, o: Operation) -> ir.Value:
    x, y = o.values
    return math_integer.shift_right(k, x, y, o.dtype.kind == "int")


def _arithmetic(of_floats: str, of_integers: str) -> Emitter:
    def emit(k: Kernel, o: Operation) -> ir.Value:
        result: ir.Value = getattr(k.b, of_floats if o.dtype.is_float else of_integers)(*o.values)
        return result

    return emit


def _bits(method: str) -> Emitter:
    def emit(k: Kernel, o: Operation) -> ir.Value:
        result: ir.Value = getattr(k.b, method)(*o.values)
        return result

    return emit


def _compare(order: str) -> Emitter:
    def emit(k: Kernel, o: Operation) -> ir.Value:
        if o.dtype.is_float:
            return (k.b.fcmp_unordered if order == "!=" else k.b.fcmp_ordered)(order, *o.values)
        return (k.b.icmp_signed if o.dtype.kind == "int" else k.b.icmp_unsigned)(order, *o.values)

    return emit


def _of_float(function: Callable[[Kernel, ir.Value], ir.Value]) -> Emitter:
    def emit(k: Kernel, o: Operation) -> ir.Value:
        return function(k, o.values[0])

    return emit


def _whole(function: Callable[[Kernel, ir.Value], ir.Value]) -> Emitter:
    def emit(k: Kernel, o: Operation) -> ir.Value:
        return function(k, o.values[0]) if o.dtype.is_float else o.values[0]

    return emit


SCALAR_OPS: dict[str, Emitter] = {
    "neg": _negate,
    "abs": _absolute,
    "sign": _sign,
    "exp": _of_float(math_exp.exp),
    "log": _of_float(math_log.log),
    "expm1": _of_float(math_exp.expm1),
    "log1p": _of_float(math_log.log1p),
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "reciprocal": _reciprocal,
    "floor": _whole(math_round.floor),
    "ceil": _whole(math_round.ceil),
    "round": _whole(math_round.round_even),
    "sin": _of_float(math_trig.sin),
    "cos": _of_float(math_trig.cos),
    "tan": _of_float(math_trig.tan),
    "asin": _of_float(math_arc.asin),
    "acos": _of_float(math_arc.acos),
    "atan": _of_float(math_arc.atan),
    "sinh": _of_float(math_exp.sinh),
    "cosh": _of_float(math_exp.cosh),
    "asinh": _of_float(math_area.asinh),
    "acosh": _of_float(math_area.acosh),
    "atanh": _of_float(math_area.atanh),
    "tanh": _of_float(math_exp.tanh),
    "sigmoid": _of_float(math_exp.sigmoid),
    "erf": _of_float(math_erf.erf),
    "erfc": _of_float(math_erf.erfc),
    "softplus": _of_float(math_log.softplus),
    "relu": _relu,
    "not": _not,
    "isnan": _isnan,
    "isinf": _isinf,
    "bitwise_not": _not,
    "add": _arithmetic("fadd", "add"),
    "sub": _arithmetic("fsub", "sub"),
    "mul": _arithmetic("fmul", "mul"),
    "div": _divide,
    "mod": _mod,
    "fmod": _fmod,
    "pow": _pow,
    "min": _min,
    "max": _max,
    "and": _bits("and_"),
    "or": _bits("or_"),
    "xor": _bits("xor"),
    "eq": _compare("=="),
    "ne": _compare("!="),
    "lt": _compare("<"),
    "le": _compare("<="),
    "gt": _compare(">"),
    "ge": _compare(">="),
    "bitwise_and": _bits("and_"),
    "bitwise_or": _bits("or_"),
    "bitwise_xor": _bits("xor"),
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "where": _where,
    "clip": _clip,
}

LONG_OPS = frozenset({
    "exp", "expm1", "log", "log1p", "sigmoid", "tanh", "sinh", "cosh", "erf", "erfc", "softplus", "pow", "mod", "fmod",
    "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh",
})  # fmt: skip
"""Ops of many instructions: code with them is better emitted once, in a loop, than once for each vector."""

LONG = 16
