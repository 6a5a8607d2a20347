"""Channels picked from blocked values, on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_graph

from treadle.dtypes import DType, f32, f64
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.passes.lower.pick_channels import can_pick
from treadle.plan.kernels.pick_channels import Picks
from treadle.plan.target import Target

PICKS: dict[str, tuple[tuple[int, ...], Picks]] = {
    "as it is": ((32,), tuple((0, c) for c in range(32))),
    "reversed, the last block short": ((37,), tuple((0, 36 - c) for c in range(37))),
    "two interleaved from the middle": ((58, 58), tuple((i, 29 + c) for c in range(29) for i in (0, 1))),
    "one end behind another": ((21, 35), (*((0, c) for c in range(21)), *((1, c) for c in range(35)))),
    "every channel from another block": (
        (16, 40, 200),
        tuple((c % 3, 7 * c % (16, 40, 200)[c % 3]) for c in range(50)),
    ),
    "the same channel again": ((3,), ((0, 1),) * 18),
}


def blocked(target: Target, shapes: list[tuple[int, ...]], picks: Picks, dtype: DType) -> Graph:
    """Inputs of `shapes` in blocks, channels picked from them, and the result row-major."""
    graph, layout = Graph(), Blocked(target.lanes(dtype))
    operands = []
    for number, shape in enumerate(shapes):
        moved = graph.value(f"moved{number}", dtype, shape)
        moved.layout = layout
        graph.add("reorder", [graph.input(f"x{number}", dtype, shape)], outputs=[moved])
        operands.append(moved)
    images, _, *places = shapes[0]
    picked = graph.value("picked", dtype, (images, len(picks), *places))
    picked.layout = layout
    graph.add("pick_channels", operands, {"picks": picks}, outputs=[picked])
    out = graph.value("out", dtype, picked.shape)
    graph.add("reorder", [picked], outputs=[out])
    graph.outputs = [out]
    return graph


@pytest.mark.parametrize("dtype", [f32, f64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", PICKS)
def test_every_channel_is_the_one_picked(name: str, dtype: DType, target: Target) -> None:
    """Whole blocks, short ones, images behind each other: the bits of the channels picked, in any order of chunks."""
    channels, picks = PICKS[name]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((2, count, 5, 9)).astype(dtype.numpy) for count in channels]
    graph = blocked(target, [array.shape for array in arrays], picks, dtype)
    expected = np.stack([arrays[i][:, c] for i, c in picks], axis=1)
    for reverse in (False, True):
        given = {f"x{number}": array for number, array in enumerate(arrays)}
        (found,) = run_graph(graph, given, target=target, reverse_chunks=reverse).values()
        np.testing.assert_array_equal(found, expected)


def test_it_is_one_call(target: Target) -> None:
    """Large images are several chunks of one call."""
    _, picks = PICKS["two interleaved from the middle"]
    calls, _ = lower_graph(blocked(target, [(1, 58, 56, 56)] * 2, picks, f32), target, "exact")
    (call,) = [call for call in calls if call.op == "pick_channels"]
    assert call.spec is not None, "blocked values have a kernel"
    assert call.chunks > 1


def test_code_does_not_grow_without_bounds() -> None:
    """Picks that would take hundreds of reads a pixel have no kernel."""
    assert can_pick(tuple((0, c) for c in range(1024)), 16)
    assert not can_pick(tuple((0, 16 * c % 4093) for c in range(1024)), 16)
    assert not can_pick((), 16)
