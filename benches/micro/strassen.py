"""Strassen's algorithm against direct pointwise convolution, layer by layer, on one core, taking turns in one process.

python -m benches.micro.strassen [--isa ISA] [--seconds S] [LAYER...]

A layer is CHANNELSxSIZExOUTPUTS or CHANNELSxSIZExOUTPUTSxIMAGES. Prints the sums over chunks of the best times of direct
convolution and of the best cuts into tiles of 2 and of 4 pixels by the cost model, which marks the one it takes, if any.
Everything is in the caches as far as it fits: what weights from memory cost shows in whole models only.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from benches.micro.kernel_timer import aligned
from benches.micro.winograd import Steps, layer_graph

from weft.codegen import target as targets
from weft.graph.layout import physical_shape
from weft.passes.lower.base import LowerContext
from weft.passes.lower.conv_blocked import lower_direct
from weft.passes.lower.conv_shape import ConvShape
from weft.passes.lower.conv_strassen import strassen_calls
from weft.passes.lower.conv_strassen_cut import SIDES, choose_cut, cuts, direct_cost, rating
from weft.plan.target import Target

LAYERS = (
    *("256x56x256", "256x56x128", "128x56x256", "64x56x256", "512x28x256", "256x28x512", "512x28x128", "128x28x512"),
    *("192x28x384", "512x14x512", "1024x14x256", "256x14x1024", "1024x14x1024", "576x14x96", "1024x14x256x8"),
)


def measure(layer: str, target: Target, seconds: float) -> None:
    """Print a line for direct convolution of `layer` and for each size of tiles."""
    channels, size, outputs, images = (*(int(number) for number in layer.split("x")), 1)[:4]
    square = (size, size)
    shape = ConvShape(images, channels, square, outputs, square, (1, 1), (1, 1), (1, 1), (0, 0), 1)
    graph = layer_graph(shape, target)
    node, x = graph.nodes[0], graph.inputs[0]
    ctx = LowerContext(graph, target)
    memory = {x: aligned(physical_shape(x.static_shape, x.layout), np.float32)}
    memory[x][...] = np.random.default_rng(1).standard_normal(memory[x].shape, dtype=np.float32)
    ways = []
    for side in SIDES:
        of_side = [cut for cut in cuts(shape, target) if cut.side == side]
        ways += sorted(of_side, key=lambda cut: rating(cut, target))[:1]
    lowered = [lower_direct(node, shape, ctx), *(strassen_calls(node, shape, cut, ctx) for cut in ways)]
    steps = [Steps(calls or (), memory, target) for calls in lowered]
    end, turns = time.monotonic() + seconds * len(steps), 0
    while turns < 3 or time.monotonic() < end:
        turns += 1
        for step in steps:
            step.run()
    direct, *others = (step.best_chunks() for step in steps)
    chosen = choose_cut(shape, target)
    print(f"{layer:16s} direct {direct:8.0f} us")
    for cut, spent in zip(ways, others, strict=True):
        blocks = "+".join(f"{n}x{height}" for n, height in zip(cut.group.counts, cut.group.heights, strict=True))
        print(
            f"  {cut.side} pixels, {cut.group.vectors} x ({blocks}) x {cut.units:3d} groups {spent:8.0f} us = {direct / spent:.2f}x"
            f"  predicted, weights from memory: {direct_cost(shape, target) / rating(cut, target):.2f}x"
            + ("  chosen" if cut == chosen else ""),
            flush=True,
        )


def main() -> None:
    """Measure the layers given, or a choice of usual ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", default=LAYERS)
    parser.add_argument("--isa", default=targets.best_isa())
    parser.add_argument("--seconds", type=float, default=0.6)
    options = parser.parse_args()
    target = targets.for_isa(options.isa)
    for layer in options.layers:
        measure(layer, target, options.seconds)


if __name__ == "__main__":
    main()
