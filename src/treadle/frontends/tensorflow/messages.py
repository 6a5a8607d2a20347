"""TensorFlow's graph files as protobuf messages, made of a table of field numbers.

The numbers are those of the public files tensorflow/core/framework/{graph,node_def,attr_value,tensor,tensor_shape,
function,op_def,types,versions}.proto and tensorflow/core/protobuf/{meta_graph,saved_model}.proto, without fields that
treadle does not read (a parser keeps those it does not know). The messages live in a descriptor pool of their own, so
that they never meet those of an installed TensorFlow.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

PACKAGE = "tensorflow"

Field = tuple[str, int, str]
"""Name, number and type of a field. `repeated T` is a list, `map T` a map from strings."""

MESSAGES: dict[str, tuple[Field, ...]] = {
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
        ("list", 1, "ListValue"), ("s", 2, "bytes"), ("i", 3, "int64"), ("f", 4, "float"), ("b", 5, "bool"),
        ("type", 6, "DataType"), ("shape", 7, "TensorShapeProto"), ("tensor", 8, "TensorProto"),
        ("placeholder", 9, "string"), ("func", 10, "NameAttrList"),
    ),
    "ListValue": (
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
    "TensorShapeProto": (("dim", 2, "repeated Dim"), ("unknown_rank", 3, "bool")),
    "Dim": (("size", 1, "int64"), ("name", 2, "string")),
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
    "MetaGraphDef": (("graph_def", 2, "GraphDef"),),
}  # fmt: skip

NESTED = {"ListValue": "AttrValue", "Dim": "TensorShapeProto"}
"""Messages that are declared inside others."""

ONE_OF = {"AttrValue": "value"}
"""Messages of which one field is set at a time, and what that choice is called."""

ENUMS: dict[str, dict[str, int]] = {
    "DataType": {
        "DT_INVALID": 0, "DT_FLOAT": 1, "DT_DOUBLE": 2, "DT_INT32": 3, "DT_UINT8": 4, "DT_INT16": 5, "DT_INT8": 6,
        "DT_STRING": 7, "DT_COMPLEX64": 8, "DT_INT64": 9, "DT_BOOL": 10, "DT_QINT8": 11, "DT_QUINT8": 12,
        "DT_QINT32": 13, "DT_BFLOAT16": 14, "DT_QINT16": 15, "DT_QUINT16": 16, "DT_UINT16": 17, "DT_COMPLEX128": 18,
        "DT_HALF": 19, "DT_RESOURCE": 20, "DT_VARIANT": 21, "DT_UINT32": 22, "DT_UINT64": 23,
    },
}  # fmt: skip

_SCALARS = ("double", "float", "int64", "uint64", "int32", "bool", "string", "bytes", "uint32")


def _described() -> Any:
    """The table as a file descriptor."""
    file = descriptor_pb2.FileDescriptorProto(name="treadle/tensorflow.proto", package=PACKAGE, syntax="proto3")
    for name, numbers in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for label, number in numbers.items():
            enum.value.add(name=label, number=number)
    for name, fields in MESSAGES.items():
        if name not in NESTED:
            _describe(file.message_type.add(name=name), fields)
    return file


def _describe(message: Any, fields: tuple[Field, ...]) -> None:
    for inner, outer in NESTED.items():
        if outer == message.name:
            _describe(message.nested_type.add(name=inner), MESSAGES[inner])
    choice = ONE_OF.get(message.name)
    if choice is not None:
        message.oneof_decl.add(name=choice)
    for name, number, kind in fields:
        label, _, element = kind.rpartition(" ")
        field = message.field.add(name=name, number=number, label=3 if label else 1)
        if label == "map":
            _set_type(field, _entry(message, name, element))
        else:
            _set_type(field, element)
        if choice is not None:
            field.oneof_index = 0


def _entry(message: Any, name: str, element: str) -> str:
    """The message of one entry of a map: FooEntry for the field foo."""
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    _set_type(entry.field.add(name="key", number=1, label=1), "string")
    _set_type(entry.field.add(name="value", number=2, label=1), element)
    return f"{message.name}.{entry.name}"


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
        return
    field.type = descriptor_pb2.FieldDescriptorProto.TYPE_ENUM if kind in ENUMS else field.TYPE_MESSAGE
    field.type_name = f".{PACKAGE}.{f'{NESTED[kind]}.' if kind in NESTED else ''}{kind}"


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_described())


def message(name: str) -> Any:
    """The class of the message `name` of the table."""
    full = f"{PACKAGE}.{f'{NESTED[name]}.' if name in NESTED else ''}{name}"
    found = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(full))
    found.__module__ = __name__
    return found


GraphDef: Any = message("GraphDef")
NodeDef: Any = message("NodeDef")
AttrValue: Any = message("AttrValue")
TensorProto: Any = message("TensorProto")
TensorShapeProto: Any = message("TensorShapeProto")
FunctionDef: Any = message("FunctionDef")
SavedModel: Any = message("SavedModel")
