"""Keys of what is known of operands, for caches of what was made for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.dim import DimExpr
from treadle.ops.op import Info


def key_of(infos: Sequence[Info]) -> tuple[Any, ...]:
    """Return a key that equals those of the same dtypes, shapes and elements.

    Expressions count by identity: keep `infos` beside the key. What is known in one case of a case analysis has a key
    of that case.
    """
    return (*(_key(info) for info in infos), *_cases(infos))


def _cases(infos: Sequence[Info]) -> Iterator[tuple[int, int]]:
    """The case analyses of expressions, each with its case."""
    found: dict[int, int] = {}
    for info in infos:
        for size in _expressions(info):
            if isinstance(size, DimExpr) and isinstance(size.rules, CaseAnalysis):
                found[id(size.rules)] = size.rules.case
    yield from found.items()


def _expressions(info: Info) -> Iterator[Any]:
    """The sizes and elements that may be expressions."""
    yield from info.shape or ()
    if info.value is not None and info.value.dtype == object and info.dtype is not dtypes.string:
        yield from info.value.reshape(-1).tolist()


def _key(info: Info) -> tuple[Any, ...]:
    shape = info.shape
    sizes = None if shape is None else tuple(id(size) if isinstance(size, DimExpr) else (size,) for size in shape)
    value = info.value
    if value is None:
        return info.dtype, sizes, None
    if value.dtype == object:
        return info.dtype, sizes, tuple(map(_element, value.reshape(-1).tolist()))
    return info.dtype, sizes, np.ascontiguousarray(value).tobytes()


def _element(element: Any) -> Any:
    return element if type(element) in (int, float, bool, str, bytes) else ("expression", id(element))
