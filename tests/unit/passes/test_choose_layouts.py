"""Which values choose_layouts stores blocked, and where it reorders."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.unit.passes.conftest import TARGET, Writer

from treadle.dtypes import f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.choose_layouts import ChooseLayouts
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.conv.lower import lower_conv

C4 = Blocked(4)
POOL = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": False}


def relu(operands: int = 1) -> Expr:
    """The sum of the operands, clamped at zero."""
    steps = [Step("add", (0 if i == 0 else operands + i - 1, i + 1), f32) for i in range(operands - 1)]
    steps.append(Step("relu", (0 if operands == 1 else 2 * operands - 2,), f32))
    return Expr((f32,) * operands, tuple(steps), (operands + len(steps) - 1,))


def elementwise(w: Writer, *operands: Value) -> Value:
    return w.op("elementwise", *operands, expr=relu(len(operands)))


def chosen(graph: Graph) -> Graph:
    ChooseLayouts().run(graph, PassContext(TARGET))
    for node in graph.nodes:
        if node.op == "conv":
            assert lower_conv(node, LowerContext(graph, TARGET)) is not None, f"{node!r} has no kernel"
    return graph


def count(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def test_a_network_is_blocked_from_its_first_convolution_to_its_pooled_end() -> None:
    """The image is read as it is, the mean reads blocked and writes row-major: no reorder at all."""
    w = Writer()
    x = w.input(1, 3, 8, 8)
    a = w.conv(x, (3, 8), size=3)
    b = elementwise(w, a)
    c = w.op("max_pool", b, **POOL)
    d = w.conv(c, (8, 16))
    e = w.conv(c, (8, 12))
    f = w.op("concat", d, e, axis=1)
    g = w.op("reduce_mean", f, axes=(2, 3), keepdims=True)
    graph = chosen(w.done(w.op("reshape", g, w.ints(1, 28), allowzero=False)))
    assert [value.layout for value in (x, a, b, c, d, e, f, g)] == [None, C4, C4, C4, C4, C4, C4, None]
    assert "reorder" not in count(graph)


@pytest.mark.parametrize(("outputs", "width", "is_few"), [(1, 32, True), (2, 32, False), (1, 6, False)])
def test_few_outputs_are_row_major_and_their_input_is_blocked(outputs: int, width: int, is_few: bool) -> None:
    """Blocks of channels would be mostly empty; rows shorter than two vectors have no block of pixels."""
    w = Writer()
    x = w.input(1, 3, 8, width)
    a = w.conv(x, (3, 8), size=3)
    out = w.conv(a, (8, outputs), size=3)
    graph = chosen(w.done(out))
    assert a.layout == C4
    assert [node.op for node in graph.nodes] == (["conv", "conv"] if is_few else ["conv", "conv", "reorder"])


def test_few_outputs_of_a_row_major_input_are_blocked() -> None:
    """To reorder the input would take longer than the rest."""
    w = Writer()
    out = w.conv(w.input(1, 3, 8, 32), (3, 1), size=3)
    assert [node.op for node in chosen(w.done(out)).nodes] == ["conv", "reorder"]


def test_graph_outputs_are_row_major_under_their_own_name() -> None:
    """A blocked result that the graph returns is reordered into the value of that name."""
    w = Writer()
    out = w.conv(w.input(1, 3, 8, 8), (3, 8))
    graph = chosen(w.done(out))
    assert graph.outputs == [out]
    assert out.layout is None
    assert [node.op for node in graph.nodes] == ["conv", "reorder"]


def test_an_input_of_many_channels_is_reordered_once_for_all_readers() -> None:
    """Two convolutions share the blocked copy."""
    w = Writer()
    x = w.input(1, 24, 8, 8)
    out = w.op("reduce_mean", elementwise(w, w.conv(x, (24, 8)), w.conv(x, (24, 8))), axes=(2, 3), keepdims=False)
    assert count(chosen(w.done(out)))["reorder"] == 1


def test_a_row_major_reader_gets_a_row_major_copy() -> None:
    """A reshape of a feature map ends the blocked region; the other reader stays in it."""
    w = Writer()
    a = w.conv(w.input(1, 3, 4, 4), (3, 8))
    flat = w.op("reshape", a, w.ints(1, 128), allowzero=False)
    mean = w.op("reduce_mean", w.conv(a, (8, 8)), axes=(2, 3), keepdims=False)
    graph = chosen(w.done(flat, mean))
    assert count(graph)["reorder"] == 1
    assert flat.producer is not None
    assert flat.producer.operand(0).layout is None


def test_a_residual_in_an_epilogue_is_blocked_like_the_result() -> None:
    """The second operand of the sum comes from another convolution: no reorder between them."""
    w = Writer()
    first = w.conv(w.input(1, 3, 4, 4), (3, 8))
    weights = w.weights(8, 8, 1, 1)
    attrs = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "groups": 1, "epilogue": relu(2)}
    second = w.op("conv", first, weights, None, first, **attrs)
    graph = chosen(w.done(w.op("reduce_mean", second, axes=(2, 3), keepdims=False)))
    assert second.layout == C4
    assert "reorder" not in count(graph)


def test_an_epilogue_that_kernels_cannot_read_becomes_a_node_of_its_own() -> None:
    """An operand with one element a pixel is read by an elementwise kernel instead."""
    w = Writer()
    x, mask = w.input(1, 3, 4, 4), w.input(1, 1, 4, 4, name="mask")
    attrs = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "groups": 1, "epilogue": relu(2)}
    out = w.op("conv", x, w.weights(8, 3, 1, 1), None, mask, **attrs)
    graph = chosen(w.done(out))
    assert [node.op for node in graph.nodes] == ["conv", "elementwise", "reorder"]
    assert graph.outputs == [out]


def test_channels_that_do_not_fill_blocks_end_the_region_at_a_concat() -> None:
    """Only the last operand of a blocked concat may have spare lanes."""
    w = Writer()
    x = w.input(1, 3, 4, 4)
    graph = chosen(w.done(w.op("concat", w.conv(x, (3, 6)), w.conv(x, (3, 8)), axis=1)))
    assert count(graph)["reorder"] == 2


def _resized(mode: str, scales: tuple[float, ...], coordinates: str = "half_pixel") -> Graph:
    """A resize between two convolutions."""
    w = Writer()
    x = w.conv(w.input(1, 3, 4, 4), (3, 8))
    roi = w.constant([0.0] * 4 + [1.0] * 4) if coordinates == "tf_crop_and_resize" else None
    grown = w.op("resize", x, roi, w.constant(scales), mode=mode, coordinate_mode=coordinates)
    return chosen(w.done(w.conv(grown, (int(8 * scales[1]), 8))))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_resize_of_height_and_width_follows_its_operand(mode: str) -> None:
    """A pyramid of levels stays blocked; the scales are no image, and stay as they are."""
    graph = _resized(mode, (1.0, 1.0, 2.0, 1.5))
    assert [node.op for node in graph.nodes] == ["conv", "resize", "conv", "reorder"]
    assert graph.nodes[1].output.layout == C4
    assert graph.nodes[1].operand(2).layout is None


@pytest.mark.parametrize(
    "graph",
    [_resized("nearest", (1.0, 2.0, 1.0, 1.0)), _resized("linear", (1.0, 1.0, 2.0, 2.0), "tf_crop_and_resize")],
    ids=["channels", "crops"],
)
def test_a_resize_without_blocked_kernel_is_row_major(graph: Graph) -> None:
    """More channels, and positions outside of the image."""
    assert [node.op for node in graph.nodes][:3] == ["conv", "reorder", "resize"]
    assert graph.nodes[2].output.layout is None


@pytest.mark.parametrize(("given", "channels"), [(32, 8), (32, 6), (16, 4), (24, 6)])
def test_a_spread_of_parts_that_fill_blocks_follows_its_operand(given: int, channels: int) -> None:
    """The blocks here have 4 channels: 24 are in parts of 6."""
    w = Writer()
    x = w.conv(w.input(1, 3, 4, 4), (3, given))
    spread = w.op("spread", x, strides=(2, 2), channels=channels, begins=(0, 0), ends=(0, 0))
    graph = chosen(w.done(w.conv(spread, (channels, 8))))
    between = [] if given % 16 == 0 else ["reorder"]
    assert [node.op for node in graph.nodes][: 3 + 2 * len(between)] == ["conv", *between, "spread", *between, "conv"]


def test_convolutions_without_blocked_kernel_stay_row_major() -> None:
    """Computed weights, and groups of odd width, are served by the plain kernel."""
    w = Writer()
    attrs: dict[str, Any] = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    computed = w.op("conv", w.input(1, 3, 4, 4), w.input(8, 3, 1, 1, name="w"), None, groups=1, **attrs)
    odd = w.op("conv", w.input(1, 9, 4, 4, name="y"), w.weights(6, 3, 1, 1), None, groups=3, **attrs)
    graph = chosen(w.done(computed, odd))
    assert "reorder" not in count(graph)
    assert computed.layout is None
    assert odd.layout is None


def test_squeeze_and_excite_reads_single_pixels_as_they_are() -> None:
    """The gate's convolution works on one pixel: it reads the row-major mean, and the product its blocked result."""
    w = Writer()
    a = w.conv(w.input(1, 3, 4, 4), (3, 8))
    mean = w.op("reduce_mean", a, axes=(2, 3), keepdims=True)
    gate = w.conv(mean, (8, 8))
    graph = chosen(w.done(w.op("reduce_mean", elementwise(w, a, gate), axes=(2, 3), keepdims=True)))
    assert "reorder" not in count(graph)
    assert gate.layout == C4
    assert mean.layout is None
