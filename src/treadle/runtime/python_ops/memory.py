"""Memory that two processes share: how arrays go from one to the other without passing through a pipe.

A message is a pickle and the bytes of arrays, written one after the other into memory without a name (memfd): it ends
with the last process that has it open, however that ends, and leaves nothing behind in /dev/shm. What goes through the
socket is the length of the pickle and, when the memory is new, its descriptor.
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
"""Bytes of the pickle; bytes of shared memory if a descriptor of new memory comes with the packet; whether the sender
keeps arrays of the message before, so that their memory must not be written to again."""

ALIGNMENT = 64
SMALLEST = 1 << 16
LARGE = 1 << 26
"""Memory of more bytes than this is given up for less when a message needs less than a quarter of it."""


class Sender:
    """One direction of a channel, at its beginning."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._memory: mmap.mmap | None = None
        self._fresh = -1
        self._written = 0

    def send(self, content: Any, arrays: Sequence[Array]) -> None:
        """Send `content` (which is pickled) and copies of `arrays`, of any dtypes and shapes.

        Raises OSError if there is no memory for them, BrokenPipeError or ConnectionResetError if the other end is gone.
        """
        self.write(content, arrays)
        self.post()

    def write(self, content: Any, arrays: Sequence[Array]) -> None:
        """The first half of send(): put the message into memory. Raises OSError if there is none."""
        flat = [np.ascontiguousarray(each) for each in arrays]
        objects = [
            each if each.dtype.hasobject else None for each in arrays
        ]  # ascontiguousarray would give rank 0 an axis
        forms = [(each.dtype, np.shape(each_given)) for each, each_given in zip(flat, arrays, strict=True)]
        head = pickle.dumps((content, forms, objects), protocol=5)
        offsets, size = places(len(head), forms)
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
        """The second half: say that it is there. Raises OSError if the other end is gone."""
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
        """Have memory for `size` bytes."""
        held = 0 if self._memory is None else len(self._memory)
        if held >= size and not (held > LARGE and held > 4 * size):
            return
        wanted = max(SMALLEST, 1 << (size - 1).bit_length() if size < LARGE else size)
        descriptor = os.memfd_create("treadle-python-ops", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, wanted)  # memory that is not there is an error now, no SIGBUS later
            self._memory = mmap.mmap(descriptor, wanted)
        except BaseException:
            os.close(descriptor)
            raise
        if self._fresh >= 0:
            os.close(self._fresh)
        self._fresh = descriptor

    def renew(self) -> None:
        """Let go of the memory, and use other for the next message: the receiver has kept what was in this."""
        self._memory = None


class Receiver:
    """The other end of the direction."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._memory: mmap.mmap | None = None
        self._lent: list[weakref.ref[Array]] = []
        self.kept = False

    def receive(self) -> tuple[Any, list[Array]]:
        """The next message: its content, and arrays that lie in the shared memory until release().

        `kept` then says whether the other end keeps arrays that it was sent. Raises EOFError if it is gone.
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
        content, forms, objects = pickle.loads(self._memory[:length])  # noqa: S301 - from this program's own process
        offsets, _ = places(length, forms)
        found = []
        for (dtype, shape), given, offset in zip(forms, objects, offsets, strict=True):
            found.append(given if given is not None else self._lend(dtype, shape, offset))
        return content, found

    def _lend(self, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Array:
        size = nbytes(dtype, shape)
        if not size:
            return np.empty(shape, dtype)
        assert self._memory is not None
        whole = np.frombuffer(self._memory, np.uint8, size, offset)  # all views of it hold it
        self._lent.append(weakref.ref(whole))
        return whole.view(dtype).reshape(shape)

    def release(self) -> bool:
        """Take back the memory of the arrays received. False if somebody still has one: then it stays theirs."""
        lent, self._lent = self._lent, []
        return all(whole() is None for whole in lent)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory = None


def nbytes(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    """Bytes of an array."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    return size


def places(head: int, forms: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> tuple[list[int], int]:
    """Where the arrays lie behind a pickle of `head` bytes, and how many bytes all need."""
    offsets, end = [], head
    for dtype, shape in forms:
        begin = -(-end // ALIGNMENT) * ALIGNMENT
        offsets.append(begin)
        end = begin + (0 if dtype.hasobject else nbytes(dtype, shape))
    return offsets, end
