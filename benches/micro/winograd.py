"""Winograd against direct convolution, layer by layer, on one core, taking turns in one process.

python -m benches.micro.winograd [--isa ISA] [--rounds N] [--cuts N] [LAYER...]

A layer is CHANNELSxSIZExOUTPUTS or CHANNELSxSIZExOUTPUTSxIMAGES, and with k1x7 and the like at its end of another
kernel than 3x3. Prints the best times with everything still in
the caches (warm), and with nothing but the input there (cold), as inside a model whose weights exceed them. With
--cuts, the N best cuts by the cost model instead of the one it chooses.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from benches.micro.kernel_timer import aligned

from weft.codegen import jit
from weft.codegen import target as targets
from weft.dtypes import f32
from weft.graph.graph import Graph
from weft.graph.layout import Blocked, physical_shape
from weft.graph.value import Value
from weft.passes.lower.base import LowerContext
from weft.passes.lower.conv_blocked import lower_direct
from weft.passes.lower.conv_shape import ConvShape
from weft.passes.lower.conv_winograd import winograd_calls
from weft.passes.lower.conv_winograd_cost import choose_cut, direct_cost, rating
from weft.passes.lower.conv_winograd_cut import Cut, cuts
from weft.plan.call import Call
from weft.plan.target import Target

LAYERS = (
    *("64x56x64", "128x28x128", "256x14x256", "512x7x512", "16x55x64", "32x27x128", "48x13x192", "64x13x256"),
    *("64x56x192", "96x28x128", "128x28x192", "112x14x224", "160x14x320", "192x7x384", "16x28x32", "64x224x64"),
    *("128x112x128", "256x56x256", "512x28x512", "512x14x512", "64x56x64x8", "256x14x256x8"),
    *(
        "192x17x192k1x7",
        "192x17x192k7x1",
        "128x17x128k1x7",
        "384x8x384k1x3",
        "384x8x384k3x1",
        "48x35x64k5x5",
        "32x14x64k5x5",
    ),
)
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
_CACHE_BYTES = 64 << 20

Array = np.ndarray[Any, Any]


class Steps:
    """Compiled calls, ready to run one after another on arrays of `memory` (shared by name of the value)."""

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
            args = (ctypes.c_int64 * len(call.args))(*call.args)
            scratch = aligned((call.scratch + 64,), np.uint8)
            self._kept += [pointers, args, scratch]
            kernel = _KERNEL(self._library.addresses[call.spec])
            addresses = ctypes.addressof(pointers), ctypes.addressof(args), scratch.ctypes.data
            self._steps.append((kernel, addresses, call.chunks))
        self._best: dict[tuple[int, int], int] = {}

    def run(self) -> float:
        """Run everything once; the time in us."""
        start = begin = time.perf_counter_ns()
        for number, (kernel, (pointers, args, scratch), chunks) in enumerate(self._steps):
            for chunk in range(chunks):
                kernel(pointers, args, chunk, scratch)
                end = time.perf_counter_ns()
                self._best[number, chunk] = min(end - begin, self._best.get((number, chunk), end - begin))
                begin = end
        return (begin - start) / 1e3

    def best_chunks(self) -> float:
        """The sum over chunks of the least time of each, in us: short pieces, to slip through other load."""
        return sum(self._best.values()) / 1e3


def layer_graph(shape: ConvShape, target: Target) -> Graph:
    """One convolution with bias between blocked values."""
    rng = np.random.default_rng(0)
    graph = Graph()
    x = graph.input("x", f32, (shape.images, shape.channels, *shape.size))
    w = graph.constant(rng.standard_normal((shape.outputs, shape.channels, *shape.kernel), dtype=np.float32), "w")
    bias = graph.constant(rng.standard_normal(shape.outputs, dtype=np.float32), "bias")
    out = graph.value("out", f32, (shape.images, shape.outputs, *shape.out_size))
    x.layout = out.layout = Blocked(target.lanes(f32))
    attrs = {"strides": (1, 1), "pads": shape.pads * 2, "dilations": (1, 1), "groups": 1}
    graph.add("conv", [x, w, bias], attrs, outputs=[out])
    graph.outputs = [out]
    return graph


def measure(layer: str, target: Target, rounds: int, count: int) -> None:
    """Print one line for direct convolution of `layer`, and one for each cut."""
    numbers, _, kernel = layer.partition("k")
    channels, size, outputs, images = (*(int(number) for number in numbers.split("x")), 1)[:4]
    down, across = (int(taps) for taps in (kernel or "3x3").split("x"))
    shape = ConvShape(
        images=images,
        channels=channels,
        size=(size, size),
        outputs=outputs,
        out_size=(size, size),
        kernel=(down, across),
        strides=(1, 1),
        dilations=(1, 1),
        pads=(down // 2, across // 2),
        groups=1,
    )
    graph = layer_graph(shape, target)
    node, x, out = graph.nodes[0], graph.inputs[0], graph.outputs[0]
    ctx = LowerContext(graph, target)
    memory = {x: aligned(physical_shape(x.static_shape, x.layout), np.float32)}
    memory[x][...] = np.random.default_rng(1).standard_normal(memory[x].shape, dtype=np.float32)
    if count:
        found: list[Cut | None] = [*sorted(cuts(shape, target), key=lambda cut: rating(cut, shape, target))[:count]]
    else:
        found = [choose_cut(shape, target)]
    ways = [cut for cut in found if cut is not None]
    lowered = [lower_direct(node, shape, ctx), *(winograd_calls(node, shape, cut, ctx) for cut in ways)]
    steps = [Steps(calls or (), memory, target) for calls in lowered]
    steps[0].run()
    reference = memory[out].copy()
    errors = [0.0]
    for step in steps[1:]:
        step.run()
        errors.append(float(np.linalg.norm(memory[out] - reference) / np.linalg.norm(reference)))
    junk = np.zeros(_CACHE_BYTES, np.uint8)
    warm, cold = [float("inf")] * len(steps), [float("inf")] * len(steps)
    for _ in range(rounds):
        for i, step in enumerate(steps):
            junk += 1
            memory[x].sum()
            cold[i] = min(cold[i], step.run())
            warm[i] = min(warm[i], step.run(), step.run())
    scale = cold[0] / direct_cost(shape, target)
    print(f"{layer:14s} direct {warm[0]:8.0f} us warm {cold[0]:8.0f} cold" + ("" if ways else "  chosen"))
    for i, cut in enumerate(ways, start=1):
        blocks = "+".join(f"{n}x{height}" for n, height in zip(cut.group.counts, cut.group.heights, strict=True))
        print(
            f"  F({cut.side[0]}x{cut.side[1]},{down}x{across}) {'fused' if cut.fused else 'apart'} {cut.group.vectors} x ({blocks}) "
            f"x {cut.tile_groups:3d} groups {warm[i]:8.0f} us = {warm[0] / warm[i]:.2f}x warm "
            f"{cold[i]:8.0f} us = {cold[0] / cold[i]:.2f}x cold  predicted {scale * rating(cut, shape, target):6.0f} us"
            f"  differs by {errors[i]:.1e}",
            flush=True,
        )


def main() -> None:
    """Measure the layers given, or a choice of usual ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", default=LAYERS)
    parser.add_argument("--isa", default=targets.best_isa())
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--cuts", type=int, default=0)
    options = parser.parse_args()
    target = targets.for_isa(options.isa)
    for layer in options.layers:
        measure(layer, target, options.rounds, options.cuts)


if __name__ == "__main__":
    main()
