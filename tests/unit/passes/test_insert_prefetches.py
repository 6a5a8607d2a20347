"""Weights that earlier kernels prefetch."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_calls, run_graph

from treadle.dtypes import DType, f32, f64
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.value import Value
from treadle.passes.insert_prefetches import LEAST_BYTES, insert_prefetches
from treadle.passes.lower.base import nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.conv.direct import DirectConvArgs, DirectConvSpec, PrefetchArgs
from treadle.plan.target import Target

POINTWISE = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}


def chain(
    target: Target, channels: tuple[int, ...], size: int = 7, images: int = 1, dtype: DType = f32
) -> tuple[Graph, np.ndarray]:
    """1x1 convolutions behind each other, from each number of channels to the next, and an input."""
    rng, graph = np.random.default_rng(5), Graph()
    lanes = target.lanes(dtype)
    x = rng.standard_normal((images, channels[0], size, size)).astype(dtype.numpy)
    value = _blocked(graph, graph.input("x", dtype, x.shape), "reorder", lanes)
    for inner, outer in pairwise(channels):
        weights = graph.constant(rng.standard_normal((outer, inner, 1, 1)).astype(dtype.numpy) / inner, "w")
        value = _blocked(graph, value, "conv", lanes, weights, outer)
    out = graph.value("out", dtype, value.shape)
    graph.add("reorder", [value], outputs=[out])
    graph.outputs = [out]
    return graph, x


def _blocked(
    graph: Graph, x: Value, op: str, lanes: int, weights: Value | None = None, outputs: int | None = None
) -> Value:
    images, channels, *size = x.static_shape
    made = graph.value(op, x.dtype, (images, outputs or channels, *size))
    made.layout = Blocked(lanes)
    graph.add(op, [x] if weights is None else [x, weights, None], {} if weights is None else POINTWISE, outputs=[made])
    return made


def planned(target: Target, channels: tuple[int, ...], size: int = 7, images: int = 1) -> list[Call]:
    """The convolutions of `chain` with the prefetches of a plan."""
    graph, _ = chain(target, channels, size, images)
    calls, _ = lower_graph(graph, target, "exact")
    insert_prefetches(calls, target)
    return [call for call in calls if call.op == "conv"]


def prefetches(call: Call) -> bool:
    """Whether the call prefetches what a later one reads."""
    assert isinstance(call.spec, DirectConvSpec)
    return call.spec.prefetches_constant


def test_the_call_before_prefetches_all_of_the_weights(target: Target) -> None:
    """The parts of all channels of all blocks cover the weights, and a turn's lines cover its part."""
    first, second = planned(target, (256, 256, 256))
    assert [prefetches(first), prefetches(second)] == [True, False]
    spec, args = first.spec, first.args
    assert isinstance(spec, DirectConvSpec)
    assert isinstance(args, DirectConvArgs)
    assert isinstance(args.prefetch, PrefetchArgs)
    assert first.reads[-1] is second.reads[1]
    channels = args.images * args.units * args.groups * args.channels
    assert channels * args.prefetch.channel_bytes >= nbytes(second.reads[1]) >= LEAST_BYTES
    assert args.prefetch.turn_lines * 64 >= args.prefetch.channel_bytes * spec.unroll


def test_small_weights_are_not_prefetched(target: Target) -> None:
    """Weights of less than 64 KiB are left to the kernel that reads them."""
    assert not any(prefetches(call) for call in planned(target, (64, 64, 96)))


def test_long_calls_do_not_prefetch_little(target: Target) -> None:
    """A call that would lose more time than the prefetch saves does not prefetch."""
    assert not any(prefetches(call) for call in planned(target, (64, 64, 512), size=56))


def test_a_call_prefetches_one_constant(target: Target) -> None:
    """Each of three convolutions prefetches the weights of the next, except the last."""
    calls = planned(target, (256, 256, 256, 256))
    assert [prefetches(call) for call in calls] == [True, True, False]
    assert calls[0].reads[-1] is calls[1].reads[1]
    assert calls[1].reads[-1] is calls[2].reads[1]


@pytest.mark.parametrize(("images", "dtype"), [(1, f32), (3, f32), (1, f64)])
def test_prefetches_change_no_result(target: Target, images: int, dtype: DType) -> None:
    """Kernels that prefetch give the same bits as those that do not, in any order of chunks."""
    graph, x = chain(target, (80, 72, 520, 100), 7, images, dtype)
    (plain,) = run_graph(graph, {"x": x}, target=target, math="exact").values()
    graph, x = chain(target, (80, 72, 520, 100), 7, images, dtype)
    calls, ctx = lower_graph(graph, target, "exact")
    insert_prefetches(calls, target)
    assert any(call.op == "conv" and prefetches(call) for call in calls)
    for reverse in (False, True):
        (found,) = run_calls(graph, calls, ctx, {"x": x}, target=target, reverse_chunks=reverse).values()
        np.testing.assert_array_equal(found, plain)
