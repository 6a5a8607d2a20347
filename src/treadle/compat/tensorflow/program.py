"""Programs: what a run has to do, compiled in as few stages as the shapes allow.

A stage ends where only a run can tell a shape: behind Python functions without a declared shape, loops, and ops such
as boolean_mask. The stages behind it are built when their shapes are known, and kept for the next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle import forking
from treadle.compat.tensorflow.errors import InvalidArgumentError, message_of
from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.stage import StageEmitter
from treadle.compat.tensorflow.state import RUNS, Run
from treadle.compat.tensorflow.tensor import Tensor
from treadle.compile import Session, runner_of
from treadle.errors import ShapeError
from treadle.frontends.tensorflow.emitter import NeedsShapeError
from treadle.graph.shape import is_static
from treadle.graph.value import Value
from treadle.lru import LRU
from treadle.ops.op import Array
from treadle.runtime.runner import Runner

Held = dict[Any, Array | None]
"""The values of variables when a stage begins; None for those that have none."""

MOST_STAGES = 16
"""How many combinations of shapes a program keeps its first stage for."""


def closure(wanted: Iterable[Tensor], targets: Iterable[Operation], fed: Iterable[Tensor]) -> list[Operation]:
    """The operations that a run needs, in the order in which they were made."""
    given = set(fed)
    found: set[Operation] = set()
    open_ = [tensor.op for tensor in wanted if tensor not in given] + list(targets)
    while open_:
        op = open_.pop()
        if op not in found:
            found.add(op)
            open_.extend(tensor.op for tensor in op.inputs if tensor not in given)
            open_.extend(op.control_inputs)
    return sorted(found, key=lambda op: op.number)


@dataclass(slots=True)
class Stage:
    """A compiled stage: where its inputs come from, where its results go, and what is left to do."""

    session: Session | None
    inputs: dict[str, Tensor]
    reads: dict[str, Any]
    run: str | None
    outputs: dict[Tensor, str]
    dynamic: list[Operation]
    rest: Program | None


@dataclass(frozen=True, slots=True)
class Direct:
    """A stage that does all there is to do for arrays of these shapes, and how its inputs and outputs are ordered.

    `inputs` are places among what is given, -1 for the number of the run. `outputs` are places among the results of the
    session; below 0, counted from -1, among what is given.
    """

    shapes: tuple[tuple[int, ...], ...]
    runner: Runner
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Program:
    """Operations that compute `wanted` from `given` tensors. `fixed` ones of these are compiled in by value."""

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
        self.variables = list(dict.fromkeys(op.attrs["variable"] for op in ops if "variable" in op.attrs))
        self._stages: LRU[Any, Stage] = LRU(MOST_STAGES)
        self._lock = forking.lock()

    def run(self, arrays: dict[Tensor, Array], run: Run) -> dict[Tensor, Array]:
        """The wanted tensors, from arrays of the given ones. Raises treadle's errors and tf.errors."""
        RUNS[run.number] = run
        try:
            return self._run(arrays, run)
        finally:
            del RUNS[run.number]

    def run_part(self, arrays: Sequence[Array], run: Run) -> list[Array]:
        """As `run`, as a part of the run around it: from arrays in the order of what is given to those of what is wanted."""
        direct = self._direct
        if direct is not None and direct.shapes == tuple([array.shape for array in arrays]):
            made = direct.runner.run_nested(
                [arrays[place] if place >= 0 else np.array(run.number, np.int64) for place in direct.inputs]
            )
            return [made[place] if place >= 0 else arrays[-1 - place] for place in direct.outputs]
        given = dict(zip(self.given, arrays, strict=True))
        found = self.run(given, run.nested())
        self._direct = self._direct_for(given)
        return [found[tensor] for tensor in self._outputs]

    def _direct_for(self, arrays: dict[Tensor, Array]) -> Direct | None:
        """The only stage for such arrays; None if there are several, or if it needs more than the arrays."""
        if self.fixed or self.variables:
            return None
        stage = self._stage(arrays, {})
        if stage.session is None or stage.rest is not None or stage.dynamic:
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
        stage = self._stage(arrays, held)
        known = {tensor: arrays[tensor] for tensor in self.given}
        if stage.session is not None:
            inputs: dict[str, Any] = {name: arrays[tensor] for name, tensor in stage.inputs.items()}
            inputs.update((name, held[variable]) for name, variable in stage.reads.items())
            if stage.run is not None:
                inputs[stage.run] = np.array(run.number, np.int64)
            found = stage.session.run(inputs, **run.arguments())
            known.update((tensor, found[name]) for tensor, name in stage.outputs.items())
        for op in stage.dynamic:
            known.update(zip(op.outputs, run.results.pop(op), strict=True))
        if stage.rest is not None:
            known.update(stage.rest._run({t: known[t] for t in stage.rest.given}, run))  # noqa: SLF001 - one of its kind
        return {tensor: known[tensor] for tensor in self.wanted}

    def _stage(self, arrays: dict[Tensor, Array], held: Held) -> Stage:
        fed = tuple(
            (arrays[tensor].shape, arrays[tensor].tobytes() if tensor in self.fixed else None) for tensor in self.given
        )
        key = (fed, tuple(None if array is None else array.shape for array in held.values()))
        with self._lock:
            stage = self._stages.get(key)
            if stage is None:
                stage = self._build(arrays, held)
                self._stages.put(key, stage)
            return stage

    def _build(self, arrays: dict[Tensor, Array], held: Held) -> Stage:
        e = StageEmitter(held)
        values: dict[Tensor, Value] = {}
        for tensor in self.given:
            if tensor in self.fixed:
                values[tensor] = e.graph.constant(arrays[tensor], tensor.name)
            else:
                values[tensor] = e.graph.input(tensor.name, tensor.dtype.core, arrays[tensor].shape)
        inputs = {value.name: tensor for tensor, value in values.items() if not value.is_constant}
        later, fixed = self._emit(e, values)
        made = {tensor: value for tensor, value in values.items() if tensor not in self.given}
        dynamic = {tensor for op in e.dynamic for tensor in op.outputs}
        left = set(later)
        needed = [t for op in later for t in op.inputs if t.op not in left or t in self.given] + list(self.wanted)
        ready = [t for t in dict.fromkeys(needed) if t in values or t in dynamic]
        rest = (
            Program(later, ready, [t for t in self.wanted if t.op in left and t not in values], fixed)
            if later
            else None
        )
        if rest is not None and len(later) == len(self.ops) and fixed <= self.fixed:
            raise InvalidArgumentError(
                None, later[0], f"{later[0].name}: its shape depends on values that only a run tells"
            )
        outputs = {tensor: made[tensor] for tensor in ready if tensor in made}
        results = [*outputs.values(), *e.tokens]
        e.graph.outputs = list(dict.fromkeys(results))
        return Stage(
            session=Session(e.graph) if results else None,
            inputs=inputs,
            reads={value.name: variable for variable, value in e.reads.items()},
            run=None if e.run is None else e.run.name,
            outputs={tensor: value.name for tensor, value in outputs.items()},
            dynamic=e.dynamic,
            rest=rest,
        )

    def _emit(self, e: StageEmitter, values: dict[Tensor, Value]) -> tuple[list[Operation], frozenset[Tensor]]:
        """Make nodes of what can be made now; returns what cannot, and which tensors must be known by value for it."""
        later = Deferred()
        fixed = set(self.fixed)
        effects: dict[Operation, dict[Value, None]] = {}
        opaque: set[Operation] = set()
        for op in self.ops:
            before = [other for other in (*(t.op for t in op.inputs), *op.control_inputs) if other in effects]
            effects[op] = {value: None for other in before for value in effects[other]}
            e.opaque = any(other in opaque for other in before)
            if e.opaque or op.attrs.get("opaque"):
                opaque.add(op)
            if any(not _known(values.get(tensor)) for tensor in op.inputs) or later.concerns(op):
                later.add(op)
                continue
            e.name, e.after, count = op.name, list(effects[op]), len(e.tokens)
            try:
                found = op.emit(e, [values[tensor] for tensor in op.inputs])
            except NeedsShapeError:
                fixed.update(tensor for tensor in op.inputs if tensor.dtype.is_integer)
                later.add(op)
                continue
            except (ShapeError, ValueError) as error:
                raise InvalidArgumentError(
                    None, op, f"{message_of(error)}\n\t [[node {op.name} ({op.type})]]"
                ) from error
            results = found if isinstance(found, (list, tuple)) else [] if found is None else [found]
            fresh = {t: value for t, value in zip(op.outputs, results, strict=False) if t not in values}
            values.update(fresh)
            if e.tokens[count:]:
                effects[op] = dict.fromkeys(e.tokens[count:])
        return list(later.ops), frozenset(fixed)


class Deferred:
    """Operations left for a later stage, and with them whatever must not come before them."""

    def __init__(self) -> None:
        self.ops: dict[Operation, None] = {}
        self._reads: set[Any] = set()
        self._writes: set[Any] = set()

    def add(self, op: Operation) -> None:
        """Leave `op` for later."""
        reads, writes = accessed_variables(op)
        self.ops[op] = None
        self._reads |= reads
        self._writes |= writes

    def concerns(self, op: Operation) -> bool:
        """Whether `op` must wait for one of them."""
        reads, writes = accessed_variables(op)
        in_turn = bool(self._writes & (reads | writes)) or bool(self._reads & writes)
        return in_turn or any(other in self.ops for other in op.control_inputs)


def accessed_variables(op: Operation) -> tuple[set[Any], set[Any]]:
    """The variables that `op` reads, and those that it changes."""
    reads, writes = set(op.attrs.get("reads", ())), set(op.attrs.get("writes", ()))
    if "variable" in op.attrs:
        (writes if op.kind.startswith("Assign") else reads).add(op.attrs["variable"])
    return reads, writes


def _known(value: Value | None) -> bool:
    return value is not None and value.shape is not None and is_static(value.shape)
