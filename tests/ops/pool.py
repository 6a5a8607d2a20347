"""Cases of max_pool and avg_pool."""

from typing import Any

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers


def _cases(
    name: str,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    *,
    stride: int = 1,
    pads: Any = 0,
    dilation: int = 1,
    ceil: bool = False,
    ops: tuple[str, ...] = ("max", "avg", "avg_counting_pads"),
    dtype: Any = np.float32,
) -> list[Case]:
    rank = len(kernel)
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "strides": (stride,) * rank,
        "pads": (pads,) * (2 * rank) if isinstance(pads, int) else pads,
        "dilations": (dilation,) * rank,
        "ceil_mode": ceil,
    }
    known = {key: list(attrs[key]) for key in ("strides", "pads", "dilations")}
    known |= {"kernel_shape": list(kernel), "ceil_mode": int(ceil)}
    x = floats(name, *shape, dtype=dtype)
    cases = []
    if "max" in ops:
        cases.append(Case(f"max_pool/{name}", "max_pool", attrs, (x,), onnx=OnnxCall("MaxPool", known)))
    for op in ops:
        if op == "max":
            continue
        counting = op == "avg_counting_pads"
        onnx = OnnxCall("AveragePool", {**known, "count_include_pad": int(counting)})
        suffix = "_counting_pads" if counting else ""
        more = {**attrs, "count_include_pad": counting}
        cases.append(Case(f"avg_pool/{name}{suffix}", "avg_pool", more, (x,), onnx=onnx))
    return cases


def _integers() -> Case:
    attrs = {"kernel": (2, 2), "strides": (2, 2), "pads": (0,) * 4, "dilations": (1, 1), "ceil_mode": False}
    known = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x = integers("pool", -100, 100, 1, 3, 8, 9, dtype=np.int8)
    return Case("max_pool/int8", "max_pool", attrs, (x,), onnx=OnnxCall("MaxPool", known))


CASES = [
    *_cases("2x2_stride2", (1, 16, 8, 10), (2, 2), stride=2),
    *_cases("3x3_stride2_pad1", (2, 19, 15, 13), (3, 3), stride=2, pads=1),
    *_cases("3x3_pad1", (1, 16, 7, 7), (3, 3), pads=1),
    *_cases("3x3_stride2_ceil", (1, 17, 14, 12), (3, 3), stride=2, ceil=True),
    *_cases("2x2_pads_differ", (1, 5, 6, 7), (2, 2), pads=(0, 1, 1, 0)),
    *_cases("3x2", (1, 16, 7, 9), (3, 2)),
    *_cases("global", (2, 33, 7, 7), (7, 7)),
    *_cases("1d", (1, 8, 21), (4,), stride=2, pads=1),
    *_cases("3d", (1, 3, 5, 6, 4), (2, 2, 2), stride=2),
    *_cases("dilated", (1, 4, 11, 12), (3, 3), dilation=2, ops=("max", "avg")),
    *_cases("float64", (1, 5, 8, 8), (3, 3), pads=1, dtype=np.float64),
    *_cases("empty_batch", (0, 4, 8, 8), (2, 2), stride=2, ops=("max",)),
    _integers(),
]
