"""Nodes without a core op become `call` nodes that run ONNX's reference implementation.

Values that no treadle tensor can hold (sequences, optionals, maps, float8, ...) never leave such calls:
an Opaque value is the recipe of one, and every reader runs the recipe again. ONNX operators have no
side effects, so that gives the same result. One that the model returns is made after each run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from treadle.dtypes import DType
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder, Function
from treadle.frontends.onnx.from_bytes import FROM_BYTES
from treadle.frontends.onnx.functions import Functions
from treadle.frontends.onnx.lists import TensorList
from treadle.frontends.onnx.loop import LoopFunction
from treadle.frontends.onnx.names import captured, graphs_of
from treadle.frontends.onnx.nested import is_stated, node_types
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.opsets import domain_of
from treadle.frontends.onnx.random_numbers import OPERATORS
from treadle.frontends.onnx.reference import ForeignFunction, Fragment, ObjectFunction, RandomFunction
from treadle.frontends.onnx.reference_map import MAP
from treadle.frontends.onnx.shapes import RULES, ForeignInfer
from treadle.frontends.onnx.types import NUMBERS, tensor_type
from treadle.frontends.onnx.zip_map import ZipMap
from treadle.graph.value import Value
from treadle.ops.op import Array
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A value that no tensor can hold, as the nodes that make it and the tensors that these read."""

    name: str
    nodes: tuple[onnx.NodeProto, ...]
    reads: Mapping[str, Value]
    type: onnx.TypeProto


Binding = Value | TensorList | Opaque | None
"""What a name in the model stands for; None if the node that makes it has a fault."""


def add_call(
    proto: onnx.NodeProto,
    env: Mapping[str, Binding],
    versions: Mapping[str, int],
    functions: Functions,
    builder: Builder,
) -> list[Binding]:
    """The results of `proto` as a `call` node; names that it reads are looked up in `env`.

    Raises Fault if a result's type is unknown, Unsupported if the onnx package cannot run it.
    """
    reads, nodes = _recipe(_respelled(proto), env)
    nested = any(True for node in nodes for _ in graphs_of(node))
    local = tuple(functions.values()) if nested else ()
    names = [output for output in proto.output if output]
    fragment = Fragment(nodes, tuple(reads), tuple(names), versions, local)
    types = _result_types(proto, fragment, reads)
    dtypes = {output: dtype for output in names if (dtype := tensor_type(types[output])) is not None}
    values: dict[str, Value] = {}
    if dtypes:
        own = Fragment(nodes, tuple(reads), tuple(dtypes), versions, local)
        function: Function
        if proto.op_type in OPERATORS and not domain_of(proto.domain):
            function = RandomFunction(own, list(dtypes.values()))
        else:
            function = ForeignFunction(own, list(dtypes.values()))
        if proto.op_type == "Loop" and len(nodes) == 1 and len(dtypes) == len(names):
            function = LoopFunction(proto, own, dtypes)
        if proto.op_type in _FOLDED and all(value.is_constant for value in reads.values()):
            stored = function([value.data for value in reads.values() if value.data is not None])
            return [builder.constant(array) for array in stored]
        version = versions.get(domain_of(proto.domain), 1)
        infer = _shape_rule(OnnxNode(proto, builder.name, version, (), builder.known), reads, dtypes)
        results = builder.add_call(list(reads.values()), list(dtypes.values()), function, infer, str(proto.op_type))
        values = dict(zip(dtypes, results, strict=True))
    return [
        None if not output else values.get(output) or Opaque(output, nodes, reads, types[output])
        for output in proto.output
    ]


_FOLDED = frozenset({"Cast", "DequantizeLinear"})
"""Operators that make tensors of weights in float8, which are computed when the model is loaded."""

_SPELLINGS = {"GridSample": ("mode", "bilinear", {"bilinear": "linear", "bicubic": "cubic"})}
"""Operator -> an attribute whose values the reference knows as the newest version writes them: its default before, and
what each old value has become."""


def _respelled(proto: onnx.NodeProto) -> onnx.NodeProto:
    """`proto` with attributes as the reference knows them."""
    if proto.op_type not in _SPELLINGS or domain_of(proto.domain):
        return proto
    name, default, spellings = _SPELLINGS[proto.op_type]
    given = {attribute.name: attribute for attribute in proto.attribute}
    old = given[name].s.decode("utf-8", "replace") if name in given else default
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    kept = [attribute for attribute in copy.attribute if attribute.name != name]
    del copy.attribute[:]
    copy.attribute.extend([*kept, helper.make_attribute(name, spellings.get(old, old))])
    return copy


def object_function(
    binding: Opaque, versions: Mapping[str, int], functions: Functions
) -> Callable[[Sequence[Array]], Any]:
    """The function that makes an opaque value from the tensors that its recipe reads.

    Raises Unsupported if the onnx package cannot make it.
    """
    if [node.op_type for node in binding.nodes] == ["ZipMap"]:
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in binding.nodes[0].attribute}
        texts = [label.decode() for label in attributes.get("classlabels_strings", ())]
        return ZipMap(list(attributes.get("classlabels_int64s", ())) or texts)
    nested = any(True for node in binding.nodes for _ in graphs_of(node))
    local = tuple(functions.values()) if nested else ()
    return ObjectFunction(Fragment(binding.nodes, tuple(binding.reads), (binding.name,), versions, local), binding.type)


def _recipe(proto: onnx.NodeProto, env: Mapping[str, Binding]) -> tuple[dict[str, Value], tuple[onnx.NodeProto, ...]]:
    """The tensors that `proto` and the recipes of its operands read, and all these nodes in order."""
    reads: dict[str, Value] = {}
    nodes: dict[str, onnx.NodeProto] = {}

    def read(name: str, value: Value) -> None:
        if reads.setdefault(name, value) is not value or name in nodes:
            raise Unsupported(f"it reads two values called {name!r} through sequences; give them different names")

    for name in dict.fromkeys((*filter(None, proto.input), *captured(proto))):
        binding = env[name]
        if isinstance(binding, TensorList):
            binding = opaque_list(name, binding)
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


def _result_types(proto: onnx.NodeProto, fragment: Fragment, reads: Mapping[str, Value]) -> dict[str, onnx.TypeProto]:
    """Name -> type of each result of `proto`."""
    types = {name: _type_of(name, value) for name, value in reads.items()}
    for node in fragment.nodes:
        types.update(node_types(node, types, fragment.versions))
    for output in filter(None, proto.output):
        if not is_stated(types.get(output)):
            raise Fault(f"the type of its output {output!r} cannot be told")
    return types


def _type_of(name: str, value: Value) -> onnx.TypeProto:
    if value.dtype is None:
        raise Fault(f"the element type of its input {name!r} cannot be told")
    return helper.make_tensor_type_proto(NUMBERS[value.dtype], None)


def _shape_rule(node: OnnxNode, reads: Mapping[str, Value], dtypes: Mapping[str, DType]) -> ForeignInfer | None:
    """The shape rule of a call of `node` that reads `reads` and gives `dtypes`, if there is one."""
    if node.op not in RULES or any(name and name not in reads for name in node.proto.input):
        return None
    position = {name: index for index, name in enumerate(reads)}
    order = [position.get(name) for name in node.proto.input]
    return ForeignInfer(node, order, [node.outputs.index(name) for name in dtypes], list(dtypes.values()))


def opaque_tensor(name: str, tensor: onnx.TensorProto) -> Opaque:
    """A stored tensor of an element type that treadle does not have (int4, float8, complex, ...)."""
    node = helper.make_node("Constant", [], [name], name=name)
    node.attribute.append(helper.make_attribute("value", tensor))
    return Opaque(name, (node,), {}, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)))


def opaque_bytes(name: str, element: int, value: Value) -> Opaque:
    """An opaque tensor of an element type of `NARROW`, whose bits or integers `value` holds."""
    read = f"{name}.bytes"
    node = helper.make_node(FROM_BYTES, [read], [name], name=name, to=element)
    return Opaque(name, (node,), {read: value}, helper.make_tensor_type_proto(element, None))


def bytes_of(binding: Binding) -> tuple[int, Value] | None:
    """The element type and the bytes of an opaque value that `opaque_bytes` made; None for other values."""
    if not isinstance(binding, Opaque) or _only_node(binding, FROM_BYTES) is None:
        return None
    (value,) = binding.reads.values()
    return binding.type.tensor_type.elem_type, value


def opaque_nothing(name: str, kind: onnx.TypeProto) -> Opaque:
    """An opaque optional of this type without a value."""
    node = helper.make_node("Optional", [], [name], name=name)
    node.attribute.append(helper.make_attribute("type", kind.optional_type.elem_type))
    return Opaque(name, (node,), {}, kind)


def opaque_map(name: str, keys: Value, values: Value, kind: onnx.TypeProto) -> Opaque:
    """An opaque map of this type, of as many keys as values."""
    node = helper.make_node(MAP, [keys.name, values.name], [name], name=name)
    return Opaque(name, (node,), {keys.name: keys, values.name: values}, kind)


def is_empty_optional(binding: Binding) -> bool:
    """Whether the binding is an optional without a value."""
    node = _only_node(binding, "Optional")
    return node is not None and not node.input


def stored_tensor(binding: Binding) -> onnx.TensorProto | None:
    """The tensor of an opaque value that `opaque_tensor` made; None for other values."""
    node = _only_node(binding, "Constant")
    if node is None:
        return None
    tensors = [attribute.t for attribute in node.attribute if attribute.name == "value"]
    return tensors[0] if tensors else None


def _only_node(binding: Binding, op: str) -> onnx.NodeProto | None:
    """The node of the recipe of an opaque value, if there is one node and it is an `op`; None otherwise."""
    if not isinstance(binding, Opaque) or [node.op_type for node in binding.nodes] != [op]:
        return None
    return binding.nodes[0]


def opaque_list(name: str, found: TensorList) -> Opaque:
    """An opaque sequence called `name` of the elements of `found`."""
    names = [f"{name}[{number}]" for number in range(len(found.values))]
    if found.stack is not None:
        node = helper.make_node("SplitToSequence", names, [name], axis=0, keepdims=0)
    elif names:
        node = helper.make_node("SequenceConstruct", names, [name])
    else:
        node = helper.make_node("SequenceEmpty", [], [name], dtype=NUMBERS[found.dtype])
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(NUMBERS[found.dtype], None))
    return Opaque(name, (node,), dict(zip(names, found.values, strict=True)), kind)


def reads_opaque(names: Iterable[str], env: Mapping[str, Binding]) -> bool:
    """Whether one of the names stands for an opaque value."""
    return any(isinstance(env.get(name), Opaque) for name in names if name)
