"""Eager calls that were made before, with arguments of the same form, go straight to the compiled op.

Between the arguments of a call and the run lie names of parameters, hints of element types and conversions. They come to
the same for the same form: classes, element types and shapes of tensors and variables, other values themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treadle.compat.calls import Met
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

MOST_CALLS = 1024
"""How many forms of calls are known at most. Those met once cost their keys alone; others may share a compiled op, of
about 15 KB."""

MOST_PARTS = 128
"""A call of more values, one in another counted too, or of a longer text, is not told by them."""

_TENSORS = (EagerTensor, Variable)


class Call:
    """An eager call, made again for tensors of the same form."""

    __slots__ = ("_feeds", "_picks", "_provider", "_run", "many")

    def __init__(self, compiled: eager.Compiled, varying: Sequence[Array], given: Mapping[int, int]) -> None:
        """`given` says at which place among the tensors of a call an array of `varying` is, by its id; the others stay."""
        self._feeds: list[int | Array] = [given.get(id(array), array) for array in varying]
        self._run = compiled.direct
        places = {tensor.name: place for place, tensor in enumerate(compiled.session.outputs)}
        self._picks = [places[name] for name in compiled.outputs]
        self._provider = compiled.provider
        self.many = compiled.many

    def fits(self) -> bool:
        """Whether the op would be compiled in the same way now."""
        return self._provider is None or self._provider == providers.current().name

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The results for the arrays of the tensors of a call; nobody can change them. Raises what eager.execute() does."""
        try:
            found = self._run([arrays[feed] if isinstance(feed, int) else feed for feed in self._feeds])
        except (TreadleError, ValueError) as error:
            eager.fail(error)
        for array in found:
            array.flags.writeable = False
        return [found[place] for place in self._picks]


CALLS: LRU[Any, Call | Met] = LRU(MOST_CALLS)
"""What is known of eager calls, by op and form."""


def form_of(op: str, args: Sequence[Any], kwargs: Mapping[str, Any], arrays: list[Array]) -> tuple[Any, ...] | None:
    """The form of a call, whose tensors and variables are added to `arrays`; None for one that its form does not tell."""
    key: list[Any] = [op]
    if not _describe(args, key, arrays):
        return None
    if kwargs:
        key.extend(kwargs)
        if not _describe(tuple(kwargs.values()), key, arrays):
            return None
    return tuple(key)


def _describe(values: Sequence[Any], key: list[Any], arrays: list[Array]) -> bool:
    """Add `values` to `key`, and what tensors among them hold to `arrays`; False for what no key can tell."""
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
            if kind in (str, bytes) and len(value) > MOST_PARTS:
                return False
            key.append(value)
        elif kind is float:
            key.append(float_part(value))
        elif kind is DType:
            key.append(value.name)
        else:
            consists_of = value.dims if kind is TensorShape else None if kind is dict else elements_of(value)
            if consists_of is None or len(key) + len(consists_of) > MOST_PARTS:
                return False
            key.append(len(consists_of))
            if not _describe(consists_of, key, arrays):
                return False
    return True


def learn(
    form: tuple[Any, ...],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    arrays: Sequence[Array],
    planned: Callable[..., tuple[Any, eager.Emit, eager.Operands]],
) -> tuple[list[Array], bool]:
    """Make a call of a form that was met before, with tensors that hold `arrays`, so that those that follow are recalled.

    `planned(args, kwargs)` gives the arguments of eager.execute(), whose results these are. It is called with tensors that
    are told from one another, to see which operand each of them is. One that is none, but a part of the op or of an
    operand, has a say in what the op is, so that the form alone does not tell it.
    """
    marks = [array.view() for array in arrays]
    rest = iter(marks)
    again = map_structure((tuple(args), dict(kwargs)), lambda _: EagerTensor(next(rest)), _TENSORS)
    compiled, varying = eager.prepare(*planned(*again))
    results = eager.run(compiled, varying)
    given = {id(mark): place for place, mark in enumerate(marks)}
    plain = all(array.dtype.isnative and not array.dtype.hasobject for array in varying)
    told = plain and given.keys() <= set(map(id, varying))
    CALLS.put(form, Call(compiled, varying, given) if told else Met.NEVER)
    return results, compiled.many
