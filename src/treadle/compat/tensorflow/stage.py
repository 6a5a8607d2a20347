"""A stage: operations of a graph that are compiled together, for known shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.compat.tensorflow.dtypes import as_dtype
from treadle.compat.tensorflow.errors import FailedPreconditionError, InvalidArgumentError
from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.state import RUNS, Run, value_in
from treadle.frontends.tensorflow.core_lists import ListItems
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.made_bodies import MadeBodies
from treadle.graph.graph import Graph, link
from treadle.graph.value import Value
from treadle.ops.op import Array, Info

Function = Callable[[Run, list[Array]], Sequence[Any]]
"""(run, arrays) -> results. The arrays must not be kept: their memory is reused."""

DONE = np.array(1, np.uint8)

PYTHON_NS = 1e6
"""The assumed cost of a user's Python function: large enough that a worker is woken for the next one."""

TOUCH_NS = 1e4
"""The cost of reading or writing a variable, in addition to its bytes."""


class StageEmitter(Emitter):
    """Builds the core graph of one stage, with variables, Python functions and control dependencies.

    `held` are the values of variables at the start of the stage. A variable is read then, unless something before the
    read may have changed it; in that case the read is a step of its own. A write is a step. Steps are ordered by
    control tokens, results that are available when a step is done: `after` holds those that the current operation must
    wait for, and `opaque` says whether an operation before it may have changed any variable.

    Some operations are made once sizes are known. `refusals` says which of them turned out to need Python, and why.
    Branches and loops are made later only if the stage `may_be_refused`. `made` caches the graphs of bodies.
    """

    def __init__(
        self,
        held: Mapping[Any, Array | None],
        refusals: list[str] | None = None,
        made: MadeBodies | None = None,
        *,
        may_be_refused: bool = False,
    ) -> None:
        super().__init__(Graph("tensorflow"))
        self._held = held
        self.refusals = [] if refusals is None else refusals
        self.may_be_refused = may_be_refused
        self.made = MadeBodies() if made is None else made
        self.lists = ListItems()
        self.reads: dict[Any, Value] = {}
        self.run: Value | None = None
        self.tokens: list[Value] = []
        self.dynamic: list[Operation] = []
        self.after: list[Value] = []
        self.opaque = False
        self._known: dict[Any, Value] = {}  # the values assigned to variables in this stage
        self._last_writes: dict[Any, Value] = {}  # the token of the last write of each variable
        self._reads_since: dict[Any, list[Value]] = {}  # the tokens of the reads since then
        self._written_inside: set[Any] = set()  # variables last written inside a branch or loop

    def inside(self) -> StageEmitter:
        """Return an emitter for a body that runs at this point of the program."""
        return StageEmitter(self._held, self.refusals, self.made, may_be_refused=self.may_be_refused)

    def held(self, variable: Any) -> Array:
        """Return the value of `variable` at the start of the stage. Raises FailedPreconditionError if it has none."""
        return value_in(self._held, variable)

    def is_known(self, variable: Any) -> bool:
        """Return whether the value of `variable` at this point is known without a step that reads it."""
        return not self.opaque and variable not in self._written_inside

    def read(self, op: Operation, variable: Any) -> Value | None:
        """Return the value of `variable` at this point of the program; None if only the run knows its shape.

        Raises FailedPreconditionError if it has no value.
        """
        if self.is_known(variable):
            if variable in self._known:
                return self._known[variable]
            if variable not in self.reads:
                held = value_in(self._held, variable)
                self.reads[variable] = self.graph.input(variable.op_name, dtypes.from_numpy(held.dtype), held.shape)
            return self.reads[variable]
        now = self._held.get(variable)
        shape = variable.shape.static() if now is None and variable.shape.is_fully_defined() else None
        shape = now.shape if now is not None else shape
        found = self._step(
            op, (), lambda run, _: [_checked_shape(run.store.read(variable), shape, variable)], shape, reads=(variable,)
        )
        return found[0] if found else None

    def assign(self, op: Operation, variable: Any, value: Value) -> Value:
        """Set `variable` to this value from this point of the program on."""
        _check_assignment(variable, self.shape(value))

        def change(run: Run, arrays: list[Array]) -> list[Array]:
            held = np.array(arrays[0])
            held.flags.writeable = False
            run.store.assign(variable, held)
            return []

        self._step(op, [value], change, (), writes=(variable,), outputs=())
        self._known[variable] = value
        return value

    def add_to(self, op: Operation, variable: Any, delta: Value, sign: int) -> Value:
        """Add `delta` to `variable`, or subtract it, and return the new value.

        Raises FailedPreconditionError if it has no value.
        """
        before = self._known.get(variable)
        known = variable not in self._written_inside and before is not None
        shape = before.static_shape if before is not None and known else value_in(self._held, variable).shape
        _check_addition(variable, shape, self.shape(delta))
        found = self._step(
            op,
            [delta],
            lambda run, arrays: [_checked_shape(run.store.add(variable, arrays[0], sign), shape, variable)],
            shape,
            writes=(variable,),
        )
        assert found is not None
        self._known[variable] = found[0]
        return found[0]

    def python(
        self, op: Operation, inputs: Sequence[Value], function: Function, shape: Sequence[int] | None = None
    ) -> list[Value] | None:
        """Add a step that runs `function`, and return its results; None if only the run knows their shapes.

        `shape` is that of all results, if this stage knows more than the graph.
        """
        found = self._step(
            op,
            inputs,
            function,
            shape,
            reads=op.attrs.get("reads", ()),
            writes=op.attrs.get("writes", ()),
            cost=PYTHON_NS,
        )
        for variable in op.attrs.get("writes", ()):
            self._known.pop(variable, None)
            self._written_inside.add(variable)
        return found

    def _step(
        self,
        op: Operation,
        inputs: Sequence[Value],
        function: Function,
        shape: Sequence[int] | None,
        *,
        reads: Sequence[Any] = (),
        writes: Sequence[Any] = (),
        outputs: Sequence[Any] | None = None,
        cost: float = TOUCH_NS,
    ) -> list[Value] | None:
        """Add a step, ordered among the steps that access the same variables."""
        tensors = op.outputs if outputs is None else outputs
        fixed = shape is not None or (all(tensor.shape.is_fully_defined() for tensor in tensors) and bool(tensors))
        known = [Info(t.dtype.core, t.shape.static() if shape is None else tuple(shape)) for t in tensors if fixed]
        before = dict.fromkeys([*self.after, *self._before(reads, writes)])
        if self.run is None:
            self.run = self.graph.input("run", dtypes.i64, ())
        infos = [Info(dtypes.u8, ()), *known]
        attrs = {
            "function": _body(op, function, len(inputs), [as_dtype(t.dtype).core.numpy for t in tensors], fixed=fixed),
            "infer": lambda _: infos,
            "blocking": False,
            "label": op.type,
            "cost": cost,
        }
        node = self.graph.make("call", [*inputs, *before, self.run], attrs, name=op.name, outputs=len(infos))
        for value, info in zip(node.outputs, infos, strict=True):
            value.dtype, value.shape = info.dtype, info.shape
        self.graph.nodes.append(node)
        link(node)
        token = node.outputs[0]
        self.tokens.append(token)
        for variable in reads:
            self._reads_since.setdefault(variable, []).append(token)
        for variable in writes:
            self._last_writes[variable], self._reads_since[variable] = token, []
            self._written_inside.discard(variable)
        if fixed:
            return node.outputs[1:]
        self.dynamic.append(op)
        return None

    def _before(self, reads: Sequence[Any], writes: Sequence[Any]) -> list[Value]:
        """Return the tokens of the steps that must precede one that accesses these variables."""
        changes = [self._last_writes[variable] for variable in (*reads, *writes) if variable in self._last_writes]
        return changes + [token for variable in writes for token in self._reads_since.get(variable, ())]


def _body(
    op: Operation, function: Function, count: int, wanted: Sequence[Any], *, fixed: bool
) -> Callable[[list[Array]], list[Array]]:
    """Wrap `function` for a call node: inputs, tokens and the number of the run in, a token and results out."""

    def step(arrays: list[Array]) -> list[Array]:
        run = RUNS[int(arrays[-1])]
        found = function(run, arrays[:count])
        results = [np.asarray(item, dtype, order="C") for item, dtype in zip(found, wanted, strict=True)]
        if fixed:
            return [DONE, *results]
        run.results[op] = [result if result.base is None else result.copy() for result in results]
        return [DONE]

    return step


def _check_assignment(variable: Any, shape: Sequence[int]) -> None:
    if not variable.shape.is_compatible_with(shape):
        raise InvalidArgumentError(
            None, None, f"Cannot assign value of shape {shape} to {variable.name} of shape {variable.shape}"
        )


def _check_addition(variable: Any, held: Sequence[int], delta: Sequence[int]) -> None:
    try:
        fits = np.broadcast_shapes(tuple(held), tuple(delta)) == tuple(held)
    except ValueError:
        fits = False
    if not fits:
        raise InvalidArgumentError(
            None, None, f"Cannot update {variable.name} of shape {tuple(held)} with a value of shape {tuple(delta)}"
        )


def _checked_shape(array: Array, shape: Sequence[int] | None, variable: Any) -> Array:
    """Return `array`, a value of the variable. Raises FailedPreconditionError if another run changed its shape."""
    if shape is not None and array.shape != tuple(shape):
        raise FailedPreconditionError(
            None, None, f"{variable.name} had shape {tuple(shape)} when the run began, and {array.shape} later"
        )
    return array
