"""Sizes that PyTorch traces as symbols: names of dimensions, and what is declared of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import torch

from treadle.frontends.faults import Unsupported
from treadle.graph.dim import floor_int, maximum, minimum
from treadle.graph.open_dims import Bounds, Derived, OpenDims, Root
from treadle.graph.reals import root
from treadle.graph.shape import Shape, StaticShape

MOST_POWER = 8
"""The largest exponent of a size."""

LEAST_CHECKED = 3
"""PyTorch traces with sizes of 2 and more, but runs the program for 0 and 1 too unless the bound is this or above."""


def shape_of(example: torch.Tensor) -> Shape:
    """Returns the shape of a traced tensor: numbers, and names of open dimensions."""
    return tuple(map(dim_of, example.shape))


def dim_of(size: int | torch.SymInt) -> int | str:
    """Returns a traced size: a number, or the text of its expression as the name of an open dimension."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_number else str(expression)


def declared(sizes: Sequence[int | torch.SymInt], ranges: Mapping[Any, Any]) -> OpenDims:
    """Returns what is known of the open dimensions among `sizes`.

    A dimension whose expression has no equivalent here, or symbols that no dimension determines, is left to be any
    size: the graph follows from the sizes themselves.

    Args:
        sizes: The traced sizes of all inputs.
        ranges: The range of each expression.
    """
    expressions = {name: size.node.expr for size in sizes if isinstance(name := dim_of(size), str)}  # type: ignore[union-attr]
    symbols = {name for name, expression in expressions.items() if expression.is_Symbol}
    roots: dict[str, Root] = {}
    for name, expression in expressions.items():
        unknown = [each for each in expression.free_symbols if str(each) not in symbols]
        if len(expression.free_symbols) == len(unknown) == 1 and str(unknown[0]) not in roots:
            root = _root(name, expression, unknown[0])
            if root is not None:
                roots[str(unknown[0])] = root
    derived: dict[str, Derived] = {}
    for name, expression in expressions.items():
        free = tuple(sorted(map(str, expression.free_symbols)))
        if not expression.is_Symbol and all(symbol in symbols or symbol in roots for symbol in free):
            compute = partial(_compute, expression, free)
            try:
                compute(*(1,) * len(free))
            except (Unsupported, ZeroDivisionError):
                continue
            derived[name] = Derived(free, compute)
    roots = {name: root for name, root in roots.items() if root.dim in derived}
    named = {str(expression): found for expression, found in ranges.items()}
    bounds = {name: _bounds(named[name]) for name in (*symbols, *roots) if name in named}
    return OpenDims({name: found for name, found in bounds.items() if found is not None}, derived, roots)


class TracedSizes:
    """The sizes of a captured graph's arguments, `examples`: tensors, and symbolic numbers."""

    def __init__(self, examples: Sequence[Any]) -> None:
        self._examples = examples
        sizes = [size for example in examples if isinstance(example, torch.Tensor) for size in example.shape]
        symbolic = next((size for size in (*sizes, *examples) if isinstance(size, torch.SymInt)), None)
        self._ranges = {} if symbolic is None else dict(symbolic.node.shape_env.var_to_range)

    def shape(self, number: int) -> Shape:
        """Returns the shape of argument `number`: numbers, and names of open dimensions."""
        return shape_of(self._examples[number])

    def dims(self, tensors: Sequence[int]) -> OpenDims:
        """Returns what is known of the open dimensions of the arguments `tensors`."""
        return declared([size for number in tensors for size in self._examples[number].shape], self._ranges)

    def sizes(self, tensors: Sequence[int], shapes: Sequence[StaticShape], dims: OpenDims) -> dict[str, int]:
        """Returns the sizes of symbols, as far as the `shapes` of the arguments `tensors` determine them."""
        found: dict[str, int] = {}
        for number, shape in zip(tensors, shapes, strict=True):
            found.update(
                (dim, size) for dim, size in zip(self.shape(number), shape, strict=True) if isinstance(dim, str)
            )
        return dims.symbols(found) or {}

    def follows(self, number: int, tensors: Sequence[int], dims: OpenDims) -> bool:
        """Returns whether argument `number`, a size, follows from the sizes of the arguments `tensors`."""
        example = self._examples[number]
        known = {dim for each in tensors for dim in self.shape(each) if isinstance(dim, str)} - dims.derived.keys()
        if not isinstance(example, torch.SymInt):
            return False
        free = {str(symbol) for symbol in example.node.expr.free_symbols}
        if not free <= known | dims.roots.keys():
            return False
        try:
            value_of(example.node.expr, dict.fromkeys(free, 1))
        except (Unsupported, ZeroDivisionError):
            return False
        return True

    def value(self, number: int, sizes: Mapping[str, int]) -> int:
        """Returns argument `number`, a size, for `sizes` of symbols."""
        found: int = value_of(self._examples[number].node.expr, sizes)
        return found


def truncated(number: Any) -> int:
    """Returns `number` rounded towards 0."""
    return floor_int(number) if number >= 0 else -floor_int(-number)


def value_of(expression: Any, sizes: Mapping[str, Any]) -> Any:
    """Returns the value of PyTorch's `expression` for `sizes` of its symbols, numbers or expressions.

    Raises Unsupported if it has an operation for which there is no equivalent.
    """
    if expression.is_Symbol:
        return sizes[str(expression)]
    if expression.is_Integer:
        return int(expression)
    if expression.is_number and not expression.args:
        return float(expression)
    name = expression.func.__name__
    if name not in _FUNCTIONS:
        raise Unsupported(f"its size {expression} is computed by {name}")
    return _FUNCTIONS[name](*(value_of(argument, sizes) for argument in expression.args))


def holds(condition: Any, sizes: Mapping[str, float]) -> bool:
    """Returns whether PyTorch's `condition` is true for `sizes` of its symbols; for expressions it is assumed so.

    Raises Unsupported as value_of().
    """
    name = condition.func.__name__
    if name in _RELATIONS:
        return bool(_RELATIONS[name](*(value_of(argument, sizes) for argument in condition.args)))
    if name == "Not":
        return not holds(condition.args[0], sizes)
    if name in ("And", "Or"):
        return (all if name == "And" else any)(holds(argument, sizes) for argument in condition.args)
    return bool(condition) if condition.is_Boolean and not condition.args else bool(value_of(condition, sizes))


def power(base: Any, exponent: Any) -> Any:
    """Returns base ** exponent, also of sizes.

    The exponent of a size is a whole number up to MOST_POWER, 0.5 or -0.5. Raises Unsupported for others.
    """
    if isinstance(base, int | float) and isinstance(exponent, int | float):
        return base**exponent
    if isinstance(exponent, float) and abs(exponent) == 0.5:
        return root(base) if exponent > 0 else 1 / root(base)
    if not isinstance(exponent, int) or not 0 <= exponent <= MOST_POWER:
        raise Unsupported(f"it raises a size to the power {exponent}")
    return reduce(operator.mul, [base] * exponent, 1)


def _compute(expression: Any, names: Sequence[str], *sizes: int) -> int:
    found: int = value_of(expression, dict(zip(names, sizes, strict=True)))
    return found


def _root(dim: str, expression: Any, symbol: Any) -> Root | None:
    """Returns how `symbol` follows from the size of `dim`; None if the expression is not linear, or falls."""
    times = expression.coeff(symbol, 1)
    plus = expression - times * symbol
    if not times.is_Integer or not plus.is_Integer or int(times) <= 0:
        return None
    return Root(dim, int(times), int(plus))


def _bounds(found: Any) -> Bounds | None:
    least, most = (int(bound) if bound.is_Integer else None for bound in (found.lower, found.upper))
    if least is None or least < LEAST_CHECKED:
        least = 0
    return None if least == 0 and most is None else Bounds(least, math.inf if most is None else most)


_RELATIONS: dict[str, Callable[..., bool]] = {
    "Equality": operator.eq,
    "GreaterThan": operator.ge,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "StrictLessThan": operator.lt,
    "Unequality": operator.ne,
}
"""PyTorch's class of conditions -> its function."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: reduce(operator.add, terms),
    "CeilToInt": math.ceil,
    "CleanDiv": operator.floordiv,
    "FloatPow": power,
    "FloatTrueDiv": operator.truediv,
    "FloorDiv": operator.floordiv,
    "FloorToInt": floor_int,
    "IntTrueDiv": operator.truediv,
    "Max": maximum,
    "Min": minimum,
    "Mod": operator.mod,
    "Mul": lambda *factors: reduce(operator.mul, factors),
    "OpaqueUnaryFn_sqrt": root,
    "Pow": power,
    "PowByNatural": power,
    "PythonMod": operator.mod,
    "ToFloat": lambda size: size,
    "TruncToInt": truncated,
}
"""PyTorch's class of expressions -> its function."""
