"""The replay cache: an eager call with a cached signature goes straight to its compiled op.

A first call binds parameters, infers element types and converts arguments. All of this depends only on the signature:
the classes, element types and shapes of tensors and variables, and the values of all other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treadle.compat.calls import Uncached
from treadle.compat.signatures import ATOMS, elements_of, float_part, map_structure
from treadle.compat.tensorflow import eager
from treadle.compat.tensorflow.dtypes import DType
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.state import EAGER
from treadle.compat.tensorflow.tensor import EagerTensor
from treadle.compat.tensorflow.variable import Variable
from treadle.errors import TreadleError
from treadle.lru import LRU
from treadle.ops.op import Array
from treadle.runtime import providers

CAPACITY = 1024
"""The largest number of signatures.

One that was called once costs its key only; others may share a compiled op, of about 15 KB.
"""

MAX_PARTS = 128
"""The largest number of parts of a signature, and the longest text in one. Larger calls are not cached."""

_TENSORS = (EagerTensor, Variable)


class CachedCall:
    """A call whose arguments are bound and whose op is compiled."""

    __slots__ = ("_operands", "_provider", "_result_indices", "_run", "many")

    def __init__(self, compiled: eager.Compiled, operands: Sequence[Array], positions: Mapping[int, int]) -> None:
        """Initialize from a compiled op and its operands.

        `positions` maps the id of an array in `operands` to the tensor argument that it comes from; the others are
        constant.
        """
        self._operands: list[int | Array] = [positions.get(id(array), array) for array in operands]
        self._run = compiled.direct
        indices = {tensor.name: index for index, tensor in enumerate(compiled.session.outputs)}
        self._result_indices = [indices[name] for name in compiled.outputs]
        self._provider = compiled.provider
        self.many = compiled.many

    def fits(self) -> bool:
        """Return whether the provider for which the op was compiled is still the current one."""
        return self._provider is None or self._provider == providers.current().name

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the read-only results for the arrays of the tensor arguments. Raises what eager.execute() raises."""
        try:
            results = self._run([arrays[feed] if isinstance(feed, int) else feed for feed in self._operands])
        except (TreadleError, ValueError) as error:
            eager.fail(error)
        for array in results:
            array.flags.writeable = False
        return [results[index] for index in self._result_indices]


CACHE: LRU[Any, CachedCall | Uncached] = LRU(CAPACITY)
"""The cached calls, by op and signature."""


def signature_of(
    op: str, args: Sequence[Any], kwargs: Mapping[str, Any], arrays: list[Array]
) -> tuple[Any, ...] | None:
    """Return the signature of a call and append the arrays of its tensors and variables to `arrays`.

    Returns None if the call cannot be cached.
    """
    key: list[Any] = [op]
    if not _append_parts(args, key, arrays):
        return None
    if kwargs:
        key.extend(kwargs)
        if not _append_parts(tuple(kwargs.values()), key, arrays):
            return None
    return tuple(key)


def _append_parts(values: Sequence[Any], key: list[Any], arrays: list[Array]) -> bool:
    """Append `values` to `key`, and the arrays of tensors to `arrays`.

    Returns False for values that no key can hold.
    """
    for value in values:
        kind = type(value)
        key.append(kind)
        if kind is EagerTensor or kind is Variable:
            array = value.held if kind is EagerTensor else EAGER.values.get(value)
            if array is None or not array.flags.c_contiguous:
                return False
            key.append(array.dtype)
            key.append(array.shape)
            arrays.append(array)
        elif kind in ATOMS:
            if kind in (str, bytes) and len(value) > MAX_PARTS:
                return False
            key.append(value)
        elif kind is float:
            key.append(float_part(value))
        elif kind is DType:
            key.append(value.name)
        else:
            elements = value.dims if kind is TensorShape else None if kind is dict else elements_of(value)
            if elements is None or len(key) + len(elements) > MAX_PARTS:
                return False
            key.append(len(elements))
            if not _append_parts(elements, key, arrays):
                return False
    return True


def call_and_cache(
    signature: tuple[Any, ...],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    arrays: Sequence[Array],
    bind: Callable[..., tuple[Any, eager.Emit, eager.Operands]],
) -> tuple[list[Array], bool]:
    """Make a call with tensors that hold `arrays`, and cache it under `signature`.

    `bind(args, kwargs)` returns the arguments of eager.execute(). It is called with copies of the tensors, so that each
    operand can be traced back to its argument. If a tensor is no operand, it is a part of the op or was used to compute
    an operand; then the result depends on its elements in other ways, and the call is never cached.
    """
    views = [array.view() for array in arrays]
    remaining = iter(views)
    copied = map_structure((tuple(args), dict(kwargs)), lambda _: EagerTensor(next(remaining)), _TENSORS)
    compiled, operands = eager.prepare(*bind(*copied))
    results = eager.run(compiled, operands)
    positions = {id(view): position for position, view in enumerate(views)}
    plain = all(array.dtype.isnative and not array.dtype.hasobject for array in operands)
    cacheable = plain and positions.keys() <= set(map(id, operands))
    CACHE.put(signature, CachedCall(compiled, operands, positions) if cacheable else Uncached.NEVER)
    return results, compiled.many
