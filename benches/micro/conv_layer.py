"""One convolution between blocked values, whose kernels of different algorithms take turns on the same memory."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benches.micro.calls import KERNEL, Array, aligned
from treadle.codegen import jit
from treadle.dtypes import f32
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked, physical_shape
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.conv.direct.lower import lower_direct
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.tile_product import TileGroup
from treadle.plan.call import Call
from treadle.plan.target import Target


def layer_shape(name: str) -> ConvShape:
    """Parses CHANNELSxSIZExOUTPUTS or CHANNELSxSIZExOUTPUTSxIMAGES, a layer with a kernel of 3x3.

    SIZE is that of a square image, or HEIGHT:WIDTH. A suffix such as k1x7 gives another kernel, s2 at the end gives
    strides of 2. Padding keeps the input's size where strides are 1.
    """
    name, _, given = name.partition("s")
    stride = int(given or 1)
    numbers, _, other = name.partition("k")
    channels, given_size, outputs, *more = numbers.split("x")
    height, _, width = given_size.partition(":")
    size = int(height), int(width or height)
    down, across = (int(taps) for taps in other.split("x")) if other else (3, 3)
    return ConvShape(
        images=int(more[0]) if more else 1,
        channels=int(channels),
        size=size,
        outputs=int(outputs),
        out_size=(-(-size[0] // stride), -(-size[1] // stride)),
        kernel=(down, across),
        strides=(stride, stride),
        dilations=(1, 1),
        pads=(down // 2, across // 2),
        groups=1,
    )


def blocks_of(group: TileGroup) -> str:
    """The register blocks of `group` as text: vectors x (number x tiles + ...)."""
    kinds = (f"{count}x{height}" for count, height in zip(group.counts, group.heights, strict=True))
    return f"{group.vectors} x ({'+'.join(kinds)})"


class Steps:
    """Compiled calls that run one after another on arrays of `memory`, to which missing arrays are added."""

    def __init__(self, calls: Sequence[Call], memory: dict[Value, Array], target: Target) -> None:
        specs = {call.spec for call in calls if call.spec is not None}
        self._library = jit.Library([(spec, jit.compile_kernel(spec, target)) for spec in specs])
        self._kept: list[Any] = []
        self._steps = []
        for call in calls:
            assert call.spec is not None
            pointers = (ctypes.c_void_p * len((*call.writes, *call.reads)))()
            for number, value in enumerate((*call.writes, *call.reads)):
                if value not in memory:
                    memory[value] = aligned(physical_shape(value.static_shape, value.layout), np.float32)
                    if value.data is not None:
                        memory[value][...] = value.data
                pointers[number] = memory[value].ctypes.data
            args = (ctypes.c_int64 * len(call.packed_args))(*call.packed_args)
            scratch = aligned((call.scratch + 64,), np.uint8)
            self._kept += [pointers, args, scratch]
            kernel = KERNEL(self._library.addresses[call.spec])
            addresses = ctypes.addressof(pointers), ctypes.addressof(args), scratch.ctypes.data
            self._steps.append((kernel, addresses, call.chunks))

    def run(self) -> float:
        """Runs all calls once and returns the time in us."""
        start = time.perf_counter_ns()
        for kernel, (pointers, args, scratch), chunks in self._steps:
            for chunk in range(chunks):
                kernel(pointers, args, chunk, scratch)
        return (time.perf_counter_ns() - start) / 1e3


class Layer:
    """A convolution of random numbers with bias."""

    def __init__(self, shape: ConvShape, target: Target) -> None:
        rng = np.random.default_rng(0)
        graph = Graph()
        x = graph.input("x", f32, (shape.images, shape.channels, *shape.size))
        w = graph.constant(rng.standard_normal((shape.outputs, shape.channels, *shape.kernel), dtype=np.float32), "w")
        bias = graph.constant(rng.standard_normal(shape.outputs, dtype=np.float32), "bias")
        out = graph.value("out", f32, (shape.images, shape.outputs, *shape.out_size))
        x.layout = out.layout = Blocked(target.lanes(f32))
        attrs = {"strides": shape.strides, "pads": shape.pads * 2, "dilations": shape.dilations, "groups": 1}
        self.node = graph.add("conv", [x, w, bias], attrs, outputs=[out])
        graph.outputs = [out]
        self.ctx = LowerContext(graph, target)
        self.shape = shape
        self.input, self.output = (aligned(physical_shape(v.static_shape, v.layout), np.float32) for v in (x, out))
        self.input[...] = rng.standard_normal(self.input.shape, dtype=np.float32)
        self._memory = {x: self.input, out: self.output}

    def direct(self) -> Steps:
        """Compiles the direct convolution."""
        return self.steps(lower_direct(self.node, self.shape, self.ctx))

    def steps(self, calls: Sequence[Call] | None) -> Steps:
        """Compiles `calls`, which were lowered from the layer's node."""
        assert calls, "the kernels serve every layer without an epilogue"
        return Steps(calls, self._memory, self.ctx.target)
