"""Tensors of strings: arrays of objects, each of which is text."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.errors import InputError

Array = np.ndarray[Any, Any]


def text_of(array: Array, where: str) -> Array:
    """`array`, whose elements are objects, as one of str: bytes are read as UTF-8, which is how models store text.

    An array of str is given back itself; 10^6 elements take some 30 ms. Raises InputError that says which element is
    neither.
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
            "say what text it is, as str() does"
        )
    try:
        return item.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: wanted strings (str, or bytes in UTF-8), got bytes at {place} that are not UTF-8 ({error.reason} at "
            f"byte {error.start}); decode them with the encoding they have"
        ) from None
