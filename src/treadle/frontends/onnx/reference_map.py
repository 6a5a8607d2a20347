"""Operators for the `onnx` package's reference implementation that make maps, and tensors of maps.

Its own DictVectorizer gives a vector for a map, where ONNX Runtime gives a row, and it has no CastMap.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

Array = np.ndarray[Any, Any]
Map = dict[int | str, Any]

MAP = "TreadleMap"
"""The name of an operator that makes a map of keys and values, which no model has: it stands in recipes of values."""

_NOTHING = {"TO_FLOAT": 0.0, "TO_INT64": 0, "TO_STRING": "0.f"}
"""What CastMap gives for keys that a sparse map does not have, as ONNX Runtime writes it."""


@cache
def reference_maps() -> tuple[type[OpRun], ...]:
    """Return the operators."""
    from onnx.reference.op_run import OpRun

    class MapOf(OpRun):
        op_domain = ""

        def _run(self, keys: Array, values: Array) -> tuple[Map]:
            return (dict(zip(keys.tolist(), values, strict=True)),)

    class DictVectorizer(OpRun):
        op_domain = "ai.onnx.ml"

        def _run(
            self, x: Map, int64_vocabulary: list[int] | None = None, string_vocabulary: list[str] | None = None
        ) -> tuple[Array]:
            row = [x.get(key, 0) for key in int64_vocabulary or string_vocabulary or ()]
            if any(isinstance(each, str) for each in x.values()):
                return (np.array([[each or "" for each in row]], object),)
            return (np.array([row], np.array(list(x.values())).dtype if x else np.float32),)

    class CastMap(OpRun):
        op_domain = "ai.onnx.ml"

        def _run(self, x: Map, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> tuple[Array]:
            to = cast_to or "TO_FLOAT"
            if map_form == "SPARSE":
                negative = [key for key in x if int(key) < 0]
                if negative:
                    raise ValueError(f"a sparse map must have no negative keys, got {negative[0]}")
                row = [_cast(x[key], to) if key in x else _NOTHING[to] for key in range(max_map)]
            else:
                row = [_cast(x[key], to) for key in sorted(x)]
            kinds = {"TO_FLOAT": np.float32, "TO_INT64": np.int64}
            return (np.array([row], kinds.get(to, object)),)

    MapOf.__name__ = MAP
    return MapOf, DictVectorizer, CastMap


def _cast(value: Any, to: str) -> Any:
    if to == "TO_STRING":
        return value if isinstance(value, str) else f"{float(value):f}"
    return int(float(value)) if to == "TO_INT64" else float(value)
