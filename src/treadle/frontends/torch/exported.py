"""Exported programs to Graphs, or to Templates where they have symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from treadle.errors import InputError, ModelError
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch import fx
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.conditions import Conditions
from treadle.frontends.torch.dtypes import core
from treadle.frontends.torch.exporter_warnings import without_exporter_warnings
from treadle.frontends.torch.graphs import add_outputs, start_graph
from treadle.frontends.torch.symbols import declared, shape_of
from treadle.frontends.torch.tensor import Box
from treadle.graph.graph import Graph
from treadle.graph.shape import is_static
from treadle.graph.template import Form, Template
from treadle.graph.value import Value


def export(module: torch.nn.Module, example_inputs: Any, dynamic_shapes: Any) -> torch.export.ExportedProgram:
    """Returns `module` as a program of ATen ops.

    Raises InputError without example inputs, ModelError if it cannot be exported.
    """
    if example_inputs is None:
        raise InputError(
            "a torch.nn.Module needs example_inputs: its positional arguments as a tuple, "
            "for example treadle.Session(module, example_inputs=(torch.zeros(1, 3, 224, 224),))"
        )
    given = example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,)
    if module.training:
        raise ModelError("the module is in training mode; treadle runs inference: call .eval() on it first")
    try:
        with torch.no_grad(), without_exporter_warnings():
            return torch.export.export(module, tuple(given), dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise ModelError(f"torch.export cannot export {type(module).__name__}: {error}") from error


def from_program(program: torch.export.ExportedProgram) -> Graph | Template:
    """Returns the graph of `program`. Inputs keep their names; outputs are named `output`, or by key and position."""
    source = _Program(program)
    template = Template(source.title, source.inputs, source.outputs, source.build, builds_open=True, dims=source.dims)
    if all(value.shape is not None and is_static(value.shape) for value in source.inputs):
        return source.build([(value.known_dtype, value.static_shape) for value in source.inputs])
    return template


class _Program:
    """An exported program: the role of each placeholder, and the names of the outputs."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        faults = Faults()
        self.title = "the exported program"
        texts = list(getattr(program, "_guards_code", ()))  # before PyTorch 2.9 there are none
        self._program = _functional(program)
        self._kinds = {spec.arg.name: spec for spec in self._program.graph_signature.input_specs}
        self._refuse_writes(faults)
        self.inputs = tuple(self._inputs(faults))
        self.dims = declared(self._sizes(), self._program.range_constraints)
        try:
            self._conditions = Conditions(texts, self._paths())
        except Unsupported as fault:
            faults.add(self.title, fault)
        faults.raise_all(self.title)
        self.outputs = unique_outputs(self._names(), self.inputs)

    def _refuse_writes(self, faults: Faults) -> None:
        for spec in self._program.graph_signature.output_specs:
            if spec.kind is not OutputKind.USER_OUTPUT:
                what = "its input" if spec.kind is OutputKind.USER_INPUT_MUTATION else "its own buffer"
                faults.add(
                    f"output {spec.arg.name!r}",
                    Unsupported(f"it changes {what} {spec.target!r}; treadle runs inference"),
                )

    def _inputs(self, faults: Faults) -> list[Value]:
        found = []
        for node in self._placeholders():
            if self._kinds[node.name].kind is not InputKind.USER_INPUT:
                continue
            example = node.meta.get("val")
            if isinstance(example, torch.Tensor):
                try:
                    found.append(Value(node.name, core(example.dtype), shape_of(example)))
                except Unsupported as fault:
                    faults.add(f"input {node.name!r}", fault)
            elif isinstance(example, torch.SymInt | torch.SymFloat | torch.SymBool):
                faults.add(
                    f"input {node.name!r}", Unsupported("it is a Python number that is not fixed; pass a tensor")
                )
        return found

    def _paths(self) -> dict[str, str]:
        """Returns the name of each input by how PyTorch's conditions write it: "['x']", "['x'][0]"."""
        nodes = [node for node in self._placeholders() if self._kinds[node.name].kind is InputKind.USER_INPUT]
        found = {f"['flat_args'][{place}]": node.name for place, node in enumerate(nodes)}
        found.update((f"['{node.name}']", node.name) for node in nodes)
        calls, spec = self._program.module_call_graph, self._program.call_spec.in_spec
        signature = calls[0].signature if calls else None
        names = None if signature is None else signature.forward_arg_names
        if names is None or spec is None or spec.num_leaves != len(nodes):
            return found
        paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(nodes, spec))
        starred: dict[str, str] = {}
        for (kind, which, *rest), node in paths:
            name = names[which.idx] if kind.idx == 0 and which.idx < len(names) else getattr(which, "key", "")
            found[f"['{name}']{pytree.keystr(tuple(rest))}"] = node.name
            stem, _, number = str(name).rpartition("_")
            if number.isdecimal():  # conditions call a_0, the first of *a, ['a'][0]
                starred[f"['{stem}'][{number}]{pytree.keystr(tuple(rest))}"] = node.name
        return starred | found

    def _sizes(self) -> list[int | torch.SymInt]:
        """Returns the sizes of all inputs."""
        examples = [
            node.meta.get("val") for node in self._placeholders() if self._kinds[node.name].kind is InputKind.USER_INPUT
        ]
        return [size for example in examples if isinstance(example, torch.Tensor) for size in example.shape]

    def _placeholders(self) -> list[Any]:
        return [node for node in self._program.graph.nodes if node.op == "placeholder"]

    def _names(self) -> list[str]:
        """Returns the outputs' names: keys and positions in the module's result."""
        spec = self._program.call_spec.out_spec
        count = len(self._returned())
        if spec is None:
            return names_of(list(range(count)))
        return names_of(pytree.tree_unflatten(list(range(count)), spec), self._returned())

    def _returned(self) -> list[Any]:
        output = next(node for node in self._program.graph.nodes if node.op == "output")
        return list(output.args[0])

    def build(self, forms: Sequence[Form]) -> Graph:
        """Returns the graph for inputs of these dtypes and shapes."""
        faults = Faults()
        try:
            self._conditions.check({value.name: shape for value, (_, shape) in zip(self.inputs, forms, strict=True)})
        except Unsupported as fault:
            faults.add(self.title, fault)
        faults.raise_all(self.title)
        graph, given = start_graph("torch", self.inputs, self.outputs, forms)
        importer = Importer(graph, faults, fx.run, defers=True)
        boxes = {value.name: Box(value, owner=f"its input {value.name!r}") for value in given}
        args = [self._argument(node, importer, boxes, faults) for node in self._placeholders()]
        results = fx.run(importer, self._program.graph_module, args)
        faults.raise_all(self.title)
        add_outputs(importer, [value.name for value in self.outputs], [r for r in results if r is not None])
        faults.raise_all(self.title)
        return graph

    def _argument(self, node: Any, importer: Importer, boxes: dict[str, Box], faults: Faults) -> Any:
        spec, program = self._kinds[node.name], self._program
        if spec.kind is InputKind.USER_INPUT:
            return boxes.get(node.name, getattr(spec.arg, "value", None))
        target = str(spec.target)
        found = program.state_dict.get(target, program.constants.get(target))
        if isinstance(found, torch.Tensor):
            return importer.attempt(f"parameter {target!r}", lambda: importer.constant(found, target))
        faults.add(
            f"input {node.name!r}", Unsupported(f"it is a {spec.kind.name.lower()}, which treadle does not support")
        )
        return None


def _functional(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Returns `program` without ops that write into its buffers or inputs, which its signature does not list."""
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    writes = any(getattr(getattr(t, "_schema", None), "is_mutable", False) for t in targets)
    if not writes:
        return program
    with without_exporter_warnings():
        return program.run_decompositions({})


def names_of(structure: Any, leaves: Sequence[Any] | None = None) -> list[str]:
    """Returns a name for each leaf: `output` for a single one, else keys and positions joined by `_`; None has none."""
    paths, _ = pytree.tree_flatten_with_path(structure)
    names: list[str] = []
    for path, number in paths:
        if number is None or (leaves is not None and leaves[number] is None):
            continue
        words = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        if not words or all(word.isdecimal() for word in words):
            words = ["output", *words]
        names.append("_".join(words))
    return ["output"] if names == ["output_0"] else names


def unique_outputs(names: Sequence[str], inputs: Sequence[Value]) -> tuple[Value, ...]:
    """Returns outputs called `names`, with `_` appended to names that are taken."""
    taken = {value.name for value in inputs}
    found = []
    for name in names:
        free = name
        while free in taken:
            free += "_"
        taken.add(free)
        found.append(Value(free))
    return tuple(found)
