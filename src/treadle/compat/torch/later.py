"""Calls of tensor functions that need sizes which depend on data: they are recorded as they are.

Once the run knows the sizes, the functions record the ops of the calls. It may know them as expressions: one plan then
serves all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from treadle.compat.signatures import map_structure
from treadle.compat.torch.lazy_ints import Lazy, LazyInt, NeedsElementsError, UntoldSize
from treadle.compat.torch.recording import Recording, emit
from treadle.compat.torch.signatures import append_signature, tensors_in
from treadle.compat.torch.sizes import Size
from treadle.compat.torch.state import recording_into
from treadle.compat.torch.tensor import Tensor
from treadle.errors import KernelError, LimitError, ShapeError
from treadle.graph.case_analysis import CaseAnalysis, UndecidedError
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.ops.certain import certain_infos, certain_results
from treadle.ops.deferred import DeferredNodes
from treadle.ops.evaluate import infer_node, with_value
from treadle.ops.op import Info

_MISFITS = (RuntimeError, IndexError, ValueError)
"""What tensor functions raise for operands that do not fit."""


class _Value(NamedTuple):
    """A tensor among the arguments of a call, by its place among the operands."""

    operand: int


class _Number(NamedTuple):
    """A size or element among the arguments of a call; `args` has operands in place of tensors."""

    op: str
    args: tuple[Any, ...]


class Sketch(Recording):
    """A recording of tensors whose dtypes and sizes are known, but not their elements.

    Sizes may be expressions of any facts. Nothing is known of a size that the recorded code itself finds in data.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = name
        self._own = CaseAnalysis()

    def given(self, info: Info) -> Tensor:
        """Adds a tensor of which this is known."""
        number = len(self.infos)
        self.infos.append(Info(info.dtype, info.shape))
        tensor = self.inputs[number] = Tensor.pending(self, number)
        return tensor

    def shape_of(self, tensor: Tensor) -> Size:
        """Returns the shape of a tensor, with expressions and what nothing is known of."""
        return Size(self.infos[tensor.number].shape or ())

    def slot(self, operand: Tensor) -> int:
        """Returns the number of the first value of a tensor; elements that exist are constants."""
        if operand.array is not None:
            return self._constant(operand.array, operand.array.tobytes())
        return super().slot(operand)

    def flush(self) -> None:
        """Raises NeedsElementsError."""
        raise NeedsElementsError

    def inferred(
        self, op: str, attrs: dict[str, Any], attrs_key: Any, operands: Sequence[Info | None], outputs: int
    ) -> list[Info]:
        """Returns what is known of the results of an op. Raises ShapeError or LimitError if operands do not fit."""
        node = Graph(op).make(op, [None] * len(operands), attrs, outputs=outputs)
        if not any(map(_has_untold, operands)):
            found = infer_node(node, operands)
            for value, info in zip(node.outputs, found, strict=True):
                value.dtype = info.dtype
            if None not in [info.shape for info in found]:
                return [with_value(node, operands, found[0])] if len(found) == 1 else found
        found = certain_infos(node, [None if each is None else self._unknown(each) for each in operands], self._own)
        if not found or None in [info.shape for info in found]:
            raise NeedsElementsError
        return list(map(_untold, found))

    def _unknown(self, info: Info) -> Info:
        """Returns `info` with symbols of its own for all sizes that are no numbers."""
        dims = info.shape or ()
        return Info(info.dtype, tuple(dim if type(dim) is int else self._own.unknown() for dim in dims))


def _has_untold(info: Info | None) -> bool:
    return info is not None and any(isinstance(dim, UntoldSize) for dim in info.shape or ())


def _untold(info: Info) -> Info:
    """Returns `info` without what is known of sizes that are expressions."""
    dims: list[Any] = [UntoldSize() if is_expression(dim) else dim for dim in info.shape or ()]
    return Info(info.dtype, tuple(dims))


@dataclass(slots=True)
class _Call:
    """A call with places for its operands.

    Attributes:
        function: The tensor function.
        name: Its name, for messages.
        arguments: What it is called with, positional and named.
        objects: What the key of the arguments has the ids of.
        result: What it returns, with places for tensors; None while that is not known.
    """

    function: Callable[..., Any]
    name: str
    arguments: Any
    objects: list[Any]
    result: Any = None

    def run(self, infos: Sequence[Info]) -> tuple[Sketch, Any]:
        """Returns a sketch of the call on operands of which this is known, and its result.

        Raises what the function raises, and NeedsElementsError.
        """
        sketch = Sketch(self.name)
        tensors = list(map(sketch.given, infos))

        def restored(part: Any) -> Any:
            if isinstance(part, _Value):
                return tensors[part.operand]
            return _evaluated(part, infos)

        args, kwargs = map_structure(self.arguments, restored, _PLACES)
        with recording_into(sketch):
            result = self.function(*args, **kwargs)
        return sketch, result

    def infos(self, infos: Sequence[Info], facts: CaseAnalysis) -> list[Info]:
        """Returns what is known of the tensors of the result, and notes `result`.

        Returns an empty list if the call cannot be made later.
        """
        forms: list[Any] = []

        def infer() -> list[Info]:
            try:
                sketch, result = self.run(infos)
            except _MISFITS as error:
                raise ShapeError(str(error)) from error
            except (NeedsElementsError, TypeError, AttributeError, AssertionError) as error:
                raise UndecidedError from error
            tensors = tensors_in(result)
            forms.append(_numbered(result))
            with recording_into(sketch):
                return [_with_symbols(sketch.infos[sketch.number(tensor)], facts) for tensor in tensors]

        try:
            found = certain_results(infer, facts)
        except (ShapeError, LimitError, KernelError):  # the call itself says what is wrong
            return []
        if not found:
            return []
        self.result = forms[0]
        is_one_form = all(form == self.result for form in forms)
        return found if is_one_form and None not in [info.shape for info in found] else []

    def build(self, infos: Sequence[Info]) -> Graph:
        """Returns the graph for operands of which this is known. Raises ShapeError if they do not fit."""
        try:
            sketch, result = self.run(infos)
        except _MISFITS as error:
            raise ShapeError(f"{self.name}: {error}") from error
        with recording_into(sketch):
            numbers = [sketch.number(emit("identity", tensor)) for tensor in tensors_in(result)]
        return sketch.graph(numbers)


_PLACES = (_Value, _Number)


def _numbered(result: Any) -> Any:
    """Returns a result with numbers in place of its tensors."""
    count = itertools.count()
    return map_structure(result, lambda _: _Value(next(count)), Tensor)


def _with_symbols(info: Info, facts: CaseAnalysis) -> Info:
    """Returns `info` with symbols of `facts` for what nothing is known of."""
    dims = info.shape or ()
    return Info(info.dtype, tuple(facts.unknown() if isinstance(dim, UntoldSize) else dim for dim in dims))


def _evaluated(number: _Number, infos: Sequence[Info]) -> Any:
    """Returns a size or element for operands of which this is known."""

    def leaf(operand: Any, axis: int | None) -> Any:
        info = infos[operand.operand]
        if axis is not None:
            return (info.shape or ())[axis]
        if info.value is None:
            raise NeedsElementsError
        (number,) = info.value.reshape(-1).tolist()
        return number

    return _lazy(number).evaluate(leaf)


def _lazy(number: _Number) -> Lazy:
    return Lazy(number.op, tuple(_lazy(each) if isinstance(each, _Number) else each for each in number.args))


def call_later(
    recording: Recording, function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Records the call and returns its pending result; NotImplemented if the function needs more than sizes."""
    operands: dict[int, int] = {}  # place among the operands by value number
    elements: dict[int, LazyInt] = {}  # operands whose element a size follows from

    def place(tensor: Tensor) -> _Value:
        return _Value(operands.setdefault(recording.number(tensor), len(operands)))

    def placed(part: Any) -> Any:
        if isinstance(part, Tensor):
            return place(part)
        if isinstance(part, LazyInt) and part.op == "item":
            held = place(part.args[0])
            elements[held.operand] = part
            return _Number("item", (held,))
        return _Number(part.op, map_structure(part.args, placed, (Tensor, Lazy)))

    arguments = map_structure((tuple(args), dict(kwargs)), placed, (Tensor, Lazy))
    key: list[Any] = [function, *kwargs]
    call = _Call(function, name, arguments, [])
    if not append_signature((*arguments[0], *arguments[1].values()), key, [], call.objects):
        return NotImplemented
    infos = [recording.infos[number] for number in operands]
    for operand, lazy in elements.items():
        value = np.empty(infos[operand].shape or (), object)
        value[...] = lazy.size
        infos[operand] = Info(infos[operand].dtype, infos[operand].shape, value)
    found = call.infos(infos, recording.facts)
    if not found:
        return NotImplemented
    nodes = DeferredNodes(call.build, [info.dtype for info in found], sorted(elements))
    results = recording.add_later(nodes, tuple(key), list(operands), found)
    return map_structure(call.result, lambda value: results[value.operand], _Value)
