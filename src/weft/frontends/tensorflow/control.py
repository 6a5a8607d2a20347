"""What a run decides: branches, loops, and parts that wait for a shape. Each part is compiled when it is first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes as element_types
from weft.dtypes import DType
from weft.errors import KernelError, ShapeError
from weft.frontends.faults import Fault
from weft.frontends.tensorflow.emitter import MOST_FOLDED, Emitter, NeedsShapeError
from weft.frontends.tensorflow.forms import Form
from weft.frontends.tensorflow.node import Node
from weft.graph.graph import link
from weft.graph.template import Template
from weft.graph.value import Value
from weft.ops.call import Nested
from weft.ops.evaluate import evaluate
from weft.ops.op import Array
from weft.runtime.control import check_run


class Branches(Nested):
    """If: the first array decides whether the first or the second template gets the others."""

    def __init__(self, yes: Template, no: Template) -> None:
        super().__init__(yes, no)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0 if truth(arrays[0]) else 1](arrays[1:])


class Loop(Nested):
    """While: the second template is repeated on its own results while the first holds of them.

    Arrays beyond its results stay the same.
    """

    def __init__(self, test: Template, step: Template) -> None:
        super().__init__(test, step)
        self._count = len(step.outputs)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        test, step = self.bodies
        state = list(arrays)
        while truth(test(state)[0]):
            check_run()
            made = step(state)
            state = [*made, *state[len(made) :]]
        return state[: self._count]


class Rest(Nested):
    """A part of the graph whose shapes only a run tells."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0](arrays)


class Single:
    """One node whose rule needs the value of an operand: it is built for the arrays of a run, and runs by reference."""

    def __init__(self, node: Node, form: Form, dtypes: Sequence[DType]) -> None:
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


def add_call(e: Emitter, node: Node, values: Sequence[Value], function: Any, dtypes: Sequence[DType]) -> list[Value]:
    """The results, of these dtypes and of shapes that a run tells, of a step that runs `function`."""
    results = [e.graph.value(node.name, dtype) for dtype in dtypes]
    attrs = {"function": function, "infer": None, "blocking": False, "label": node.op}
    made = e.graph.make("call", values, attrs, name=node.name, outputs=results)
    e.graph.nodes.append(made)
    link(made)
    return results


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
