"""TensorFlow's graph files as protobuf messages.

The numbers are those of the public files tensorflow/core/framework/{graph,node_def,attr_value,tensor,tensor_shape,
function,op_def,types,versions}.proto and tensorflow/core/protobuf/{meta_graph,saved_model,tensor_bundle}.proto, without
fields that treadle does not read (a parser keeps those it does not know).
"""

from __future__ import annotations

from typing import Any

from treadle.frontends.tensorflow.protobuf import Enums, Messages, message_classes

MESSAGES: Messages = {
    "GraphDef": (
        ("node", 1, "repeated NodeDef"), ("library", 2, "FunctionDefLibrary"), ("version", 3, "int32"),
        ("versions", 4, "VersionDef"),
    ),
    "VersionDef": (("producer", 1, "int32"), ("min_consumer", 2, "int32"), ("bad_consumers", 3, "repeated int32")),
    "NodeDef": (
        ("name", 1, "string"), ("op", 2, "string"), ("input", 3, "repeated string"), ("device", 4, "string"),
        ("attr", 5, "map AttrValue"),
    ),
    "AttrValue": (
        ("list", 1, "AttrValue.ListValue"), ("s", 2, "bytes"), ("i", 3, "int64"), ("f", 4, "float"), ("b", 5, "bool"),
        ("type", 6, "DataType"), ("shape", 7, "TensorShapeProto"), ("tensor", 8, "TensorProto"),
        ("placeholder", 9, "string"), ("func", 10, "NameAttrList"),
    ),
    "AttrValue.ListValue": (
        ("s", 2, "repeated bytes"), ("i", 3, "repeated int64"), ("f", 4, "repeated float"), ("b", 5, "repeated bool"),
        ("type", 6, "repeated DataType"), ("shape", 7, "repeated TensorShapeProto"),
        ("tensor", 8, "repeated TensorProto"), ("func", 9, "repeated NameAttrList"),
    ),
    "NameAttrList": (("name", 1, "string"), ("attr", 2, "map AttrValue")),
    "TensorProto": (
        ("dtype", 1, "DataType"), ("tensor_shape", 2, "TensorShapeProto"), ("version_number", 3, "int32"),
        ("tensor_content", 4, "bytes"), ("float_val", 5, "repeated float"), ("double_val", 6, "repeated double"),
        ("int_val", 7, "repeated int32"), ("string_val", 8, "repeated bytes"), ("int64_val", 10, "repeated int64"),
        ("bool_val", 11, "repeated bool"), ("half_val", 13, "repeated int32"), ("uint32_val", 16, "repeated uint32"),
        ("uint64_val", 17, "repeated uint64"),
    ),
    "TensorShapeProto": (("dim", 2, "repeated TensorShapeProto.Dim"), ("unknown_rank", 3, "bool")),
    "TensorShapeProto.Dim": (("size", 1, "int64"), ("name", 2, "string")),
    "FunctionDefLibrary": (("function", 1, "repeated FunctionDef"),),
    "FunctionDef": (
        ("signature", 1, "OpDef"), ("node_def", 3, "repeated NodeDef"), ("ret", 4, "map string"),
        ("attr", 5, "map AttrValue"), ("control_ret", 6, "map string"),
    ),
    "OpDef": (
        ("name", 1, "string"), ("input_arg", 2, "repeated ArgDef"), ("output_arg", 3, "repeated ArgDef"),
        ("attr", 4, "repeated AttrDef"), ("is_stateful", 17, "bool"), ("control_output", 20, "repeated string"),
    ),
    "ArgDef": (
        ("name", 1, "string"), ("description", 2, "string"), ("type", 3, "DataType"), ("type_attr", 4, "string"),
        ("number_attr", 5, "string"), ("type_list_attr", 6, "string"), ("is_ref", 16, "bool"),
    ),
    "AttrDef": (("name", 1, "string"), ("type", 2, "string"), ("default_value", 3, "AttrValue")),
    "SavedModel": (("saved_model_schema_version", 1, "int64"), ("meta_graphs", 2, "repeated MetaGraphDef")),
    "MetaGraphDef": (
        ("meta_info_def", 1, "MetaInfoDef"), ("graph_def", 2, "GraphDef"), ("signature_def", 5, "map SignatureDef"),
    ),
    "MetaInfoDef": (("tags", 4, "repeated string"),),
    "SignatureDef": (("inputs", 1, "map TensorInfo"), ("outputs", 2, "map TensorInfo"), ("method_name", 3, "string")),
    "TensorInfo": (("name", 1, "string"), ("dtype", 2, "DataType"), ("tensor_shape", 3, "TensorShapeProto")),
    "BundleHeaderProto": (("num_shards", 1, "int32"), ("endianness", 2, "int32")),
    "BundleEntryProto": (
        ("dtype", 1, "DataType"), ("shape", 2, "TensorShapeProto"), ("shard_id", 3, "int32"), ("offset", 4, "int64"),
        ("size", 5, "int64"), ("slices", 7, "repeated TensorSliceProto"),
    ),
    "TensorSliceProto": (),
}  # fmt: skip

ONE_OF = {"AttrValue": "value"}
"""Messages of which one field is set at a time, and what that choice is called."""

ENUMS: Enums = {
    "DataType": {
        "DT_INVALID": 0, "DT_FLOAT": 1, "DT_DOUBLE": 2, "DT_INT32": 3, "DT_UINT8": 4, "DT_INT16": 5, "DT_INT8": 6,
        "DT_STRING": 7, "DT_COMPLEX64": 8, "DT_INT64": 9, "DT_BOOL": 10, "DT_QINT8": 11, "DT_QUINT8": 12,
        "DT_QINT32": 13, "DT_BFLOAT16": 14, "DT_QINT16": 15, "DT_QUINT16": 16, "DT_UINT16": 17, "DT_COMPLEX128": 18,
        "DT_HALF": 19, "DT_RESOURCE": 20, "DT_VARIANT": 21, "DT_UINT32": 22, "DT_UINT64": 23,
    },
}  # fmt: skip

_CLASSES = message_classes(__name__, MESSAGES, ENUMS, ONE_OF)

GraphDef: Any = _CLASSES["GraphDef"]
NodeDef: Any = _CLASSES["NodeDef"]
AttrValue: Any = _CLASSES["AttrValue"]
TensorProto: Any = _CLASSES["TensorProto"]
TensorShapeProto: Any = _CLASSES["TensorShapeProto"]
FunctionDef: Any = _CLASSES["FunctionDef"]
SavedModel: Any = _CLASSES["SavedModel"]
BundleHeader: Any = _CLASSES["BundleHeaderProto"]
BundleEntry: Any = _CLASSES["BundleEntryProto"]
