"""What is known of the results of ops before a run: their rules, on sizes of which nothing is assumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from treadle import dtypes, forking
from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.graph.case_analysis import CaseAnalysis, UndecidedError
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import Dim, StaticShape, is_open
from treadle.graph.value import Value
from treadle.ops.certain import certain_results, common_infos
from treadle.ops.op import Array, Info
from treadle.ops.sizes import add_sizes

Emit = Callable[[Any, Sequence[Value]], Any]
"""(emitter, values of the operands) -> value, or values, of the results."""

MOST_ELEMENTS = 16
"""Up to so many integers of which nothing is known are symbols: they may be shapes, axes or bounds."""


class Describer:
    """Infers the results of ops of one graph. Threads may share it.

    Dimensions that are not known are symbols, and so are the elements of small tensors of integers.
    """

    def __init__(self) -> None:
        self.facts = CaseAnalysis()
        self._lock = forking.lock()

    def input(self, value: Value) -> Info:
        """Return what is known of an input of a graph, whose open dimensions have names."""
        with self._lock:
            shape = None if value.shape is None else tuple(map(self._size, value.shape))
            return self._with_elements(Info(value.known_dtype, shape))

    def described(self, dtype: DType, dims: Sequence[int | None] | None) -> Info:
        """Return what is known of a tensor of this dtype and shape; None stands for an unknown size or rank."""
        with self._lock:
            shape = None if dims is None else tuple(self.facts.unknown() if dim is None else dim for dim in dims)
            return self._with_elements(Info(dtype, shape))

    def refined(self, info: Info, dims: Sequence[int | None]) -> Info:
        """Return `info` with these sizes, of which the unknown ones (None) stay as they are."""
        if info.shape is None:
            return self.described(info.dtype, dims)
        with self._lock:
            shape = tuple(old if dim is None else dim for old, dim in zip(info.shape, dims, strict=True))
            return self._with_elements(Info(info.dtype, shape, info.value))

    def common(self, infos: Sequence[Info]) -> Info:
        """Return what is known of a tensor that is one of those that `infos` describe."""
        with self._lock:
            return common_infos(infos, self.facts)

    def _size(self, dim: Dim) -> int:
        return self.facts.symbol(dim, len(self.facts.symbols) + 2, least=0) if isinstance(dim, str) else dim

    def results(self, name: str, emit: Emit, operands: Sequence[Info]) -> list[Info]:
        """Return what is known of the results of an op; an empty list if not even their number is.

        Args:
            name: The name of the op, for messages.
            emit: Adds its core nodes.
            operands: What is known of its operands.

        Raises:
            ShapeError, LimitError, KernelError: The operands do not fit the op, whatever the sizes are.
            TypeError, LookupError, ArithmeticError: Attributes do not fit the op.
        """
        with self._lock:
            for known in (operands, list(map(_without_sizes, operands))):
                with suppress(NeedsShapeError):
                    found = certain_results(partial(self._emitted, name, emit, known), self.facts)
                    if found:
                        return [self._with_elements(info) for info in found]
            return []

    def _emitted(self, name: str, emit: Emit, operands: Sequence[Info]) -> list[Info]:
        emitter = _Description(self.facts)
        emitter.name = name
        try:
            found = emit(emitter, [emitter.operand(number, info) for number, info in enumerate(operands)])
        except ShapeError:
            raise
        except ValueError as error:
            raise ShapeError(str(error)) from error
        values = found if isinstance(found, list | tuple) else [found]
        return [_info(emitter, value) for value in values]

    def _with_elements(self, info: Info) -> Info:
        """Return `info` with symbols for elements of which nothing is known, if they are few integers."""
        shape = info.shape
        if info.value is not None or shape is None or is_open(shape) or info.dtype not in (dtypes.i32, dtypes.i64):
            return info
        if math.prod(shape) > MOST_ELEMENTS:
            return info
        value = np.empty(math.prod(shape), object)
        value[:] = [self.facts.unknown_integer() for _ in value]
        return Info(info.dtype, shape, value.reshape(shape))


class _Description(Emitter):
    """Adds nodes for operands whose sizes are expressions or unknown."""

    def __init__(self, facts: CaseAnalysis) -> None:
        super().__init__(Graph("description"))
        self._facts = facts

    def operand(self, number: int, info: Info) -> Value:
        """Add the operand with this number."""
        name = f"operand{number}"
        if info.value is None:
            return Value(self.graph.unique_name(name), info.dtype, info.shape)
        if info.value.dtype != object or info.dtype is dtypes.string:
            return Value(self.graph.unique_name(name), info.dtype, info.shape, data=info.value)
        made = add_sizes(self.graph, info.value, info.dtype, name)
        return made if isinstance(made, Value) else self._place(made)[0]

    def expect_rank(self, value: Value, rank: int) -> None:
        """Give `value` new sizes if its rank is unknown."""
        if value.shape is None:
            value.shape = tuple(self._facts.unknown() for _ in range(rank))

    def described(self, value: Value, dims: Callable[[], Sequence[int | None] | None]) -> Value:
        """Give `value` these sizes if its rank is unknown."""
        if value.shape is None:
            with suppress(NeedsShapeError):
                found = dims()
                if found is not None:
                    value.shape = tuple(self._facts.unknown() if dim is None else dim for dim in found)
        return value

    def unknown(self, dtype: DType, dims: Sequence[int | None] | None) -> Value:
        """Return a result of this dtype and shape."""
        return self.described(Value(self.graph.unique_name(self.name), dtype), lambda: dims)

    def _folded(self, node: Node, infos: Sequence[Info]) -> list[Array] | None:
        try:
            with self._facts.without_questions():
                return super()._folded(node, infos)
        except UndecidedError:
            return None


def _without_sizes(info: Info) -> Info:
    """Return `info` without a shape or value that has expressions."""
    value = info.value
    return Info(
        info.dtype,
        None if info.shape is None or is_open(info.shape) else info.shape,
        None if value is not None and value.dtype == object and info.dtype is not dtypes.string else value,
    )


def _info(emitter: Emitter, value: Value) -> Info:
    shape: StaticShape | None = None if value.shape is None else value.static_shape
    try:
        return Info(value.known_dtype, shape, emitter.static(value))
    except NeedsShapeError:
        return Info(value.known_dtype, shape)
