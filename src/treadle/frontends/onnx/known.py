"""What can be told of shapes and small values while a model is imported.

Some rules must know a rank or a dimension (SAME padding, global pooling). Each node is inferred when it is added, on
expressions: an open dimension of an input is a symbol, which may be any size, also 0. Nothing is assumed of it: what
is told here holds for every run.
"""

from collections.abc import Iterable

import numpy as np

from treadle.errors import KernelError, LimitError, ShapeError
from treadle.frontends.faults import Fault, Misfit
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.dim import atoms_of, equals, is_expression
from treadle.graph.node import Node
from treadle.graph.shape import Shape, is_open
from treadle.graph.value import Value
from treadle.ops.certain import certain_infos
from treadle.ops.evaluate import result_dtypes
from treadle.ops.op import Array, Info
from treadle.ops.reduce import REDUCTIONS

Dims = tuple[int | None, ...]


class Known:
    """Facts on the values of a graph that is being built."""

    def __init__(self) -> None:
        self._facts = CaseAnalysis()
        self._infos: dict[Value, Info] = {}

    def add_inputs(self, inputs: Iterable[Value]) -> None:
        """Take in the graph's inputs."""
        for value in inputs:
            if value.shape is not None and value.dtype is not None:
                shape = (dim if isinstance(dim, int) else self._symbol(dim) for dim in value.shape)
                self._infos[value] = Info(value.dtype, tuple(shape))

    def _symbol(self, name: str) -> int:
        return self._facts.symbol(name, len(self._facts.symbols) + 2, least=0)

    def add_node(self, node: Node) -> None:
        """Take in a node: sets the dtype of its outputs and, where it is certain, their shape.

        Raises Fault if the node's operands do not fit the op, whatever the open dimensions are.
        """
        operands = [None if value is None else self._info(value) for value in node.inputs]
        if all(info is not None or value is None for value, info in zip(node.inputs, operands, strict=True)):
            try:
                found = certain_infos(node, operands, self._facts)
            except ShapeError as error:
                raise Misfit(str(error)) from None
            except (LimitError, KernelError) as error:
                raise Fault(str(error)) from None
            for value, info in zip(node.outputs, found, strict=False):
                self._infos[value] = info
                value.dtype = value.dtype or info.dtype
                if info.shape is not None and not is_open(info.shape):
                    value.shape = info.shape
        self._state_dtypes(node)
        self._state_rank(node)

    def _state_rank(self, node: Node) -> None:
        """Ranks that no shape of an operand changes: of what is reduced to one number, or reshaped to given sizes."""
        value = node.outputs[0]
        known = self._infos.get(value)
        if value.dtype is None or (known is not None and known.shape is not None):
            return
        if node.op in REDUCTIONS and node.attrs["axes"] is None and not node.attrs["keepdims"]:
            value.shape = ()
            self._infos[value] = Info(value.dtype, ())
        elif node.op == "reshape":
            sizes = self._info(node.operand(1))
            rank = sizes.shape[0] if sizes is not None and sizes.shape else None
            if rank is not None and not is_expression(rank):
                self._infos[value] = Info(value.dtype, tuple(self._facts.unknown() for _ in range(rank)))

    @staticmethod
    def _state_dtypes(node: Node) -> None:
        """Dtypes need no shapes: they follow from those of the operands."""
        operands = [value for value in node.inputs if value is not None]
        if all(value.dtype is not None for value in node.outputs) or any(value.dtype is None for value in operands):
            return
        found = result_dtypes(node, [None if v is None else Info(v.known_dtype, None) for v in node.inputs])
        for value, dtype in zip(node.outputs, found, strict=False):
            value.dtype = dtype

    def _info(self, value: Value) -> Info | None:
        found = self._infos.get(value)
        if found is None and value.data is not None:
            found = self._infos[value] = Info(value.known_dtype, value.data.shape, value.data)
        return found

    def dims(self, value: Value) -> Dims | None:
        """The dimensions of `value`, None for each unknown one; None if not even the rank is known."""
        info = self._info(value)
        if info is None or info.shape is None:
            return None
        return tuple(None if is_expression(dim) else dim for dim in info.shape)

    def is_multiple(self, value: Value, times: int, of: Value) -> bool:
        """Whether the first dimension of `value` is certainly `times` that of `of`."""
        infos = self._info(value), self._info(of)
        shapes = [info.shape for info in infos if info is not None and info.shape]
        if len(shapes) < 2:
            return False
        return equals(shapes[0][0], shapes[1][0] * times)

    def same_shape(self, one: Value, other: Value) -> bool:
        """Whether both values certainly have the same shape."""
        return self._same_from(0, one, other)

    def same_items(self, one: Value, other: Value) -> bool:
        """Whether the items of both values along their first axis certainly have the same shape."""
        return self._same_from(1, one, other)

    def _same_from(self, axis: int, one: Value, other: Value) -> bool:
        infos = self._info(one), self._info(other)
        shapes = [info.shape[axis:] for info in infos if info is not None and info.shape is not None]
        if len(shapes) < 2 or len(shapes[0]) != len(shapes[1]):
            return False
        return all(equals(size, same) for size, same in zip(*shapes, strict=True))

    def named_dims(self, value: Value) -> Shape | None:
        """The dimensions of `value`, with names for unknown sizes; None if the rank is not known.

        Equal names mean equal sizes.
        """
        info = self._info(value)
        if info is None or info.shape is None:
            return None
        return tuple(str(dim) if is_expression(dim) else dim for dim in info.shape)

    def symbols(self, value: Value) -> frozenset[str] | None:
        """The names of all sizes that the shape of `value` depends on; None if its rank is not known."""
        info = self._info(value)
        if info is None or info.shape is None:
            return None
        return frozenset(str(atom.args[0]) for size in info.shape for atom in atoms_of(size) if atom.op == "symbol")

    def array(self, value: Value) -> Array | None:
        """The elements of `value` if they are known: a constant's, or those of small shape arithmetic."""
        if value.data is not None:
            return value.data
        info = self._infos.get(value)
        if info is None or info.value is None or any(map(is_expression, np.asarray(info.value).reshape(-1))):
            return None
        return info.value
