"""Winograd's algorithm against direct convolution, layer by layer, on one core, by turns in one process.

    python -m benches.micro.winograd [--isa ISA] [--rounds N] [--tilings N] [LAYER...]

A layer is CHANNELSxSIZExOUTPUTS or CHANNELSxSIZExOUTPUTSxIMAGES, then k1x7 or the like for another kernel than 3x3, and
s2 for strides of 2. SIZE is that of a square image, or HEIGHT:WIDTH. Prints the shortest times with all operands still
in the caches (warm), and with nothing but the input there (cold), as in a model whose weights exceed them. With
--tilings, the N best methods by the cost model are measured instead of the one that it chooses.
"""

from __future__ import annotations

import argparse

import numpy as np

from benches.micro.conv_layer import Layer, blocks_of, layer_shape
from treadle.codegen import target as targets
from treadle.passes.lower.conv.winograd.cost import choose_tiling, direct_cost, tilings
from treadle.passes.lower.conv.winograd.lower import winograd_calls
from treadle.passes.lower.conv.winograd.tiling import Tiling
from treadle.plan.target import Target

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
        "128x56x128s2",
        "256x28x256s2",
    ),
)
_CACHE_BYTES = 64 << 20


def measure(name: str, target: Target, rounds: int, count: int) -> None:
    """Prints one line for direct convolution of the layer `name`, and one for each tiling."""
    shape = layer_shape(name)
    layer = Layer(shape, target)
    layer.ctx.streamed_weights = True
    if count:
        found: list[Tiling | None] = [*sorted(tilings(shape, target), key=lambda one: one.total_cost)[:count]]
    else:
        found = [choose_tiling(shape, target)]
    tried = [tiling for tiling in found if tiling is not None]
    algorithms = (winograd_calls(layer.node, shape, tiling, layer.ctx) for tiling in tried)
    steps = [layer.direct(), *map(layer.steps, algorithms)]
    steps[0].run()
    reference = layer.output.copy()
    errors = [0.0]
    for step in steps[1:]:
        step.run()
        errors.append(float(np.linalg.norm(layer.output - reference) / np.linalg.norm(reference)))
    junk = np.zeros(_CACHE_BYTES, np.uint8)
    warm, cold = [float("inf")] * len(steps), [float("inf")] * len(steps)
    for _ in range(rounds):
        for i, step in enumerate(steps):
            junk += 1
            layer.input.sum()
            cold[i] = min(cold[i], step.run())
            warm[i] = min(warm[i], step.run(), step.run())
    scale = cold[0] / direct_cost(shape, target)
    print(f"{name:14s} direct {warm[0]:8.0f} us warm {cold[0]:8.0f} cold" + ("" if tried else "  chosen"))
    for i, tiling in enumerate(tried, start=1):
        size = f"F({tiling.side[0]}x{tiling.side[1]},{tiling.kernel[0]}x{tiling.kernel[1]})"
        kernels = "one kernel" if tiling.fused else "two kernels"
        sections = f" by sections of {tiling.section_blocks} blocks" if tiling.section_blocks else ""
        predicted = scale * tiling.total_cost
        print(
            f"  {size} {kernels}{sections} {blocks_of(tiling.group)} x {tiling.tile_groups:3d} groups "
            f"{warm[i]:8.0f} us = {warm[0] / warm[i]:.2f}x warm {cold[i]:8.0f} us = {cold[0] / cold[i]:.2f}x cold"
            f"  predicted {predicted:6.0f} us  differs by {errors[i]:.1e}",
            flush=True,
        )


def main() -> None:
    """Measures the layers that the command line names, or LAYERS."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", default=LAYERS)
    parser.add_argument("--isa", default=targets.best_isa())
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--tilings", type=int, default=0)
    options = parser.parse_args()
    target = targets.for_isa(options.isa)
    for name in options.layers:
        measure(name, target, options.rounds, options.tilings)


if __name__ == "__main__":
    main()
