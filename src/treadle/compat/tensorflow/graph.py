"""Graphs of operations. Ops add operations to the current graph."""

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
from treadle.dtypes import DType
from treadle.frontends.tensorflow.describe import Describer
from treadle.frontends.tensorflow.messages import NodeDef
from treadle.graph.value import Value
from treadle.ops.op import Info

Emit = Callable[[Any, Sequence[Value]], Any]
"""(emitter, values of the inputs) -> value, or values, of the outputs."""

_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""Valid names of operations and scopes."""


class Operation:
    """A node of a graph. See tf.Operation in TensorFlow's documentation.

    `emit` adds its core nodes; `kind` identifies ops that programs treat specially.
    """

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
        self.call: tuple[str, Any] | None = None  # the op of the table and the arguments it was called with
        self.device = ""

    def get_attr(self, name: str) -> Any:
        """Return an attribute. Raises ValueError if there is none of this name."""
        if name not in self.attrs:
            raise ValueError(f"Operation {self.name!r} has no attr named {name!r}; it has {', '.join(self.attrs)}")
        return self.attrs[name]

    @property
    def type(self) -> str:
        """TensorFlow's name for operations of this kind."""
        return self.kind if self.call is None else type_of(self.call[0], self.kind)

    @property
    def node_def(self) -> Any:
        """Its name, type and inputs, as a NodeDef."""
        names = [tensor.name.removesuffix(":0") for tensor in self.inputs] + [
            f"^{op.name}" for op in self.control_inputs
        ]
        return NodeDef(name=self.name, op=self.type, input=names, device=self.device)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it in `session`, or in the default session. Raises ValueError if there is neither."""
        default_session(session).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"


class Graph:
    """Operations in the order of their creation, which is a topological order.

    See tf.Graph in TensorFlow's documentation.
    """

    def __init__(self, describer: Describer | None = None) -> None:
        self.describer = Describer() if describer is None else describer
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
        """Add the ops of the block to this graph, in this thread."""
        return enter_graph(self)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """Return the operations as a GraphDef, for a file.

        Args:
            from_version: has no effect.
            add_shapes: has no effect.

        Raises:
            tf.errors.UnimplementedError: operations that files cannot hold; the error lists them.
        """
        return graph_def_of(self)

    def get_operations(self) -> list[Operation]:
        """Return the operations in the order of their creation."""
        return list(self._operations)

    def finalize(self) -> None:
        """Reject further operations with a RuntimeError."""
        self._finalized = True

    @property
    def finalized(self) -> bool:
        """Whether further operations are rejected."""
        return self._finalized

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """Return the tensor "<operation>:<index>", or the operation, that `obj` names.

        Args:
            obj: a name, or a tensor or operation of this graph, which is returned.
            allow_tensor: has no effect.
            allow_operation: has no effect.

        Raises:
            KeyError: the graph has no such tensor or operation.
            ValueError: a malformed name, or a tensor or operation of another graph.
            TypeError: anything else.
        """
        if isinstance(obj, str):
            return self.get_tensor_by_name(obj) if ":" in obj else self.get_operation_by_name(obj)
        if not isinstance(obj, (Tensor, Operation)):
            raise TypeError(f"Can not convert a {type(obj).__name__} into a Tensor or Operation.")
        if obj.graph is not self:
            raise ValueError(f"{obj!r} is not an element of this graph.")
        return obj

    def get_operation_by_name(self, name: str) -> Operation:
        """Return the operation `name`.

        Raises:
            KeyError: there is none.
            ValueError: the name of a tensor.
            TypeError: not a string.
        """
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        if ":" in name:
            raise ValueError(f"The name {name!r} looks like a Tensor name, not an Operation name.")
        if name not in self._by_name:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return self._by_name[name]

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor "<operation>:<index>".

        Raises:
            KeyError: there is none.
            ValueError: a malformed name.
            TypeError: not a string.
        """
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        operation, colon, index = name.partition(":")
        if not colon or not index.isdigit():
            raise ValueError(f"The name {name!r} refers to an Operation, not a Tensor; wanted '<op name>:<index>'")
        outputs = self.get_operation_by_name(operation).outputs
        if int(index) >= len(outputs):
            raise KeyError(
                f"The name {name!r} refers to a Tensor which does not exist. The operation, {operation!r}, exists but "
                f"only has {len(outputs)} outputs."
            )
        return outputs[int(index)]

    def get_collection(self, key: str) -> list[Any]:
        """Return the collection `key` as a list."""
        return list(self.collections.get(key, ()))

    def add_to_collection(self, key: str, value: Any) -> None:
        """Add `value` to the collection `key`."""
        self.collections.setdefault(key, []).append(value)

    def unique_name(self, name: str) -> str:
        """Reserve and return `name` inside the current scope, with _1, _2, ... if it is taken (ignoring case).

        Raises:
            ValueError: an invalid name.
        """
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
        """Allow further operations in the block although the graph is finalized."""
        before, self._finalized = self._finalized, False
        try:
            yield
        finally:
            self._finalized = before

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefix the names of operations created in the block with "<name>/"."""
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
        """Run the operations created in the block after `inputs`.

        Args:
            inputs: operations, tensors or variables; None clears the dependencies of blocks around it.

        Raises:
            TypeError: anything else.
        """
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
        """Request a device for the operations created in the block."""
        return on_device("" if name is None else str(name))

    def enter(self, tensor: Tensor) -> Tensor:
        """Return `tensor` as a tensor of this graph. Raises ValueError if it belongs to another graph."""
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
        outputs: Sequence[Info] | None = None,
        result_types: Callable[[], Sequence[DType]] | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> Operation:
        """Add an operation.

        Without `outputs` they are inferred; where nothing can be inferred, `result_types` gives their element types.
        Raises MisfitError (a ValueError) for operands that do not fit the op, TypeError for their element types.
        """
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        op = Operation(self, kind, self.unique_name(name or kind), [self.enter(t) for t in inputs], emit, attrs or {})
        op.control_inputs = list(dict.fromkeys(other for group in self._control for other in group))
        op.device = canonical_device(current_device())
        found = infer_outputs(op, result_types) if outputs is None else outputs
        op.outputs = [Tensor(op, index, info) for index, info in enumerate(found)]
        with self._lock:
            op.number = len(self._operations)
            self._operations.append(op)
            self._by_name[op.name] = op
        return op


def operation_of(item: Any) -> Operation | None:
    """Return the operation that computes a tensor or initializes a variable; None for an eager tensor."""
    if isinstance(item, Operation):
        return item
    if isinstance(item, Tensor):
        return item.op
    return getattr(item, "initializer", None)
