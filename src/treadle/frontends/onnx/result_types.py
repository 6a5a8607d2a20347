"""Result types of those operators whose signature leaves them open: sequences, optionals, stated element types."""

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import TensorProto, helper

from treadle.frontends.onnx.from_bytes import FROM_BYTES
from treadle.frontends.onnx.reference_map import MAP
from treadle.frontends.onnx.types import element_type

Kinds = Sequence[onnx.TypeProto | None]
TypeRule = Callable[[onnx.NodeProto, Mapping[str, onnx.TypeProto]], Kinds]
"""(node, types of its operands) -> types of its results, None for unknown ones."""


def tensor(number: int | None) -> onnx.TypeProto | None:
    """The type of tensors of this element type; None if there is no such element type."""
    if number is None or number not in TensorProto.DataType.values():
        return None
    return helper.make_tensor_type_proto(number, None)


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), default)


def _operand(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto], index: int) -> onnx.TypeProto | None:
    return known.get(node.input[index]) if index < len(node.input) else None


def _sequence(item: onnx.TypeProto | None) -> onnx.TypeProto | None:
    return None if item is None else helper.make_sequence_type_proto(item)


def _sequence_of_first(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    return [_sequence(_operand(node, known, 0))]


def _empty_sequence(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:  # noqa: ARG001 - a rule
    return [_sequence(tensor(_attribute(node, "dtype", TensorProto.FLOAT)))]


def _item(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    """What a sequence or an optional holds; a tensor that stands for an optional is its own content."""
    kind = _operand(node, known, 0)
    if kind is not None and kind.HasField("sequence_type"):
        return [kind.sequence_type.elem_type if node.op_type != "OptionalGetElement" else kind]
    if kind is not None and kind.HasField("optional_type"):
        return [kind.optional_type.elem_type]
    return [kind]


def _optional(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    stated = next((attribute.tp for attribute in node.attribute if attribute.name == "type"), None)
    kind = _operand(node, known, 0) or stated
    return [None if kind is None else helper.make_optional_type_proto(kind)]


def _label_encoder(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:  # noqa: ARG001 - a rule
    kinds = {
        "values_int64s": TensorProto.INT64,
        "values_strings": TensorProto.STRING,
        "values_floats": TensorProto.FLOAT,
    }
    for attribute in node.attribute:
        if attribute.name in kinds:
            return [tensor(kinds[attribute.name])]
        if attribute.name == "values_tensor":
            return [tensor(attribute.t.data_type)]
    return [None]


def _labels(integers: str) -> TypeRule:
    """A rule for a classifier of ai.onnx.ml: labels, integers where the attribute `integers` has some, and scores."""

    def rule(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:  # noqa: ARG001 - a rule
        whole = any(attribute.name == integers and attribute.ints for attribute in node.attribute)
        return [tensor(TensorProto.INT64 if whole else TensorProto.STRING), tensor(TensorProto.FLOAT)]

    return rule


def _stated(name: str) -> TypeRule:
    """A rule for a result whose element type is in the attribute `name`, float if it is not given."""

    def rule(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:  # noqa: ARG001 - a rule
        return [tensor(_attribute(node, name, TensorProto.FLOAT))]

    return rule


def _layer_norm(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    statistics = tensor(_attribute(node, "stash_type", TensorProto.FLOAT))
    return [_operand(node, known, 0), statistics, statistics]


def _dequantize(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    return [tensor(_attribute(node, "output_dtype", 0) or element_type(_operand(node, known, 1)))]


def _quantize(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    zero = _operand(node, known, 2)
    return [zero or tensor(_attribute(node, "output_dtype", 0) or TensorProto.UINT8)]


def _like_first(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    return [_operand(node, known, 0)] * len(node.output)


def _sequence_map(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:  # noqa: ARG001 - a rule
    body = next((attribute.g for attribute in node.attribute if attribute.name == "body"), onnx.GraphProto())
    return [_sequence(value.type) for value in body.output]


def _stated_or_first(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    stated = _attribute(node, "dtype", 0)
    return [tensor(stated) if stated else _operand(node, known, 0)]


def _zip_map(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:  # noqa: ARG001 - a rule
    """A list of maps from the class labels, integers or texts, to scores."""
    whole = any(attribute.name == "classlabels_int64s" and attribute.ints for attribute in node.attribute)
    key = TensorProto.INT64 if whole else TensorProto.STRING
    return [_sequence(helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))]


def _map_of(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    keys, values = (_operand(node, known, index) for index in range(2))
    if keys is None or values is None:
        return [None]
    return [helper.make_map_type_proto(keys.tensor_type.elem_type, values)]


def _map_values(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:
    kind = _operand(node, known, 0)
    return [kind.map_type.value_type if kind is not None and kind.HasField("map_type") else None]


def _cast_map(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto]) -> Kinds:  # noqa: ARG001 - a rule
    kinds = {b"TO_INT64": TensorProto.INT64, b"TO_STRING": TensorProto.STRING}
    stated = next((attribute.s for attribute in node.attribute if attribute.name == "cast_to"), b"")
    return [tensor(kinds.get(stated, TensorProto.FLOAT))]


RULES: dict[str, TypeRule] = {
    "Bernoulli": _stated_or_first,
    FROM_BYTES: _stated("to"),
    MAP: _map_of,
    "BlackmanWindow": _stated("output_datatype"),
    "CastMap": _cast_map,
    "ConcatFromSequence": _item,
    "DequantizeLinear": _dequantize,
    "DictVectorizer": _map_values,
    "EyeLike": _stated_or_first,
    "HammingWindow": _stated("output_datatype"),
    "HannWindow": _stated("output_datatype"),
    "LabelEncoder": _label_encoder,
    "LayerNormalization": _layer_norm,
    "LinearAttention": _like_first,
    "LinearClassifier": _labels("classlabels_ints"),
    "MelWeightMatrix": _stated("output_datatype"),
    "Optional": _optional,
    "OptionalGetElement": _item,
    "QuantizeLinear": _quantize,
    "RandomNormal": _stated("dtype"),
    "RandomNormalLike": _stated_or_first,
    "RandomUniform": _stated("dtype"),
    "RandomUniformLike": _stated_or_first,
    "SVMClassifier": _labels("classlabels_ints"),
    "SequenceAt": _item,
    "SequenceConstruct": _sequence_of_first,
    "SequenceEmpty": _empty_sequence,
    "SequenceMap": _sequence_map,
    "SplitToSequence": _sequence_of_first,
    "TreeEnsembleClassifier": _labels("classlabels_int64s"),
    "ZipMap": _zip_map,
}
