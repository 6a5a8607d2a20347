"""Classes of protobuf messages, made of tables of field numbers.

The messages of a table live in a descriptor pool of their own, so that they never meet those of an installed
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

PACKAGE = "tensorflow"

Field = tuple[str, int, str]
"""Name, number and type of a field. `repeated T` is a list, `map T` a map from strings."""

Messages = Mapping[str, Sequence[Field]]
"""The fields of each message. `Outer.Inner` is declared inside `Outer`."""

Enums = Mapping[str, Mapping[str, int]]
"""The numbers of each enumeration; one may be declared inside a message too."""

_SCALARS = ("double", "float", "int64", "uint64", "int32", "bool", "string", "bytes", "uint32")


def message_classes(
    module: str, messages: Messages, enums: Enums, one_of: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the class of each message of a table, by name.

    Args:
        module: the module in which the classes are found by their names.
        messages: the table.
        enums: the enumerations that its fields have as types.
        one_of: messages of which one field is set at a time, and what that choice is called.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{module}.proto", package=PACKAGE, syntax="proto3")
    described: dict[str, Any] = {}
    for name, fields in messages.items():
        outer, _, own = name.rpartition(".")
        described[name] = (described[outer].nested_type if outer else file.message_type).add(name=own)
        _describe(described[name], name, fields, enums, (one_of or {}).get(name))
    for name, numbers in enums.items():
        outer, _, own = name.rpartition(".")
        enum = (described[outer] if outer else file).enum_type.add(name=own)
        for label, number in numbers.items():
            enum.value.add(name=label, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in messages
    }
    for each in found.values():
        each.__module__ = module
    return found


def _describe(message: Any, full: str, fields: Sequence[Field], enums: Enums, choice: str | None) -> None:
    if choice is not None:
        message.oneof_decl.add(name=choice)
    for name, number, kind in fields:
        label, _, element = kind.rpartition(" ")
        field = message.field.add(name=name, number=number, label=3 if label else 1)
        if label == "map":
            _set_type(field, f"{full}.{_add_entry(message, name, element, enums)}", enums)
        else:
            _set_type(field, element, enums)
        if choice is not None:
            field.oneof_index = 0


def _add_entry(message: Any, name: str, element: str, enums: Enums) -> str:
    """Add the message of one entry of a map, FooEntry for the field foo, and return its name."""
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    _set_type(entry.field.add(name="key", number=1, label=1), "string", enums)
    _set_type(entry.field.add(name="value", number=2, label=1), element, enums)
    return str(entry.name)


def _set_type(field: Any, kind: str, enums: Enums) -> None:
    if kind in _SCALARS:
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
        return
    field.type = field.TYPE_ENUM if kind in enums else field.TYPE_MESSAGE
    field.type_name = f".{PACKAGE}.{kind}"
