"""Python functions as ops. They are steps of the graph like any other, so independent ones run at the same time."""

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
from treadle.compat.tensorflow.state import Run
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor
from treadle.ops.op import Array
from treadle.runtime.python_ops.executor import run_function


def py_function(
    func: Callable[..., Any] | None = None,
    inp: Sequence[Any] | None = None,
    Tout: Any = None,  # noqa: N803
    name: str | None = None,
) -> Any:
    """Call a Python function with eager tensors, as an op. See tf.py_function in TensorFlow's documentation.

    Independent functions of a graph overlap while they block or release the GIL; with
    treadle.python_ops(executor="process") they run in worker processes.

    Args:
        func: the function; None when used as a decorator.
        inp: its arguments, converted to tensors.
        Tout: the dtype or TensorSpec of the result, or a list of them; None for a function without results. Ops after
            it are compiled with the shape of a TensorSpec; without one they wait for the function.
        name: the name of the operation.

    Returns:
        A tensor, a list of tensors if `Tout` is a list, or the operation if there are no results.

    Raises:
        tf.errors.OpError: in the run, if `func` raises; the subclass fits the exception, which is its cause.
    """
    return _decorated("EagerPyFunc", func, inp, Tout, name)


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Sequence[Any] | None = None,
    Tout: Any = None,  # noqa: N803
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Call a Python function with NumPy arrays, as an op. See tf.numpy_function in TensorFlow's documentation.

    Args:
        func: the function; None when used as a decorator. Arguments of rank 0 are NumPy scalars.
        inp: its arguments, converted to tensors.
        Tout: the dtype or TensorSpec of the result, or a list of them.
        stateful: has no effect.
        name: the name of the operation.

    Returns:
        As py_function.

    Raises:
        TypeError: `Tout` is missing.
        tf.errors.OpError: as py_function.
    """
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
    """Call a Python function with NumPy arrays, as an op; see numpy_function.

    See tf.compat.v1.py_func in TensorFlow's documentation.
    """
    return numpy_function(func, inp, Tout, stateful, name)


def _decorated(
    kind: str, func: Callable[..., Any] | None, inp: Sequence[Any] | None, declared: Any, name: str | None
) -> Any:
    if func is None:
        return lambda later: lambda *arguments: _decorated(kind, later, arguments, declared, name)
    return _add_or_call(kind, UserFunction(func, eager=kind == "EagerPyFunc"), inp or (), declared, name)


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of py_function (`eager`) or numpy_function, called with arrays."""

    function: Callable[..., Any]
    eager: bool

    def __call__(self, arrays: Sequence[Array]) -> Any:
        """Call the function."""
        if self.eager:
            return self.function(*map(EagerTensor, arrays))
        return self.function(*(array if array.ndim else array[()] for array in arrays))


@dataclass(frozen=True, slots=True)
class TypedFunction:
    """A function of arrays with results of the dtypes named in `types`. It can be sent to another process."""

    function: Callable[[Sequence[Array]], Any]
    types: tuple[str, ...]
    is_list: bool

    def __call__(self, arrays: list[Array]) -> list[Array]:
        """Call the function and convert its results.

        Raises what it raises, and ValueError or TypeError for wrong results.
        """
        with eager_scope():
            found = self.function(arrays)
            listed = isinstance(found, (list, tuple)) and (self.is_list or not self.types)
            results = (list(found) if listed else [found]) if self.types else []
            if len(results) != len(self.types):
                raise ValueError(f"the function returned {len(results)} values; Tout has {len(self.types)}")
            return [_as_dtype(result, as_dtype(dtype)) for result, dtype in zip(results, self.types, strict=True)]


def _add_or_call(
    kind: str, function: Callable[[Sequence[Array]], Any], inp: Sequence[Any], declared: Any, name: str | None
) -> Any:
    is_list = isinstance(declared, (list, tuple))
    specs = [
        said if isinstance(said, TensorSpec) else TensorSpec(None, said)
        for said in (declared if is_list else [] if declared is None else [declared])
    ]
    types = [spec.dtype for spec in specs]
    typed = TypedFunction(function, tuple(dtype.name for dtype in types), is_list)
    movable = isinstance(function, UserFunction)

    def call(_: Run, arrays: list[Array]) -> Sequence[Array]:
        return run_function(typed, arrays, owned=True) if movable else typed(arrays)

    tensors = [convert_to_tensor(item) for item in inp]
    graph = context.current_graph() or next((tensor.graph for tensor in tensors if isinstance(tensor, Tensor)), None)
    if graph is None:
        arrays = [np.array(tensor) for tensor in tensors]
        try:
            found = [EagerTensor(frozen(array)) for array in typed(arrays)]
        except Exception as error:
            raise from_python_error(error, kind) from error
        return found if is_list else found[0] if found else None
    inputs = [tensor if isinstance(tensor, Tensor) else constant_in(graph, np.asarray(tensor)) for tensor in tensors]
    infos = [graph.describer.described(spec.dtype.core, spec.shape.dims) for spec in specs]
    op = graph.create_op(
        kind,
        inputs,
        lambda e, values: e.python(op, values, call),
        name or kind,
        outputs=infos,
        attrs={"opaque": movable},
    )
    return list(op.outputs) if is_list and types else op.outputs[0] if types else op


def _as_dtype(result: Any, dtype: Any) -> Array:
    """Convert a result to `dtype`. Python numbers are converted; raises TypeError for an array of another dtype."""
    array = array_of(result)
    if array.dtype.kind == "f" and not dtype.is_floating and not hasattr(result, "dtype"):
        raise TypeError(f"Cannot convert {result!r} to EagerTensor of dtype {dtype.name}")
    if as_dtype(array.dtype) == dtype:
        return array
    if hasattr(result, "dtype") and not isinstance(result, np.generic):
        raise TypeError(f"the function returned {array.dtype}; Tout says {dtype.name}")
    return array.astype(dtype.core.numpy)


def print_(*inputs: Any, output_stream: Any = None, end: str = "\n", sep: str = " ") -> Any:
    """Print values to stderr: at once, or when the graph runs. See tf.print in TensorFlow's documentation.

    Args:
        *inputs: tensors, variables and Python values.
        output_stream: a file object; None for stderr.
        end: the text at the end.
        sep: the text between values.

    Returns:
        The operation in a graph, else None.
    """
    tensors = [item for item in inputs if isinstance(item, Tensor) or hasattr(item, "read_value")]

    def show(arrays: Sequence[Array]) -> None:
        values = iter(arrays)
        texts = [str(next(values)) if any(item is t for t in tensors) else _text(item) for item in inputs]
        (output_stream or sys.stderr).write(sep.join(texts) + end)

    return _add_or_call("Print", show, tensors, None, "print")


def check_op(check: Callable[[Sequence[Array]], None], tensors: Sequence[Any], name: str) -> Any:
    """Call `check` with the arrays of `tensors`: at once, or as an operation of the graph.

    It raises if they are wrong.
    """
    return _add_or_call("Assert", check, tensors, None, name)


def _text(item: Any) -> str:
    return str(item.numpy()) if isinstance(item, EagerTensor) else str(item)
