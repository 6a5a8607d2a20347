"""Recordings made again for other tensors of the same form, without the Python that led to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np

from treadle.compat.calls import PROVIDER_OPS
from treadle.compat.signatures import map_structure
from treadle.compat.torch import bounds
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.recording import Ran
from treadle.compat.torch.tensor import Tensor
from treadle.compile import runner_of
from treadle.errors import KernelError
from treadle.ops.op import Array
from treadle.runtime import providers

_PLAIN = (int, float, str, bytes, type(None), dtype, np.generic)


class UnfitError(Exception):
    """A replay could not give what the call gave; the message says why."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where a tensor of the result comes from: output `index` of the code, an argument, or a tensor that is there
    already; `fresh`: each call has a copy of its own."""

    index: int = -1
    argument: int = -1
    tensor: Tensor | None = None
    fresh: bool = False


class Replay:
    """What one recording computed, ready to be computed for other arguments.

    `arguments` are the tensors the call was given, `live` further tensors, by id, that are read at each replay; what
    was written into these is written again. Every other tensor that the recording read was made by it. `result` may
    have tensors, numbers and strings in tuples, lists and dicts, none of which is one of those whose ids are in
    `outside`. Raises UnfitError.
    """

    __slots__ = ("_fed", "_frozen", "_live", "_only", "_plainly", "_provider", "_result", "_run", "_written")

    def __init__(
        self,
        ran: Ran | None,
        arguments: Sequence[Tensor],
        live: Mapping[int, Tensor],
        result: Any,
        outside: Collection[int] = (),
    ) -> None:
        places = {id(tensor): index for index, tensor in reversed(list(enumerate(arguments)))}
        given = ran.outputs if ran is not None else ()
        outputs = {id(tensor): index for index, tensor in enumerate(given)}
        self._written: list[tuple[int | Tensor, int]] = []
        before: dict[int, Array] = {}
        for tensor, index, array in ran.written if ran is not None else ():
            if id(tensor) in places:
                self._written.append((places[id(tensor)], index))
            elif id(tensor) in live:
                self._written.append((tensor, index))
            else:
                before[id(tensor)] = array
                outputs[id(tensor)] = index
        self._result = _Template(places, outputs, live, outside).of(result)
        self._only = not self._written and isinstance(self._result, Leaf) and self._result.index == 0
        self._frozen = tuple(tensor for tensor in arguments if tensor.frozen)  # which the key tells by their ids
        self._fed: list[int | Tensor | Array] = []
        self._live: list[tuple[Tensor, tuple[int, ...], Any]] = []
        for tensor in ran.inputs if ran is not None else ():
            array = tensor.settled()
            if not array.dtype.isnative:
                raise UnfitError("a tensor has a foreign byte order")
            if id(tensor) in places:
                self._fed.append(places[id(tensor)])
            elif id(tensor) in live:
                self._fed.append(tensor)
                self._live.append((tensor, array.shape, array.dtype))
            else:
                self._fed.append(before[id(tensor)] if id(tensor) in before else np.array(array, order="C"))
        session = None if ran is None else ran.session
        self._plainly = not self._written and all(
            type(each) is int and arguments[each].is_contiguous() for each in self._fed
        )
        self._run = None if session is None or ran is None else runner_of(session).prepare(ran.feed())
        self._provider = providers.current().name if ran is not None and PROVIDER_OPS & ran.ops else None

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The result for `tensors` of the form of the arguments; NotImplemented if it takes another recording by now."""
        if self._provider is not None and self._provider != providers.current().name:
            return NotImplemented
        outputs: list[Tensor] = []
        if self._run is not None:
            arrays = [tensors[index].array for index in self._fed] if self._plainly else self._arrays(tensors)  # type: ignore[index]
            if arrays is None:
                return NotImplemented
            try:
                made = self._run(arrays)  # type: ignore[arg-type]
            except KernelError as error:
                raise bounds.told(error) from None
            if self._only:
                return Tensor.of(made[0])
            outputs = list(map(Tensor.of, made))
            for source, index in self._written:
                np.copyto(_memory(source, tensors), outputs[index].settled())

        def restored(leaf: Leaf) -> Tensor:
            if leaf.index >= 0:
                return outputs[leaf.index]
            if leaf.argument >= 0:
                return tensors[leaf.argument]
            assert leaf.tensor is not None
            return Tensor(leaf.tensor.settled().copy()) if leaf.fresh else leaf.tensor

        return map_structure(self._result, restored, Leaf)

    def _arrays(self, tensors: Sequence[Tensor]) -> list[Array] | None:
        """What the code reads; None if a tensor has another form by now, or memory that cannot be written at the end."""
        for tensor, shape, kind in self._live:
            array = tensor.array
            if array is None or array.shape != shape or array.dtype is not kind:
                return None
        for source, _ in self._written:
            target = _memory(source, tensors)
            others = (each for each in self._fed if not isinstance(each, np.ndarray) and not _same(each, source))
            if not target.flags.writeable or any(
                np.may_share_memory(target, _memory(each, tensors)) for each in others
            ):
                return None
        return [_array(each, tensors) for each in self._fed]


def _same(one: int | Tensor, other: int | Tensor) -> bool:
    return one is other or (isinstance(one, int) and isinstance(other, int) and one == other)


def _memory(source: int | Tensor, tensors: Sequence[Tensor]) -> Array:
    return (tensors[source] if isinstance(source, int) else source).settled()


def _array(source: int | Tensor | Array, tensors: Sequence[Tensor]) -> Array:
    if isinstance(source, np.ndarray):
        return source
    array = _memory(source, tensors)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


class _Template:
    """A result with leaves for its tensors."""

    def __init__(
        self,
        places: Mapping[int, int],
        outputs: Mapping[int, int],
        live: Mapping[int, Tensor],
        outside: Collection[int],
    ) -> None:
        self._places = places
        self._outputs = outputs
        self._live = live
        self._seen = set(outside)

    def of(self, result: Any) -> Any:
        """Raises UnfitError for what cannot be made anew."""
        if isinstance(result, Tensor):
            return self._leaf(result)
        if isinstance(result, tuple):
            parts = list(map(self.of, result))
            if all(map(is_, parts, result)):
                return result
            return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
        if isinstance(result, _PLAIN):
            return result
        if type(result) in (list, dict):
            self._once(result)
            if isinstance(result, list):
                return list(map(self.of, result))
            return {key: self.of(each) for key, each in result.items()}
        raise UnfitError(f"the result has a {type(result).__name__}")

    def _leaf(self, tensor: Tensor) -> Leaf:
        found = id(tensor)
        if found in self._outputs:
            return Leaf(index=self._outputs[found])
        if found in self._places:
            return Leaf(argument=self._places[found])
        if found in self._live:
            return Leaf(tensor=tensor)
        self._once(tensor)
        return Leaf(tensor=Tensor(tensor.settled().copy()), fresh=True)

    def _once(self, part: Any) -> None:
        if id(part) in self._seen:
            raise UnfitError(f"the result has a {type(part).__name__} that is not made anew by each call")
        self._seen.add(id(part))
