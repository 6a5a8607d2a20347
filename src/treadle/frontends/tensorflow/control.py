"""What a run decides: branches, loops, and parts that wait for a shape. Each part is compiled when it is first run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle import dtypes as element_types
from treadle.dtypes import DType
from treadle.errors import KernelError, ShapeError
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.emitter import MOST_FOLDED, Emitter, NeedsShapeError
from treadle.frontends.tensorflow.forms import Form
from treadle.frontends.tensorflow.list_table import ListForm
from treadle.frontends.tensorflow.node import Node, Ref
from treadle.frontends.tensorflow.peeled import Peeled, State
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.ops.call import Nested
from treadle.ops.evaluate import evaluate
from treadle.ops.op import Array
from treadle.runtime.control import check_run


class Branches(Nested):
    """If: the first array decides whether the first or the second template gets the others."""

    def __init__(self, yes: Template, no: Template) -> None:
        super().__init__(yes, no)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0 if truth(arrays[0]) else 1](arrays[1:])


class Loop(Nested):
    """While: the second template gives, of the variables, their next values and whether to go on; the first one decides at first.

    `count` variables change; arrays beyond them stay the same.
    """

    def __init__(self, test: Template, step: Template, count: int) -> None:
        super().__init__(test, step)
        self._count = count

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        test, step = self.bodies
        count, state = self._count, list(arrays)
        goes_on = truth(test(state)[0])
        while goes_on:
            check_run()
            *state[:count], last = step(state)
            goes_on = truth(last)
        return state[:count]


class ListLoop(Nested):
    """While with lists among its variables: the step has tensors alone, and the loop reads and writes their items."""

    def __init__(self, test: Template, step: Template, parts: Peeled[Ref]) -> None:
        super().__init__(test, step)
        self._parts = parts
        self._count = len(parts.lists)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        test, step = self.bodies
        state = State(self._parts, arrays)
        goes_on = truth(test(state.plain())[0])
        while goes_on:
            check_run()
            made = step(state.operands())
            state.take(made)
            goes_on = truth(made[-1])
        return state.ended()[: self._count]


class Rest(Nested):
    """A part of the graph whose shapes only a run tells."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0](arrays)


class Single:
    """One node whose rule needs the value of an operand: it is built for the arrays of a run, and runs by reference."""

    def __init__(self, node: Node, form: Form | ListForm, dtypes: Sequence[DType]) -> None:
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
            raise KernelError(what or "its result depends on what no run tells") from error
        emitter.graph.outputs = [value for value in found if value.data is None]
        try:
            known = evaluate(emitter.graph, given)
        except (ShapeError, KernelError) as error:
            raise KernelError(error.what) from error
        results = [known[value.name] if value.data is None else value.data for value in found]
        return [np.asarray(array, dtype.numpy) for array, dtype in zip(results, self._dtypes, strict=True)]


def truth(array: Array) -> bool:
    """Whether a predicate holds: a boolean, a number other than 0, a text that is not empty, or a tensor with elements."""
    return bool(array.reshape(())[()]) if array.ndim == 0 else array.size > 0


def result_dtypes(node: Node, count: int, values: Sequence[Value]) -> list[DType]:
    """The element types of the results of a branch or loop: what it states, else those of `values`. Raises Fault."""
    stated = node.attr("Tout", node.attr("T", None))
    if isinstance(stated, list) and len(stated) >= count and all(isinstance(item, DType) for item in stated):
        return stated[:count]
    if isinstance(stated, DType):
        return [stated] * count
    if len(values) == count:
        return [value.known_dtype for value in values]
    raise Fault(f"it does not state the element types of its {count} results")
