"""Operations whose shapes depend on data, as core nodes that are made once these are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle import dtypes
from treadle.compat.tensorflow.effects import is_pure
from treadle.compat.tensorflow.errors import InvalidArgumentError, OpError, message_of
from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.stage import StageEmitter
from treadle.compat.tensorflow.tensor import Tensor
from treadle.errors import ShapeError
from treadle.frontends.core_bodies import is_known, needs_python
from treadle.frontends.deferred_nodes import NeedsShapeError, add_deferred, given
from treadle.frontends.tensorflow.control_nodes import OPERAND_ERRORS
from treadle.frontends.tensorflow.core_lists import drop_unread_lists
from treadle.frontends.tensorflow.deferred_parts import asked_operand
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.deferred import DeferredNodes
from treadle.ops.op import Info


class NeedsPythonError(Exception):
    """Operations have a Python step, or a shape in them is not known."""


REASONS = (NeedsPythonError, NeedsShapeError, OpError, *OPERAND_ERRORS)
"""Why operations cannot be core nodes. Python then runs them, and raises what is wrong."""

CONTROL = ("If", "While")
"""Kinds of operations that may need Python for some sizes and not for others."""


@dataclass(frozen=True, slots=True)
class DeferredOps:
    """Operations that compute `wanted` from `reads`, which are operands, and from `constants`.

    Operands that nothing reads are None among `reads`. The operations are added to an emitter for a place inside that
    of `emitter`; errors name the node `name`.
    """

    name: str
    ops: tuple[Operation, ...]
    reads: tuple[Tensor | None, ...]
    constants: Mapping[Tensor, Value]
    wanted: tuple[Tensor, ...]
    emitter: StageEmitter

    def build(self, infos: Sequence[Info]) -> Graph:
        """Return the graph for operands of which this is known.

        Raises ShapeError if they do not fit, or if the operations need Python; the emitter then notes a refusal.
        """
        e = self.emitter.inside()
        values = dict(self.constants)
        for at, (tensor, info) in enumerate(zip(self.reads, infos, strict=True)):
            value = given(e, f"operand {at}" if tensor is None else tensor.name, info)
            if tensor is not None:
                values[tensor] = value
        try:
            emit_ops(e, self.ops, values, self.wanted)
            e.finish([values[tensor] for tensor in self.wanted], [f"result {at}" for at in range(len(self.wanted))])
            drop_unread_lists(e.graph)
            require_core(e)
        except (NeedsPythonError, NeedsShapeError) as error:
            self.emitter.refusals.append(f"{self.name}: {error}")
            raise ShapeError(str(error), node=self.name) from error
        except REASONS as error:
            raise ShapeError(message_of(error), node=e.name) from error
        return e.graph


def require_core(e: StageEmitter) -> None:
    """Raise NeedsPythonError if what was added has a Python step, or reads a variable."""
    if e.run is not None or e.dynamic or e.reads or needs_python(e.graph):
        raise NeedsPythonError("a part of it runs in Python")


def emit_ops(e: StageEmitter, ops: Sequence[Operation], values: dict[Tensor, Value], wanted: Sequence[Tensor]) -> None:
    """Add operations to `e`, and what they give to `values`. Raises one of REASONS.

    Those that need shapes or numbers that depend on data are made once these are known.
    """
    deferred: list[Operation] = []
    asked: dict[Tensor, None] = {}
    for op in ops:
        if any(tensor not in values or not is_known(values[tensor]) for tensor in op.inputs):
            deferred.append(op)
            continue
        e.name = op.name
        try:
            found = op.emit(e, [values[tensor] for tensor in op.inputs])
        except NeedsShapeError as need:
            tensor = asked_input(op, values, need.value)
            if tensor is None:
                raise
            deferred.append(op)
            asked[tensor] = None
            continue
        except (ShapeError, ValueError) as error:
            raise misfit(op, error) from error
        results = results_of(found)
        if len(results) < len(op.outputs):
            raise NeedsPythonError(f"only Python tells the results of {op.name}")
        values.update(zip(op.outputs, results, strict=False))
    if deferred and not add_deferred_ops(e, deferred, asked, values, wanted):
        raise NeedsPythonError(f"only Python tells the sizes of {deferred[0].name}")


def results_of(found: Any) -> Sequence[Value]:
    """Return what emitting an operation gave as a sequence: a value, several, or None."""
    return found if isinstance(found, list | tuple) else [] if found is None else [found]


def misfit(op: Operation, error: Exception) -> InvalidArgumentError:
    """Return the error of operands that do not fit `op`."""
    return InvalidArgumentError(None, op, f"{message_of(error)}\n\t [[node {op.name} ({op.type})]]")


def can_be_deferred(e: StageEmitter, op: Operation) -> bool:
    """Return whether `op` can be made once the sizes of its operands are known, unless it turns out to need Python."""
    return is_pure(op) and (e.may_be_refused or op.kind not in CONTROL)


def asked_input(op: Operation, values: Mapping[Tensor, Value], value: Value | None) -> Tensor | None:
    """Return the input of `op` whose elements decide sizes if its rule asked for those of `value`.

    None if there is no such input, or if too many elements would.
    """
    place = asked_operand([values[tensor] for tensor in op.inputs], value)
    return None if place is None else op.inputs[place]


def add_deferred_ops(
    e: StageEmitter,
    ops: Sequence[Operation],
    asked: Iterable[Tensor],
    values: dict[Tensor, Value],
    wanted: Sequence[Tensor],
) -> bool:
    """Add one node for `ops`, and what it gives of `wanted` to `values`; False if they cannot be made later.

    The node needs the elements of what is `asked`.
    """
    made = {tensor for op in ops for tensor in op.outputs}
    results = [tensor for tensor in dict.fromkeys(wanted) if tensor in made]
    reads = dict.fromkeys(tensor for op in ops for tensor in op.inputs if tensor not in made)
    constants = {tensor: values[tensor] for tensor in reads if values[tensor].data is not None}
    operands = [tensor for tensor in reads if tensor not in constants]
    strings = any(tensor.dtype.core is dtypes.string for tensor in (*operands, *results))
    if strings or not all(can_be_deferred(e, op) for op in ops):
        return False
    if any(tensor not in operands for tensor in asked):
        return False
    part = DeferredOps(ops[0].name, tuple(ops), tuple(operands), constants, tuple(results), e)
    numbers = sorted(map(operands.index, asked))
    nodes = DeferredNodes(part.build, [tensor.dtype.core for tensor in results], numbers)
    e.name = ops[0].name
    values.update(zip(results, add_deferred(e, [values[tensor] for tensor in operands], nodes), strict=True))
    return True
