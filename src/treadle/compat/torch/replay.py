"""Recordings executed again with other tensors of the same signature, without running their Python code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

import numpy as np

from treadle.compat.calls import PROVIDER_OPS
from treadle.compat.signatures import map_structure
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.lazy_ints import Lazy
from treadle.compat.torch.recording import Flush
from treadle.compat.torch.tensor import Tensor
from treadle.compile import runner_of
from treadle.ops.op import Array
from treadle.runtime import providers

_PLAIN = (int, float, str, bytes, type(None), dtype, np.generic)


class NotReplayableError(Exception):
    """A recording cannot be replayed; the message says why."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where a tensor of the result comes from.

    It is output `index` of the code, argument number `argument`, or an existing `tensor`; with `fresh`, each call
    gets a copy of that tensor.
    """

    index: int = -1
    argument: int = -1
    tensor: Tensor | None = None
    fresh: bool = False


class Replay:
    """One recording, ready to run with other arguments.

    `arguments` are the tensors that the call was given. `live` are further tensors, by id, that each run reads and,
    if the recording wrote to them, writes again. All other tensors that the recording read are its own. `result` may
    hold tensors, numbers and strings in tuples, lists and dicts, except the lists and dicts whose ids are in
    `outside`. Raises NotReplayableError. `session` is what each run runs, if anything.
    """

    __slots__ = (
        "_fed",
        "_frozen",
        "_live",
        "_only",
        "_plainly",
        "_provider",
        "_result",
        "_run",
        "_written",
        "session",
    )

    def __init__(
        self,
        flush: Flush | None,
        arguments: Sequence[Tensor],
        live: Mapping[int, Tensor],
        result: Any,
        outside: Collection[int] = (),
    ) -> None:
        positions = {id(tensor): index for index, tensor in reversed(list(enumerate(arguments)))}
        given = flush.outputs if flush is not None else ()
        outputs = {id(tensor): index for index, tensor in enumerate(given)}
        self._written: list[tuple[int | Tensor, int]] = []
        before: dict[int, Array] = {}
        for tensor, index, array in flush.written if flush is not None else ():
            if id(tensor) in positions:
                self._written.append((positions[id(tensor)], index))
            elif id(tensor) in live:
                self._written.append((tensor, index))
            else:
                before[id(tensor)] = array
                outputs[id(tensor)] = index
        self._result = _Template(positions, outputs, live, outside).of(result)
        self._only = not self._written and isinstance(self._result, Leaf) and self._result.index == 0
        self._frozen = tuple(
            tensor for tensor in arguments if tensor.frozen
        )  # kept alive: the signature holds their ids
        self._fed: list[int | Tensor | Array] = []
        self._live: list[tuple[Tensor, tuple[int, ...], Any]] = []
        for tensor in flush.inputs if flush is not None else ():
            array = tensor.materialized()
            if not array.dtype.isnative:
                raise NotReplayableError("a tensor has a foreign byte order")
            if id(tensor) in positions:
                self._fed.append(positions[id(tensor)])
            elif id(tensor) in live:
                self._fed.append(tensor)
                self._live.append((tensor, array.shape, array.dtype))
            else:
                self._fed.append(before[id(tensor)] if id(tensor) in before else np.array(array, order="C"))
        self.session = session = None if flush is None else flush.session
        self._plainly = not self._written and all(
            type(each) is int and arguments[each].is_contiguous() for each in self._fed
        )
        self._run = None if session is None or flush is None else runner_of(session).prepare(flush.feed())
        self._provider = providers.current().name if flush is not None and PROVIDER_OPS & flush.ops else None

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Returns the result for `tensors`, which have the recorded signature.

        Returns NotImplemented if the call has to be recorded again.
        """
        if self._provider is not None and self._provider != providers.current().name:
            return NotImplemented
        outputs: list[Tensor] = []
        if self._run is not None:
            arrays = [tensors[index].array for index in self._fed] if self._plainly else self._arrays(tensors)  # type: ignore[index]
            if arrays is None:
                return NotImplemented
            made = self._run(arrays)  # type: ignore[arg-type]
            if self._only:
                return Tensor.of(made[0])
            outputs = list(map(Tensor.of, made))
            for source, index in self._written:
                np.copyto(_memory(source, tensors), outputs[index].materialized())

        return map_structure(self._result, partial(_restored, outputs, tensors), (Leaf, Lazy))

    def _arrays(self, tensors: Sequence[Tensor]) -> list[Array] | None:
        """Returns the arrays that the code reads.

        Returns None if the layout of a live tensor has changed, or if a tensor to be written is read-only or overlaps
        another input.
        """
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


def _restored(outputs: Sequence[Tensor], tensors: Sequence[Tensor], leaf: Leaf | Lazy) -> Any:
    """Returns what a leaf, or a number that follows from leaves, stands for in one run."""
    if isinstance(leaf, Lazy):

        def number(found: Any, axis: int | None) -> int:
            array = _restored(outputs, tensors, found).materialized()
            return int(array.reshape(-1)[0]) if axis is None else array.shape[axis]

        return leaf.evaluate(number)
    if leaf.index >= 0:
        return outputs[leaf.index]
    if leaf.argument >= 0:
        return tensors[leaf.argument]
    assert leaf.tensor is not None
    return Tensor(leaf.tensor.materialized().copy()) if leaf.fresh else leaf.tensor


def _same(one: int | Tensor, other: int | Tensor) -> bool:
    return one is other or (isinstance(one, int) and isinstance(other, int) and one == other)


def _memory(source: int | Tensor, tensors: Sequence[Tensor]) -> Array:
    return (tensors[source] if isinstance(source, int) else source).materialized()


def _array(source: int | Tensor | Array, tensors: Sequence[Tensor]) -> Array:
    if isinstance(source, np.ndarray):
        return source
    array = _memory(source, tensors)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


class _Template:
    """Replaces the tensors of a result by leaves."""

    def __init__(
        self,
        positions: Mapping[int, int],
        outputs: Mapping[int, int],
        live: Mapping[int, Tensor],
        outside: Collection[int],
    ) -> None:
        self._positions = positions
        self._outputs = outputs
        self._live = live
        self._seen = set(outside)

    def of(self, result: Any) -> Any:
        """Returns `result` with leaves for its tensors.

        Raises NotReplayableError for parts that each call cannot create again.
        """
        if isinstance(result, Tensor | Lazy):
            return self._leaf(result) if isinstance(result, Tensor) else self._number(result)
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
        raise NotReplayableError(f"the result has a {type(result).__name__}")

    def _number(self, number: Lazy) -> Lazy:
        return Lazy(number.op, tuple(map(self.of, number.args)))

    def _leaf(self, tensor: Tensor) -> Leaf:
        found = id(tensor)
        if found in self._outputs:
            return Leaf(index=self._outputs[found])
        if found in self._positions:
            return Leaf(argument=self._positions[found])
        if found in self._live:
            return Leaf(tensor=tensor)
        self._once(tensor)
        return Leaf(tensor=Tensor(tensor.materialized().copy()), fresh=True)

    def _once(self, part: Any) -> None:
        if id(part) in self._seen:
            raise NotReplayableError(f"the result has a {type(part).__name__} that a call does not create")
        self._seen.add(id(part))
