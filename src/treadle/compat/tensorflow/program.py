"""Programs: what a run computes, compiled in as few stages as the shapes allow.

What follows a size that depends on data is a part of the same stage: the native core makes it once it knows the size.
A stage ends where only Python knows a shape, as after functions without a declared one, and where such a size decides
what Python does: writes to variables, functions, loops that Python drives. The stages after it are built when their
shapes are known, and cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle import forking
from treadle.compat.tensorflow.deferred_ops import add_deferred_ops, asked_input, can_be_deferred, misfit, results_of
from treadle.compat.tensorflow.effects import accessed_variables, changes
from treadle.compat.tensorflow.errors import InvalidArgumentError
from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.stage import StageEmitter
from treadle.compat.tensorflow.state import RUNS, Run
from treadle.compat.tensorflow.tensor import Tensor
from treadle.compile import Session, count_compiles, runner_of, runs_in_stages
from treadle.errors import ShapeError, TreadleError
from treadle.frontends.core_bodies import is_known
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.graph.graph import all_nodes
from treadle.graph.value import Value
from treadle.lru import LRU
from treadle.ops.op import Array
from treadle.runtime.runner import Runner

Held = dict[Any, Array | None]
"""The values of variables at the start of a stage; None for those that have none."""

MOST_STAGES = 16
"""The number of shape combinations for which a program caches its first stage."""


@dataclass(slots=True)
class Stage:
    """A compiled stage: where its inputs come from, where its results go, and the program after it.

    If it `may_be_refused`, a run may find that a part of the stage needs Python. The run then raises an error before
    it has changed anything.
    """

    session: Session | None
    inputs: dict[str, Tensor]
    reads: dict[str, Any]
    run: str | None
    outputs: dict[Tensor, str]
    dynamic: list[Operation]
    rest: Program | None
    may_be_refused: bool


@dataclass(frozen=True, slots=True)
class Direct:
    """A stage that is the whole program for arrays of these shapes, with the order of its inputs and outputs.

    `inputs` are indices of given arrays, -1 for the number of the run. `outputs` are indices of the session's results;
    negative ones, counted from -1, are indices of given arrays.
    """

    shapes: tuple[tuple[int, ...], ...]
    runner: Runner
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Program:
    """Operations that compute `wanted` from `given` tensors.

    The values of the `fixed` ones among these are compiled in.
    """

    def __init__(
        self,
        ops: Sequence[Operation],
        given: Sequence[Tensor],
        wanted: Sequence[Tensor],
        fixed: frozenset[Tensor] = frozenset(),
    ) -> None:
        self.ops = list(ops)
        self.given = tuple(dict.fromkeys(given))
        self.wanted = tuple(dict.fromkeys(wanted))
        self._outputs = tuple(wanted)
        self._direct: Direct | None = None
        self.fixed = fixed
        self.variables = list(dict.fromkeys(variable for op in ops for variable in _variables_of(op)))
        self._stages: LRU[Any, Stage] = LRU(MOST_STAGES)
        self._defers = True  # whether what follows a size that depends on data is a part of its stage
        self._refusals: list[str] = []
        self._lock = forking.lock()

    def run(self, arrays: dict[Tensor, Array], run: Run) -> dict[Tensor, Array]:
        """Return the wanted tensors for arrays of the given ones. Raises treadle's errors and tf.errors."""
        RUNS[run.number] = run
        try:
            return self._run(arrays, run)
        finally:
            del RUNS[run.number]

    def run_part(self, arrays: Sequence[Array], run: Run) -> list[Array]:
        """Run as a part of another run.

        Takes arrays in the order of `given` and returns those in the order of `wanted`.
        """
        direct = self._direct
        if direct is not None and direct.shapes == tuple([array.shape for array in arrays]):
            run.counts.runs.add()
            made = direct.runner.run_nested(
                [arrays[place] if place >= 0 else np.array(run.number, np.int64) for place in direct.inputs]
            )
            return [made[place] if place >= 0 else arrays[-1 - place] for place in direct.outputs]
        given = dict(zip(self.given, arrays, strict=True))
        found = self.run(given, run.nested())
        self._direct = self._direct_for(given, run)
        return [found[tensor] for tensor in self._outputs]

    def _direct_for(self, arrays: dict[Tensor, Array], run: Run) -> Direct | None:
        """Return the only stage for such arrays; None if there may be several, or if it reads variables or values."""
        if self.fixed or self.variables:
            return None
        stage = self._stage(arrays, {}, run)
        if stage.session is None or stage.rest is not None or stage.dynamic or stage.may_be_refused:
            return None
        given = {name: self.given.index(tensor) for name, tensor in stage.inputs.items()}
        names = [tensor.name for tensor in stage.session.outputs]
        places = {tensor: names.index(name) for tensor, name in stage.outputs.items()}
        places.update((tensor, -1 - place) for place, tensor in enumerate(self.given))
        return Direct(
            tuple(array.shape for array in arrays.values()),
            runner_of(stage.session),
            tuple(given.get(tensor.name, -1) for tensor in stage.session.inputs),
            tuple(places[tensor] for tensor in self._outputs),
        )

    def _run(self, arrays: dict[Tensor, Array], run: Run) -> dict[Tensor, Array]:
        held = {variable: run.store.values.get(variable) for variable in self.variables}
        stage = self._stage(arrays, held, run)
        known = {tensor: arrays[tensor] for tensor in self.given}
        if stage.session is not None:
            inputs: dict[str, Any] = {name: arrays[tensor] for name, tensor in stage.inputs.items()}
            inputs.update((name, held[variable]) for name, variable in stage.reads.items())
            if stage.run is not None:
                inputs[stage.run] = np.array(run.number, np.int64)
            run.counts.runs.add()
            try:
                found = stage.session.run(inputs, **run.arguments())
            except TreadleError:
                if not stage.may_be_refused or (self._defers and not self._refusals):
                    raise
                with self._lock:
                    self._stop_deferring()
                return self._run(arrays, run)
            known.update((tensor, found[name]) for tensor, name in stage.outputs.items())
        for op in stage.dynamic:
            known.update(zip(op.outputs, run.results.pop(op), strict=True))
        if stage.rest is not None:
            known.update(stage.rest._run({t: known[t] for t in stage.rest.given}, run))  # noqa: SLF001 - one of its kind
        return {tensor: known[tensor] for tensor in self.wanted}

    def _stage(self, arrays: dict[Tensor, Array], held: Held, run: Run) -> Stage:
        fed = tuple(
            (arrays[tensor].shape, arrays[tensor].tobytes() if tensor in self.fixed else None) for tensor in self.given
        )
        key = (fed, tuple(None if array is None else array.shape for array in held.values()))
        with self._lock:
            stage = self._stages.get(key)
            if stage is None:
                stage = self._build(arrays, held)
                if stage.session is not None:
                    count_compiles(stage.session, run.counts.compiles)
                self._stages.put(key, stage)
            return stage

    def _stop_deferring(self) -> None:
        """Drop the stages. Those that follow have no parts that are made once sizes are known."""
        self._defers = False
        self._refusals.clear()
        self._stages.clear()

    def _build(self, arrays: dict[Tensor, Array], held: Held) -> Stage:
        """Return the stage for these arrays, without parts that are made later if one of them needs Python."""
        stage = self._build_one(arrays, held)
        if self._defers and (stage is None or self._refusals or _needs_stages(stage)):
            self._stop_deferring()
            stage = self._build_one(arrays, held)
        assert stage is not None, "nothing was deferred"
        return stage

    def _build_one(self, arrays: dict[Tensor, Array], held: Held) -> Stage | None:
        """Return the stage for these arrays; None if what it defers cannot be made by the native core."""
        effectless = not any(map(changes, self.ops))
        e = StageEmitter(held, self._refusals, may_be_refused=self._defers and effectless)
        values: dict[Tensor, Value] = {}
        for tensor in self.given:
            if tensor in self.fixed:
                values[tensor] = e.graph.constant(arrays[tensor], tensor.name)
            else:
                values[tensor] = e.graph.input(tensor.name, tensor.dtype.core, arrays[tensor].shape)
        inputs = {value.name: tensor for tensor, value in values.items() if not value.is_constant}
        emission = _Emission(e, values, self.fixed, defers=self._defers)
        emission.add(self.ops)
        left, fixed = emission.left.ops, frozenset(emission.fixed)
        needed = [t for op in left for t in op.inputs if t.op not in left or t in self.given] + list(self.wanted)
        if emission.deferred and (e.tokens or not emission.add_deferred(needed)):
            return None
        made = {tensor: value for tensor, value in values.items() if tensor not in self.given}
        dynamic = {tensor for op in e.dynamic for tensor in op.outputs}
        ready = [t for t in dict.fromkeys(needed) if t in values or t in dynamic]
        rest = None
        if left:
            wanted = [t for t in self.wanted if t.op in left and t not in values]
            rest = Program(list(left), ready, wanted, fixed)
            if len(left) == len(self.ops) and fixed <= self.fixed:
                first = next(iter(left))
                raise InvalidArgumentError(
                    None, first, f"{first.name}: its shape depends on values that only a run knows"
                )
        outputs = {tensor: made[tensor] for tensor in ready if tensor in made}
        results = [*outputs.values(), *e.tokens]
        e.graph.outputs = list(dict.fromkeys(results))
        session = Session(e.graph) if results else None
        return Stage(
            session=session,
            inputs=inputs,
            reads={value.name: variable for variable, value in e.reads.items()},
            run=None if e.run is None else e.run.name,
            outputs={tensor: value.name for tensor, value in outputs.items()},
            dynamic=e.dynamic,
            rest=rest,
            may_be_refused=self._defers and any(node.op == "deferred" for node in all_nodes(e.graph)),
        )


def _needs_stages(stage: Stage) -> bool:
    """Return whether parts of a stage that are made once sizes are known have Python between them."""
    return stage.may_be_refused and stage.session is not None and runs_in_stages(stage.session)


class _Emission:
    """The operations of a stage in the making, and those that are left to later stages.

    `values` are those of tensors, `fixed` the tensors whose values what is left needs. If it `defers`, the native core
    makes the `deferred` operations of this stage once it knows the sizes that they need.
    """

    def __init__(self, e: StageEmitter, values: dict[Tensor, Value], fixed: frozenset[Tensor], *, defers: bool) -> None:
        self.left = Left()
        self.fixed = set(fixed)
        self.deferred: dict[Operation, None] = {}
        self._emitter = e
        self._values = values
        self._defers = defers
        self._asked: dict[Tensor, None] = {}
        self._effects: dict[Operation, dict[Value, None]] = {}
        self._opaque: set[Operation] = set()

    def add(self, ops: Sequence[Operation]) -> None:
        """Add the nodes of `ops` that can be built now, and sort the others. Raises InvalidArgumentError."""
        e, values, effects = self._emitter, self._values, self._effects
        for op in ops:
            before = [other for other in (*(t.op for t in op.inputs), *op.control_inputs) if other in effects]
            effects[op] = {value: None for other in before for value in effects[other]}
            e.opaque = any(other in self._opaque for other in before)
            if e.opaque or op.attrs.get("opaque"):
                self._opaque.add(op)
            if self._is_left(op):
                self.left.add(op)
                continue
            if not all(tensor in values and is_known(values[tensor]) for tensor in op.inputs):
                self.deferred[op] = None
                continue
            e.name, e.after, count = op.name, list(effects[op]), len(e.tokens)
            try:
                found = op.emit(e, [values[tensor] for tensor in op.inputs])
            except NeedsShapeError as need:
                self._note(op, need.value)
                continue
            except (ShapeError, ValueError) as error:
                raise misfit(op, error) from error
            fresh = {t: value for t, value in zip(op.outputs, results_of(found), strict=False) if t not in values}
            values.update(fresh)
            if e.tokens[count:]:
                effects[op] = dict.fromkeys(e.tokens[count:])

    def add_deferred(self, wanted: Sequence[Tensor]) -> bool:
        """Add one node for the deferred operations; False if the native core cannot make them."""
        return add_deferred_ops(self._emitter, list(self.deferred), self._asked, self._values, wanted)

    def _is_left(self, op: Operation) -> bool:
        """Return whether `op` must be built by a later stage."""
        values, deferred = self._values, self.deferred
        if self.left.concerns(op):
            return True
        if all(tensor in values and is_known(values[tensor]) for tensor in op.inputs):
            return changes(op) and any(other in deferred for other in op.control_inputs)
        is_made = all(tensor in values or tensor.op in deferred for tensor in op.inputs)
        return not (self._defers and is_made and can_be_deferred(self._emitter, op))

    def _note(self, op: Operation, value: Value | None) -> None:
        """Sort an operation that needs the elements of `value`."""
        defers = self._defers and can_be_deferred(self._emitter, op)
        tensor = asked_input(op, self._values, value) if defers else None
        if tensor is not None:
            self.deferred[op] = None
            self._asked[tensor] = None
            return
        self.fixed.update(tensor for tensor in op.inputs if tensor.dtype.is_integer)
        self.left.add(op)


class Left:
    """Operations left to a later stage, and what they read and write."""

    def __init__(self) -> None:
        self.ops: dict[Operation, None] = {}
        self._reads: set[Any] = set()
        self._writes: set[Any] = set()

    def add(self, op: Operation) -> None:
        """Leave `op` to a later stage."""
        reads, writes = accessed_variables(op)
        self.ops[op] = None
        self._reads |= reads
        self._writes |= writes

    def concerns(self, op: Operation) -> bool:
        """Return whether `op` must run after one of them."""
        reads, writes = accessed_variables(op)
        in_turn = bool(self._writes & (reads | writes)) or bool(self._reads & writes)
        return in_turn or any(other in self.ops for other in op.control_inputs)


def _variables_of(op: Operation) -> Iterator[Any]:
    """Yield the variables whose values at the start of a stage `op` may ask for, also in its bodies."""
    if "variable" in op.attrs:
        yield op.attrs["variable"]
    yield from op.attrs.get("reads", ())
