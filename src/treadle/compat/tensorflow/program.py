"""Programs: what a run computes, compiled in as few stages as the shapes allow.

A stage ends where only a run knows a shape: after Python functions without a declared shape, loops, and ops such as
boolean_mask. The stages after it are built when their shapes are known, and cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.graph.shape import is_static
from treadle.graph.value import Value
from treadle.lru import LRU
from treadle.ops.op import Array
from treadle.runtime.runner import Runner

Held = dict[Any, Array | None]
"""The values of variables at the start of a stage; None for those that have none."""

MOST_STAGES = 16
"""The number of shape combinations for which a program caches its first stage."""


def closure(wanted: Iterable[Tensor], targets: Iterable[Operation], fed: Iterable[Tensor]) -> list[Operation]:
    """Return the operations that a run needs, in the order of their creation."""
    given = set(fed)
    found: set[Operation] = set()
    pending = [tensor.op for tensor in wanted if tensor not in given] + list(targets)
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending.extend(tensor.op for tensor in op.inputs if tensor not in given)
            pending.extend(op.control_inputs)
    return sorted(found, key=lambda op: op.number)


@dataclass(slots=True)
class Stage:
    """A compiled stage: where its inputs come from, where its results go, and the program after it."""

    session: Session | None
    inputs: dict[str, Tensor]
    reads: dict[str, Any]
    run: str | None
    outputs: dict[Tensor, str]
    dynamic: list[Operation]
    rest: Program | None


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
            made = direct.runner.run_nested(
                [arrays[place] if place >= 0 else np.array(run.number, np.int64) for place in direct.inputs]
            )
            return [made[place] if place >= 0 else arrays[-1 - place] for place in direct.outputs]
        given = dict(zip(self.given, arrays, strict=True))
        found = self.run(given, run.nested())
        self._direct = self._direct_for(given)
        return [found[tensor] for tensor in self._outputs]

    def _direct_for(self, arrays: dict[Tensor, Array]) -> Direct | None:
        """Return the only stage for such arrays; None if there are several, or if it reads variables or values."""
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
        deferred, fixed = self._emit(e, values)
        made = {tensor: value for tensor, value in values.items() if tensor not in self.given}
        dynamic = {tensor for op in e.dynamic for tensor in op.outputs}
        left = set(deferred)
        needed = [t for op in deferred for t in op.inputs if t.op not in left or t in self.given] + list(self.wanted)
        ready = [t for t in dict.fromkeys(needed) if t in values or t in dynamic]
        rest = (
            Program(deferred, ready, [t for t in self.wanted if t.op in left and t not in values], fixed)
            if deferred
            else None
        )
        if rest is not None and len(deferred) == len(self.ops) and fixed <= self.fixed:
            raise InvalidArgumentError(
                None, deferred[0], f"{deferred[0].name}: its shape depends on values that only a run knows"
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
        """Add the nodes that can be built now.

        Returns the operations that remain, and the tensors whose values they need.
        """
        deferred = Deferred()
        fixed = set(self.fixed)
        effects: dict[Operation, dict[Value, None]] = {}
        opaque: set[Operation] = set()
        for op in self.ops:
            before = [other for other in (*(t.op for t in op.inputs), *op.control_inputs) if other in effects]
            effects[op] = {value: None for other in before for value in effects[other]}
            e.opaque = any(other in opaque for other in before)
            if e.opaque or op.attrs.get("opaque"):
                opaque.add(op)
            if any(not _known(values.get(tensor)) for tensor in op.inputs) or deferred.concerns(op):
                deferred.add(op)
                continue
            e.name, e.after, count = op.name, list(effects[op]), len(e.tokens)
            try:
                found = op.emit(e, [values[tensor] for tensor in op.inputs])
            except NeedsShapeError:
                fixed.update(tensor for tensor in op.inputs if tensor.dtype.is_integer)
                deferred.add(op)
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
        return list(deferred.ops), frozenset(fixed)


class Deferred:
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


def accessed_variables(op: Operation) -> tuple[set[Any], set[Any]]:
    """Return the variables that `op` reads, and those that it writes."""
    reads, writes = set(op.attrs.get("reads", ())), set(op.attrs.get("writes", ()))
    if "variable" in op.attrs:
        (writes if op.kind.startswith("Assign") else reads).add(op.attrs["variable"])
    return reads, writes


def _variables_of(op: Operation) -> Iterator[Any]:
    """Yield the variables whose values at the start of a stage `op` may ask for, also in its bodies."""
    if "variable" in op.attrs:
        yield op.attrs["variable"]
    yield from op.attrs.get("reads", ())


def _known(value: Value | None) -> bool:
    return value is not None and value.shape is not None and is_static(value.shape)
