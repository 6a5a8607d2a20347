"""Functions made from rules of `frontends.torch`: a rule's core ops are emitted into the current recording."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.recording import emit_node
from treadle.compat.torch.state import current
from treadle.compat.torch.tensor import Tensor
from treadle.errors import LimitError, ShapeError
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.table import RULES
from treadle.graph.case_analysis import UndecidedError
from treadle.graph.graph import Graph
from treadle.graph.value import Value


def of_op(op: str, arguments: Callable[..., tuple[Any, ...]] | None = None) -> Callable[..., Tensor]:
    """Returns the function of the ATen op `op`; `arguments` maps the user's arguments to the order of the op's schema.

    Without `arguments`, users pass the rule's parameters by position or name.
    """
    ordered = arguments or _as_of(op)

    @wraps(ordered)
    def function(*args: Any, **kwargs: Any) -> Tensor:
        result: Tensor = apply_rule(op, ordered(*args, **kwargs))
        return result

    function.__name__ = op.partition(".")[0]
    function.__doc__ = f"Computes {function.__name__} as PyTorch does, by the front end's rule for the op `{op}`."
    return tensor_function(function)


def _as_of(op: str) -> Callable[..., tuple[Any, ...]]:
    _builder, *parameters = inspect.signature(RULES[op]).parameters.values()
    kinds = [Tensor if each.annotation in (Value, "Value") else inspect.Parameter.empty for each in parameters]
    signature = inspect.Signature([each.replace(annotation=kind) for each, kind in zip(parameters, kinds, strict=True)])

    def ordered(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{op}{signature}: {error}") from None
        bound.apply_defaults()
        return bound.args

    ordered.__signature__ = signature  # type: ignore[attr-defined]
    return ordered


def apply_rule(op: str, args: tuple[Any, ...]) -> Any:
    """Emits the ATen op `op` and returns its result: a Tensor or a list of them. Arrays among `args` are constants.

    Raises RuntimeError if the arguments do not fit, NotImplementedError if the rule does not support them.
    """
    graph = Graph("aten")
    builder = Builder(graph)
    builder.name = op
    found: dict[Value, Tensor] = {}
    try:
        result = RULES[op](builder, *(_lowered(each, builder, found) for each in args))
    except Unsupported as fault:
        raise NotImplementedError(f"{op}: {fault}") from None
    except Fault as fault:
        raise RuntimeError(f"{op}: {fault}") from None
    except (ShapeError, LimitError) as error:
        raise RuntimeError(f"{op}: {error.what}") from None
    except UndecidedError:
        recording = current()
        if recording is None or not recording.has_open_sizes:
            raise
        recording.compute_sizes()
        return apply_rule(op, args)
    for node in graph.nodes:
        emit_node(node, found)
    return _raised(result, found)


def _lowered(argument: Any, builder: Builder, found: dict[Value, Tensor]) -> Any:
    """Returns an argument as the rule takes it, and stores the value of a tensor in `found`."""
    if isinstance(argument, Tensor):
        value = builder.graph.input(f"v{len(found)}", argument.dtype.core, _dims(argument))
        found[value] = argument
        return value
    if isinstance(argument, dtypes.dtype):
        return argument.core
    if isinstance(argument, np.ndarray):
        return builder.constant(argument)
    return [_lowered(each, builder, found) for each in argument] if isinstance(argument, list | tuple) else argument


def _dims(tensor: Tensor) -> tuple[int, ...]:
    """Returns the shape of a tensor, with expressions for sizes that are not known yet."""
    recording = tensor.recording
    known = tensor.shape if recording is None else recording.infos[tensor.number].shape
    return tuple(known or ())


def _raised(result: Any, found: dict[Value, Tensor]) -> Any:
    """Returns a rule's result with tensors in place of values."""
    if isinstance(result, Value):
        return found[result] if result in found else Tensor(result.data)
    return [_raised(each, found) for each in result] if isinstance(result, list | tuple) else result
