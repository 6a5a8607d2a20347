"""sizes: an integer tensor whose elements are sizes that are not known before binding; arithmetic on such tensors.

Shape arithmetic of a model (Shape, Gather, Mul, Concat, ...) is evaluated on the expressions themselves, so that it is
gone before lowering, as it is for known sizes.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.graph.dim import DimExpr, RealExpr, at_least, floor_int, is_expression, maximum, minimum
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.reals import single
from treadle.graph.shape import elements, is_open, is_static
from treadle.graph.value import Value
from treadle.ops.op import Array, Attrs, Evaluate, Info
from treadle.ops.operands import numbers

MOST_ELEMENTS = 1024
"""Larger tensors are no shape arithmetic."""

MOST_REALS = 64
"""Larger tensors of fractions of sizes are no shape arithmetic."""

MOST_NUMBERS = 64
"""An operand of more elements decides no size before a run."""

_WHOLE = 1 << 21
"""f32 arithmetic on sizes below this, and on factors of few bits, is exact."""

_FEW = 1 << 12


class _UnknownError(Exception):
    """The result is not an expression of sizes."""


def infer_sizes(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: elements (tuple of numbers and expressions, row-major), shape, dtype. The value is known at once."""
    array = np.empty(len(attrs["elements"]), object)
    array[:] = attrs["elements"]
    return [Info(attrs["dtype"], attrs["shape"], array.reshape(attrs["shape"]))]


def evaluate_sizes(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """Raises ShapeError while an element is an expression."""
    if any(map(is_expression, attrs["elements"])):
        raise ShapeError(f"the sizes {attrs['elements']} are not bound")
    return [np.array(attrs["elements"], attrs["dtype"].numpy).reshape(attrs["shape"])]


def is_arithmetic(op: str) -> bool:
    """Whether evaluate_on_sizes() may know the results of `op`."""
    return op in _MOVES or op in _FUNCTIONS or op in _REDUCTIONS


def known_value(value: Value) -> Array | None:
    """Returns the elements of a constant, or of the result of a `sizes` node: an array of Python objects; else None."""
    if value.data is not None:
        return value.data
    producer = value.producer
    return None if producer is None or producer.op != "sizes" else infer_sizes(producer.attrs, (), 1)[0].value


def known_sizes(value: Value | None) -> tuple[int, ...] | None:
    """Returns the integers in `value`, numbers and expressions; None if they are not known."""
    array = None if value is None else known_value(value)
    return None if array is None else numbers(array.reshape(-1))


def may_be_numbers(value: Value) -> bool:
    """Returns whether the elements of `value` may decide sizes once a run has computed them: few numbers."""
    dtype, shape = value.dtype, value.shape
    if dtype is None or shape is None or not is_static(shape) or is_open(shape):
        return False
    return (dtype.is_integer or dtype in (dtypes.f32, dtypes.f64)) and elements(value.static_shape) <= MOST_NUMBERS


def add_sizes(graph: Graph, array: Array, dtype: DType, name: str) -> Node | Value:
    """Returns a constant for an array of numbers, and a new `sizes` node, not inserted yet, for one with expressions.

    Args:
        graph: The graph to which the new value belongs.
        array: The elements, of Python objects if some are expressions.
        dtype: The element type of the tensor.
        name: The name of the new value.
    """
    if array.dtype != object:
        return graph.constant(np.ascontiguousarray(array, dtype.numpy).reshape(array.shape), name)
    if not any(map(is_expression, array.reshape(-1))):
        return graph.constant(np.asarray(array.tolist()).astype(dtype.numpy).reshape(array.shape), name)
    attrs = {"elements": tuple(array.reshape(-1).tolist()), "shape": array.shape, "dtype": dtype}
    result = graph.value(name, dtype, array.shape)
    return graph.make("sizes", [], attrs, name=name, outputs=[result])


def evaluate_on_sizes(node: Node, arrays: Sequence[Array | None], reference: Evaluate | None) -> list[Array] | None:
    """Returns the results of `node` for operands of which some hold expressions; None if they are no such tensors.

    Args:
        node: A node whose results have dtypes and shapes.
        arrays: Its operands' elements; None for those that are absent.
        reference: The NumPy reference of the op.
    """
    if any(array is not None and array.size > MOST_ELEMENTS for array in arrays):
        return None
    try:
        if node.op in _MOVES and reference is not None:
            return [np.asarray(array) for array in reference(node.attrs, arrays)]
        function = _FUNCTIONS.get(node.op)
        operands = [array for array in arrays if array is not None]
        if function is not None and len(operands) == len(arrays):
            return [_elementwise(function, node.output.known_dtype, operands)]
        if node.op in _REDUCTIONS and len(operands) == 1:
            return [_reduced(node, operands[0])]
    except (_UnknownError, ArithmeticError):
        return None
    return None


def _elementwise(function: Callable[..., Any], dtype: DType, operands: Sequence[Array]) -> Array:
    wide = np.broadcast_arrays(*operands)
    results = [function(dtype, *each) for each in zip(*map(_flat, wide), strict=True)]
    if len(results) > MOST_REALS and any(type(each) is RealExpr for each in results):
        raise _UnknownError
    return _array(results, wide[0].shape)


def _flat(array: Array) -> list[Any]:
    return list(array.reshape(-1).tolist())


def _array(elements: Sequence[Any], shape: tuple[int, ...]) -> Array:
    array = np.empty(len(elements), object)
    array[:] = list(elements)
    return array.reshape(shape)


def _reduced(node: Node, array: Array) -> Array:
    axes, keep = node.attrs.get("axes"), node.attrs.get("keepdims", True)
    if array.size == 0 or (axes is not None and len({axis % max(array.ndim, 1) for axis in axes}) != array.ndim):
        raise _UnknownError
    combine, dtype = _REDUCTIONS[node.op], node.output.known_dtype
    result = functools.reduce(lambda left, right: combine(dtype, left, right), _flat(array))
    return _array([result], (1,) * array.ndim if keep else ())


def _is_exact(dtype: DType, *numbers: Any) -> bool:
    """Whether arithmetic on `numbers` in `dtype` is exact on integers and fractions of few bits."""
    if not dtype.is_float:
        return True
    if any(type(number) is RealExpr for number in numbers):
        return False
    return all(
        number < _WHOLE if is_expression(number) else number * _FEW % 1 == 0 and abs(number) < _FEW
        for number in numbers
    )


def _rounded(dtype: DType, function: Callable[..., Any], *numbers: Any) -> Any:
    """What `function` gives for `numbers` in floats of `dtype`, each result rounded; the last bit of a quotient, too,
    since f64 has more than twice the bits of f32."""
    if dtype not in (dtypes.f32, dtypes.f64):
        raise _UnknownError
    for number in numbers:
        if type(number) is DimExpr and not number < _WHOLE:
            raise _UnknownError
    result = function(*(number if is_expression(number) else float(number) for number in numbers))
    if type(result) is DimExpr:
        raise _UnknownError
    return single(result) if dtype == dtypes.f32 else result


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compute(dtype: DType, left: Any, right: Any) -> Any:
        return function(left, right) if _is_exact(dtype, left, right) else _rounded(dtype, function, left, right)

    return compute


def _exactly(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compute(dtype: DType, left: Any, right: Any) -> Any:
        if not _is_exact(dtype, left, right):
            raise _UnknownError  # the order of sums decides the result
        return function(left, right)

    return compute


def _divide(dtype: DType, left: Any, right: Any) -> Any:
    if not dtype.is_float:
        if not is_expression(left) and not is_expression(right):
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        if not all(at_least(number, 0) or number >= 0 for number in (left, right)):
            raise _UnknownError
        return left // right
    if not is_expression(right):
        if right == 0:
            raise _UnknownError
        if _is_exact(dtype, left, right) and math.frexp(right)[0] in (0.5, -0.5):
            return left / right
    return _rounded(dtype, operator.truediv, left, right)


def _modulo(dtype: DType, left: Any, right: Any) -> Any:
    if dtype.is_float:
        raise _UnknownError
    return left % right


def _any_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *operands: function(*operands)


def _cast(dtype: DType, number: Any) -> Any:
    if dtype == dtypes.boolean:
        return bool(number != 0)
    if dtype.is_integer and dtype.size >= 4:
        if isinstance(number, DimExpr):
            return number
        return floor_int(number) if number >= 0 else -floor_int(-number)
    if dtype not in (dtypes.f32, dtypes.f64):
        raise _UnknownError
    return single(number) if type(number) is RealExpr and dtype == dtypes.f32 else number


_MOVES = frozenset(
    (
        "gather",
        "concat",
        "slice",
        "reshape",
        "flatten",
        "squeeze",
        "unsqueeze",
        "identity",
        "expand",
        "transpose",
        "split",
    )
)
"""Ops whose references move elements of any kind."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _arithmetic(operator.add),
    "sub": _arithmetic(operator.sub),
    "mul": _arithmetic(operator.mul),
    "min": _arithmetic(minimum),
    "max": _arithmetic(maximum),
    "div": _divide,
    "mod": _modulo,
    "neg": _any_dtype(operator.neg),
    "abs": _any_dtype(lambda number: maximum(number, -number)),
    "relu": _any_dtype(lambda number: maximum(number, 0)),
    "floor": _any_dtype(math.floor),
    "ceil": _any_dtype(math.ceil),
    "round": _any_dtype(round),
    "cast": _cast,
    "eq": _any_dtype(operator.eq),
    "ne": _any_dtype(operator.ne),
    "lt": _any_dtype(operator.lt),
    "le": _any_dtype(operator.le),
    "gt": _any_dtype(operator.gt),
    "ge": _any_dtype(operator.ge),
    "where": _any_dtype(lambda condition, left, right: left if condition else right),
}
"""Scalar ops on single elements, which may be expressions: (dtype of the result, operands) -> element."""

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": _exactly(operator.add),
    "reduce_prod": _exactly(operator.mul),
    "reduce_min": _any_dtype(minimum),
    "reduce_max": _any_dtype(maximum),
}
