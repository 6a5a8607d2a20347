"""CategoryMapper of ai.onnx.ml: texts and the numbers that stand for them, as a Python step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.ops.op import Array, Info
from treadle.records import dataclass


def category_mapper(node: OnnxNode, b: Builder) -> list[Value]:
    """CategoryMapper(texts) -> their numbers; of numbers, the texts. What has no counterpart becomes a default."""
    texts, numbers = node.texts("cats_strings") or (), node.integers("cats_int64s") or ()
    if len(texts) != len(numbers):
        raise Fault(f"attribute 'cats_strings' has {len(texts)} elements, 'cats_int64s' {len(numbers)}; wanted as many")
    if node.dtype() == dtypes.string:
        of_text = Mapped(dict(zip(texts, numbers, strict=True)), node.integer("default_int64", -1), np.dtype(np.int64))
        return b.add_call([node.input(0)], [dtypes.i64], of_text, _Like(dtypes.i64), "CategoryMapper")
    of_number = Mapped(dict(zip(numbers, texts, strict=True)), node.text("default_string", "_Unused"), np.dtype(object))
    return b.add_call([node.input(0)], [dtypes.string], of_number, _Like(dtypes.string), "CategoryMapper")


@dataclass(frozen=True, slots=True)
class Mapped:
    """Replaces each element by what `table` has for it, or by `default`."""

    table: Mapping[Any, Any]
    default: Any
    dtype: np.dtype[Any]

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The elements of `dtype`, in the shape of the operand."""
        (x,) = arrays
        found = np.empty(x.size, self.dtype)
        found[:] = [self.table.get(each, self.default) for each in x.reshape(-1).tolist()]
        return [found.reshape(x.shape)]


@dataclass(frozen=True, slots=True)
class _Like:
    """The shape of the operand, and a dtype."""

    dtype: dtypes.DType

    def __call__(self, infos: Sequence[Info | None]) -> list[Info]:
        x = infos[0]
        return [Info(self.dtype, None if x is None else x.shape)]
