"""Constants that several plans need are kept once: those of other input shapes, and of other sessions of a model.

Packing gives each plan new arrays, and so does reading from the model's file. Before one is kept, those still in use
anywhere in the process are searched for one with the same bits.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Hashable, Iterable
from functools import partial
from typing import Any

import numpy as np

from treadle import forking
from treadle.graph.mapping import is_mapped, release, resident

Array = np.ndarray[Any, Any]

SMALLEST = 4096
"""Bytes below which searching costs more than it saves."""
_SAMPLES = 1024
_COMPARED = 1 << 20

_lock = forking.lock()
_held: dict[Hashable, list[weakref.ref[Array]]] = {}


def held_once(array: Array, source: Array) -> Array:
    """`array`, packed from `source`, or an equal one that a plan has already; read-only in either case.

    An array that lies in the memory of its source stays as it is: its owner may change it.
    """
    if array.nbytes < SMALLEST or array.dtype.hasobject or np.may_share_memory(array, source):
        return array
    bits, key = _bits(array)
    with _lock:
        alive = [other for reference in _held.get(key, ()) if (other := reference()) is not None]
        for other in alive:
            if same_bits(other, bits):
                if (other.dtype, other.shape) == (array.dtype, array.shape):
                    return other
                return other.view(array.dtype).reshape(array.shape)
        array.flags.writeable = False
        _held[key] = [weakref.ref(one, partial(_forget, key)) for one in (*alive, array)]
    return array


def offer(arrays: Iterable[Array]) -> None:
    """Let `arrays` of bytes, which belong to a plan from disk, be found for what is packed from now on."""
    for array in arrays:
        if array.nbytes < SMALLEST or array.dtype.hasobject:
            continue
        _, key = _bits(array)
        with _lock:
            held = _held.get(key, [])
            if all(reference() is not array for reference in held):
                _held[key] = [*held, weakref.ref(array, partial(_forget, key))]


def moved(array: Array, place: Array) -> None:
    """From now on `place`, which has the same bits, is what others find instead of `array`, which may go."""
    if array.nbytes < SMALLEST or array.dtype.hasobject:
        return
    _, key = _bits(array)
    with _lock:
        held = _held.get(key, ())
        if any(reference() is array for reference in held):
            others = [reference for reference in held if reference() is not array]
            _held[key] = [*others, weakref.ref(place, partial(_forget, key))]


def _bits(array: Array) -> tuple[Array, Hashable]:
    """The bytes of `array`, and what equal arrays are looked for by."""
    bits = array.reshape(-1).view(np.uint8)
    return bits, (bits.size, zlib.crc32(bits[:: max(1, bits.size // _SAMPLES)].tobytes()))


def same_bits(one: Array, other: Array) -> bool:
    """Whether arrays of as many bytes are equal; a part at a time, since NumPy needs as much memory for the answer."""
    first, second = (array.reshape(-1).view(np.uint8) for array in (one, other))
    return all(
        np.array_equal(first[at : at + _COMPARED], second[at : at + _COMPARED])
        for at in range(0, first.size, _COMPARED)
    )


def kept(array: Array) -> Array:
    """`array`, contiguous and aligned, in memory that no file is behind, for a plan to read while it runs."""
    if not is_mapped(array):
        return resident(array)
    copy = held_once(resident(array), array)
    release(array)
    return copy


def _forget(key: Hashable, _: object) -> None:
    with _lock:
        alive = [reference for reference in _held.get(key, ()) if reference() is not None]
        if alive:
            _held[key] = alive
        else:
            _held.pop(key, None)
