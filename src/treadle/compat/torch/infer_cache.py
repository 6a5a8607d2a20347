"""A cache of inferred dtypes and shapes: programs emit the same op on the same shapes again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.lru import LRU
from treadle.ops.op import Info
from treadle.ops.table import OPS

MOST_KNOWN = 4096
"""The number of results that are kept."""

MOST_ELEMENTS = 16
"""Operands with known elements and more of them than this are not looked up."""

_KNOWN: LRU[Any, list[Info]] = LRU(MOST_KNOWN)


def infer_cached(
    op: str, attrs: dict[str, Any], attrs_key: Any, operands: Sequence[Info | None], outputs: int
) -> list[Info]:
    """Returns `infer` of `op`; `attrs_key` is a hashable form of its attributes.

    Raises ShapeError or LimitError if the operands do not fit.
    """
    key: list[Any] = [op, attrs_key, outputs]
    for each in operands:
        if each is None:
            key.append(None)
            continue
        key.append(each.dtype.name)
        key.append(each.shape)
        if each.value is not None:
            if each.value.size > MOST_ELEMENTS:
                return OPS[op].infer(attrs, operands, outputs)
            key.append(each.value.tobytes())
    signature = tuple(key)
    found = _KNOWN.get(signature)
    if found is None:
        found = OPS[op].infer(attrs, operands, outputs)
        _KNOWN.put(signature, found)
    return found
