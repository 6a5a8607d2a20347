"""Variables: state of a session (or of eager execution) that graphs read and write."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.control_flow import group
from treadle.compat.tensorflow.convert import convert_to_tensor, frozen
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.dtypes import DType, as_dtype
from treadle.compat.tensorflow.graph import Graph, Operation
from treadle.compat.tensorflow.scopes import default_session, eager_scope
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.state import EAGER
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor, constant_value, text_of
from treadle.compat.tensorflow.tensor_like import TensorLike

GLOBAL = "variables"
TRAINABLE = "trainable_variables"

SIGNS = {"AssignAdd": 1, "AssignSub": -1}


class Variable(TensorLike):
    """A tensor that can be assigned to. See tf.Variable in TensorFlow's documentation.

    In a graph its `initializer` must run first (see global_variables_initializer); eagerly it has its value at once. A
    read returns the value after the assignments that precede it in the program.

    Args:
        initial_value: a value, or a function without arguments that returns one.
        trainable: whether trainable_variables() lists it. It has no other effect.
        dtype: the element type; None for that of the value.
        name: the name of its operations.
        shape: dimensions with None for those that assignments may change; None for the shape of the value.
        collections: names of the graph's collections it is added to; None for the usual ones.

    Raises:
        ValueError: no initial value; creation inside cond or while_loop, or in any but the first trace of a
            tf.function.
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        name: str | None = None,
        shape: Any = None,
        collections: Any = None,
    ) -> None:
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        self.trainable = bool(trainable)
        graph = context.current_graph()
        wanted = as_dtype(dtype) if dtype is not None else None
        if graph is not None and getattr(graph, "eager_variables", False):
            self._create_while_tracing(graph, initial_value, trainable, dtype, name, shape)
            return
        self.op_name = (name or "Variable") if graph is None else graph.unique_name(name or "Variable")
        value = initial_value() if callable(initial_value) else initial_value
        first = convert_to_tensor(value) if isinstance(value, TensorLike) else convert_to_tensor(value, wanted)
        if wanted is not None and first.dtype != wanted:
            first = call("cast", first, wanted)
        self._dtype = first.dtype
        self._shape = first.shape if shape is None else TensorShape(shape)
        self._graph = graph
        self._initial = first
        self._initializer: Operation | None = None
        if isinstance(first, EagerTensor):
            EAGER.assign(self, np.asarray(first))
        else:
            if getattr(first.graph, "outer", None) is not None:
                raise ValueError(
                    f"{self.op_name} is created inside cond or while_loop; create it outside and assign it there"
                )
            self._initializer = self._write("Assign", first).op
            keys = [GLOBAL, *([TRAINABLE] if trainable else [])] if collections is None else collections
            for key in keys:
                first.graph.add_to_collection(key, self)

    def _create_while_tracing(
        self, graph: Any, first: Any, trainable: bool, dtype: Any, name: str | None, shape: Any
    ) -> None:
        """Create an eager variable in the first trace of a tf.function. Raises ValueError in later traces."""
        if not graph.may_create_variables:
            raise ValueError(
                "tf.function only supports singleton tf.Variables created on the first call. Make sure the tf.Variable "
                "is only created once (keep it in an attribute), or created outside tf.function."
            )
        graph.created_variables.append(self)
        known = constant_value(first) if isinstance(first, Tensor) else first
        if known is None:
            raise ValueError(
                "the initial value of a variable created in a tf.function must not depend on the arguments"
            )
        with eager_scope():
            Variable.__init__(self, known, trainable, dtype, name, shape)

    @property
    def name(self) -> str:
        """Its name, "<operation>:0"."""
        return f"{self.op_name}:0"

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """What is known of the shape."""
        return self._shape

    @property
    def graph(self) -> Graph | None:
        """The graph it belongs to; None for an eager variable."""
        return self._graph

    @property
    def initializer(self) -> Operation | None:
        """The operation that assigns the initial value; None for an eager variable."""
        return self._initializer

    @property
    def initial_value(self) -> Any:
        """The initial value, as a tensor."""
        return self._initial

    def initialized_value(self) -> Any:
        """Return the initial value, for the initializers of other variables."""
        return self._initial

    def numpy(self) -> Any:
        """Return the value of an eager variable as a NumPy array."""
        return self.read_value().numpy()

    def read_value(self) -> Any:
        """Return the value at this point of the program, as a tensor."""
        graph = context.current_graph() if self._graph is None else context.current_graph() or self._graph
        if graph is None:
            return EagerTensor(EAGER.read(self))
        op = graph.create_op(
            "ReadVariableOp",
            (),
            lambda e, _: e.read(op, self),
            f"{self.op_name}/read",
            outputs=[graph.describer.described(self._dtype.core, self._shape.dims)],
            attrs={"variable": self},
        )
        return op.outputs[0]

    value = read_value

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Set the value. See tf.Variable in TensorFlow's documentation.

        Args:
            value: the new value, of the variable's dtype and shape.
            use_locking: has no effect: assignments are atomic.
            name: has no effect.
            read_value: has no effect.

        Returns:
            The new value as a tensor of the graph; eagerly the variable.

        Raises:
            ValueError: a value of another shape.
        """
        return self._update("Assign", value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add `delta` to the value, atomically; otherwise as assign()."""
        return self._update("AssignAdd", delta)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract `delta` from the value, atomically; otherwise as assign()."""
        return self._update("AssignSub", delta)

    def _update(self, kind: str, value: Any) -> Any:
        given = convert_to_tensor(value, self._dtype)
        if not self._shape.is_compatible_with(given.shape if kind == "Assign" else None):
            raise ValueError(f"Cannot assign to {self.name} of shape {self._shape} a value of shape {given.shape}")
        if isinstance(given, Tensor):
            return self._write(kind, given)
        if kind == "Assign":
            EAGER.assign(self, np.asarray(given))
        else:
            EAGER.add(self, np.asarray(given), SIGNS[kind])
        return self

    def _write(self, kind: str, value: Tensor) -> Tensor:
        def emit(e: Any, values: Any) -> Any:
            if kind == "Assign":
                return e.assign(op, self, values[0])
            return e.add_to(op, self, values[0], SIGNS[kind])

        graph = context.current_graph() or value.graph
        info = graph.describer.described(self._dtype.core, self._shape.dims)
        op = graph.create_op(kind, [value], emit, f"{self.op_name}/{kind}", outputs=[info], attrs={"variable": self})
        return op.outputs[0]

    def eval(self, session: Any = None) -> Any:
        """Return the value in `session`, or in the default session. Raises ValueError if there is neither."""
        return default_session(session).run(self)

    def load(self, value: Any, session: Any = None) -> None:
        """Set the value in `session`, or in the default session. Raises ValueError if there is neither."""
        default_session(session).store.assign(self, frozen(np.asarray(value, self._dtype.core.numpy)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.read_value(), dtype)

    def __repr__(self) -> str:
        value = (
            f", numpy={text_of(self.numpy())}"
            if context.executing_eagerly() and isinstance(self._initial, EagerTensor)
            else ""
        )
        return f"<tf.Variable {self.name!r} shape={self._shape} dtype={self._dtype.name}{value}>"


def global_variables() -> list[Variable]:
    """Return the variables of the default graph. See tf.compat.v1.global_variables in TensorFlow's documentation."""
    return context.get_default_graph().get_collection(GLOBAL)


def trainable_variables() -> list[Variable]:
    """Return the trainable variables of the default graph.

    See tf.compat.v1.trainable_variables in TensorFlow's documentation.
    """
    return context.get_default_graph().get_collection(TRAINABLE)


def variables_initializer(variables: Any, name: str = "init") -> Operation:
    """Return an operation that initializes `variables`.

    See tf.compat.v1.variables_initializer in TensorFlow's documentation.
    """
    op: Operation = group(*(variable.initializer for variable in variables), name=name)
    return op


def global_variables_initializer() -> Operation:
    """Return an operation that initializes all variables of the default graph.

    See tf.compat.v1.global_variables_initializer in TensorFlow's documentation.
    """
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """Return an operation that initializes the local variables of the default graph.

    See tf.compat.v1.local_variables_initializer in TensorFlow's documentation.
    """
    return variables_initializer(context.get_default_graph().get_collection("local_variables"), "init_local")
