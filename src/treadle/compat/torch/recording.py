"""Straight-line tensor code, collected into one graph before it is compiled and run.

While a recording is current in a thread, tensor functions only record their ops; the tensors that they return are
pending. `flush` compiles the ops (once per code, dtypes and shapes) and runs them on the team, so that independent
ops run concurrently. A call outside any recording makes its own recording and flushes it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.compat.signatures import values_in
from treadle.compat.torch.dtypes import of_array
from treadle.compat.torch.infer_cache import infer_cached
from treadle.compat.torch.lazy_ints import Lazy, LazyInt
from treadle.compat.torch.memory import Memory
from treadle.compat.torch.sizes import Size
from treadle.compat.torch.state import current, recording_into
from treadle.compat.torch.tensor import Tensor
from treadle.compile import Session
from treadle.dtypes import i64
from treadle.errors import LimitError, ShapeError
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import is_open
from treadle.graph.value import Value
from treadle.lru import LRU
from treadle.ops.certain import infos_or_dtypes
from treadle.ops.deferred import DeferredNodes
from treadle.ops.evaluate import has_expressions
from treadle.ops.op import Array, Info
from treadle.runtime import providers

MOST_COMPILED = 1024
"""The number of compiled graphs that are kept."""

MOST_FLUSHES = 2
"""The number of flushes that a recording stores: enough to distinguish one from several."""


@dataclass(slots=True)
class Entry:
    """One op; operands and results are value numbers of its recording."""

    op: str
    operands: tuple[int | None, ...]
    attrs: dict[str, Any]
    results: tuple[int, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Flush:
    """The compiled code of one flush, the tensors that it read and computed, and its ops.

    `written` holds, for each input with pending writes: the tensor, the number of the output with its new elements,
    and a copy of its elements before.
    """

    session: Session | None
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ops: frozenset[str]
    written: tuple[tuple[Tensor, int, Array], ...] = ()

    def feed(self) -> dict[str, Array]:
        """Returns the arrays of `inputs` by the names of the session's inputs."""
        assert self.session is not None
        names = (tensor.name for tensor in self.session.inputs)
        return dict(zip(names, (tensor.materialized() for tensor in self.inputs), strict=True))


class Compiled:
    """Sessions by code. Threads that request the same new one may both compile it; one is kept."""

    def __init__(self) -> None:
        self._sessions: LRU[Any, Session] = LRU(MOST_COMPILED)

    def get(self, key: Any, build: Callable[[], Graph]) -> Session:
        """Returns the session for `key` and the current matmul provider, compiled from `build()` if there is none."""
        key = (providers.current().name, key)
        session = self._sessions.get(key)
        if session is None:
            session = Session(build())
            self._sessions.put(key, session)
        return session


COMPILED = Compiled()


class Recording:
    """The ops that one thread has recorded and not computed yet.

    With `keep` (tracing), values computed by a flush stay part of the code. With `watch`, each flush is stored in
    `flushes`. `not_replayable` is the reason why a replay could give another result, or empty. `sessions` are those
    that flushes have run.

    Sizes that depend on data are expressions of `facts`, which assume nothing. Calls that need such sizes are recorded
    as they are (`call_later`), and become ops once the run knows the sizes.
    """

    def __init__(self, *, keep: bool = False, watch: bool = False) -> None:
        self.keep = keep
        self.watch = watch
        self.not_replayable = ""
        self.data_dependent = False  # True if what follows depends on data
        self.flushes: list[Flush] = []
        self.sessions: list[Session] = []
        self.scopes: list[str] = []
        self.function = ""
        self._clear()

    def _clear(self) -> None:
        self.infos: list[Info] = []
        self.entries: list[Entry] = []
        self.inputs: dict[int, Tensor] = {}  # value number -> the tensor with the array
        self.constants: dict[int, Array] = {}
        self._numbers: dict[int, int] = {}  # id of a tensor -> value number
        self._key: list[Any] = []
        self._pending: list[tuple[int, weakref.ref[Tensor]]] = []
        self.memory = Memory()
        self.facts = CaseAnalysis()
        self.has_open_sizes = False

    def emit(
        self, op: str, operands: Sequence[Tensor | Array | None], attrs: dict[str, Any], outputs: int
    ) -> list[Tensor]:
        """Records `op` on `operands` (arrays are constants) and returns its pending results.

        Results whose rank depends on data are computed at once. Raises RuntimeError if the operands do not fit.
        """
        if self.memory.written:
            self.memory.flush_overlapping(self, operands)
        numbers = tuple(None if each is None else self.number(each) for each in operands)
        attrs_key = _frozen(attrs)
        try:
            infos = self.inferred(
                op, attrs, attrs_key, [None if n is None else self.infos[n] for n in numbers], outputs
            )
        except (ShapeError, LimitError) as error:
            raise RuntimeError(f"{self.function or op}: {error}") from error
        name = "/".join([*self.scopes, self.function or op])
        return self._add(Entry(op, numbers, attrs, self._next(outputs), name), (attrs_key, outputs), infos)

    def inferred(
        self, op: str, attrs: dict[str, Any], attrs_key: Any, operands: Sequence[Info | None], outputs: int
    ) -> list[Info]:
        """Returns what is known of the results of an op. Raises ShapeError or LimitError if operands do not fit."""
        if not self.has_open_sizes or not any(each is not None and _has_sizes(each) for each in operands):
            infos = infer_cached(op, attrs, attrs_key, operands, outputs)
            if None not in [info.shape for info in infos]:
                return infos
        node = Graph(op).make(op, [], attrs, outputs=outputs)
        return infos_or_dtypes(node, operands, self.facts)

    def add_later(self, nodes: DeferredNodes, key: Any, numbers: Sequence[int], infos: Sequence[Info]) -> list[Tensor]:
        """Records `nodes`, which are made once the sizes of the values `numbers` are known; `key` stands for them."""
        name = "/".join([*self.scopes, self.function or "deferred"])
        entry = Entry("deferred", tuple(numbers), {"nodes": nodes}, self._next(len(infos)), name)
        return self._add(entry, key, infos)

    def _next(self, outputs: int) -> tuple[int, ...]:
        return tuple(range(len(self.infos), len(self.infos) + outputs))

    def _add(self, entry: Entry, key: Any, infos: Sequence[Info]) -> list[Tensor]:
        """Adds an entry of whose results this is known, and returns these. `key` stands for its attributes."""
        self.infos.extend(infos)
        self.entries.append(entry)
        self._key.append((entry.op, entry.operands, key, entry.name))
        tensors = [Tensor.pending(self, n) for n in entry.results]
        self._pending.extend((n, weakref.ref(tensor)) for n, tensor in zip(entry.results, tensors, strict=True))
        self.has_open_sizes = self.has_open_sizes or any(map(_has_sizes, infos))
        if None in [info.shape for info in infos]:
            self.not_replayable = f"the rank of a result of {entry.name} depends on data"
            self.data_dependent = True
            self.flush()
            if self.keep:
                for number, tensor, info in zip(entry.results, tensors, infos, strict=True):
                    self.infos[number] = Info(info.dtype, tensor.materialized().shape)
        return tensors

    def needs_later(self, args: Any) -> bool:
        """Returns True if a call from outside tensor functions needs sizes or numbers that are not known yet."""
        return not self.function and self.has_open_sizes and needs_sizes(self, args)

    def compute_sizes(self) -> None:
        """Computes what is pending, so that all sizes are known. The recording is not replayed then."""
        self.not_replayable = "it needs elements, or a size that depends on data"
        self.data_dependent = True
        self.flush()

    def element(self, tensor: Tensor) -> LazyInt:
        """Returns the only element of a tensor of integers, to be computed later."""
        is_long = self.infos[self.number(tensor)].dtype is i64
        (held,) = self.emit("identity", [tensor], {}, 1) if is_long else self.emit("cast", [tensor], {"to": i64}, 1)
        self.has_open_sizes = True
        exists = tensor.array is not None and not self.memory.has_written(tensor)
        element = int(tensor.materialized().reshape(-1)[0]) if exists else None
        return LazyInt("item", (held, element), self.facts.unknown_integer())

    def shape_of(self, tensor: Tensor) -> Size:
        """Returns the shape of a tensor of this recording, with a LazyInt for each size that is not known yet."""
        dims = self.infos[tensor.number].shape or ()
        if tensor.array is not None and self.data_dependent:
            dims = tensor.array.shape
        if not is_open(dims):
            return Size(dims)
        sizes: list[Any] = [
            LazyInt("size", (tensor, axis), dim) if is_expression(dim) else dim for axis, dim in enumerate(dims)
        ]
        return Size(sizes)

    def number(self, operand: Tensor | Array) -> int:
        """Returns the number of the current value of `operand`."""
        if isinstance(operand, np.ndarray):
            return self._constant(operand, operand.tobytes())
        return self.memory.current(self, self.slot(operand))

    def alias(self, value: int) -> Tensor:
        """Returns a new tensor with its own memory and the elements of a value."""
        slot = len(self.infos)
        self.infos.append(self.infos[value])
        self.memory.rename(slot, value)
        tensor = Tensor.pending(self, slot)
        self._pending.append((slot, weakref.ref(tensor)))
        return tensor

    def slot(self, operand: Tensor) -> int:
        """Returns the number of the first value of `operand`, which becomes an input or a constant if it is new."""
        if operand.recording is self and (self.keep or operand.array is None):
            return operand.number
        found = self._numbers.get(id(operand))
        if found is None:
            array = operand.materialized()
            if operand.frozen:
                return self._constant(array, id(array))
            found = len(self.infos)
            info = Info(of_array(array).core, array.shape)
            self.infos.append(info)
            self.inputs[found] = operand  # also keeps its id from being given to another
            self._numbers[id(operand)] = found
            self._key.append((found, info.dtype.name, info.shape))
        return found

    def _constant(self, array: Array, content: Any) -> int:
        number = len(self.infos)
        self.infos.append(Info(of_array(array).core, array.shape, array))
        self.constants[number] = array
        self._key.append((number, array.dtype.str, array.shape, content))
        return number

    def flush(self) -> None:
        """Computes the pending tensors that are still referenced, and the new elements of written ones."""
        alive = [tensor for _, ref in self._pending if (tensor := ref()) is not None and tensor.array is None]
        views = {} if self.keep else self.memory.views_of_roots(self, alive)
        wanted = [tensor for tensor in alive if tensor.number not in views]
        written = [] if self.keep else list(self.memory.written.values())
        with recording_into(self):
            values = [self.number(tensor) for tensor in (*wanted, *written)]
        numbers = list(dict.fromkeys(values))
        if views or len(set(values[: len(wanted)])) < len(wanted):
            self.not_replayable = "it returns tensors that share their memory"
        if self.watch and self.entries and len(self.flushes) < MOST_FLUSHES:
            positions = (numbers.index(value) for value in values[len(wanted) :])
            before = (
                (each, position, each.materialized().copy()) for each, position in zip(written, positions, strict=True)
            )
            self.flushes.append(replace(self.flush_of(numbers, wanted), written=tuple(before)))
        made = {tensor.number: tensor for tensor in wanted}
        if numbers:
            session = self.session(numbers)
            self.sessions.append(session)
            results = dict(zip(numbers, session.run(self.feed()).values(), strict=True))
            for position, (tensor, number) in enumerate(zip((*wanted, *written), values, strict=True)):
                if tensor.array is None:
                    array = results[number]
                    tensor.materialize(array.copy() if number in values[:position] else array, keep=self.keep)
                else:
                    np.copyto(tensor.array, results[number])
        for tensor in alive:
            view = views.get(tensor.number)
            if view is not None:
                root = self.inputs[view.root] if view.root in self.inputs else made[view.root]
                tensor.materialize(view.of_array(root.materialized()), keep=False)
        if self.keep:
            self._pending = []
        else:
            self._clear()

    def flush_of(self, numbers: Sequence[int], tensors: Sequence[Tensor]) -> Flush:
        """Returns the Flush that computes the values `numbers`, which are the elements of `tensors`."""
        session = self.session(numbers) if numbers else None
        inputs = tuple(self.inputs.values()) if numbers else ()
        return Flush(session, inputs, tuple(tensors), frozenset(entry.op for entry in self.entries))

    def read(self, tensor: Tensor) -> Array:
        """Returns the current elements of a tensor with pending writes."""
        if not self.keep:
            self.flush()
            return tensor.materialized()
        (array,) = self.session([self.number(tensor)]).run(self.feed()).values()
        return array

    def session(self, outputs: Sequence[int]) -> Session:
        """Returns the session that computes the values numbered `outputs`."""
        return COMPILED.get((tuple(self._key), tuple(outputs)), lambda: self.graph(outputs))

    def feed(self) -> dict[str, Array]:
        """Returns the arrays of the inputs by the names of the session's inputs."""
        return {f"v{number}": tensor.materialized() for number, tensor in self.inputs.items()}

    def graph(self, outputs: Sequence[int]) -> Graph:
        """Returns a graph of the ops that computes the values numbered `outputs`."""
        graph = Graph("torch")
        values: dict[int, Value] = {}
        for number in self.inputs:
            info = self.infos[number]
            values[number] = graph.input(f"v{number}", info.dtype, info.shape or ())
        for number, array in self.constants.items():
            values[number] = graph.constant(np.ascontiguousarray(array).reshape(array.shape), f"v{number}")
        for entry in self.entries:
            results = [graph.value(f"v{number}") for number in entry.results]
            values.update(zip(entry.results, results, strict=True))
            operands = [None if n is None else values[n] for n in entry.operands]
            graph.add(entry.op, operands, entry.attrs, name=entry.name, outputs=results)
        graph.outputs = [values[number] for number in outputs]
        return graph


def needs_sizes(recording: Recording, args: Any) -> bool:
    """Returns True if a tensor among arguments has a size that depends on data, or a number is not known yet."""
    found: list[Any] = values_in(args, (Tensor, Lazy))
    return any(
        isinstance(part, Lazy) or (part.recording is recording and any(isinstance(dim, Lazy) for dim in part.shape))
        for part in found
    )


def _has_sizes(info: Info) -> bool:
    """Returns True if the shape of a value, or an element, is an expression."""
    return (info.shape is not None and is_open(info.shape)) or has_expressions(info)


def _frozen(attrs: dict[str, Any]) -> Any:
    return tuple(
        (name, (value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else value)
        for name, value in attrs.items()
    )


def emit(op: str, *operands: Tensor | Array | None, **attrs: Any) -> Tensor:
    """Records an op with one result in the current recording."""
    return emit_many(op, *operands, outputs=1, **attrs)[0]


def emit_many(op: str, *operands: Tensor | Array | None, outputs: int, **attrs: Any) -> list[Tensor]:
    """Records an op with several results in the current recording."""
    recording = current()
    assert recording is not None, f"{op} was emitted outside a tensor function"
    return recording.emit(op, operands, attrs, outputs)


def emit_node(node: Node, found: dict[Value, Tensor]) -> None:
    """Records a node of a graph, whose values so far are `found`, and adds its results to these."""
    operands = [None if value is None else found.get(value, value.data) for value in node.inputs]
    found.update(zip(node.outputs, emit_many(node.op, *operands, outputs=len(node.outputs), **node.attrs), strict=True))
