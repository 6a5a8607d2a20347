"""Cases of attention within texts whose rows are packed."""

import numpy as np

from tests.ops.case import Case, floats, i64
from treadle import dtypes
from treadle.graph.expr import Expr, Step

_HEADS = {f"{name}_perm": (0, 2, 1, 3) for name in ("q", "k", "v", "out")}
_SCALED = Expr((dtypes.f32,), (Step("const", (), dtypes.f32, 0.25), Step("mul", (0, 1), dtypes.f32)), (2,))


def _case(name: str, offsets: tuple[int, ...], heads: int, depth: int, width: int, dtype: type = np.float32) -> Case:
    rows = offsets[-1]
    sizes = {"q": depth, "k": depth, "v": width}
    operands = (floats(f"p{each}", 1, rows, heads, size, dtype=dtype) for each, size in sizes.items())
    scale = {"epilogue": _SCALED} if dtype == np.float32 else {}
    attrs = {**_HEADS, **scale, "longest": int(np.diff(offsets).max())}
    return Case(f"packed_attention/{name}", "packed_attention", attrs, (*operands, i64(*offsets)))


CASES = [
    _case("one_text", (0, 19), 3, 8, 8),
    _case("texts", (0, 1, 34, 50, 55, 87), 4, 12, 20),
    _case("every_length", tuple(np.cumsum(range(41)).tolist()), 2, 8, 16),
    _case("text_without_rows", (0, 5, 5, 12), 2, 8, 8),
    _case("float64", (0, 7, 12), 2, 9, 5, np.float64),
    Case(
        "packed_attention/matrices",
        "packed_attention",
        {"longest": 40},
        (floats("mq", 17, 8), floats("mk", 17, 8), floats("mv", 17, 6), i64(0, 6, 17)),
    ),
]
