"""What ops give, remembered: programs note the same op on the same shapes again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.lru import LRU
from treadle.ops.op import Info
from treadle.ops.table import OPS

MOST_KNOWN = 4096
"""How many results are kept."""

MOST_ELEMENTS = 16
"""Operands whose elements are known and that have more of them are not looked up."""

_KNOWN: LRU[Any, list[Info]] = LRU(MOST_KNOWN)


def inferred(op: str, attrs: dict[str, Any], told: Any, operands: Sequence[Info | None], outputs: int) -> list[Info]:
    """`infer` of `op`, whose attributes are `told` by something that can be a key.

    Raises ShapeError or LimitError if the operands do not fit.
    """
    key: list[Any] = [op, told, outputs]
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
    form = tuple(key)
    found = _KNOWN.get(form)
    if found is None:
        found = OPS[op].infer(attrs, operands, outputs)
        _KNOWN.put(form, found)
    return found
