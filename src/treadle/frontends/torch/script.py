"""TorchScript modules and functions to Templates: the graph is interpreted once for each combination of input shapes.

Shapes and Python values are known then, so conditions on them are decided and loops over them unrolled. A forked body
is interpreted in place: its nodes do not depend on the code up to the wait, so both run concurrently.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch

from treadle.errors import InputError, ModelError
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch import fx
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.exported import names_of, unique_outputs
from treadle.frontends.torch.frames import Part
from treadle.frontends.torch.graphs import add_outputs, start_graph
from treadle.frontends.torch.interpreter import Interpreter
from treadle.frontends.torch.source import check_ops, inline, readable
from treadle.frontends.torch.tensor import Box
from treadle.graph.graph import Graph
from treadle.graph.template import Form, Template
from treadle.graph.value import Value


def from_script(model: Any, example_inputs: Any) -> Template:
    """Returns the Template of `model`.

    Raises UnsupportedModelError, which lists every unsupported op with its source.
    """
    with readable():
        script = _Script(model, example_inputs)
    return Template(script.title, script.inputs, script.outputs, script.build, builds_open=True)


def _forward(module: Any) -> Any:
    """Returns the method that a call of the scripted module runs.

    Recurrent layers have two methods; the first takes plain tensors.
    """
    names = list(module._c._method_names())
    for name in ("forward", "forward__0"):
        if name in names:
            return module._c._get_method(name)
    raise ModelError(f"the script {module.original_name!r} has no forward method; it has {', '.join(names) or 'none'}")


class _Slot:
    """Placeholder for the tensor input of this number in the structure of the arguments."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Script:
    """A script: its inlined graph, its arguments, and the names of its outputs."""

    def __init__(self, model: Any, example_inputs: Any) -> None:
        self.title = f"the script {getattr(model, 'original_name', getattr(model, 'name', 'module'))!r}"
        self._self: list[Any] = []
        method = model if isinstance(model, torch.jit.ScriptFunction) else _forward(model)
        schema = method.schema
        arguments = list(schema.arguments)
        if isinstance(model, torch.jit.ScriptModule):
            if model.training:
                raise ModelError(f"{self.title} is in training mode; treadle runs inference: call .eval() on it first")
            self._self = [Part(model, "")]
            arguments = arguments[1:]
        self._graph = inline(method.graph)
        faults = Faults()
        check_ops(self._graph, faults)
        names: list[str] = []
        self._arguments = [
            self._argument(argument, number, example_inputs, names, faults) for number, argument in enumerate(arguments)
        ]
        self.inputs = tuple(Value(name) for name in names)
        if isinstance(example_inputs, tuple | list) and len(example_inputs) > len(arguments):
            raise InputError(
                f"{self.title} takes {len(arguments)} arguments ({', '.join(each.name for each in arguments)}), "
                f"example_inputs has {len(example_inputs)}"
            )
        (result,) = self._graph.outputs()
        self.outputs = unique_outputs(_returned(schema.returns[0].type, result, faults), self.inputs)
        faults.raise_all(self.title)

    def _argument(self, argument: Any, number: int, examples: Any, names: list[str], faults: Faults) -> Any:
        """Returns the structure of an argument: slots for tensors, Python values otherwise."""
        if examples is not None:
            given = examples if isinstance(examples, tuple | list) else (examples,)
            if number < len(given):
                _check_example(argument, given[number])
                return _slots(given[number], argument.name, names)
        if argument.type.isSubtypeOf(torch._C.TensorType.get()):
            return _slots(torch.empty(0), argument.name, names)
        if argument.has_default_value():
            return argument.default_value
        if isinstance(argument.type, torch._C.OptionalType):
            inner = argument.type.getElementType()
            if inner.isSubtypeOf(torch._C.TensorType.get()):
                return _slots(torch.empty(0), argument.name, names)
            return None
        if examples is not None:
            raise InputError(f"example_inputs lack the argument {argument.name!r}: {argument.type}")
        faults.add(
            f"argument {argument.name!r}",
            Unsupported(f"it is a {argument.type}: give example_inputs, whose Python values are kept as they are"),
        )
        return None

    def build(self, forms: Sequence[Form]) -> Graph:
        """Returns the graph for inputs of these dtypes and shapes."""
        graph, given = start_graph("torch", self.inputs, self.outputs, forms)
        faults = Faults()
        importer = Importer(graph, faults, fx.run, defers=True)
        boxes = [Box(value, owner=f"its input {value.name!r}") for value in given]
        arguments = [_filled(argument, boxes) for argument in self._arguments]
        with readable():
            (result,) = Interpreter(importer).graph(self._graph, [*self._self, *arguments])
        faults.raise_all(self.title)
        add_outputs(importer, [value.name for value in self.outputs], _flat(result))
        faults.raise_all(self.title)
        return graph


def _slots(example: Any, name: str, names: list[str]) -> Any:
    if isinstance(example, torch.Tensor):
        names.append(name)
        return _Slot(len(names) - 1)
    if isinstance(example, list | tuple):
        return [_slots(entry, f"{name}_{number}", names) for number, entry in enumerate(example)]
    if isinstance(example, dict):
        return {key: _slots(entry, f"{name}_{key}", names) for key, entry in example.items()}
    return example


def _filled(argument: Any, boxes: Sequence[Box]) -> Any:
    if isinstance(argument, _Slot):
        return boxes[argument.number]
    if isinstance(argument, list):
        return [_filled(entry, boxes) for entry in argument]
    if isinstance(argument, dict):
        return {key: _filled(entry, boxes) for key, entry in argument.items()}
    return argument


def _check_example(argument: Any, example: Any) -> None:
    """Raises InputError unless the example is a tensor exactly where the script declares one."""
    declared = argument.type.isSubtypeOf(torch._C.TensorType.get())
    simple = argument.type.kind() in ("IntType", "FloatType", "BoolType", "StringType")
    wrong = not isinstance(example, torch.Tensor) if declared else simple and isinstance(example, torch.Tensor)
    if wrong or (argument.type.kind() in ("IntType", "BoolType") and isinstance(example, float)):
        raise InputError(
            f"example_inputs has a {type(example).__name__} for the argument {argument.name!r}, "
            f"which is a {argument.type}"
        )


def _flat(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [leaf for entry in result.values() for leaf in _flat(entry)]
    if isinstance(result, list | tuple):
        return [leaf for entry in result for leaf in _flat(entry)]
    return [] if result is None else [result]


def _returned(type_: Any, value: Any, faults: Faults) -> list[str]:
    """Returns the outputs' names, from the script's return type and the node that makes `value`."""

    def structure(found: Any, value: Any) -> Any:
        node = None if value is None else value.node()
        kind = "" if node is None else node.kind()
        parts = [] if node is None else list(node.inputs())
        whole = value is not None and len(value.uses()) == 1  # a list that nothing is appended to later
        if isinstance(found, torch._C.TupleType):
            made = parts if kind == "prim::TupleConstruct" else [None] * len(found.elements())
            return tuple(structure(element, part) for element, part in zip(found.elements(), made, strict=True))
        if isinstance(found, torch._C.ListType) and kind == "prim::ListConstruct" and whole:
            return [structure(found.getElementType(), part) for part in parts]
        if isinstance(found, torch._C.DictType) and kind == "prim::DictConstruct" and whole:
            keys = [key.toIValue() for key in parts[::2]]
            if all(isinstance(key, str | int) for key in keys):
                return OrderedDict(
                    (key, structure(found.getValueType(), part)) for key, part in zip(keys, parts[1::2], strict=True)
                )
        if isinstance(found, torch._C.ListType | torch._C.DictType):
            faults.add(
                "output", Unsupported(f"it is a {found}, whose length is not declared; return a tuple of tensors")
            )
        return 0

    return names_of(structure(type_, value))
