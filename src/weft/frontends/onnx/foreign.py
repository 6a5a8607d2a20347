"""Nodes without a core op become `call` nodes that run ONNX's reference implementation.

Values that no weft tensor can hold (sequences, optionals, maps, float8, ...) never leave such calls:
an Opaque value is the recipe of one, and every reader runs the recipe again. ONNX operators have no
side effects, so that gives the same result.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx
from onnx import helper

from weft.frontends.onnx.build import Builder, Function
from weft.frontends.onnx.faults import Fault, Unsupported
from weft.frontends.onnx.functions import Functions
from weft.frontends.onnx.loop import LoopFunction
from weft.frontends.onnx.names import captured, graphs_of, place
from weft.frontends.onnx.nested import is_stated, node_types
from weft.frontends.onnx.reference import ForeignFunction, ForeignInfer, Fragment, infer_types
from weft.frontends.onnx.types import NUMBERS, tensor_type, with_article
from weft.graph.value import Value


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A value that no tensor can hold, as the nodes that make it and the tensors that these read."""

    name: str
    nodes: tuple[onnx.NodeProto, ...]
    reads: Mapping[str, Value]
    type: onnx.TypeProto


Binding = Value | Opaque | None
"""What a name in the model stands for; None if the node that makes it has a fault."""


def add_call(
    proto: onnx.NodeProto,
    env: Mapping[str, Binding],
    versions: Mapping[str, int],
    functions: Functions,
    builder: Builder,
) -> list[Binding]:
    """The results of `proto` as a `call` node; names that it reads are looked up in `env`.

    Raises Fault if a result's type cannot be told, Unsupported if the onnx package cannot run it.
    """
    where = place(proto, builder.name)
    reads, nodes = _recipe(proto, env)
    nested = any(True for node in nodes for _ in graphs_of(node))
    local = tuple(functions.values()) if nested else ()
    names = [output for output in proto.output if output]
    fragment = Fragment(nodes, tuple(reads), tuple(names), versions, local)
    types = _result_types(proto, fragment, reads, versions, builder)
    dtypes = {output: dtype for output in names if (dtype := tensor_type(types[output])) is not None}
    values: dict[str, Value] = {}
    if dtypes:
        own = Fragment(nodes, tuple(reads), tuple(dtypes), versions, local)
        function: Function = ForeignFunction(own, list(dtypes.values()), where)
        if proto.op_type == "Loop" and len(nodes) == 1 and len(dtypes) == len(names):
            function = LoopFunction(proto, own, dtypes, where)
        infer = None if nested else ForeignInfer(own, list(dtypes.values()))
        results = builder.add_call(list(reads.values()), list(dtypes.values()), function, infer, str(proto.op_type))
        values = dict(zip(dtypes, results, strict=True))
    return [
        None if not output else values.get(output) or Opaque(output, nodes, reads, types[output])
        for output in proto.output
    ]


def _recipe(proto: onnx.NodeProto, env: Mapping[str, Binding]) -> tuple[dict[str, Value], tuple[onnx.NodeProto, ...]]:
    """The tensors that `proto` and the recipes of its operands read, and all these nodes in order."""
    reads: dict[str, Value] = {}
    nodes: dict[str, onnx.NodeProto] = {}

    def read(name: str, value: Value) -> None:
        if reads.setdefault(name, value) is not value or name in nodes:
            raise Unsupported(f"it reads two values called {name!r} through sequences; give them different names")

    for name in dict.fromkeys((*filter(None, proto.input), *captured(proto))):
        binding = env[name]
        if isinstance(binding, Value):
            read(name, binding)
        elif binding is not None:
            for node in binding.nodes:
                made = next(filter(None, node.output))
                if nodes.setdefault(made, node) is not node:
                    raise Unsupported(f"it reads two values called {made!r} through sequences")
            for other, value in binding.reads.items():
                read(other, value)
    return reads, (*nodes.values(), proto)


def _result_types(
    proto: onnx.NodeProto,
    fragment: Fragment,
    reads: Mapping[str, Value],
    versions: Mapping[str, int],
    builder: Builder,
) -> dict[str, onnx.TypeProto]:
    """Name -> type of each result of `proto`."""
    typed = {name: _value_info(name, value, builder) for name, value in reads.items()}
    found: dict[str, onnx.TypeProto] = {}
    types = {name: info.type for name, info in typed.items()}
    for node in fragment.nodes:
        types.update(node_types(node, types, versions))
    if not any(True for node in fragment.nodes for _ in graphs_of(node)):
        small = [
            onnx.numpy_helper.from_array(array, name)
            for name, value in reads.items()
            if (array := builder.known.array(value)) is not None and array.size <= 64 and array.dtype.kind != "O"
        ]
        try:
            found = infer_types(fragment, typed.values(), small)
        except ValueError as error:
            raise Fault(f"its operands do not fit: {error}") from None
    for output in filter(None, proto.output):
        if not is_stated(found.get(output)) and output in types:
            found[output] = types[output]
    for output in filter(None, proto.output):
        if not is_stated(found.get(output)):
            raise Fault(f"the type of its output {output!r} cannot be told")
    return found


def _value_info(name: str, value: Value, builder: Builder) -> onnx.ValueInfoProto:
    if value.dtype is None:
        raise Fault(f"the element type of its input {name!r} cannot be told")
    return helper.make_tensor_value_info(name, NUMBERS[value.dtype], builder.known.dims(value))


def opaque_tensor(name: str, tensor: onnx.TensorProto) -> Opaque:
    """A stored tensor whose element type weft has not (int4, float8, complex, ...)."""
    node = helper.make_node("Constant", [], [name], name=name)
    node.attribute.append(helper.make_attribute("value", tensor))
    return Opaque(name, (node,), {}, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)))


def described(binding: Opaque) -> str:
    """What an opaque value is, for messages."""
    kind = binding.type.WhichOneof("value") or "value"
    return "a tensor of an element type weft has not" if kind == "tensor_type" else with_article(kind)


def reads_opaque(names: Iterable[str], env: Mapping[str, Binding]) -> bool:
    """Whether one of the names stands for an opaque value."""
    return any(isinstance(env.get(name), Opaque) for name in names if name)
