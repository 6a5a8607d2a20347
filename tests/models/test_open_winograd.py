"""Winograd's algorithm for open sizes: every method computes images of all small sizes, at the borders of tiles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.lib.stride_tricks import sliding_window_view
from onnx import helper

import treadle
from tests.machines import MACHINES
from tests.models.test_open_ops import Case
from treadle.cli.commands.inspect import inspect
from treadle.codegen import target as targets
from treadle.graph.facts import Facts
from treadle.graph.guard import evaluate
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.winograd import lower
from treadle.passes.lower.conv.winograd.cost import tiling_of
from treadle.passes.lower.conv.winograd.tiling import ALGORITHMS, Method, methods
from treadle.passes.lower.conv.winograd.variants import choose_variants, variant_cost
from treadle.passes.lower.searches import FUNCTIONS
from treadle.plan.bound import bound_call

Array = np.ndarray[Any, Any]

CHANNELS, OUTPUTS = 20, 36
"""Neither fills whole vectors."""


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile their model themselves."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")


def weights(*shape: int) -> Array:
    """Returns seeded weights."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def convolution(
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    channels: int = CHANNELS,
    outputs: int = OUTPUTS,
) -> Case:
    """Returns a convolution of images of open sizes, with a bias and an activation."""
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c"], pads=list(pads), strides=list(strides)),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    constants = {"w0": weights(outputs, channels, *kernel), "b0": weights(outputs)}
    return Case(nodes, {"x": ["b", channels, "h", "w"]}, constants)


def expected(x: Array, case: Case, strides: Sequence[int], pads: Sequence[int]) -> Array:
    """Returns the result in float64."""
    w, bias = (case.constants[name].astype(np.float64) for name in ("w0", "b0"))
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    windows = sliding_window_view(padded, w.shape[2:], axis=(2, 3))[:, :, :: strides[0], :: strides[1]]
    sums = np.einsum("bchwij,mcij->bmhw", windows, w, optimize=True) + bias[:, None, None]
    return np.maximum(sums, 0.0)


def shape_of(
    kernel: tuple[int, int], strides: tuple[int, int], hint: int, channels: int = CHANNELS, outputs: int = OUTPUTS
) -> ConvShape:
    """Returns a padded convolution of an open height and width."""
    facts = Facts()
    down, across = facts.symbol("h", hint), facts.symbol("w", hint)
    pads = kernel[0] // 2, kernel[1] // 2
    size = down * strides[0], across * strides[1]
    return ConvShape(1, channels, size, outputs, (down, across), kernel, strides, (1, 1), pads, 1)


def kinds_of(kernel: tuple[int, int], strides: tuple[int, int]) -> list[Method]:
    """Returns a method of each set of points and each way to transform tiles and weights, of all widths in turn."""
    found: dict[Any, list[Method]] = {}
    for method in methods(shape_of(kernel, strides, 30), targets.detect(), is_open=True):
        found.setdefault((method.points, method.fused, method.section_blocks > 0), []).append(method)
    return [each[number % len(each)] for number, each in enumerate(found.values())]


@pytest.mark.parametrize(("kernel", "strides"), ALGORITHMS)
def test_methods_compute_images_of_all_small_sizes(
    kernel: tuple[int, int], strides: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One plan serves all, with the same bits on one thread and on two.

    Each height and each width comes once a method.
    """
    for number, method in enumerate(kinds_of(kernel, strides)):
        monkeypatch.setattr(lower, "choose_variants", lambda *_, method=method, **__: (method,))
        pads = [kernel[0] // 2, kernel[1] // 2] * 2 if number % 2 == 0 else [0, kernel[1] - 1, kernel[0] - 1, 0]
        case = convolution(kernel, strides, pads)
        session = treadle.Session(case.model())
        assert session.why_per_size() is None
        (plan,) = session.open_plans()
        assert "conv_winograd" in {call.spec.family for call in plan.plan.calls if call.spec is not None}
        for height in range(1, 21):
            width = 1 + (7 * height + 3 * number) % 20
            feeds = case.feeds({"b": 1 + height % 2, "h": height, "w": width})
            if height + pads[0] + pads[2] < kernel[0] or width + pads[1] + pads[3] < kernel[1]:
                continue
            found, shared = (session.run(feeds, intra_op=threads)["y"] for threads in (1, 2))
            np.testing.assert_array_equal(shared, found)
            wanted = expected(feeds["x"], case, strides, pads)
            scale = float(np.abs(wanted).max()) + 1.0
            np.testing.assert_allclose(found, wanted, atol=3e-5 * scale, rtol=0, err_msg=f"{height}x{width} {method}")
        assert session.compiles == 1


LAYERS = [
    ((3, 3), (1, 1), 100, 16, 32),
    ((3, 3), (1, 1), 25, 64, 64),
    ((3, 3), (1, 1), 13, 128, 128),
    ((3, 3), (1, 1), 4, 512, 512),
    ((3, 3), (2, 2), 25, 64, 128),
    ((5, 5), (1, 1), 25, 64, 64),
    ((1, 7), (1, 1), 17, 192, 192),
]
"""Kernel, strides, sample of the height and width, channels and outputs."""


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("streamed", [False, True])
def test_two_variants_are_nearly_as_fast_as_the_best_of_each_size(
    layer: tuple[tuple[int, int], tuple[int, int], int, int, int], machine: str, streamed: bool
) -> None:
    """By the cost model, for images of half of the sample's size to many times of it. Nothing is assumed."""
    kernel, strides, hint, channels, outputs = layer
    target = MACHINES[machine].description()
    shape = shape_of(kernel, strides, hint, channels, outputs)
    variants = choose_variants(shape, target, 2, streamed=streamed)
    assert 1 <= len(set(variants)) == len(variants) <= 2
    assert not shape.size[0].rules.guards  # type: ignore[attr-defined]

    def cost(way: Method | None, size: int) -> float:
        tiling = None if way is None else tiling_of(way, shape, target, streamed=streamed)
        found = variant_cost(tiling, shape, target, streamed=streamed)
        return float(evaluate(found, {"h": size, "w": size}, FUNCTIONS))

    lost = []
    for size in (hint // 2, hint, 3 * hint, 10 * hint):
        best = min(cost(way, size) for way in (None, *methods(shape, target, is_open=True)))
        lost.append(min(cost(way, size) for way in variants) / best - 1.0)
    assert sum(lost) / len(lost) <= 0.2


def test_bounds_leave_out_direct_convolution() -> None:
    """Where images are known to be large, no weights are packed for small ones."""
    target = MACHINES["avx2"].description()
    small = shape_of((3, 3), (2, 2), 4, 256, 512)
    facts = Facts()
    height, width = (facts.symbol(name, 50, least=40, most=200) for name in ("h", "w"))
    large = replace(small, size=(height * 2, width * 2), out_size=(height, width))
    assert None in choose_variants(small, target, 2)
    assert None not in choose_variants(large, target, 2)


@pytest.mark.parametrize(("kernel", "strides"), [((1, 1), (1, 1)), ((3, 3), (3, 3)), ((7, 7), (1, 1))])
def test_kernels_without_an_algorithm_have_one_variant(kernel: tuple[int, int], strides: tuple[int, int]) -> None:
    """They are sums of products at every size."""
    target = MACHINES["avx512"].description()
    assert choose_variants(shape_of(kernel, strides, 30), target, 2) == (None,)


def test_open_numbers_of_images_have_variants() -> None:
    """The number of tiles is open too if images are of one size."""
    target = MACHINES["avx2"].description()
    images = Facts().symbol("b", 8)
    shape = ConvShape(images, 64, (56, 56), 64, (56, 56), (3, 3), (1, 1), (1, 1), (1, 1), 1)
    assert None not in choose_variants(shape, target, 2)


def test_binding_takes_direct_convolution_for_small_images_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One plan holds both algorithms. At each size all chunks are of one, and the results are those of known sizes.

    The tiles of the other one take no memory.
    """
    monkeypatch.setattr(lower, "choose_variants", lambda shape, *_, **__: (f4_of(shape), None))
    case = convolution((3, 3), (1, 1), (1, 1, 1, 1), channels=96, outputs=64)
    session = treadle.Session(case.model())
    (plan,) = session.open_plans()
    (tiles,) = (
        call.writes[0] for call in plan.plan.calls if call.spec is not None and call.spec.family == "winograd_input"
    )
    taken = {}
    for size in (1, 2, 3, 5, 8, 13, 24, 40):
        sizes = {"b": 1, "h": size, "w": size + 1}
        calls = [bound_call(call, sizes, FUNCTIONS) for call in plan.plan.calls if call.variant]
        at_work = {call.variant.name for call in calls if call.variant is not None and call.chunks}
        assert len(at_work) == 1
        assert all(call.cost == 0 for call in calls if not call.chunks)
        room = evaluate(plan.plan.buffers[plan.plan.places[tiles].buffer].size, sizes, FUNCTIONS)
        assert (room > 0) == (at_work != {"direct"})
        (taken[size],) = at_work
        feeds = case.feeds(sizes)
        found, shared = (session.run(feeds, intra_op=threads)["y"] for threads in (1, 2))
        np.testing.assert_array_equal(shared, found)
        wanted = expected(feeds["x"], case, (1, 1), (1, 1, 1, 1))
        np.testing.assert_allclose(found, wanted, atol=3e-5 * (float(np.abs(wanted).max()) + 1.0), rtol=0)
    assert taken[1] != taken[40]
    assert session.compiles == 1


@pytest.mark.parametrize("machine", ["avx2", "generic"])
def test_variants_of_two_tiles_have_the_same_weights(machine: str) -> None:
    """Where binding chooses between tiles of 2 x 2 and of 4 x 4, the weights of both take the memory of one."""
    two, four = choose_variants(shape_of((3, 3), (1, 1), 12, 256, 256), MACHINES[machine].description(), 2)
    assert two is not None
    assert four is not None
    assert (two.side, four.side) == ((2, 2), (4, 4))
    assert two.weight_points == four.weight_points == four.points


def test_weights_of_two_tiles_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of both variants read one constant, and results are right for tiles of either size."""

    def both(shape: ConvShape, *_: object, **__: object) -> tuple[Method, Method]:
        four = method_of(shape, (4, 4))
        return method_of(shape, (2, 2)).with_weights_of(four), four

    monkeypatch.setattr(lower, "choose_variants", both)
    case = convolution((3, 3), (1, 1), (1, 1, 1, 1), channels=96, outputs=64)
    session = treadle.Session(case.model())
    (plan,) = session.open_plans()
    products = [call for call in plan.plan.calls if call.spec is not None and call.spec.family == "conv_winograd"]
    assert len(products) == 2
    assert len({value for call in products for value in call.reads if value.is_constant and value.shape[0] > 64}) == 1
    taken = set()
    for height in range(1, 14):
        sizes = {"b": 1, "h": height, "w": 3 * height}
        calls = [bound_call(call, sizes, FUNCTIONS) for call in products]
        taken.update(call.variant.name for call in calls if call.variant is not None and call.chunks)
        feeds = case.feeds(sizes)
        found, shared = (session.run(feeds, intra_op=threads)["y"] for threads in (1, 2))
        np.testing.assert_array_equal(shared, found)
        wanted = expected(feeds["x"], case, (1, 1), (1, 1, 1, 1))
        np.testing.assert_allclose(found, wanted, atol=3e-5 * (float(np.abs(wanted).max()) + 1.0), rtol=0)
    assert len(taken) == 2


def test_sizes_without_results_take_no_variant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The plan does not serve images that are lower than the kernel, so inspect leaves them out."""
    monkeypatch.setattr(lower, "choose_variants", lambda shape, *_, **__: (f4_of(shape), None))
    path = tmp_path / "model.onnx"
    path.write_bytes(convolution((3, 3), (1, 1), (0, 1, 0, 1), channels=96, outputs=64).model())
    printed = CliRunner().invoke(inspect, [str(path), "--json"], catch_exceptions=False).output
    (variant,) = json.loads(printed)["open_plans"][0]["variants"]
    assert variant["ranges"]
    assert all(found[0][0] == (4 if dim == "h" else 1) for dim, found in variant["ranges"].items())


def f4_of(shape: ConvShape) -> Method:
    """Returns a method of the largest tiles whose input is transformed before."""
    return method_of(shape, (4, 4))


def method_of(shape: ConvShape, side: tuple[int, int]) -> Method:
    """Returns a method of tiles of `side` whose input is transformed before."""
    found = list(methods(shape, targets.detect(), is_open=True))
    return next(way for way in found if way.side == side and not way.fused and not way.section_blocks)
