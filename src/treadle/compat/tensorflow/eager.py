"""Ops outside a graph: each is a small graph of its own, compiled once for its shapes, and run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from treadle import dtypes
from treadle.compat.calls import MULTIPLY
from treadle.compat.tensorflow.errors import InvalidArgumentError, python_cause, translated
from treadle.compile import Session
from treadle.errors import TreadleError
from treadle.frontends.tensorflow.emitter import Emitter, NeedsShapeError
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.lru import LRU
from treadle.ops.op import Array
from treadle.runtime import providers

MOST_KEPT = 512
"""How many compiled ops are kept."""

MOST_CONSTANT = 1024
"""Shape-like operands of so many elements at most are constants of the compiled op."""

Emit = Callable[[Emitter, Sequence[Value]], Any]
Operands = Sequence[tuple[Array, bool]]
"""Arrays, and whether each is shape-like."""


class Compiled(NamedTuple):
    """A compiled op: the names of the operands that are not constants of it, those of its results, whether these are a
    list, and who multiplies its matrices (None: it has none). `direct` is Session.prepared() for its operands."""

    session: Session
    inputs: list[str]
    outputs: list[str]
    many: bool
    provider: str | None
    direct: Callable[[Sequence[Array]], list[Array]]


_kept: LRU[Any, Compiled] = LRU(MOST_KEPT)


def execute(op: Any, emit: Emit, operands: Operands) -> tuple[list[Array], bool]:
    """The results of the op on `operands`, which nobody can change, and whether they are a list even if there is one.

    Raises InvalidArgumentError if they do not fit it.
    """
    compiled, varying = prepare(op, emit, operands)
    return run(compiled, varying), compiled.many


def run(compiled: Compiled, varying: Sequence[Array]) -> list[Array]:
    """The results for operands that are not constants. Raises what execute() does."""
    try:
        found = compiled.session.run(dict(zip(compiled.inputs, varying, strict=True)))
    except (TreadleError, ValueError) as error:
        fail(error)
    results = [found[name] for name in compiled.outputs]
    for result in results:
        result.flags.writeable = False
    return results


def fail(error: TreadleError | ValueError) -> NoReturn:
    """Raise what went wrong when an op was compiled or run, as one of TensorFlow's errors."""
    if isinstance(error, TreadleError):
        raise translated(error) from python_cause(error)
    raise InvalidArgumentError(None, None, str(error)) from error


def prepare(op: Any, emit: Emit, operands: Operands) -> tuple[Compiled, list[Array]]:
    """The op, compiled for `operands`, and those of them that are not constants of it. Raises what execute() does."""
    arrays = [array for array, _ in operands]
    fixed = [shape_like and array.size <= MOST_CONSTANT for array, shape_like in operands]
    try:
        try:
            return _compiled(op, emit, arrays, fixed)
        except NeedsShapeError:
            return _compiled(op, emit, arrays, [True] * len(arrays))
    except (TreadleError, ValueError) as error:
        fail(error)


def _compiled(op: Any, emit: Emit, arrays: Sequence[Array], fixed: Sequence[bool]) -> tuple[Compiled, list[Array]]:
    varying = [array for array, constant in zip(arrays, fixed, strict=True) if not constant]
    forms = tuple(
        (array.dtype.str, array.shape, array.tobytes() if constant else None)
        for array, constant in zip(arrays, fixed, strict=True)
    )
    provider: str | None = providers.current().name
    key = (op, forms, provider)
    kept = _kept.get(key)
    if kept is not None:
        return kept, varying
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
    if MULTIPLY.isdisjoint(node.op for node in graph.nodes):
        provider = None
    session = Session(graph)
    inputs = [value.name for value in graph.inputs]
    direct = session.prepared(dict(zip(inputs, varying, strict=True)))
    compiled = Compiled(session, inputs, [value.name for value in results], many, provider, direct)
    _kept.put(key, compiled)
    return compiled, varying
