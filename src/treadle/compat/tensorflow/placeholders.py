"""Placeholders: tensors whose values runs feed."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.convert import convert_to_tensor
from treadle.compat.tensorflow.dtypes import as_dtype
from treadle.compat.tensorflow.errors import InvalidArgumentError
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor import Tensor


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Add a tensor whose value each run must feed. See tf.compat.v1.placeholder in TensorFlow's documentation.

    Outside any graph it switches to graph mode, as TensorFlow 1 does.

    Args:
        dtype: the element type.
        shape: dimensions with None for unknown ones; None for an unknown rank.
        name: the name of the operation.

    Returns:
        The tensor. A run that needs it and does not feed it raises tf.errors.InvalidArgumentError.
    """
    if context.current_graph() is None:
        context.disable_eager_execution()
    graph = context.get_default_graph()
    kind, dims = as_dtype(dtype), TensorShape(shape)

    def emit(_e: Any, _v: Any) -> Any:
        raise InvalidArgumentError(
            None,
            op,
            f"You must feed a value for placeholder tensor '{op.name}' with dtype {kind.name} and shape {dims}",
        )

    op = graph.create_op(
        "Placeholder", (), emit, name, outputs=[graph.describer.described(kind.core, dims.dims)], attrs={"dtype": kind}
    )
    return op.outputs[0]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Add a tensor that is `input` unless a run feeds it.

    See tf.compat.v1.placeholder_with_default in TensorFlow's documentation.

    Args:
        input: the default value.
        shape: the shape of fed values, with None for unknown dimensions.
        name: the name of the operation.
    """
    graph = context.get_default_graph()
    with graph.as_default():
        source = convert_to_tensor(
            input
            if isinstance(input, Tensor)
            else np.asarray(convert_to_tensor(input))
            if hasattr(input, "numpy")
            else input
        )
    assert isinstance(source, Tensor)
    info = graph.describer.described(source.dtype.core, TensorShape(shape).dims)
    return graph.create_op(
        "PlaceholderWithDefault", [source], lambda e, values: e.add("identity", values[0]), name, outputs=[info]
    ).outputs[0]
