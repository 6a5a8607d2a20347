"""Files of LoRA adapters, as onnxruntime writes them: a FlatBuffer with numbers of versions, and named tensors.

A file has the offset of its root and the identifier, then tables. A table begins with the distance to its list of
fields, which says where in the table each field is, or 0 for one that is absent. Text, lists and tables are
elsewhere: a field has the distance to them. https://flatbuffers.dev/internals/
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from treadle.compat.onnxruntime.describe import element_dtype, element_number

Array = np.ndarray[Any, Any]

FORMAT_VERSION = 1
_IDENTIFIER = b"TORT"
_ALIGNMENT = 8
_FORMAT, _VERSION, _MODEL_VERSION, _PARAMETERS = range(4)
_NAME, _DIMS, _TYPE, _DATA = range(4)
_FIELDS = 4
"""Both kinds of tables have as many."""
_MOST_DIMS = 64


@dataclass
class Adapter:
    """What a file of an adapter has: its version, that of the model it is for, and the model's inputs by name."""

    version: int = 0
    model_version: int = 0
    parameters: dict[str, Array] = field(default_factory=dict)


def read(content: bytes) -> Adapter:
    """Return what is in a file. Raises ValueError that says what is wrong with it."""
    if content[4:8] != _IDENTIFIER:
        raise ValueError("it is no file of an adapter: it lacks the identifier TORT")
    try:
        return _adapter(_Table(content, _number(content, "I", 0)))
    except (struct.error, UnicodeDecodeError):
        raise ValueError("it is damaged: an offset leads out of it, or a name is no text") from None


def write(adapter: Adapter) -> bytes:
    """Return the content of a file. Raises ValueError for a tensor that no adapter can have."""
    made = bytearray(struct.pack("<I4s", 0, _IDENTIFIER))
    root = _put_table(made, [FORMAT_VERSION, adapter.version, adapter.model_version, 0])
    struct.pack_into("<I", made, 0, root)
    names = list(adapter.parameters)
    tables = _put_list(made, root, _PARAMETERS, bytes(4 * len(names)), len(names), 4)
    for number, name in enumerate(names):
        array = adapter.parameters[name]
        if not array.ndim:
            raise ValueError(f"parameter {name!r}: wanted a tensor of one or more dimensions, got {array.dtype}[]")
        at = tables + 4 * number
        table = _put_table(made, [0, 0, element_number(array.dtype), 0])
        struct.pack_into("<I", made, at, table - at)
        text = name.encode()
        _put_list(made, table, _NAME, text + b"\0", len(text), 1)
        _put_list(made, table, _DIMS, struct.pack(f"<{array.ndim}q", *array.shape), array.ndim, 8)
        data = np.ascontiguousarray(array).tobytes()
        _put_list(made, table, _DATA, data, len(data), _ALIGNMENT)
    return bytes(made)


@dataclass(frozen=True, slots=True)
class _Table:
    content: bytes
    at: int

    def place(self, number: int) -> int | None:
        """Where field `number` is; None if it is absent."""
        fields = self.at - _number(self.content, "i", self.at)
        end = _number(self.content, "H", fields)
        offset = _number(self.content, "H", fields + 4 + 2 * number) if 4 + 2 * number < end else 0
        return self.at + offset if offset else None

    def number(self, number: int) -> int:
        place = self.place(number)
        return 0 if place is None else _number(self.content, "i", place)

    def listed(self, number: int, size: int) -> tuple[int, int]:
        """Where the list in field `number` begins, whose elements have `size` bytes, and how many these are."""
        place = self.place(number)
        if place is None:
            return 0, 0
        at = place + _number(self.content, "I", place)
        count = _number(self.content, "I", at)
        if at + 4 + size * count > len(self.content):
            raise struct.error
        return at + 4, count


def _number(content: bytes, form: str, at: int) -> int:
    if at < 0:
        raise struct.error
    return int(struct.unpack_from(f"<{form}", content, at)[0])


def _adapter(root: _Table) -> Adapter:
    found = root.number(_FORMAT)
    if found != FORMAT_VERSION:
        raise ValueError(f"wanted format version {FORMAT_VERSION}, got {found}")
    made = Adapter(root.number(_VERSION), root.number(_MODEL_VERSION))
    first, count = root.listed(_PARAMETERS, 4)
    for at in range(first, first + 4 * count, 4):
        name, array = _parameter(_Table(root.content, at + _number(root.content, "I", at)))
        made.parameters[name] = array
    return made


def _parameter(table: _Table) -> tuple[str, Array]:
    at, count = table.listed(_NAME, 1)
    name = table.content[at : at + count].decode()
    at, rank = table.listed(_DIMS, 8)
    if not 0 < rank <= _MOST_DIMS:
        raise ValueError(f"parameter {name!r}: wanted 1 to {_MOST_DIMS} dimensions, got {rank}")
    shape = struct.unpack_from(f"<{rank}q", table.content, at)
    try:
        dtype = element_dtype(table.number(_TYPE))
    except RuntimeError:
        raise ValueError(f"parameter {name!r}: unknown element type {table.number(_TYPE)}") from None
    at, size = table.listed(_DATA, 1)
    if dtype.hasobject or min(shape) < 0 or prod(shape) * dtype.itemsize != size:
        raise ValueError(f"parameter {name!r}: {size} bytes are no {dtype} of shape {list(shape)}")
    return name, np.frombuffer(table.content, dtype, prod(shape), at).reshape(shape)


def _put_table(made: bytearray, numbers: list[int]) -> int:
    """Append a table of 4-byte fields, and return where it is."""
    _align(made, 4)
    size = 4 + 4 * _FIELDS
    fields = struct.pack(f"<{2 + _FIELDS}H", 4 + 2 * _FIELDS, size, *range(4, size, 4))
    made += fields
    made += struct.pack(f"<i{_FIELDS}i", len(fields), *numbers)
    return len(made) - size


def _put_list(made: bytearray, table: int, number: int, elements: bytes, count: int, alignment: int) -> int:
    """Append a list, let field `number` of `table` lead to it, and return where its elements begin."""
    _align(made, alignment, behind=4)
    place = table + 4 + 4 * number
    struct.pack_into("<I", made, place, len(made) - place)
    made += struct.pack("<I", count)
    start = len(made)
    made += elements
    return start


def _align(made: bytearray, alignment: int, behind: int = 0) -> None:
    """Append zeros until what follows `behind` further bytes is aligned."""
    made += bytes(-(len(made) + behind) % max(alignment, 4))
