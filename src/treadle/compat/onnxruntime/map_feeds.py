"""Maps as onnxruntime takes them for inputs of runs: from texts or integers to 32-bit floats, given as dicts."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from treadle.compat.onnxruntime.describe import NodeArg
from treadle.compat.onnxruntime.errors import Fail, InvalidArgument, error


def map_of(declared: NodeArg, given: Mapping[Any, Any]) -> dict[int | str, float]:
    """Return the map that onnxruntime makes of `given`, which is not empty: its first key decides the type of all.

    Raises RuntimeError for keys and values of other types, Fail for numbers that are no floats, InvalidArgument if the
    input is declared as a map of other types.
    """
    has_texts = isinstance(next(iter(given)), str)
    named = "string" if has_texts else "int64_t"
    made = {}
    for key, value in given.items():
        if not has_texts and not _is_integer(key):
            raise _unexpected("key", key, named, declared)
        if isinstance(value, str) or not isinstance(value, numbers.Number | np.ndarray):
            raise _unexpected("value", value, named, declared)
        made[str(key) if has_texts else int(key)] = _float(value)
    actual = f"map({'string' if has_texts else 'int64'},tensor(float))"
    if actual != declared.type:
        text = f"Unexpected input data type. Actual: (({actual})) , expected: (({declared.type}))"
        raise error(InvalidArgument, text)
    return made


def _is_integer(key: Any) -> bool:
    return isinstance(key, numbers.Integral) and -(2**63) <= int(key) < 2**63


def _float(value: Any) -> float:
    try:
        return float(np.float32(float(value)))
    except (TypeError, OverflowError) as failure:
        raise Fail(f"{type(failure)}: {failure}") from None


def _unexpected(what: str, found: Any, wanted: str, declared: NodeArg) -> RuntimeError:
    text = f"Unexpected {what} type  {type(found)}, it cannot be linked to C type {wanted} for input '{declared.name}'."
    return RuntimeError(text)
