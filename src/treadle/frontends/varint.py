"""Numbers of variable length, as protobuf and the tables of checkpoints write them.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

_MOST_BYTES = 10


class Malformed(Exception):  # noqa: N818 - not an error: whoever reads the bytes says what is wrong
    """The bytes are not what a writer makes."""


def read_varint(content: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number at `at`, and where it ends. Raises Malformed if it has no end."""
    value = 0
    for index in range(_MOST_BYTES):
        if at + index >= len(content):
            break
        byte = content[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise Malformed
