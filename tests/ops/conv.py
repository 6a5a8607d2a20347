"""Cases of conv: kernels, strides, pads, dilations, groups, channels and epilogues of every kind."""

from typing import Any

import numpy as np

from tests.ops.case import Case, OnnxCall, floats
from treadle import dtypes
from treadle.graph.expr import Expr, Step

_RELU = Expr((dtypes.f32,), (Step("relu", (0,), dtypes.f32),), (1,))
_ADD_RELU = Expr((dtypes.f32, dtypes.f32), (Step("add", (0, 1), dtypes.f32), Step("relu", (2,), dtypes.f32)), (3,))
_SILU = Expr((dtypes.f32,), (Step("sigmoid", (0,), dtypes.f32), Step("mul", (0, 1), dtypes.f32)), (2,))


def _case(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    stride: Any = 1,
    pads: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    bias: bool = True,
    constant: bool = True,
    dtype: Any = np.float32,
    epilogue: Expr | None = None,
    operands: tuple[Any, ...] = (),
) -> Case:
    rank = len(x) - 2

    def spread(number: Any, count: int) -> tuple[int, ...]:
        return (number,) * count if isinstance(number, int) else tuple(number)

    attrs: dict[str, Any] = {
        "strides": spread(stride, rank), "pads": spread(pads, 2 * rank), "dilations": spread(dilation, rank),
        "groups": groups,
    }  # fmt: skip
    onnx = OnnxCall("Conv", {**{key: list(value) for key, value in attrs.items() if key != "groups"}, "group": groups})
    if epilogue is not None:
        attrs["epilogue"], onnx = epilogue, None
    scale = 1 / np.sqrt(np.prod(w[1:]) or 1)
    weights = (floats(name + "w", *w, dtype=np.float64) * scale).astype(dtype)
    inputs = (
        floats(name, *x, dtype=dtype),
        weights,
        floats(name + "b", w[0], dtype=dtype) if bias else None,
        *operands,
    )
    return Case(f"conv/{name}", "conv", attrs, inputs, frozenset({1, 2} if constant else ()), onnx=onnx)


CASES = [
    _case("1x1", (1, 16, 7, 9), (32, 16, 1, 1)),
    _case("1x1_odd_channels", (2, 5, 7, 9), (19, 5, 1, 1)),
    _case("1x1_stride2", (1, 32, 14, 13), (16, 32, 1, 1), stride=2),
    _case("1x1_no_bias", (1, 24, 5, 5), (40, 24, 1, 1), bias=False),
    _case("1x1_one_pixel", (1, 64, 1, 1), (10, 64, 1, 1)),
    _case("1x1_padded", (1, 8, 4, 4), (8, 8, 1, 1), pads=1),
    _case("3x3", (1, 16, 12, 13), (16, 16, 3, 3)),
    _case("3x3_pad1", (2, 40, 17, 19), (32, 40, 3, 3), pads=1),
    _case("3x3_pad1_odd_channels", (1, 7, 11, 10), (21, 7, 3, 3), pads=1),
    _case("3x3_pad1_stride2", (1, 16, 15, 16), (32, 16, 3, 3), pads=1, stride=2),
    _case("3x3_pad1_winograd_tiles", (1, 32, 28, 28), (48, 32, 3, 3), pads=1),
    _case("3x3_pad1_small_image", (1, 32, 3, 2), (16, 32, 3, 3), pads=1),
    _case("3x3_one_pixel", (1, 16, 1, 1), (16, 16, 3, 3), pads=1),
    _case("3x3_dilated", (1, 16, 14, 15), (16, 16, 3, 3), pads=2, dilation=2),
    _case("3x3_dilated_strided", (1, 8, 17, 17), (16, 8, 3, 3), pads=2, dilation=2, stride=2),
    _case("3x3_no_bias", (1, 16, 9, 9), (16, 16, 3, 3), pads=1, bias=False),
    _case("3x3_pads_differ", (1, 16, 9, 10), (16, 16, 3, 3), pads=(0, 1, 2, 3)),
    _case("3x3_wide_pads", (1, 4, 5, 5), (8, 4, 3, 3), pads=4),
    _case("3x3_strides_differ", (1, 16, 13, 14), (16, 16, 3, 3), stride=(2, 3), pads=1),
    _case("rgb_7x7_stride2", (1, 3, 37, 35), (64, 3, 7, 7), stride=2, pads=3),
    _case("rgb_3x3_stride2", (2, 3, 19, 17), (24, 3, 3, 3), stride=2, pads=(0, 0, 1, 1)),
    _case("grey_5x5", (1, 1, 12, 12), (6, 1, 5, 5)),
    _case("5x5_pad2", (1, 16, 9, 11), (32, 16, 5, 5), pads=2),
    _case("1x7_pad03", (1, 16, 8, 12), (16, 16, 1, 7), pads=(0, 3, 0, 3)),
    _case("7x1_pad30", (1, 16, 12, 8), (16, 16, 7, 1), pads=(3, 0, 3, 0)),
    _case("1x25_pad12", (1, 16, 2, 40), (16, 16, 1, 25), pads=(0, 12, 0, 12)),
    _case("1x40_stride8_of_one_channel", (2, 1, 1, 131), (24, 1, 1, 40), stride=(1, 8), pads=(0, 20, 0, 20)),
    _case("kernel_fills_image", (2, 20, 6, 6), (33, 20, 6, 6)),
    _case("patches_stride_is_kernel", (1, 3, 16, 24), (32, 3, 8, 8), stride=8),
    _case("groups2", (1, 32, 9, 9), (48, 16, 3, 3), pads=1, groups=2),
    _case("groups4_odd", (1, 20, 7, 8), (12, 5, 3, 3), pads=1, groups=4),
    _case("groups_1x1", (1, 64, 6, 6), (64, 16, 1, 1), groups=4),
    _case("depthwise_3x3", (1, 32, 14, 14), (32, 1, 3, 3), pads=1, groups=32),
    _case("depthwise_3x3_stride2", (2, 24, 15, 13), (24, 1, 3, 3), pads=1, groups=24, stride=2),
    _case("depthwise_odd_channels", (1, 19, 9, 7), (19, 1, 3, 3), pads=1, groups=19),
    _case("depthwise_5x5_stride2", (1, 16, 14, 15), (16, 1, 5, 5), pads=2, groups=16, stride=2),
    _case("depthwise_dilated", (1, 16, 14, 15), (16, 1, 3, 3), pads=3, dilation=3, groups=16),
    _case("depthwise_multiplier2", (1, 16, 8, 9), (32, 1, 3, 3), pads=1, groups=16),
    _case("depthwise_1x25_pad12", (1, 16, 2, 40), (16, 1, 1, 25), pads=(0, 12, 0, 12), groups=16),
    _case("1d", (2, 16, 33), (24, 16, 3), pads=1),
    _case("1d_strided_dilated", (1, 8, 41), (16, 8, 5), pads=4, stride=2, dilation=2),
    _case("1d_depthwise", (1, 16, 30), (16, 1, 4), pads=(3, 0), groups=16),
    _case("3d", (1, 4, 5, 6, 7), (8, 4, 3, 3, 3), pads=1),
    _case("float64", (1, 9, 8, 7), (10, 9, 3, 3), pads=1, dtype=np.float64),
    _case("float64_depthwise", (1, 8, 8, 7), (8, 1, 3, 3), pads=1, groups=8, dtype=np.float64),
    _case("variable_weights", (1, 16, 8, 8), (16, 16, 3, 3), pads=1, constant=False),
    _case("variable_weights_1x1", (1, 10, 8, 8), (18, 10, 1, 1), constant=False),
    _case("empty_batch", (0, 8, 6, 6), (8, 8, 3, 3), pads=1),
    _case("epilogue_relu", (1, 16, 9, 10), (32, 16, 3, 3), pads=1, epilogue=_RELU),
    _case("epilogue_silu_1x1", (1, 16, 9, 10), (24, 16, 1, 1), epilogue=_SILU),
    _case(
        "epilogue_residual",
        (1, 16, 9, 10),
        (16, 16, 3, 3),
        pads=1,
        epilogue=_ADD_RELU,
        operands=(floats("res", 1, 16, 9, 10),),
    ),
    _case(
        "epilogue_residual_1x1",
        (2, 16, 6, 5),
        (21, 16, 1, 1),
        epilogue=_ADD_RELU,
        operands=(floats("res", 2, 21, 6, 5),),
    ),
    _case(
        "epilogue_channel_operand",
        (2, 16, 6, 5),
        (16, 16, 3, 3),
        pads=1,
        epilogue=_ADD_RELU,
        operands=(floats("ch", 16, 1, 1),),
    ),
    _case("epilogue_depthwise", (1, 24, 9, 10), (24, 1, 3, 3), pads=1, groups=24, epilogue=_SILU),
]
