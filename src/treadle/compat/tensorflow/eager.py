"""Eager ops: each is a graph of one op, compiled once for its shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from treadle import dtypes
from treadle.compat.calls import PROVIDER_OPS
from treadle.compat.tensorflow.errors import InvalidArgumentError, from_treadle_error, python_cause
from treadle.compile import Session, runner_of
from treadle.errors import TreadleError
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.lru import LRU
from treadle.ops.op import Array
from treadle.runtime import providers

CAPACITY = 512
"""The number of compiled ops in the cache."""

MOST_CONSTANT = 1024
"""The largest shape-like operand, in elements, that is compiled in as a constant."""

Emit = Callable[[Emitter, Sequence[Value]], Any]
Operands = Sequence[tuple[Array, bool]]
"""Arrays, and whether each is shape-like."""


class Compiled(NamedTuple):
    """A compiled op.

    `inputs` names the operands that are not constants, `outputs` the results; `many` says whether these are a list.
    `provider` is the provider of matrix products it was compiled for, None if it has none. `direct` runs it on a list
    of operands (see Runner.prepare).
    """

    session: Session
    inputs: list[str]
    outputs: list[str]
    many: bool
    provider: str | None
    direct: Callable[[Sequence[Array]], list[Array]]


_cache: LRU[Any, Compiled] = LRU(CAPACITY)


def execute(op: Any, emit: Emit, operands: Operands) -> tuple[list[Array], bool]:
    """Run an op on `operands`, which are read-only. Returns the results, and whether they are a list.

    Raises InvalidArgumentError if the operands do not fit the op.
    """
    compiled, varying = prepare(op, emit, operands)
    return run(compiled, varying), compiled.many


def run(compiled: Compiled, varying: Sequence[Array]) -> list[Array]:
    """Run a compiled op on the operands that are not constants. Raises what execute() raises."""
    try:
        found = compiled.session.run(dict(zip(compiled.inputs, varying, strict=True)))
    except (TreadleError, ValueError) as error:
        fail(error)
    results = [found[name] for name in compiled.outputs]
    for result in results:
        result.flags.writeable = False
    return results


def fail(error: TreadleError | ValueError) -> NoReturn:
    """Raise an error of compiling or running an op as one of TensorFlow's errors."""
    if isinstance(error, TreadleError):
        raise from_treadle_error(error) from python_cause(error)
    raise InvalidArgumentError(None, None, str(error)) from error


def prepare(op: Any, emit: Emit, operands: Operands) -> tuple[Compiled, list[Array]]:
    """Compile an op for `operands`. Returns it with the operands that are not constants.

    Raises what execute() raises.
    """
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
    signature = tuple(
        (array.dtype.str, array.shape, array.tobytes() if constant else None)
        for array, constant in zip(arrays, fixed, strict=True)
    )
    provider: str | None = providers.current().name
    key = (op, signature, provider)
    cached = _cache.get(key)
    if cached is not None:
        return cached, varying
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
    if PROVIDER_OPS.isdisjoint(node.op for node in graph.nodes):
        provider = None
    session = Session(graph)
    inputs = [value.name for value in graph.inputs]
    direct = runner_of(session).prepare(dict(zip(inputs, varying, strict=True)))
    compiled = Compiled(session, inputs, [value.name for value in results], many, provider, direct)
    _cache.put(key, compiled)
    return compiled, varying
