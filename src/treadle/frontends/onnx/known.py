"""What can be told of shapes and small values while a model is imported.

Some rules must know a rank or a dimension (SAME padding, global pooling). The shape rules of the core
ops want numbers, so symbolic dimensions are given two different sets of made-up numbers, and the rules
run once for each: what differs is unknown, and what comes out the same in both is a fact, unless other numbers
might have given something else: 480 and 720 are both no 1, multiples of 8, and above 100.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import KernelError, LimitError, ShapeError, TreadleError
from treadle.frontends.faults import Fault
from treadle.graph.node import Node
from treadle.graph.shape import Shape, StaticShape, elements
from treadle.graph.value import Value
from treadle.ops.evaluate import result_dtypes
from treadle.ops.op import Array, Info
from treadle.ops.table import OPS

MAX_VALUE_ELEMENTS = 64
"""Values of shape arithmetic are followed up to this size."""

_FIRST, _STEP = (480, 720), (16, 48)
"""Made-up numbers: many divisors, so that reshapes fit; large enough for deep stacks of strided windows."""

_EXACT = {
    "add", "concat", "flatten", "identity", "mul", "neg", "reduce_prod", "reduce_sum", "reshape", "shape", "size",
    "squeeze", "sub", "transpose", "unsqueeze",
}  # fmt: skip
"""Ops that give the same of different numbers only where they cancel out, or are not looked at."""

_PICKING = {"expand", "gather", "gather_elements", "gather_nd", "slice", "split", "tile"}
"""Likewise, if nothing but their first operand differs."""

Dims = tuple[int | None, ...]
Guess = Info | None


class Known:
    """Facts on the values of a graph that is being built."""

    def __init__(self) -> None:
        self._guesses: dict[Value, tuple[Guess, Guess]] = {}
        self._symbols: dict[str, int] = {}
        self._made_up: set[Value] = set()

    def add_inputs(self, inputs: Iterable[Value]) -> None:
        """Take in the graph's inputs."""
        for value in inputs:
            if value.shape is not None and value.dtype is not None:
                a, b = (self._invented(value.shape, probe) for probe in (0, 1))
                self._guesses[value] = (Info(value.dtype, a), Info(value.dtype, b))

    def _invented(self, shape: Shape, probe: int) -> StaticShape:
        return tuple(
            dim
            if isinstance(dim, int)
            else _FIRST[probe] + _STEP[probe] * self._symbols.setdefault(dim, len(self._symbols))
            for dim in shape
        )

    def add_node(self, node: Node) -> None:
        """Take in a node: sets the dtype of its outputs and, where it is certain, their shape.

        Raises Fault if the node's operands, all of known shape, do not fit the op.
        """
        first = self._learn(node, 0)
        same = self._certain(node)
        second = first if same else self._learn(node, 1)
        for value, *pair in zip(node.outputs, first, second, strict=True):
            self._guesses[value] = (pair[0], pair[1])
            if value.dtype is None and pair[0] is not None:
                value.dtype = pair[0].dtype
        self._state_dtypes(node)
        if self._hangs_on_numbers(node, same):
            self._made_up.update(node.outputs)
            return
        for value in node.outputs:
            dims = self.dims(value)
            if dims is not None and None not in dims:
                value.shape = tuple(dim for dim in dims if dim is not None)

    def _hangs_on_numbers(self, node: Node, same: bool) -> bool:
        """Whether what is the same of the results for both sets of numbers may be another for a third."""
        operands = [value for value in node.inputs if value is not None]
        if not self._made_up.isdisjoint(operands):
            return True
        if same:
            return False
        if node.op == "slice" and self._is_clamped(node):
            return True
        return not self._is_exact(node, operands) and any(self.array(value) is not None for value in node.outputs)

    def _is_exact(self, node: Node, operands: Sequence[Value]) -> bool:
        """Whether `node` gives the same of different numbers for a reason that holds for all numbers."""
        if node.op == "div":
            return all(_divides(*(self._pair(value)[probe] for value in operands)) for probe in (0, 1))
        if node.op == "cast":
            to = node.attrs["to"]
            return to != dtypes.boolean and (to.is_float or not node.operand(0).known_dtype.is_float)
        if node.op in _PICKING:
            return all(_same(*self._pair(value)) for value in operands[1:])
        return node.op in _EXACT

    def _is_clamped(self, node: Node) -> bool:
        """Whether a slice takes as much of an axis as it wants of both numbers, and may find less."""
        before, after = self.dims(node.operand(0)), self.dims(node.outputs[0])
        if before is None or after is None:
            return False
        return any(size is None and taken is not None and taken > 1 for size, taken in zip(before, after, strict=True))

    @staticmethod
    def _state_dtypes(node: Node) -> None:
        """Dtypes need no shapes: they follow from those of the operands."""
        operands = [value for value in node.inputs if value is not None]
        if all(value.dtype is not None for value in node.outputs) or any(value.dtype is None for value in operands):
            return
        found = result_dtypes(node, [None if v is None else Info(v.known_dtype, None) for v in node.inputs])
        for value, dtype in zip(node.outputs, found, strict=False):
            value.dtype = dtype

    def _pair(self, value: Value) -> tuple[Guess, Guess]:
        found = self._guesses.get(value)
        if found is None and value.data is not None:
            info = Info(value.known_dtype, value.data.shape, value.data)
            found = self._guesses[value] = (info, info)
        return found or (None, None)

    def _certain(self, node: Node) -> bool:
        """Whether every operand is known, whatever the symbols stand for."""
        operands = [value for value in node.inputs if value is not None]
        return self._made_up.isdisjoint(operands) and all(_same(*self._pair(value)) for value in operands)

    def _learn(self, node: Node, probe: int) -> Sequence[Guess]:
        infos = [None if value is None else self._pair(value)[probe] for value in node.inputs]
        nothing: Sequence[Guess] = [None] * len(node.outputs)
        if any(value is not None and info is None for value, info in zip(node.inputs, infos, strict=True)):
            return nothing
        if any(info is not None and info.shape is None for info in infos):
            return nothing
        try:
            if node.op == "call":
                infer = node.attrs["infer"]
                return nothing if infer is None else list(infer(infos))
            found: list[Guess] = list(OPS[node.op].infer(node.attrs, infos, len(node.outputs)))
            return [_with_value(node, infos, info) for info in found] if len(found) == 1 else found
        except (ShapeError, LimitError, KernelError) as error:
            if self._certain(node):
                raise Fault(str(error)) from None
            return nothing

    def dims(self, value: Value) -> Dims | None:
        """The dimensions of `value`, None for each unknown one; None if not even the rank is known."""
        a, b = self._pair(value)
        if a is None or b is None or a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return None
        return tuple(left if left == right else None for left, right in zip(a.shape, b.shape, strict=True))

    def array(self, value: Value) -> Array | None:
        """The elements of `value` if they are known: a constant's, or those of small shape arithmetic."""
        if value.data is not None:
            return value.data
        a, b = self._pair(value)
        if value in self._made_up or a is None or b is None or a.value is None or b.value is None:
            return None
        return a.value if _same(a, b) else None


def _same(a: Guess, b: Guess) -> bool:
    if a is b or a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.value is b.value or (a.value is not None and b.value is not None and np.array_equal(a.value, b.value))


def _divides(left: Guess, right: Guess) -> bool:
    """Whether nothing is left of the division, if both numbers are known."""
    if left is None or right is None or left.value is None or right.value is None:
        return True
    with np.errstate(all="ignore"):
        return not np.fmod(left.value, right.value).any()


def _with_value(node: Node, inputs: Sequence[Info | None], output: Guess) -> Guess:
    """`output` with its value, where it is small and follows from known operands by the op's reference."""
    evaluate = OPS[node.op].evaluate
    if evaluate is None or output is None or output.value is not None or output.shape is None:
        return output
    if elements(output.shape) > MAX_VALUE_ELEMENTS or output.dtype == dtypes.string:
        return output
    values = [None if info is None else info.value for info in inputs]
    known = all(info is None or info.value is not None for info in inputs)
    if not known or any(value is not None and value.size > MAX_VALUE_ELEMENTS for value in values):
        return output
    try:
        return Info(output.dtype, output.shape, evaluate(node.attrs, values)[0])
    except (TreadleError, ArithmeticError, ValueError, IndexError):  # the run will tell, if it gets there
        return output
