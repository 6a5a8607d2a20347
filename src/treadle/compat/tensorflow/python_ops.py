"""Python functions as ops: tasks of the graph like any other, independent ones in progress at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.convert import array_of, constant_in, convert_to_tensor, frozen
from treadle.compat.tensorflow.dtypes import as_dtype
from treadle.compat.tensorflow.errors import from_python_error
from treadle.compat.tensorflow.scopes import eager_scope
from treadle.compat.tensorflow.shape import TensorSpec
from treadle.compat.tensorflow.shape_inference import placeholder_infos
from treadle.compat.tensorflow.state import Run
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor
from treadle.ops.op import Array
from treadle.runtime.python_ops.executor import called


def py_function(
    func: Callable[..., Any] | None = None,
    inp: Sequence[Any] | None = None,
    Tout: Any = None,  # noqa: N803
    name: str | None = None,
) -> Any:
    """func(*inp), called with eager tensors. `Tout`: the dtype (or TensorSpec) of the result, or a list of these.

    Without `func` it is a decorator. In a graph, say the shape of the result with a TensorSpec or with set_shape() if you
    know it: the ops behind it are then compiled with it. What `func` raises comes out as tf.errors.OpError of a kind that
    fits, with the exception as its cause.
    """
    return _decorated("EagerPyFunc", func, inp, Tout, name)


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Sequence[Any] | None = None,
    Tout: Any = None,  # noqa: N803
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """func(*inp), called with NumPy arrays; otherwise as py_function."""
    if Tout is None:
        raise TypeError("Missing required argument: 'Tout'")
    return _decorated("PyFunc", func, inp, Tout, name)


def py_func(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,  # noqa: N803
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """TensorFlow 1's name of numpy_function."""
    return numpy_function(func, inp, Tout, stateful, name)


def _decorated(
    kind: str, func: Callable[..., Any] | None, inp: Sequence[Any] | None, wanted: Any, name: str | None
) -> Any:
    if func is None:
        return lambda later: lambda *arguments: _decorated(kind, later, arguments, wanted, name)
    return _python(kind, UserFunction(func, eager=kind == "EagerPyFunc"), inp or (), wanted, name)


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of py_function (`eager`) or numpy_function, called with arrays."""

    function: Callable[..., Any]
    eager: bool

    def __call__(self, arrays: Sequence[Array]) -> Any:
        """What it returns."""
        if self.eager:
            return self.function(*map(EagerTensor, arrays))
        return self.function(*(array if array.ndim else array[()] for array in arrays))


@dataclass(frozen=True, slots=True)
class Typed:
    """A function of arrays whose results are of the dtypes called `types`; it can go to another process."""

    function: Callable[[Sequence[Array]], Any]
    types: tuple[str, ...]
    several: bool

    def __call__(self, arrays: list[Array]) -> list[Array]:
        """The results. Raises what the function raises, ValueError and TypeError for results that are not as said."""
        with eager_scope():
            found = self.function(arrays)
            listed = isinstance(found, (list, tuple)) and (self.several or not self.types)
            results = (list(found) if listed else [found]) if self.types else []
            if len(results) != len(self.types):
                raise ValueError(f"the function returned {len(results)} values; Tout has {len(self.types)}")
            return [_as(result, as_dtype(dtype)) for result, dtype in zip(results, self.types, strict=True)]


def _python(
    kind: str, function: Callable[[Sequence[Array]], Any], inp: Sequence[Any], wanted: Any, name: str | None
) -> Any:
    several = isinstance(wanted, (list, tuple))
    specs = [
        said if isinstance(said, TensorSpec) else TensorSpec(None, said)
        for said in (wanted if several else [] if wanted is None else [wanted])
    ]
    types = [spec.dtype for spec in specs]
    typed = Typed(function, tuple(dtype.name for dtype in types), several)
    movable = isinstance(function, UserFunction)

    def call(_: Run, arrays: list[Array]) -> Sequence[Array]:
        return called(typed, arrays, owned=True) if movable else typed(arrays)

    tensors = [convert_to_tensor(item) for item in inp]
    graph = context.current_graph() or next((tensor.graph for tensor in tensors if isinstance(tensor, Tensor)), None)
    if graph is None:
        arrays = [np.array(tensor) for tensor in tensors]
        try:
            found = [EagerTensor(frozen(array)) for array in typed(arrays)]
        except Exception as error:
            raise from_python_error(error, kind) from error
        return found if several else found[0] if found else None
    inputs = [tensor if isinstance(tensor, Tensor) else constant_in(graph, np.asarray(tensor)) for tensor in tensors]
    infos = [placeholder_infos(spec.dtype.core, spec.shape) for spec in specs]
    op = graph.create_op(
        kind,
        inputs,
        lambda e, values: e.python(op, values, call),
        name or kind,
        outputs=infos,
        attrs={"opaque": movable},
    )
    return list(op.outputs) if several and types else op.outputs[0] if types else op


def _as(result: Any, dtype: Any) -> Array:
    """A result as an array of `dtype`. Raises TypeError for an array of another; Python numbers are converted."""
    array = array_of(result)
    if array.dtype.kind == "f" and not dtype.is_floating and not hasattr(result, "dtype"):
        raise TypeError(f"Cannot convert {result!r} to EagerTensor of dtype {dtype.name}")
    if as_dtype(array.dtype) == dtype:
        return array
    if hasattr(result, "dtype") and not isinstance(result, np.generic):
        raise TypeError(f"the function returned {array.dtype}; Tout says {dtype.name}")
    return array.astype(dtype.core.numpy)


def print_(*inputs: Any, output_stream: Any = None, end: str = "\n", sep: str = " ") -> Any:
    """Print `inputs` (to stderr, as TensorFlow does); in a graph an operation that prints when it runs."""
    tensors = [item for item in inputs if isinstance(item, Tensor) or hasattr(item, "read_value")]

    def show(arrays: Sequence[Array]) -> None:
        values = iter(arrays)
        texts = [str(next(values)) if any(item is t for t in tensors) else _text(item) for item in inputs]
        (output_stream or sys.stderr).write(sep.join(texts) + end)

    return _python("Print", show, tensors, None, "print")


def check_op(check: Callable[[Sequence[Array]], None], tensors: Sequence[Any], name: str) -> Any:
    """`check` of the arrays of tensors, which raises if they are wrong: now, or as an operation of the graph."""
    return _python("Assert", check, tensors, None, name)


def _text(item: Any) -> str:
    return str(item.numpy()) if isinstance(item, EagerTensor) else str(item)
