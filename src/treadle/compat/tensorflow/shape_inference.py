"""Inference of the dtypes and shapes of tensors while a graph is built.

Ops are tried with two sizes in place of each unknown one; what comes out equal both times is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from treadle import dtypes
from treadle.compat.tensorflow.errors import MisfitError, message_of
from treadle.compat.tensorflow.partial_shapes import RULE_PREFERRED, partial_shape
from treadle.compat.tensorflow.shape import TensorShape
from treadle.errors import KernelError, LimitError, ShapeError
from treadle.frontends.tensorflow.emitter import Emitter, NeedsShapeError
from treadle.graph.graph import Graph as CoreGraph
from treadle.graph.value import Value
from treadle.ops.op import Array, Info

if TYPE_CHECKING:
    from treadle.compat.tensorflow.graph import Operation

_OF_DTYPES = re.compile(r"dtype|takes .* operands|floating point")
"""Matches errors about operands of a wrong element type."""

SIZES = (120, 240)
"""The two sizes tried in place of each unknown one."""


def placeholder_infos(dtype: dtypes.DType, shape: TensorShape) -> tuple[Info, Info]:
    """Return what is known of a tensor of this dtype and partly known shape, with either of SIZES for unknown sizes."""
    if shape.dims is None:
        return (Info(dtype, None),) * 2
    first, second = (tuple(size if dim is None else dim for dim in shape.dims) for size in SIZES)
    return Info(dtype, first), Info(dtype, second)


def infer_outputs(op: Operation) -> list[tuple[Info, Info]]:
    """Return what is known of the outputs of `op`. Raises ValueError if its operands do not fit."""
    both = [(tensor.infos[0], tensor.infos[1]) for tensor in op.inputs]
    first = _infer(op, [a for a, _ in both])
    same = all(a.shape == b.shape and _same(a.value, b.value) for a, b in both)
    second = first if same else _infer(op, [b for _, b in both])
    found = list(zip(first, second, strict=True))
    unknown = first[0].shape is None or second[0].shape is None if first else False
    if unknown or (op.kind in RULE_PREFERRED and not op.inputs[0].shape.is_fully_defined()):
        found[0] = placeholder_infos(first[0].dtype, partial_shape(op))
    return found


def _same(a: Array | None, b: Array | None) -> bool:
    return a is b or (a is not None and b is not None and a.shape == b.shape and bool((a == b).all()))


def _infer(op: Operation, infos: Sequence[Info]) -> list[Info]:
    try:
        return _outputs(op, infos)
    except (NeedsShapeError, LimitError):
        pass
    except (ShapeError, KernelError, ValueError) as error:
        if all(tensor.shape.is_fully_defined() for tensor in op.inputs):
            message = f"{op.name}: {message_of(error)}"
            if _OF_DTYPES.search(message):
                raise TypeError(message) from None
            raise MisfitError(None, op, message) from None
    for rank, numbers in product(range(6), (None, (1,), (), (1, 2))):
        try:
            return [Info(info.dtype, None) for info in _outputs(op, [_assumed(info, rank, numbers) for info in infos])]
        except (NeedsShapeError, LimitError, ShapeError, KernelError, ValueError, TypeError):
            continue
    return [Info(op.inputs[0].dtype.core if op.inputs else dtypes.f32, None)]


def _assumed(info: Info, rank: int, numbers: tuple[int, ...] | None) -> Info:
    """Return a possible case of `info`: this rank for an unknown one, ones for integers without a value."""
    if numbers is not None and info.dtype.is_integer and info.value is None:
        return Info(info.dtype, numbers, np.ones(numbers, info.dtype.numpy))
    return Info(info.dtype, (SIZES[0],) * rank if info.shape is None else info.shape, info.value)


def _outputs(op: Operation, infos: Sequence[Info]) -> list[Info]:
    emitter = Emitter(CoreGraph())
    emitter.name = op.name
    values = [Value(f"input{number}", info.dtype, info.shape, data=info.value) for number, info in enumerate(infos)]
    found = op.emit(emitter, values)
    results = found if isinstance(found, (list, tuple)) else [found]
    return [Info(value.known_dtype, value.shape, value.data) for value in results]
