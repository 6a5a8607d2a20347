"""Graphs of operations, built by calling ops while a graph is current."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from treadle import forking
from treadle.compat.tensorflow.graph_export import graph_def_of
from treadle.compat.tensorflow.op_types import type_of
from treadle.compat.tensorflow.placement import canonical_device
from treadle.compat.tensorflow.scopes import current_device, default_session, enter_graph, on_device
from treadle.compat.tensorflow.shape_inference import infer_outputs
from treadle.compat.tensorflow.tensor import Tensor
from treadle.compat.tensorflow.tensor_like import TensorLike
from treadle.frontends.tensorflow.messages import NodeDef
from treadle.graph.value import Value
from treadle.ops.op import Info

Emit = Callable[[Any, Sequence[Value]], Any]
"""(emitter, values of the inputs) -> value, or values, of the outputs."""

_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""What operations and scopes may be called."""


class Operation:
    """A node of a graph. `emit` makes its core nodes; `kind` tells apart what programs treat in ways of their own."""

    def __init__(
        self,
        graph: Graph,
        kind: str,
        name: str,
        inputs: Sequence[Tensor],
        emit: Emit,
        attrs: dict[str, Any],
    ) -> None:
        self.graph = graph
        self.kind = kind
        self.name = name
        self.inputs = tuple(inputs)
        self.emit = emit
        self.attrs = attrs
        self.control_inputs: list[Operation] = []
        self.outputs: list[Tensor] = []
        self.number = 0
        self.call: tuple[str, Any] | None = None  # the op of the table, and the arguments, that made it
        self.device = ""

    def get_attr(self, name: str) -> Any:
        """An attribute. Raises ValueError if there is none of this name."""
        if name not in self.attrs:
            raise ValueError(f"Operation {self.name!r} has no attr named {name!r}; it has {', '.join(self.attrs)}")
        return self.attrs[name]

    @property
    def type(self) -> str:
        """What TensorFlow calls such operations."""
        return self.kind if self.call is None else type_of(self.call[0], self.kind)

    @property
    def node_def(self) -> Any:
        """Its name, type and inputs as a NodeDef."""
        names = [tensor.name.removesuffix(":0") for tensor in self.inputs] + [
            f"^{op.name}" for op in self.control_inputs
        ]
        return NodeDef(name=self.name, op=self.type, input=names, device=self.device)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it in `session`, or in the default session."""
        default_session(session).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"


class Graph:
    """Operations in the order in which they were made, which is a topological one."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._by_name: dict[str, Operation] = {}
        self._names: dict[str, int] = {}
        self._scope = ""
        self._control: list[list[Operation]] = []
        self._lock = forking.lock()
        self._finalized = False
        self.scopes: list[Any] = []
        self.seed: int | None = None
        self.collections: dict[str, list[Any]] = {}

    def as_default(self) -> AbstractContextManager[Graph]:
        """Make this the graph that ops are added to, in this thread, while the block runs."""
        return enter_graph(self)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """The operations as a GraphDef, for a file. Raises UnimplementedError, listing them, for ops that files cannot hold."""
        return graph_def_of(self)

    def get_operations(self) -> list[Operation]:
        return list(self._operations)

    def finalize(self) -> None:
        """From now on nothing can be added: RuntimeError."""
        self._finalized = True

    @property
    def finalized(self) -> bool:
        """Whether nothing can be added any more."""
        return self._finalized

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The tensor "<operation>:<index>" or the operation that `obj` names; a tensor or operation of this graph itself.

        Raises KeyError or ValueError for a name that means nothing here, TypeError for anything else.
        """
        if isinstance(obj, str):
            return self.get_tensor_by_name(obj) if ":" in obj else self.get_operation_by_name(obj)
        if not isinstance(obj, (Tensor, Operation)):
            raise TypeError(f"Can not convert a {type(obj).__name__} into a Tensor or Operation.")
        if obj.graph is not self:
            raise ValueError(f"{obj!r} is not an element of this graph.")
        return obj

    def get_operation_by_name(self, name: str) -> Operation:
        """Raises KeyError if there is none, ValueError for the name of a tensor."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        if ":" in name:
            raise ValueError(f"The name {name!r} looks like a Tensor name, not an Operation name.")
        if name not in self._by_name:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return self._by_name[name]

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor "<operation>:<index>". Raises ValueError for a malformed name, KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        operation, colon, index = name.partition(":")
        if not colon or not index.isdigit():
            raise ValueError(f"The name {name!r} refers to an Operation, not a Tensor; wanted '<op name>:<index>'")
        outputs = self.get_operation_by_name(operation).outputs
        if int(index) >= len(outputs):
            raise KeyError(
                f"The name {name!r} refers to a Tensor which does not exist. The operation, {operation!r}, exists but only "
                f"has {len(outputs)} outputs."
            )
        return outputs[int(index)]

    def get_collection(self, key: str) -> list[Any]:
        return list(self.collections.get(key, ()))

    def add_to_collection(self, key: str, value: Any) -> None:
        self.collections.setdefault(key, []).append(value)

    def unique_name(self, name: str) -> str:
        """`name` inside the current scope, with _1, _2, ... if it is taken (in any case of its letters); now taken."""
        wanted = name[:-1] if name.endswith("/") else f"{self._scope}{name}"
        if not _NAME.fullmatch(wanted):
            raise ValueError(f"{wanted!r} is not a valid node name. Accepted names conform to {_NAME.pattern}")
        with self._lock:
            count = self._names.get(wanted.lower(), 0)
            self._names[wanted.lower()] = count + 1
            if not count:
                return wanted
            found = f"{wanted}_{count}"
            while found.lower() in self._names:
                count += 1
                found = f"{wanted}_{count}"
            self._names[wanted.lower()], self._names[found.lower()] = count + 1, 1
            return found

    @contextmanager
    def reopened(self) -> Iterator[None]:
        """Let something be added in the block though the graph is final."""
        before, self._finalized = self._finalized, False
        try:
            yield
        finally:
            self._finalized = before

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Ops made in the block have names that begin with "<name>/"."""
        before = self._scope
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name_scope: wanted a str, got {name!r}")
        self._scope = "" if not name else name if name.endswith("/") else f"{self.unique_name(name)}/"
        try:
            yield self._scope
        finally:
            self._scope = before

    @contextmanager
    def control_dependencies(self, inputs: Sequence[Any] | None) -> Iterator[None]:
        """Ops made in the block run after `inputs`; None clears what blocks around this one ask for."""
        before = self._control
        if inputs is None:
            self._control = []
        else:
            for item in inputs:
                if not isinstance(item, (Operation, TensorLike)):
                    raise TypeError(f"Can not convert a {type(item).__name__} into a Tensor or Operation.")
            found = [item for item in map(operation_of, inputs) if item is not None and item.graph is self]
            self._control = [*before, found]
        try:
            yield
        finally:
            self._control = before

    def device(self, name: Any) -> AbstractContextManager[None]:
        """Ask for a device for the ops made in the block."""
        return on_device("" if name is None else str(name))

    def enter(self, tensor: Tensor) -> Tensor:
        """`tensor` as a tensor of this graph. Raises ValueError if it belongs to another."""
        if tensor.graph is not self:
            raise ValueError(f"{tensor!r} must be from the same graph as the op that reads it")
        return tensor

    def create_op(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        emit: Emit,
        name: str | None = None,
        *,
        outputs: Sequence[tuple[Info, Info]] | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> Operation:
        """Add an operation. Without `outputs` its rule is tried out to learn their dtypes and shapes.

        Raises MisfitError (a ValueError), or TypeError for element types, if the operands do not fit it.
        """
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        op = Operation(self, kind, self.unique_name(name or kind), [self.enter(t) for t in inputs], emit, attrs or {})
        op.control_inputs = list(dict.fromkeys(other for group in self._control for other in group))
        op.device = canonical_device(current_device())
        found = infer_outputs(op) if outputs is None else outputs
        op.outputs = [Tensor(op, index, infos) for index, infos in enumerate(found)]
        with self._lock:
            op.number = len(self._operations)
            self._operations.append(op)
            self._by_name[op.name] = op
        return op


def operation_of(item: Any) -> Operation | None:
    """The operation behind a tensor, an operation or a variable; None for an eager tensor."""
    if isinstance(item, Operation):
        return item
    if isinstance(item, Tensor):
        return item.op
    return getattr(item, "initializer", None)
