"""Strassen's algorithm against direct pointwise convolution, layer by layer, on one core, taking turns in one process.

python -m benches.micro.strassen [--isa ISA] [--seconds S] [LAYER...]

A layer is CHANNELSxSIZExOUTPUTS or CHANNELSxSIZExOUTPUTSxIMAGES. Prints the sums over chunks of the best times of
direct convolution and of the best tilings of 2 and of 4 pixels by the cost model, which marks the one it takes,
if any. Everything is in the caches as far as it fits: what weights from memory cost shows in whole models only.
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
    """Print a line for direct convolution of the layer `name` and for each size of tiles."""
    shape = layer_shape(name, (1, 1))
    layer = Layer(shape, target)
    measured = []
    for side in PRODUCTS:
        of_side = [tiling for tiling in tilings(shape, target) if tiling.side == side]
        measured += sorted(of_side, key=lambda tiling: rating(tiling, target))[:1]
    steps = [
        layer.direct(),
        *(layer.steps(strassen_calls(layer.node, shape, tiling, layer.ctx)) for tiling in measured),
    ]
    end, turns = time.monotonic() + seconds * len(steps), 0
    while turns < 3 or time.monotonic() < end:
        turns += 1
        for step in steps:
            step.run()
    direct, *others = (step.best_chunks() for step in steps)
    chosen = choose_tiling(shape, target)
    print(f"{name:16s} direct {direct:8.0f} us")
    for tiling, spent in zip(measured, others, strict=True):
        print(
            f"  {tiling.side} pixels, {blocks_of(tiling.group)} x {tiling.units:3d} groups {spent:8.0f} us = {direct / spent:.2f}x"
            f"  predicted, weights from memory: {direct_cost(shape, target) / rating(tiling, target):.2f}x"
            + ("  chosen" if tiling == chosen else ""),
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
    for name in options.layers:
        measure(name, target, options.seconds)


if __name__ == "__main__":
    main()
