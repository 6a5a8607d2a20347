"""A stage: operations of a graph compiled together, for concrete shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.compat.tensorflow.dtypes import as_dtype
from weft.compat.tensorflow.errors import FailedPreconditionError, InvalidArgumentError
from weft.compat.tensorflow.graph import Operation
from weft.compat.tensorflow.state import RUNS, Run, Store
from weft.frontends.tensorflow.emitter import Emitter
from weft.graph.graph import Graph, link
from weft.graph.value import Value
from weft.ops.op import Array, Info

Function = Callable[[Run, list[Array]], Sequence[Any]]

DONE = np.array(1, np.uint8)

PYTHON_NS = 1e6
"""What a user's Python function is taken to cost: enough for a helper to be woken for the next one."""


class StageEmitter(Emitter):
    """Builds the core graph of one stage: with variables, Python functions and what must follow what."""

    def __init__(self, store: Store) -> None:
        super().__init__(Graph("tensorflow"))
        self.store = store
        self.reads: dict[Any, Value] = {}
        self.assigned: dict[Any, Value] = {}
        self.run: Value | None = None
        self.tokens: list[Value] = []
        self.dynamic: list[Operation] = []
        self.after: list[Value] = []

    def read(self, variable: Any) -> Value:
        """The value that `variable` has at this point of the program. Raises FailedPreconditionError if none."""
        if variable in self.assigned:
            return self.assigned[variable]
        if variable not in self.reads:
            held = self.store.values.get(variable)
            if held is None:
                raise FailedPreconditionError(
                    None,
                    None,
                    f"Attempting to use uninitialized value {variable.op_name}; "
                    "run tf.compat.v1.global_variables_initializer() first",
                )
            self.reads[variable] = self.graph.input(variable.op_name, dtypes.from_numpy(held.dtype), held.shape)
        return self.reads[variable]

    def assign(self, variable: Any, value: Value) -> Value:
        """From this point of the program on, `variable` has this value."""
        if not variable.shape.is_compatible_with(self.shape(value)):
            raise InvalidArgumentError(
                None,
                None,
                f"Cannot assign value of shape {self.shape(value)} to {variable.name} of shape {variable.shape}",
            )
        self.assigned[variable] = value
        return value

    def python(
        self, op: Operation, inputs: Sequence[Value], function: Function, shape: Sequence[int] | None = None
    ) -> list[Value] | None:
        """The results of `function` as a step of the graph; None if their shapes are known only when it has run.

        `shape` is that of every result, if this stage knows more than the graph.
        """
        count = len(inputs)
        if self.run is None:
            self.run = self.graph.input("run", dtypes.i64, ())
        fixed = shape is not None or (
            all(tensor.shape.is_fully_defined() for tensor in op.outputs) and bool(op.outputs)
        )
        wanted = [as_dtype(tensor.dtype).core.numpy for tensor in op.outputs]

        def step(arrays: list[Array]) -> list[Array]:
            run = RUNS[int(arrays[-1])]
            found = function(run, [np.array(array) for array in arrays[:count]])
            results = [np.asarray(item, dtype, order="C") for item, dtype in zip(found, wanted, strict=True)]
            if fixed:
                return results
            run.results[op] = results
            return [DONE]

        known = (
            [Info(tensor.dtype.core, tensor.shape.static() if shape is None else tuple(shape)) for tensor in op.outputs]
            if fixed
            else [Info(dtypes.u8, ())]
        )
        attrs = {"function": step, "infer": lambda _: known, "blocking": False, "label": op.type, "cost": PYTHON_NS}
        node = self.graph.make("call", [*inputs, *self.after, self.run], attrs, name=op.name, outputs=len(known))
        for value, info in zip(node.outputs, known, strict=True):
            value.dtype, value.shape = info.dtype, info.shape
        self.graph.nodes.append(node)
        link(node)
        self.tokens.append(node.outputs[0])
        if fixed:
            return list(node.outputs)
        self.dynamic.append(op)
        return None
