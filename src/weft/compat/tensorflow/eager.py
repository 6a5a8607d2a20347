"""Ops outside a graph: each is a small graph of its own, compiled once for its shapes, and run at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from weft import dtypes, forking
from weft.compat.tensorflow.errors import InvalidArgumentError, python_cause, translated
from weft.compile import Session
from weft.errors import WeftError
from weft.frontends.tensorflow.emitter import Emitter, NeedsShapeError
from weft.graph.graph import Graph
from weft.graph.value import Value
from weft.ops.op import Array
from weft.runtime import providers

MOST_KEPT = 512
"""How many compiled ops are kept, the least recently used dropped first."""

MOST_CONSTANT = 1024
"""Shape-like operands of so many elements at most are constants of the compiled op."""

_kept: OrderedDict[Any, tuple[Session, list[str], list[str], bool]] = OrderedDict()
_lock = forking.lock()


def execute(op: Any, emit: Callable[[Emitter, Sequence[Value]], Any], operands: list[tuple[Array, bool]]) -> Any:
    """The result of the op on (array, whether it is shape-like) operands: an array, or a list if it gives several.

    Raises InvalidArgumentError if they do not fit it.
    """
    fixed = [shape_like and array.size <= MOST_CONSTANT for array, shape_like in operands]
    try:
        try:
            session, inputs, outputs, many = _compiled(op, emit, [array for array, _ in operands], fixed)
        except NeedsShapeError:
            fixed = [True] * len(operands)
            session, inputs, outputs, many = _compiled(op, emit, [array for array, _ in operands], fixed)
        varying = [array for (array, _), constant in zip(operands, fixed, strict=True) if not constant]
        found = session.run(dict(zip(inputs, varying, strict=True)))
    except WeftError as error:
        raise translated(error) from python_cause(error)
    except ValueError as error:
        raise InvalidArgumentError(None, None, str(error)) from error
    results = [found[name] for name in outputs]
    for result in results:
        result.flags.writeable = False
    return results if many else results[0]


def _compiled(
    op: Any, emit: Callable[[Emitter, Sequence[Value]], Any], arrays: list[Array], fixed: list[bool]
) -> tuple[Session, list[str], list[str], bool]:
    forms = tuple(
        (array.dtype.str, array.shape, array.tobytes() if constant else None)
        for array, constant in zip(arrays, fixed, strict=True)
    )
    key = (op, forms, providers.current().name)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    graph = Graph("eager")
    emitter = Emitter(graph)
    emitter.name = op[0]
    values = [
        graph.constant(array) if constant else graph.input("x", dtypes.from_numpy(array.dtype), array.shape)
        for array, constant in zip(arrays, fixed, strict=True)
    ]
    found = emit(emitter, values)
    many = isinstance(found, (list, tuple))
    results = list(found) if many else [found]
    graph.outputs = list(dict.fromkeys(results))
    entry = (Session(graph), [value.name for value in graph.inputs], [value.name for value in results], many)
    with _lock:
        _kept[key] = entry
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return entry
