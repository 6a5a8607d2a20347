"""Splits a serialised model into the message to parse and the raw data of its weights, without copying them.

Protobuf copies what it parses. So the raw data of large initialisers stay in place, and the model is parsed without
them. Source: protobuf.dev/programming-guides/encoding; onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from treadle.frontends.varint import Malformed, read_varint
from treadle.records import dataclass

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
"""Numbers of the fields ModelProto.graph, GraphProto.initializer and TensorProto.raw_data."""

SMALLEST = 1024
"""Bytes below which raw data are parsed with the rest."""

_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5


@dataclass(slots=True)
class Parts:
    """A model in two parts: `message`, the bytes to parse, and for each initialiser its raw data if they were left
    out."""

    message: bytes | memoryview
    payloads: list[memoryview | None] = field(default_factory=list)


def split(content: memoryview) -> Parts:
    """The parts of the serialised ModelProto `content`; all of it in the message if it is malformed."""
    payloads: list[memoryview | None] = []
    pieces: list[bytes | memoryview] = []
    try:
        for number, start, body, end in _fields(content):
            if number == GRAPH and body is not None:
                _append(pieces, GRAPH, _graph(body, payloads))
            else:
                pieces.append(content[start:end])
    except Malformed:
        return Parts(content)
    if not any(payload is not None for payload in payloads):
        return Parts(content)
    return Parts(b"".join(pieces), payloads)


def _graph(content: memoryview, payloads: list[memoryview | None]) -> list[bytes | memoryview]:
    """A GraphProto without the raw data of its initialisers, which join `payloads`."""
    pieces: list[bytes | memoryview] = []
    for number, start, body, end in _fields(content):
        if number == INITIALIZER and body is not None:
            inner, payload = _tensor(body)
            payloads.append(payload)
            _append(pieces, INITIALIZER, inner)
        else:
            pieces.append(content[start:end])
    return pieces


def _tensor(content: memoryview) -> tuple[list[bytes | memoryview], memoryview | None]:
    """A TensorProto without its raw data, and these; of several, the last one counts."""
    pieces: list[bytes | memoryview] = []
    payload: memoryview | None = None
    for number, start, body, end in _fields(content):
        if number == RAW_DATA and body is not None and len(body) >= SMALLEST:
            payload = body
        else:
            if number == RAW_DATA:
                payload = None
            pieces.append(content[start:end])
    return pieces, payload


def _append(pieces: list[bytes | memoryview], number: int, inner: list[bytes | memoryview]) -> None:
    pieces += (_written(number << 3 | _LEN), _written(sum(map(len, inner))), *inner)


def _fields(content: memoryview) -> Iterator[tuple[int, int, memoryview | None, int]]:
    """For each field its number, where it starts, its content if that has a length of its own, and where it ends."""
    at, size = 0, len(content)
    while at < size:
        start = at
        key, at = read_varint(content, at)
        body = None
        kind = key & 7
        if kind == _VARINT:
            _, at = read_varint(content, at)
        elif kind == _LEN:
            length, at = read_varint(content, at)
            body = content[at : at + length]
            at += length
        elif kind in (_I64, _I32):
            at += 8 if kind == _I64 else 4
        else:
            raise Malformed
        if at > size or key >> 3 == 0:
            raise Malformed
        yield key >> 3, start, body, at


def _written(value: int) -> bytes:
    """`value` as a varint."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
