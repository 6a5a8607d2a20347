"""Scalar operations: each is an op on whole tensors with broadcasting, and a step of an Expr.

Integer arithmetic wraps. `div`, `mod` and `fmod` of integers by zero raise KernelError.
`min`, `max`, `relu` and `clip` propagate NaN. `shift_*` by the width or more gives 0 (or the sign).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import DtypeError, ShapeError
from treadle.graph.expr import Expr
from treadle.graph.shape import broadcast
from treadle.ops.cast import cast_array
from treadle.ops.op import Array, Attrs, Evaluate, Infer, Info
from treadle.ops.operands import dims, operand, present, result
from treadle.plan.status import DIVISION_BY_ZERO, FAILURES
from treadle.records import dataclass

Domain = Literal["any", "number", "float", "integer", "bool", "scalar"]

_KINDS: dict[Domain, tuple[str, ...]] = {
    "any": ("float", "int", "uint", "bool", "string"),
    "scalar": ("float", "int", "uint", "bool"),
    "number": ("float", "int", "uint"),
    "float": ("float",),
    "integer": ("int", "uint"),
    "bool": ("bool",),
}


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One scalar operation.

    `function` is its meaning on NumPy arrays. Operands have one dtype, of a kind that `domain` names
    (of `where` the first is bool); the result has that dtype too, or bool if `gives_bool`. The
    reference of a `transcendental` one is computed in float64 and rounded.
    """

    name: str
    arity: int
    function: Callable[..., Any]
    domain: Domain = "number"
    gives_bool: bool = False
    transcendental: bool = False

    def result(self, operands: Sequence[DType]) -> DType:
        """The result's dtype. Raises ShapeError if the operands' dtypes do not fit."""
        if len(operands) != self.arity:
            raise ShapeError(f"{self.name} takes {self.arity} operands, got {len(operands)}")
        rest = operands
        if self.name == "where":
            if operands[0] != dtypes.boolean:
                raise DtypeError(f"the condition of where must be bool, got {operands[0]}")
            rest = operands[1:]
        first = rest[0]
        if any(dtype != first for dtype in rest):
            raise DtypeError(f"operands of {self.name} must have one dtype, got {', '.join(map(str, rest))}")
        if first.kind not in _KINDS[self.domain]:
            raise DtypeError(f"{self.name} takes {' or '.join(_KINDS[self.domain])} operands, got {first}")
        return dtypes.boolean if self.gives_bool else first

    def apply(self, arrays: Sequence[Array]) -> Array:
        """The operation on arrays that broadcast together; half precision is computed in float32 or wider."""
        dtype = self.result([dtypes.from_numpy(array.dtype) for array in arrays])
        with np.errstate(all="ignore"):
            return np.asarray(self.function(*(self._widened(array) for array in arrays))).astype(
                dtype.numpy, copy=False
            )

    def _widened(self, array: Array) -> Array:
        dtype = dtypes.from_numpy(array.dtype)
        if not dtype.is_float or dtype == dtypes.f64:
            return array
        return array.astype(np.float64 if self.transcendental else np.float32, copy=False)


def _truncating_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    quotient = np.floor_divide(a, b)
    inexact = quotient * b != a
    return np.asarray(np.where(inexact & ((a < 0) != (b < 0)), quotient + 1, quotient))


def _by_nonzero(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which divides, for integers that are not divided by zero. Raises KernelError for others."""

    def divide(a: Array, b: Array) -> Any:
        if a.dtype.kind in "iu" and a.size and not np.all(b):
            kind, message = FAILURES[DIVISION_BY_ZERO]
            raise kind(message)
        return function(a, b)

    return divide


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b))
    power = np.power(a, np.maximum(b, 0))
    odd = b % 2 != 0
    below_one = np.where(a == 1, 1, np.where(a == -1, np.where(odd, -1, 1), 0)) if a.dtype.kind == "i" else a == 1
    return np.asarray(np.where(b < 0, below_one, power))


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.asarray(np.frompyfunc(function, 1, 1)(x), dtype=np.float64)


SCALAR_OPS: dict[str, ScalarOp] = {
    op.name: op
    for op in (
        ScalarOp("neg", 1, np.negative),
        ScalarOp("abs", 1, np.abs),
        ScalarOp("sign", 1, np.sign),
        ScalarOp("exp", 1, np.exp, "float", transcendental=True),
        ScalarOp("log", 1, np.log, "float", transcendental=True),
        ScalarOp("expm1", 1, np.expm1, "float", transcendental=True),
        ScalarOp("log1p", 1, np.log1p, "float", transcendental=True),
        ScalarOp("sqrt", 1, np.sqrt, "float"),
        ScalarOp("rsqrt", 1, lambda x: 1 / np.sqrt(x), "float", transcendental=True),
        ScalarOp("reciprocal", 1, lambda x: 1 / x, "float"),
        ScalarOp("floor", 1, np.floor, "float"),
        ScalarOp("ceil", 1, np.ceil, "float"),
        ScalarOp("round", 1, np.rint, "float"),
        ScalarOp("sin", 1, np.sin, "float", transcendental=True),
        ScalarOp("cos", 1, np.cos, "float", transcendental=True),
        ScalarOp("tan", 1, np.tan, "float", transcendental=True),
        ScalarOp("asin", 1, np.arcsin, "float", transcendental=True),
        ScalarOp("acos", 1, np.arccos, "float", transcendental=True),
        ScalarOp("atan", 1, np.arctan, "float", transcendental=True),
        ScalarOp("sinh", 1, np.sinh, "float", transcendental=True),
        ScalarOp("cosh", 1, np.cosh, "float", transcendental=True),
        ScalarOp("asinh", 1, np.arcsinh, "float", transcendental=True),
        ScalarOp("acosh", 1, np.arccosh, "float", transcendental=True),
        ScalarOp("atanh", 1, np.arctanh, "float", transcendental=True),
        ScalarOp("tanh", 1, np.tanh, "float", transcendental=True),
        ScalarOp("sigmoid", 1, _sigmoid, "float", transcendental=True),
        ScalarOp("erf", 1, _each(math.erf), "float", transcendental=True),
        ScalarOp("erfc", 1, _each(math.erfc), "float", transcendental=True),
        ScalarOp("softplus", 1, lambda x: np.logaddexp(x, 0), "float", transcendental=True),
        ScalarOp("relu", 1, lambda x: np.maximum(x, x.dtype.type(0))),
        ScalarOp("not", 1, np.logical_not, "bool"),
        ScalarOp("isnan", 1, np.isnan, "float", gives_bool=True),
        ScalarOp("isinf", 1, np.isinf, "float", gives_bool=True),
        ScalarOp("bitwise_not", 1, np.invert, "integer"),
        ScalarOp("add", 2, np.add),
        ScalarOp("sub", 2, np.subtract),
        ScalarOp("mul", 2, np.multiply),
        ScalarOp("div", 2, _by_nonzero(_truncating_divide)),
        ScalarOp("mod", 2, _by_nonzero(np.mod)),
        ScalarOp("fmod", 2, _by_nonzero(np.fmod)),
        ScalarOp("pow", 2, _power, transcendental=True),
        ScalarOp("min", 2, np.minimum),
        ScalarOp("max", 2, np.maximum),
        ScalarOp("and", 2, np.logical_and, "bool"),
        ScalarOp("or", 2, np.logical_or, "bool"),
        ScalarOp("xor", 2, np.logical_xor, "bool"),
        ScalarOp("eq", 2, np.equal, "any", gives_bool=True),
        ScalarOp("ne", 2, np.not_equal, "any", gives_bool=True),
        ScalarOp("lt", 2, np.less, gives_bool=True),
        ScalarOp("le", 2, np.less_equal, gives_bool=True),
        ScalarOp("gt", 2, np.greater, gives_bool=True),
        ScalarOp("ge", 2, np.greater_equal, gives_bool=True),
        ScalarOp("bitwise_and", 2, np.bitwise_and, "integer"),
        ScalarOp("bitwise_or", 2, np.bitwise_or, "integer"),
        ScalarOp("bitwise_xor", 2, np.bitwise_xor, "integer"),
        ScalarOp("shift_left", 2, np.left_shift, "integer"),
        ScalarOp("shift_right", 2, np.right_shift, "integer"),
        ScalarOp("where", 3, np.where, "any"),
        ScalarOp("clip", 3, lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    )
}


def scalar_infer(name: str) -> Infer:
    """The shape rule of the node op `name`: operands broadcast together."""
    op = SCALAR_OPS[name]

    def infer(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
        operands = [operand(inputs, index, "operand") for index in range(len(inputs))]
        dtype = op.result([info.dtype for info in operands])
        return [result(dtype, broadcast(*(dims(info) for info in operands)))]

    return infer


def scalar_evaluate(name: str) -> Evaluate:
    """The NumPy reference of the node op `name`."""
    op = SCALAR_OPS[name]

    def evaluate(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
        return [op.apply([present(arrays, index) for index in range(len(arrays))])]

    return evaluate


def check_expr(expr: Expr) -> tuple[DType, ...]:
    """The dtypes of the results of `expr`. Raises ShapeError if a step does not fit its operands."""
    for number, step in enumerate(expr.steps, start=len(expr.operands)):
        if any(not 0 <= arg < number for arg in step.args):
            raise ShapeError(f"step v{number} of the expression reads a value that is not computed before it")
        if step.op == "const":
            continue
        if step.op == "cast":
            if len(step.args) != 1:
                raise ShapeError(f"step v{number} of the expression: cast takes 1 operand, got {len(step.args)}")
            continue
        if step.op not in SCALAR_OPS:
            raise ShapeError(f"step v{number} of the expression: no scalar op is called {step.op!r}")
        found = SCALAR_OPS[step.op].result([expr.dtype(arg) for arg in step.args])
        if found != step.dtype:
            raise ShapeError(f"step v{number} of the expression: {step.op} gives {found}, not {step.dtype}")
    last = len(expr.operands) + len(expr.steps)
    if any(not 0 <= number < last for number in expr.results):
        raise ShapeError("the expression returns a value that it does not compute")
    return tuple(expr.dtype(number) for number in expr.results)


def evaluate_expr(expr: Expr, arrays: Sequence[Array]) -> list[Array]:
    """The results of `expr` on arrays that broadcast together, each of the common shape."""
    values: list[Array] = list(arrays)
    for step in expr.steps:
        operands = [values[arg] for arg in step.args]
        if step.op == "const":
            values.append(np.asarray(step.value).astype(step.dtype.numpy))
        elif step.op == "cast":
            values.append(cast_array(operands[0], step.dtype))
        else:
            values.append(SCALAR_OPS[step.op].apply(operands))
    shape = broadcast(*(array.shape for array in arrays))
    return [np.broadcast_to(values[number], shape).copy() for number in expr.results]


def infer_elementwise(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: expr. Every result has the broadcast shape of all operands."""
    expr: Expr = attrs["expr"]
    operands = [operand(inputs, index, "operand") for index in range(len(inputs))]
    if tuple(info.dtype for info in operands) != expr.operands:
        came = ", ".join(str(info.dtype) for info in operands)
        raise ShapeError(f"the expression wants operands ({', '.join(map(str, expr.operands))}), got ({came})")
    shape = broadcast(*(dims(info) for info in operands))
    return [result(dtype, shape) for dtype in check_expr(expr)]


def evaluate_elementwise(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    return evaluate_expr(attrs["expr"], [present(arrays, index) for index in range(len(arrays))])
