"""Tensors: symbolic ones, which belong to a graph, and eager ones, which hold an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.dtypes import DType, as_dtype
from treadle.compat.tensorflow.errors import OperatorNotAllowedInGraphError
from treadle.compat.tensorflow.scopes import default_session
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor_like import TensorLike
from treadle.graph.dim import is_expression
from treadle.ops.op import Info

if TYPE_CHECKING:
    from treadle.compat.tensorflow.graph import Graph, Operation

Array = np.ndarray[Any, Any]


class Tensor(TensorLike):
    """A result of an operation in a graph. See tf.Tensor in TensorFlow's documentation.

    `info` is what is known of it; unknown sizes are symbols of the graph's describer.
    """

    def __init__(self, op: Operation, index: int, info: Info) -> None:
        self.op = op
        self.value_index = index
        self.info = info

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.op.graph

    @property
    def name(self) -> str:
        """Its name, "<operation>:<index>"."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def dtype(self) -> DType:
        """The element type."""
        return as_dtype(self.info.dtype)

    @property
    def device(self) -> str:
        """The device of its operation."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """What is known of the shape."""
        dims = self.info.shape
        return TensorShape(None if dims is None else [None if is_expression(dim) else dim for dim in dims])

    def set_shape(self, shape: Any) -> None:
        """Declare the shape that every run gives.

        Args:
            shape: dimensions, with None for unknown ones.

        Raises:
            ValueError: it contradicts the known shape.
        """
        dims = self.shape.merge_with(shape).dims
        if dims is not None:
            self.info = self.graph.describer.refined(self.info, dims)

    def consumers(self) -> list[Operation]:
        """Return the operations that read this tensor."""
        return [op for op in self.graph.get_operations() if any(value is self for value in op.inputs)]

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Return its value in a session, as a NumPy array.

        Args:
            feed_dict: values for placeholders and other tensors, as for Session.run.
            session: the Session; None for the default one.

        Raises:
            ValueError: there is no default session.
            tf.errors.OpError: as Session.run.
        """
        return default_session(session).run(self, feed_dict)

    def __bool__(self) -> bool:
        raise OperatorNotAllowedInGraphError(
            "Using a symbolic `tf.Tensor` as a Python `bool` is not allowed in Graph execution: "
            f"{self.name} has no value yet. Use tf.cond in place of `if`, tf.while_loop in place of `while`, and "
            "tf.logical_and, tf.logical_or or tf.logical_not in place of `and`, `or` or `not`."
        )

    def __iter__(self) -> Iterator[Any]:
        if self.shape.rank is None or (self.shape.rank and self.shape[0] is None):
            raise OperatorNotAllowedInGraphError(
                "Iterating over a symbolic `tf.Tensor` is not allowed in Graph execution where its length is unknown: "
                f"{self.name} has shape {self.shape}. Use tf.while_loop in place of `for`."
            )
        return super().__iter__()

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise NotImplementedError(f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array; run it first")

    def __repr__(self) -> str:
        return f"<tf.Tensor {self.name!r} shape={self.shape} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        shape = "" if self.shape.rank is None else f", shape={self.shape}"
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name})'


def text_of(value: Any) -> str:
    """Return an array as Python writes it, a scalar without its type."""
    return repr(value) if isinstance(value, np.ndarray | bytes) else str(value)


class EagerTensor(TensorLike):
    """A tensor with a value: the array `held`, which is never written to.

    See tf.Tensor in TensorFlow's documentation.
    """

    def __init__(self, array: Array) -> None:
        self.held = array

    @property
    def dtype(self) -> DType:
        """The element type."""
        return as_dtype(self.held.dtype)

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return TensorShape(self.held.shape)

    @property
    def device(self) -> str:
        """The first CPU."""
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.held.ndim

    def numpy(self) -> Any:
        """Return a copy as a NumPy array; for rank 0 a NumPy scalar."""
        return self.held.copy() if self.held.ndim else self.held[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.held if dtype is None else self.held.astype(dtype)
        return array.copy() if copy else array

    def __bool__(self) -> bool:
        return bool(self.held)

    def __int__(self) -> int:
        return int(self.held)

    def __float__(self) -> float:
        return float(self.held)

    def __index__(self) -> int:
        return self.held.__index__()

    def __format__(self, spec: str) -> str:
        return str(self) if self.held.ndim and not spec else format(self.numpy(), spec)

    def __repr__(self) -> str:
        return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={text_of(self.numpy())}>"

    def __str__(self) -> str:
        text = str(self.numpy())
        line = "\n" if "\n" in text else ""
        return f"tf.Tensor({line}{text}, shape={self.shape}, dtype={self.dtype.name})"


def _equality(op: str) -> Any:
    return lambda self, other: (op == "not_equal") if other is None else call(op, self, other)


EagerTensor.__eq__ = _equality("equal")  # type: ignore[method-assign]
EagerTensor.__ne__ = _equality("not_equal")  # type: ignore[method-assign]
EagerTensor.__hash__ = None  # type: ignore[assignment]


def constant_value(tensor: Any) -> Array | None:
    """Return the value of a tensor that is known while the graph is built, else None.

    See tf.get_static_value in TensorFlow's documentation.
    """
    if isinstance(tensor, EagerTensor):
        return np.asarray(tensor)
    if isinstance(tensor, Tensor):
        value = tensor.info.value
        return value if value is not None and value.dtype == tensor.info.dtype.numpy else None
    return None
