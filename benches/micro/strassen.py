"""Strassen's algorithm against direct pointwise convolution, layer by layer, on one core, by turns in one process.

    python -m benches.micro.strassen [--isa ISA] [--seconds S] [LAYER...]

A layer is CHANNELSxSIZExOUTPUTS or CHANNELSxSIZExOUTPUTSxIMAGES. Prints the sums over chunks of the shortest times of
direct convolution and of the best tilings with tiles of 2 and of 4 pixels by the cost model, and marks the one that the
model chooses, if any. Operands are in the caches as far as they fit; only whole models show the cost of streamed
weights.
"""

from __future__ import annotations

import argparse
import time

from benches.micro.conv_layer import Layer, blocks_of, layer_shape
from treadle.codegen import target as targets
from treadle.passes.lower.conv.strassen.cost import choose_tiling, direct_cost, rating
from treadle.passes.lower.conv.strassen.lower import strassen_calls
from treadle.passes.lower.conv.strassen.tiling import tilings
from treadle.plan.kernels.conv.strassen import PRODUCTS
from treadle.plan.target import Target

LAYERS = (
    *("256x56x256", "256x56x128", "128x56x256", "64x56x256", "512x28x256", "256x28x512", "512x28x128", "128x28x512"),
    *("192x28x384", "512x14x512", "1024x14x256", "256x14x1024", "1024x14x1024", "576x14x96", "1024x14x256x8"),
)


def measure(name: str, target: Target, seconds: float) -> None:
    """Prints a line for direct convolution of the layer `name` and for each size of tiles."""
    shape = layer_shape(name, (1, 1))
    layer = Layer(shape, target)
    tried = []
    for side in PRODUCTS:
        of_side = [tiling for tiling in tilings(shape, target) if tiling.side == side]
        tried += sorted(of_side, key=lambda tiling: rating(tiling, target))[:1]
    algorithms = (strassen_calls(layer.node, shape, tiling, layer.ctx) for tiling in tried)
    steps = [layer.direct(), *map(layer.steps, algorithms)]
    end, turns = time.monotonic() + seconds * len(steps), 0
    while turns < 3 or time.monotonic() < end:
        turns += 1
        for step in steps:
            step.run()
    direct, *others = (step.best_chunks() for step in steps)
    chosen = choose_tiling(shape, target)
    print(f"{name:16s} direct {direct:8.0f} us")
    for tiling, spent in zip(tried, others, strict=True):
        predicted = direct_cost(shape, target) / rating(tiling, target)
        print(
            f"  {tiling.side} pixels, {blocks_of(tiling.group)} x {tiling.units:3d} groups {spent:8.0f} us = "
            f"{direct / spent:.2f}x  predicted, weights from memory: {predicted:.2f}x"
            + ("  chosen" if tiling == chosen else ""),
            flush=True,
        )


def main() -> None:
    """Measures the layers that the command line names, or LAYERS."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", default=LAYERS)
    parser.add_argument("--isa", default=targets.best_isa())
    parser.add_argument("--seconds", type=float, default=0.6)
    options = parser.parse_args()
    target = targets.for_isa(options.isa)
    for name in options.layers:
        measure(name, target, options.seconds)


if __name__ == "__main__":
    main()
