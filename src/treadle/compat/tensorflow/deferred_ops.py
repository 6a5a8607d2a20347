"""Operations of bodies whose shapes depend on data, as core nodes that are made once these are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from treadle import dtypes
from treadle.compat.tensorflow.func_graph import EFFECTS
from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.stage import StageEmitter
from treadle.compat.tensorflow.tensor import Tensor
from treadle.errors import ShapeError
from treadle.frontends.deferred_nodes import add_deferred, given
from treadle.frontends.tensorflow.deferred_parts import asked_operand
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.deferred import DeferredNodes
from treadle.ops.op import Info

Emit = Callable[[StageEmitter, Sequence[Operation], dict[Tensor, Value], Sequence[Tensor]], None]
"""(emitter, operations, values, wanted): adds the operations to the emitter, and what they give to the values."""


@dataclass(frozen=True, slots=True)
class DeferredOps:
    """Operations that compute `wanted` from `reads`, which are operands, and from `constants`.

    `emit` adds them to an emitter for a place inside that of `emitter`; `reasons` are what it raises if it cannot.
    """

    ops: tuple[Operation, ...]
    reads: tuple[Tensor, ...]
    constants: Mapping[Tensor, Value]
    wanted: tuple[Tensor, ...]
    emitter: StageEmitter
    emit: Emit
    reasons: tuple[type[Exception], ...]

    def build(self, infos: Sequence[Info]) -> Graph:
        """Return the graph for operands of which this is known. Raises ShapeError if they do not fit."""
        e = self.emitter.inside()
        values = dict(self.constants)
        for tensor, info in zip(self.reads, infos, strict=True):
            values[tensor] = given(e, tensor.name, info)
        try:
            self.emit(e, self.ops, values, self.wanted)
        except self.reasons as error:
            raise ShapeError(str(error)) from error
        e.finish([values[tensor] for tensor in self.wanted], [f"result {at}" for at in range(len(self.wanted))])
        return e.graph


def can_be_deferred(op: Operation) -> bool:
    """Return whether `op` has no effects and reads no variables."""
    return not (
        op.kind in EFFECTS or op.kind.startswith("Assign") or "variable" in op.attrs or op.attrs.get("opaque", False)
    )


def add_deferred_ops(
    e: StageEmitter,
    ops: Sequence[Operation],
    asked: Mapping[Operation, Value | None],
    values: dict[Tensor, Value],
    wanted: Sequence[Tensor],
    emit: Emit,
    reasons: tuple[type[Exception], ...],
) -> bool:
    """Add one node for `ops`, and what it gives of `wanted` to `values`; False if they cannot be made later.

    `asked` are the values whose elements the rules of operations asked for.
    """
    made = {tensor for op in ops for tensor in op.outputs}
    results = [tensor for tensor in dict.fromkeys(wanted) if tensor in made]
    reads = dict.fromkeys(tensor for op in ops for tensor in op.inputs if tensor not in made)
    constants = {tensor: values[tensor] for tensor in reads if values[tensor].data is not None}
    operands = [tensor for tensor in reads if tensor not in constants]
    strings = any(tensor.dtype.core is dtypes.string for tensor in (*operands, *results))
    if strings or not all(map(can_be_deferred, ops)):
        return False
    numbers = []
    for op, value in asked.items():
        inputs = [values[tensor] for tensor in op.inputs]
        place = asked_operand(inputs, value)
        if place is None or op.inputs[place] not in operands:
            return False
        numbers.append(operands.index(op.inputs[place]))
    part = DeferredOps(tuple(ops), tuple(operands), constants, tuple(results), e, emit, reasons)
    nodes = DeferredNodes(part.build, [tensor.dtype.core for tensor in results], sorted(set(numbers)))
    e.name = ops[0].name
    values.update(zip(results, add_deferred(e, [values[tensor] for tensor in operands], nodes), strict=True))
    return True
