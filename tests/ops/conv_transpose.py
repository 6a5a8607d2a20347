"""Cases of conv_transpose. The `onnx` reference gets groups wrong, so a formula stands for it there."""

from typing import Any

import numpy as np

from tests.ops.case import Case, OnnxCall, floats


def _case(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    stride: int = 1,
    pads: Any = 0,
    dilation: int = 1,
    groups: int = 1,
    extra: int = 0,
    bias: bool = True,
    dtype: Any = np.float32,
) -> Case:
    rank = len(x) - 2
    attrs = {
        "strides": (stride,) * rank,
        "pads": (pads,) * (2 * rank) if isinstance(pads, int) else pads,
        "dilations": (dilation,) * rank,
        "output_padding": (extra,) * rank,
    }
    onnx = OnnxCall("ConvTranspose", {key: list(value) for key, value in attrs.items()}) if groups == 1 else None
    inputs = (
        floats(name, *x, dtype=dtype),
        floats(name + "w", *w, dtype=dtype),
        floats(name + "b", w[1] * groups, dtype=dtype) if bias else None,
    )
    return Case(
        f"conv_transpose/{name}", "conv_transpose", {**attrs, "groups": groups}, inputs, frozenset({1, 2}), onnx=onnx
    )


CASES = [
    _case("2x2_stride2", (1, 16, 5, 7), (16, 8, 2, 2), stride=2),
    _case("3x3", (2, 5, 6, 4), (5, 7, 3, 3)),
    _case("3x3_pad1_stride2", (1, 8, 6, 5), (8, 16, 3, 3), stride=2, pads=1),
    _case("4x4_pad1_stride2", (1, 8, 6, 5), (8, 16, 4, 4), stride=2, pads=1),
    _case("output_padding", (1, 8, 6, 5), (8, 4, 3, 3), stride=2, pads=1, extra=1),
    _case("dilated", (1, 4, 6, 5), (4, 6, 3, 3), dilation=2, bias=False),
    _case("pads_differ", (1, 4, 6, 5), (4, 6, 3, 3), pads=(0, 1, 2, 0)),
    _case("1d", (1, 4, 9), (4, 6, 4), stride=3),
    _case("float64", (1, 4, 5, 5), (4, 3, 3, 3), stride=2, dtype=np.float64),
    _case("groups", (1, 8, 5, 5), (8, 3, 3, 3), groups=2, stride=2),
]
