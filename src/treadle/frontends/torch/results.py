"""What methods of TorchScript modules return: Python's values, with places for tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from treadle.dtypes import boolean
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.dtypes import array_of
from treadle.frontends.torch.stacks import Stack
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import is_expression
from treadle.graph.value import Value
from treadle.records import dataclass

Result = Any
"""Python's values in tuples, lists and dictionaries, with an Output or Input for each tensor."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output of the graph: a tensor, or the number of this Python type."""

    place: int
    number: type | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """The tensor that is this input of the graph."""

    place: int


class Results:
    """The outputs of the graph of a method, which has run on `inputs`."""

    def __init__(self, importer: Importer, inputs: Sequence[Box]) -> None:
        self._importer = importer
        self._inputs = list(inputs)

    def of(self, held: Any, type_: Any) -> Result:
        """Returns what the method returns, which has the type `type_`. Raises Unsupported."""
        if isinstance(type_, torch._C.OptionalType):
            return None if held is None else self.of(held, type_.getElementType())
        if isinstance(held, Stack):
            held = held.entries(self._importer.b)
        if isinstance(held, list | tuple):
            return self._of_sequence(held, type_)
        if isinstance(held, dict):
            kind = type_.getValueType() if isinstance(type_, torch._C.DictType) else type_
            return {key: self.of(each, kind) for key, each in held.items()}
        if isinstance(held, Number):
            return self._of_number(held.value, type_)
        return self._of_leaf(held, type_)

    def _of_leaf(self, held: Any, type_: Any) -> Result:
        """Returns a tensor, or a value of Python's."""
        if isinstance(held, Box):
            return self._of_tensor(held)
        if is_expression(held):
            return self._of_number(self._importer.b.number(held), type_)
        if isinstance(held, torch.Tensor):
            return Output(self._output(self._importer.b.constant(array_of(held))))
        if isinstance(held, bool | int | float) and type_.kind() == "FloatType":
            return float(held)
        if held is None or isinstance(held, bool | int | float | str):
            return held
        raise Unsupported(f"it returns a {type(held).__name__}; treadle returns tensors, numbers, texts and containers")

    def written(self) -> tuple[tuple[int, int], ...]:
        """Returns the inputs that the method has written, each with the output that has the new elements."""
        return tuple(
            (place, self._output(box.read()))
            for place, (box, value) in enumerate(zip(self._inputs, self._importer.b.graph.inputs, strict=True))
            if box.held() is not value
        )

    def _of_tensor(self, held: Box) -> Result:
        for place, box in enumerate(self._inputs):
            if box is held:
                return Input(place)
        return Output(self._output(held.read()))

    def _of_number(self, value: Value, type_: Any) -> Output:
        kind = value.known_dtype
        found = bool if kind is boolean else float if kind.is_float else int
        return Output(self._output(value), _NUMBERS.get(type_.kind(), found))

    def _of_sequence(self, held: Sequence[Any], type_: Any) -> Result:
        if isinstance(type_, torch._C.TupleType):
            return _tuple_of(type_, [self.of(each, kind) for each, kind in zip(held, type_.elements(), strict=True)])
        kind = type_.getElementType() if isinstance(type_, torch._C.ListType) else type_
        return [self.of(each, kind) for each in held]

    def _output(self, value: Value) -> int:
        outputs = self._importer.b.graph.outputs
        if value not in outputs:
            outputs.append(value)
        return outputs.index(value)


_NUMBERS: dict[str, type] = {"IntType": int, "FloatType": float, "BoolType": bool}


def _tuple_of(type_: Any, parts: Sequence[Any]) -> tuple[Any, ...]:
    named = _class_of(type_)
    made: tuple[Any, ...] = tuple(parts) if named is None else named(*parts)
    return made


def _class_of(type_: Any) -> Any:
    """Returns the class of a named tuple, which PyTorch makes; None for other tuples."""
    if not str(type_).startswith("__torch__."):
        return None
    graph = torch._C.Graph()
    parts = [graph.addInput(f"part_{number}") for number in range(len(type_.elements()))]
    for part, kind in zip(parts, type_.elements(), strict=True):
        part.setType(kind)
    node = graph.appendNode(graph.create("prim::TupleConstruct", parts))
    node.output().setType(type_)
    graph.registerOutput(node.output())
    make = torch._C._create_function_from_graph("named", graph)
    return type(make(*map(_example, type_.elements())))


def _example(kind: Any) -> Any:
    """Returns a value of this type."""
    if isinstance(kind, torch._C.TupleType):
        return _tuple_of(kind, [_example(part) for part in kind.elements()])
    make = _EXAMPLES.get(kind.kind())
    if make is None:
        raise Unsupported(f"it returns a named tuple with a {kind}")
    return make()


_EXAMPLES: dict[str, Callable[[], Any]] = {
    "TensorType": lambda: torch.empty(0),
    "IntType": int,
    "FloatType": float,
    "BoolType": bool,
    "StringType": str,
    "OptionalType": type(None),
    "NoneType": type(None),
    "ListType": list,
    "DictType": dict,
}
