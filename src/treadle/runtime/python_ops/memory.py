"""Messages between two processes whose arrays lie in shared memory.

A message is a pickle, followed by the bytes of arrays, in anonymous memory (memfd). The kernel frees it with the last
process that has it open, however that process ends, and nothing stays in /dev/shm. The socket carries the length of the
pickle and, if the memory is new, its descriptor.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import struct
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PACKET = struct.Struct("<QQ?")
"""Bytes of the pickle; bytes of the shared memory if its descriptor comes with the packet, else 0; whether the sender
keeps arrays of the previous message, whose memory must then not be written again."""

ALIGNMENT = 64
SMALLEST = 1 << 16
LARGE = 1 << 26
"""Memory with more bytes is replaced by less when a message needs less than a quarter of it."""


class Sender:
    """The sending end of a channel."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._memory: mmap.mmap | None = None
        self._fresh = -1
        self._written = 0

    def send(self, content: Any, arrays: Sequence[Array]) -> None:
        """Send `content`, pickled, and copies of `arrays`, of any dtypes and shapes.

        Raises OSError if there is no memory for them, BrokenPipeError or ConnectionResetError if the other process has
        ended.
        """
        self.write(content, arrays)
        self.post()

    def write(self, content: Any, arrays: Sequence[Array]) -> None:
        """Write the message into shared memory. Raises OSError if there is none."""
        flat = [np.ascontiguousarray(each) for each in arrays]
        objects = [
            each if each.dtype.hasobject else None for each in arrays
        ]  # ascontiguousarray would give rank 0 an axis
        specs = [(each.dtype, np.shape(each_given)) for each, each_given in zip(flat, arrays, strict=True)]
        head = pickle.dumps((content, specs, objects), protocol=5)
        offsets, size = array_offsets(len(head), specs)
        self._grow(size)
        memory = self._memory
        assert memory is not None
        memory[: len(head)] = head
        view = np.frombuffer(memory, np.uint8)
        for each, offset in zip(flat, offsets, strict=True):
            if not each.dtype.hasobject and each.size:
                np.copyto(view[offset : offset + each.nbytes], each.reshape(-1).view(np.uint8))
        del view
        self._written = len(head)

    def post(self, *, kept: bool = False) -> None:
        """Announce the message that write() has written. Raises OSError if the other process has ended."""
        fresh, self._fresh = self._fresh, -1
        if fresh < 0:
            self._channel.sendall(PACKET.pack(self._written, 0, kept))
            return
        try:
            assert self._memory is not None
            socket.send_fds(self._channel, [PACKET.pack(self._written, len(self._memory), kept)], [fresh])
        finally:
            os.close(fresh)

    def _grow(self, size: int) -> None:
        """Replace the memory if it is too small for `size` bytes, or far too large."""
        held = 0 if self._memory is None else len(self._memory)
        if held >= size and not (held > LARGE and held > 4 * size):
            return
        wanted = max(SMALLEST, 1 << (size - 1).bit_length() if size < LARGE else size)
        descriptor = os.memfd_create("treadle-python-ops", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, wanted)  # a lack of memory is an error here, not a SIGBUS later
            self._memory = mmap.mmap(descriptor, wanted)
        except BaseException:
            os.close(descriptor)
            raise
        if self._fresh >= 0:
            os.close(self._fresh)
        self._fresh = descriptor

    def renew(self) -> None:
        """Use new memory for the next message: the receiver keeps arrays in the present one."""
        self._memory = None


class Receiver:
    """The receiving end of a channel."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._memory: mmap.mmap | None = None
        self._arrays: list[weakref.ref[Array]] = []
        self.kept = False

    def receive(self) -> tuple[Any, list[Array]]:
        """Return the content of the next message, and its arrays, which lie in the shared memory until release().

        `kept` is true afterwards if the other process keeps arrays that it was sent. Raises EOFError if it has ended.
        """
        packet, descriptors, _, _ = socket.recv_fds(self._channel, PACKET.size, 1)
        if len(packet) != PACKET.size:
            raise EOFError("the other process is gone")
        length, size, self.kept = PACKET.unpack(packet)
        for descriptor in descriptors:
            try:
                self._memory = mmap.mmap(descriptor, size)
            finally:
                os.close(descriptor)
        assert self._memory is not None
        content, specs, objects = pickle.loads(self._memory[:length])  # noqa: S301 - from this program's own process
        offsets, _ = array_offsets(length, specs)
        found = []
        for (dtype, shape), given, offset in zip(specs, objects, offsets, strict=True):
            found.append(given if given is not None else self._array_at(dtype, shape, offset))
        return content, found

    def _array_at(self, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Array:
        size = nbytes(dtype, shape)
        if not size:
            return np.empty(shape, dtype)
        assert self._memory is not None
        whole = np.frombuffer(self._memory, np.uint8, size, offset)  # all views of it hold it
        self._arrays.append(weakref.ref(whole))
        return whole.view(dtype).reshape(shape)

    def release(self) -> bool:
        """Forget the arrays received. False if some are still referenced: their memory must not be written again."""
        arrays, self._arrays = self._arrays, []
        return all(whole() is None for whole in arrays)

    def close(self) -> None:
        """Release the memory."""
        self._memory = None


def nbytes(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    """Return the bytes of an array."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    return size


def array_offsets(head: int, specs: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> tuple[list[int], int]:
    """Return the offsets of arrays behind a pickle of `head` bytes, and the bytes of the whole message."""
    offsets, end = [], head
    for dtype, shape in specs:
        begin = -(-end // ALIGNMENT) * ALIGNMENT
        offsets.append(begin)
        end = begin + (0 if dtype.hasobject else nbytes(dtype, shape))
    return offsets, end
