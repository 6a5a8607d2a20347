"""Cases of conv and matmul of 8-bit numbers: every mixture of signs, zero points, borders, groups, sums beyond f32."""

from typing import Any

import numpy as np

from tests.ops.case import Case, OnnxCall
from treadle.ops.op import Array


def _bytes(seed: int, shape: tuple[int, ...], dtype: Any) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def _conv(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    kinds: tuple[Any, Any] = (np.uint8, np.int8),
    zero: int = 0,
    stride: int = 1,
    pads: int = 0,
    dilation: int = 1,
    groups: int = 1,
    constant: bool = True,
) -> Case:
    rank = len(x) - 2
    attrs: dict[str, Any] = {"strides": (stride,) * rank, "pads": (pads,) * 2 * rank, "dilations": (dilation,) * rank}
    image, weights = _bytes(0, x, kinds[0]), _bytes(1, w, kinds[1])
    onnx = OnnxCall(
        "ConvInteger",
        {**{key: list(value) for key, value in attrs.items()}, "group": groups},
        (image, weights, np.array(zero, kinds[0])),
    )
    attrs |= {"groups": groups, "zero": zero}
    held = frozenset({1} if constant else ())
    return Case(f"conv/bytes_{name}", "conv", attrs, (image, weights), held, onnx=onnx)


def _matmul(
    name: str, a: tuple[int, ...], b: tuple[int, ...], *, kinds: tuple[Any, Any] = (np.uint8, np.int8), **attrs: Any
) -> Case:
    factors = _bytes(0, a, kinds[0]), _bytes(1, b, kinds[1])
    whole = {"transpose_a": False, "transpose_b": False, **attrs}
    left = factors[0].transpose(attrs.get("a_perm", range(len(a))))
    right = factors[1].T if attrs.get("transpose_b") else factors[1]
    onnx = OnnxCall("MatMulInteger", {}, (left, right))
    return Case(f"matmul/bytes_{name}", "matmul", whole, factors, frozenset({1}), onnx=onnx)


CASES = [
    _conv("1x1", (2, 16, 5, 7), (48, 16, 1, 1)),
    _conv("1x1_signed", (1, 32, 5, 7), (24, 32, 1, 1), kinds=(np.int8, np.int8), zero=-7),
    _conv("odd_channels", (1, 5, 6, 9), (19, 5, 3, 3), zero=200, pads=1),
    _conv("3x3", (2, 32, 9, 17), (32, 32, 3, 3), pads=1),
    _conv("3x3_signed", (1, 64, 9, 9), (64, 64, 3, 3), kinds=(np.int8, np.int8), zero=3, pads=1),
    _conv("3x3_zero_of_relu", (1, 16, 9, 9), (16, 16, 3, 3), kinds=(np.int8, np.int8), zero=-128, pads=1),
    _conv("image", (1, 3, 23, 23), (32, 3, 7, 7), zero=114, stride=2, pads=3),
    _conv("wide_kernel", (1, 16, 2, 40), (16, 16, 19, 19), zero=9, pads=9),
    _conv("wider_than_the_image", (1, 16, 3, 2), (16, 16, 5, 5), zero=9, pads=4),
    _conv("dilated", (1, 16, 12, 12), (16, 16, 3, 3), zero=30, pads=2, dilation=2),
    _conv("depthwise", (1, 35, 9, 9), (35, 1, 3, 3), zero=77, pads=1, groups=35),
    _conv("depthwise_stride2", (1, 32, 9, 9), (32, 1, 3, 3), kinds=(np.int8, np.int8), zero=-1, stride=2, groups=32),
    _conv("groups", (1, 64, 7, 7), (64, 32, 3, 3), zero=5, pads=1, groups=2),
    _conv("narrow_groups", (1, 12, 7, 7), (24, 3, 3, 3), zero=5, pads=1, groups=4),
    _conv("1d", (2, 16, 30), (32, 16, 3), zero=128, pads=1),
    _conv("3d", (1, 4, 4, 5, 6), (8, 4, 2, 2, 2), zero=9, pads=1),
    _conv("unsigned_weights", (1, 16, 6, 6), (16, 16, 3, 3), kinds=(np.uint8, np.uint8), zero=3, pads=1),
    _conv("weights_of_the_run", (1, 16, 6, 6), (16, 16, 3, 3), zero=3, pads=1, constant=False),
    _conv("beyond_f32", (1, 600, 3, 3), (8, 600, 3, 3), kinds=(np.uint8, np.uint8), pads=1),
    _matmul("tile", (28, 64), (64, 96)),
    _matmul("signed", (17, 24), (24, 37), kinds=(np.int8, np.int8)),
    _matmul("row", (1, 64), (64, 48), kinds=(np.int8, np.int8)),
    _matmul("column", (33, 64), (64, 1)),
    _matmul("batch", (2, 3, 5, 8), (8, 6)),
    _matmul("batch_of_weights", (4, 9, 12), (4, 12, 11), kinds=(np.int8, np.int8)),
    _matmul("odd_depth", (9, 23), (23, 17)),
    _matmul("unsigned_weights", (9, 24), (24, 17), kinds=(np.uint8, np.uint8)),
    _matmul("deep", (3, 4096), (4096, 33)),
    _matmul("transposed", (9, 24), (17, 24), transpose_b=True),
    _matmul("permuted", (5, 8, 9), (8, 6), a_perm=(0, 2, 1)),
    _matmul("empty_rows", (0, 8), (8, 4)),
]
