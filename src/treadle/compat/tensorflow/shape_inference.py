"""Inference of the dtypes and shapes of tensors while a graph is built.

The rules that build operations for a run infer them, on sizes of which nothing is assumed (see
`frontends.tensorflow.describe`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treadle.compat.tensorflow.errors import MisfitError, message_of
from treadle.dtypes import DType
from treadle.errors import DtypeError, KernelError, LimitError, ShapeError
from treadle.ops.op import Info

if TYPE_CHECKING:
    from treadle.compat.tensorflow.graph import Operation


def infer_outputs(op: Operation, result_types: Callable[[], Sequence[DType]] | None) -> list[Info]:
    """Return what is known of the outputs of `op`.

    Args:
        op: An operation that is not yet in its graph.
        result_types: Returns the element types of its outputs if nothing else is known of them; None if it has none.

    Raises:
        MisfitError: The operands do not fit, whatever their sizes are.
        TypeError: The operands have element types that `op` does not take, or an attribute does not fit.
    """
    try:
        found = op.graph.describer.results(op.name, op.emit, [tensor.info for tensor in op.inputs])
    except LimitError:  # the run reports it
        found = []
    except DtypeError as error:
        raise TypeError(f"{op.name}: {message_of(error)}") from None
    except (ShapeError, KernelError) as error:
        raise MisfitError(None, op, f"{op.name}: {message_of(error)}") from None
    if found or result_types is None:
        return found
    return [Info(dtype, None) for dtype in result_types()]
