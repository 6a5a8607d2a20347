"""Python steps for branches, loops and parts of a graph whose shapes only a run knows.

Each part is compiled at its first run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle import dtypes as element_types
from treadle.dtypes import DType
from treadle.errors import KernelError, ShapeError
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.emitter import MOST_FOLDED, Emitter
from treadle.frontends.tensorflow.list_loops import ListLoopState, SplitStep
from treadle.frontends.tensorflow.list_table import ListRule
from treadle.frontends.tensorflow.node import Node, Ref
from treadle.frontends.tensorflow.node_rules import NodeRule
from treadle.frontends.tensorflow.part_rules import PartRule
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.ops.call import Nested
from treadle.ops.evaluate import evaluate
from treadle.ops.op import Array
from treadle.runtime.control import begin_iteration


class Branches(Nested):
    """If: the first array is the predicate, and the chosen template runs on the other arrays."""

    def __init__(self, yes: Template, no: Template) -> None:
        super().__init__(yes, no)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0 if truth(arrays[0]) else 1](arrays[1:])


class Loop(Nested):
    """While: `test` decides about the first iteration; `step` returns the next values and whether there is another one.

    The first `count` arrays are the loop variables; the others stay the same.
    """

    def __init__(self, test: Template, step: Template, count: int) -> None:
        super().__init__(test, step)
        self._count = count

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        test, step = self.bodies
        count, state = self._count, list(arrays)
        going, done = truth(test(state)[0]), 0
        while going:
            begin_iteration(done)
            *state[:count], last = step(state)
            going, done = truth(last), done + 1
        return state[:count]


class ListLoop(Nested):
    """While with lists among its variables. The loop reads and writes the items; the step sees tensors only."""

    def __init__(self, test: Template, step: Template, split: SplitStep[Ref]) -> None:
        super().__init__(test, step)
        self._split = split
        self._count = len(split.lists)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        test, step = self.bodies
        state = ListLoopState(self._split, arrays)
        going, done = truth(test(state.plain())[0]), 0
        while going:
            begin_iteration(done)
            results = step(state.operands())
            state.update(results)
            going, done = truth(results[-1]), done + 1
        return state.final_arrays()[: self._count]


class DeferredPart(Nested):
    """A part of the graph whose shapes are unknown before the run."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0](arrays)


class DeferredNode:
    """A node whose rule needs the value of an operand. It is built in each run and computed by the reference."""

    detachable = True

    def __init__(self, node: Node, form: NodeRule | ListRule | PartRule, dtypes: Sequence[DType]) -> None:
        self._node = node
        self._form = form
        self._dtypes = dtypes

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        emitter = Emitter()
        emitter.name = self._node.name
        given: dict[str, Array] = {}
        values: list[Value] = []
        for number, array in enumerate(arrays):
            if array.dtype.kind in "iub" and array.size <= MOST_FOLDED:
                values.append(emitter.constant(array))
            else:
                values.append(
                    emitter.graph.input(f"input {number}", element_types.from_numpy(array.dtype), array.shape)
                )
                given[f"input {number}"] = array
        try:
            found = self._form.emit(emitter, self._node, values)[: len(self._dtypes)]
        except (Fault, NeedsShapeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            what = error.what if isinstance(error, ShapeError) else str(error)
            raise KernelError(what or "its result depends on values that are unknown in the run") from error
        emitter.graph.outputs = [value for value in found if value.data is None]
        try:
            known = evaluate(emitter.graph, given)
        except (ShapeError, KernelError) as error:
            raise KernelError(error.what) from error
        results = [known[value.name] if value.data is None else value.data for value in found]
        return [np.asarray(array, dtype.numpy) for array, dtype in zip(results, self._dtypes, strict=True)]


def truth(array: Array) -> bool:
    """Return the truth of a predicate: that of the element of a scalar, else whether there are elements."""
    return bool(array.reshape(())[()]) if array.ndim == 0 else array.size > 0
