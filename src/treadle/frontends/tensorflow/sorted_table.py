"""Reads sorted tables of keys and values, the format of a checkpoint's index.

Source: the public description of LevelDB's table format; tensorflow/core/lib/io/format.cc. A table is a list of
blocks; a block of the index has, for each block of data, the last key and a handle (offset and size). The last 48
bytes are two handles and a magic number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.varint import Malformed, read_varint

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
MOST_ENTRIES = 1 << 20
"""The largest number of entries of a table."""
_TRAILER = 5
"""Bytes behind each block: how it is compressed, and its checksum."""
_POLYNOMIAL = 0x82F63B78


def read_table(content: bytes) -> dict[bytes, bytes]:
    """Return the entries of the table `content`. Raises Fault if it is damaged, Unsupported if it is compressed."""
    if len(content) < FOOTER or struct.unpack_from("<Q", content, len(content) - 8)[0] != MAGIC:
        raise Fault("it does not end as a table of TensorFlow does, or was cut short")
    try:
        return _read(content)
    except Malformed:
        raise Fault("a number in it has no end") from None


def _read(content: bytes) -> dict[bytes, bytes]:
    footer = content[-FOOTER:]
    at = read_varint(footer, read_varint(footer, 0)[1])[1]
    offset, at = read_varint(footer, at)
    size, _ = read_varint(footer, at)
    found: dict[bytes, bytes] = {}
    for _, handle in _entries(_block(content, offset, size)):
        begin, place = read_varint(handle, 0)
        for key, value in _entries(_block(content, begin, read_varint(handle, place)[0])):
            found[key] = value
            if len(found) > MOST_ENTRIES:
                raise Unsupported(f"it has more than {MOST_ENTRIES} entries")
    return found


def _block(content: bytes, offset: int, size: int) -> bytes:
    """Return the block at `offset`. Raises Fault if it does not lie in the table or its checksum is wrong."""
    end = offset + size
    if end + _TRAILER > len(content):
        raise Fault(f"a block of {size} bytes at {offset} lies outside its {len(content)} bytes")
    if content[end] != 0:
        raise Unsupported("its blocks are compressed, which TensorFlow does not do for checkpoints")
    (stored,) = struct.unpack_from("<I", content, end + 1)
    if stored != _masked(_checksum(content[offset : end + 1])):
        raise Fault(f"the checksum of the block at {offset} is wrong; the file is damaged")
    return content[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block. A key shares its first bytes with the key before."""
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4) if len(block) >= 4 else (1 << 30,)
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise Fault("a block ends inside its own table of places")
    at, key = 0, b""
    while at < end:
        shared, at = read_varint(block, at)
        added, at = read_varint(block, at)
        length, at = read_varint(block, at)
        if shared > len(key) or at + added + length > end:
            raise Fault("an entry does not lie in its block")
        key = key[:shared] + block[at : at + added]
        at += added + length
        yield key, block[at - length : at]


def _remainders() -> list[int]:
    """Return the CRC-32C of each byte."""
    table = []
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = rest >> 1 ^ (_POLYNOMIAL if rest & 1 else 0)
        table.append(rest)
    return table


_REMAINDERS = _remainders()


def _checksum(content: bytes) -> int:
    """Return the CRC-32C of `content`."""
    rest = 0xFFFFFFFF
    for byte in content:
        rest = rest >> 8 ^ _REMAINDERS[(rest ^ byte) & 0xFF]
    return rest ^ 0xFFFFFFFF


def _masked(checksum: int) -> int:
    """Return a checksum as tables store it."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
