"""Direct convolution kernels against the reference, on every instruction set."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.kernel_runner import lower_graph
from tests.unit.codegen.conv.conv_case import EPILOGUES, Case

from treadle.codegen.jit import emit_ir
from treadle.dtypes import f64
from treadle.plan.kernels.conv.direct import DirectConvSpec
from treadle.plan.target import Target

SAME = (1, 1, 1, 1)

SHAPES = {
    "1x1": Case(32, 48, (7, 7), (1, 1)),
    "1x1 of an odd long row": Case(24, 40, (13, 11), (1, 1)),
    "1x1 with spare lanes": Case(17, 3, (5, 6), (1, 1)),
    "1x1 of one pixel": Case(33, 20, (1, 1), (1, 1)),
    "1x1 strided": Case(32, 32, (15, 15), (1, 1), strides=(2, 2)),
    "1x1 padded": Case(16, 16, (4, 5), (1, 1), pads=SAME),
    "3x3 same": Case(32, 64, (14, 14), (3, 3), pads=SAME),
    "3x3 same, several blocks a row": Case(16, 32, (6, 56), (3, 3), pads=SAME),
    "3x3 same, uneven row": Case(16, 32, (5, 31), (3, 3), pads=SAME),
    "3x3 valid": Case(20, 24, (9, 10), (3, 3)),
    "dilated beyond the image": Case(32, 64, (20, 20), (3, 3), pads=(24,) * 4, dilations=(24, 24)),
    "dilated by most of a row": Case(16, 32, (5, 31), (3, 5), pads=(0, 18, 0, 18), dilations=(1, 9)),
    "dilated, with gaps": Case(16, 24, (40,), (4,), pads=(60, 33), dilations=(31,)),
    "dilated and strided": Case(16, 16, (3, 90), (1, 3), strides=(1, 3), pads=(0, 50, 0, 41), dilations=(1, 45)),
    "3x3 strided": Case(32, 32, (15, 17), (3, 3), strides=(2, 2), pads=SAME),
    "3x3 stride 3": Case(16, 16, (20, 23), (3, 3), strides=(3, 3), pads=SAME),
    "3x3 strided asymmetrically": Case(16, 16, (12, 13), (3, 3), strides=(2, 1), pads=(0, 1, 1, 2)),
    "3x3 dilated": Case(16, 32, (12, 14), (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
    "3x3 dilated by 6 of a small image": Case(16, 16, (7, 7), (3, 3), pads=(6, 6, 6, 6), dilations=(6, 6)),
    "3x3 padded beyond the kernel": Case(8, 8, (3, 3), (3, 3), pads=(4, 5, 4, 5)),
    "5x5 of odd channels": Case(17, 40, (9, 8), (5, 5), pads=(2, 2, 2, 2)),
    "7x7 strided": Case(18, 64, (17, 30), (7, 7), strides=(2, 2), pads=(3, 3, 3, 3)),
    "1x7": Case(32, 32, (9, 17), (1, 7), pads=(0, 3, 0, 3)),
    "7x1": Case(32, 32, (17, 9), (7, 1), pads=(3, 0, 3, 0)),
    "1x25 same": Case(16, 24, (2, 40), (1, 25), pads=(0, 12, 0, 12)),
    "1x21 strided and dilated": Case(16, 16, (1, 90), (1, 21), strides=(1, 2), pads=(0, 20, 0, 3), dilations=(1, 3)),
    "2x2 even kernel": Case(16, 16, (6, 7), (2, 2), pads=(0, 0, 1, 1)),
    "one image row": Case(16, 16, (1, 40), (3, 3), pads=SAME),
    "several images": Case(24, 40, (7, 9), (3, 3), pads=SAME, images=3),
    "several images, 1x1": Case(24, 40, (7, 7), (1, 1), images=2),
    "1-D": Case(20, 24, (41,), (5,), pads=(2, 2)),
    "1-D strided": Case(20, 24, (41,), (4,), strides=(3,), pads=(1, 2), images=2),
    "grouped": Case(64, 128, (8, 9), (3, 3), pads=SAME, groups=2),
    "grouped 1x1": Case(96, 48, (7, 7), (1, 1), groups=3),
}


@pytest.mark.parametrize("name", SHAPES)
def test_blocked_convolution(name: str, target: Target) -> None:
    """A convolution between blocked tensors equals the reference."""
    SHAPES[name].check(target)


@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("name", ["1x1 of an odd long row", "3x3 same", "several images"])
def test_fused_epilogue(name: str, epilogue: str, target: Target) -> None:
    """Epilogues with operands of every kind are applied before the store."""
    replace(SHAPES[name], epilogue=epilogue).check(target)


@pytest.mark.parametrize("epilogue", ["bias_clip", "bias"])
def test_bias_in_the_epilogue(epilogue: str, target: Target) -> None:
    """An epilogue that begins with a bias is the same as a convolution with a bias and the rest of the epilogue."""
    replace(SHAPES["1x1 of an odd long row"], bias=False, epilogue=epilogue).check(target)


@pytest.mark.parametrize("outputs", [8, 20, 64])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_plain_input(channels: int, outputs: int, target: Target) -> None:
    """The first convolution of a network reads the row-major image."""
    stem = Case(channels, outputs, (29, 30), (3, 3), strides=(2, 2), pads=SAME, images=2, plain_input=True)
    stem.check(target)
    replace(stem, kernel=(7, 7), pads=(3, 3, 3, 3), epilogue="relu", bias=False).check(target)


@pytest.mark.parametrize("plain", [True, False], ids=["row-major", "blocked"])
def test_rows_of_a_row_major_image_are_prefetched(plain: bool, target: Target) -> None:
    """A block prefetches two rows of three channels that the block below it reads. A blocked image needs no prefetch: a
    kernel has just written it."""
    stem = Case(3, 16, (29, 30), (3, 3), strides=(2, 2), pads=SAME, plain_input=plain)
    calls, _ = lower_graph(stem.graph(target)[0], target)
    specs = [call.spec for call in calls if isinstance(call.spec, DirectConvSpec)]
    assert [spec.plain_input for spec in specs] == [plain]
    assert (".prefetch." in emit_ir(specs[0], target)) == plain


def test_a_wide_kernel_reads_a_plain_input(target: Target) -> None:
    Case(1, 40, (1, 211), (1, 64), strides=(1, 16), pads=(0, 30, 0, 30), images=2, plain_input=True).check(target)


@pytest.mark.parametrize("pads", [(0, 0), (30, 29)], ids=["valid", "padded"])
@pytest.mark.parametrize("groups", [1, 16])
def test_the_width_of_a_kernel_does_not_make_code_longer(groups: int, pads: tuple[int, int], target: Target) -> None:
    lines = []
    for width in (60, 240):
        wide = Case(16, 16, (800,), (width,), strides=(40,), pads=pads, groups=groups)
        calls, _ = lower_graph(wide.graph(target)[0], target)
        lines.append(sum(emit_ir(call.spec, target).count("\n") for call in calls))
    assert lines[1] < 2 * lines[0]
    assert lines[1] < 12_000


def test_prefetches_of_a_wide_kernel_do_not_make_code_longer(target: Target) -> None:
    """A spectrogram by convolution: a channel's weights for the next group are a line for each 16 numbers."""
    lines = []
    for width in (256, 1024):
        wide = Case(1, 514, (8000,), (width,), strides=(160,))
        calls, _ = lower_graph(wide.graph(target)[0], target)
        lines.append(sum(emit_ir(call.spec, target).count("\n") for call in calls))
    assert lines[1] < 1.1 * lines[0]


def test_reduction_in_passes(target: Target) -> None:
    """Weights larger than the cache are used in passes, between which sums are stored in the output."""
    small = replace(target, l2=16 << 10)
    wide = Case(200, 64, (7, 7), (3, 3), pads=SAME)
    wide.check(small)
    replace(wide, kernel=(1, 1), pads=(), epilogue="residual_relu", images=2).check(small)
    replace(wide, epilogue="silu", bias=False).check(small)


@pytest.mark.parametrize("outputs", [3, 8, 24, 40, 56])
@pytest.mark.parametrize("epilogue", ["", "gated_residual"])
def test_last_vector_at_most_half_full(outputs: int, epilogue: str, target: Target) -> None:
    """If half of the last vector holds all remaining outputs, its other half does not change the result."""
    Case(20, outputs, (9, 23), (3, 3), pads=SAME, epilogue=epilogue, images=2).check(target)
    Case(32, outputs, (9, 23), (1, 1), epilogue=epilogue, bias=False).check(target)
    Case(200, outputs, (5, 7), (3, 3), pads=SAME, epilogue=epilogue).check(replace(target, l2=16 << 10))


@pytest.mark.parametrize("kernel", [1, 3])
def test_prefetched_weights(kernel: int, target: Target) -> None:
    """Prefetches of the next group's weights, also beyond the last group, do not change the result."""
    deep = Case(160, 128, (7, 7), (kernel, kernel), pads=(kernel // 2,) * 4, epilogue="relu")
    deep.check(replace(target, l2=64 << 10))


@pytest.mark.parametrize("name", ["1x1", "3x3 same", "grouped"])
def test_double_precision(name: str, target: Target) -> None:
    """The same kernels serve fp64."""
    replace(SHAPES[name], dtype=f64, epilogue="bias_clip").check(target)


@pytest.mark.parametrize("bias", [False, True])
def test_bias_is_optional(bias: bool, target: Target) -> None:
    """Without a bias the sums begin at zero."""
    Case(16, 24, (6, 6), (3, 3), pads=SAME, bias=bias).check(target)


def test_the_loop_over_blocks_of_channels_multiplies_no_strides(target: Target) -> None:
    """It advances what it reads, so that few scalar instructions stand between multiply-adds."""
    calls, _ = lower_graph(Case(32, 48, (7, 7), (1, 1)).graph(target)[0], target)
    (spec,) = [call.spec for call in calls if isinstance(call.spec, DirectConvSpec)]
    bodies = re.findall(r"^channels\.body.*?^channel\.loop", emit_ir(spec, target), re.MULTILINE | re.DOTALL)
    assert bodies
    assert not any(re.search(r" mul nsw i64 %\S+, %", body) for body in bodies)
