"""Speed of convolution kernels on one core, layer by layer, in % of the CPU's multiply-add limit.

    python -m benches.micro.conv [--isa avx512] [--precision f32|bf16] [--seconds 0.2] [pattern ...]

Prints for each layer the shortest time, the rate, and its part of the limit, which independent multiply-adds (bf16 dot
products at that precision) show in the same run. Padding counts as work, so borders may lift a layer above 100 %.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benches.micro.calls import aligned
from benches.micro.kernel_timer import KernelTimer
from treadle import dtypes
from treadle.codegen import jit
from treadle.codegen import target as targets
from treadle.dtypes import bf16, f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked, physical_shape
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.conv.lower import lower_conv
from treadle.plan.kernels.conv.direct import DirectConvSpec
from treadle.plan.target import Target

# name: channels, height, width, outputs, kernel, stride, padding, groups
LAYERS: dict[str, tuple[int, int, int, int, int, int, int, int]] = {
    "resnet50 stem 7x7 s2": (3, 224, 224, 64, 7, 2, 3, 1),
    "resnet50 56 3x3 64": (64, 56, 56, 64, 3, 1, 1, 1),
    "resnet50 28 3x3 128": (128, 28, 28, 128, 3, 1, 1, 1),
    "resnet50 14 3x3 256": (256, 14, 14, 256, 3, 1, 1, 1),
    "resnet50 7 3x3 512": (512, 7, 7, 512, 3, 1, 1, 1),
    "resnet50 56 3x3 s2 128": (128, 56, 56, 128, 3, 2, 1, 1),
    "resnet50 14 3x3 s2 512": (512, 14, 14, 512, 3, 2, 1, 1),
    "resnet50 56 1x1 64-64": (64, 56, 56, 64, 1, 1, 0, 1),
    "resnet50 56 1x1 64-256": (64, 56, 56, 256, 1, 1, 0, 1),
    "resnet50 56 1x1 256-64": (256, 56, 56, 64, 1, 1, 0, 1),
    "resnet50 28 1x1 128-512": (128, 28, 28, 512, 1, 1, 0, 1),
    "resnet50 28 1x1 512-128": (512, 28, 28, 128, 1, 1, 0, 1),
    "resnet50 14 1x1 256-1024": (256, 14, 14, 1024, 1, 1, 0, 1),
    "resnet50 14 1x1 1024-256": (1024, 14, 14, 256, 1, 1, 0, 1),
    "resnet50 7 1x1 512-2048": (512, 7, 7, 2048, 1, 1, 0, 1),
    "resnet50 7 1x1 2048-512": (2048, 7, 7, 512, 1, 1, 0, 1),
    "resnet50 28 1x1 s2 512-1024": (512, 28, 28, 1024, 1, 2, 0, 1),
    "mobilenet stem 3x3 s2": (3, 224, 224, 32, 3, 2, 1, 1),
    "mobilenet 112 1x1 32-16": (32, 112, 112, 16, 1, 1, 0, 1),
    "mobilenet 112 1x1 16-96": (16, 112, 112, 96, 1, 1, 0, 1),
    "mobilenet 56 1x1 24-144": (24, 56, 56, 144, 1, 1, 0, 1),
    "mobilenet 28 1x1 192-32": (192, 28, 28, 32, 1, 1, 0, 1),
    "mobilenet 14 1x1 96-576": (96, 14, 14, 576, 1, 1, 0, 1),
    "mobilenet 7 1x1 960-160": (960, 7, 7, 160, 1, 1, 0, 1),
    "mobilenet 7 1x1 320-1280": (320, 7, 7, 1280, 1, 1, 0, 1),
    "mobilenet 112 dw s1 32": (32, 112, 112, 32, 3, 1, 1, 32),
    "mobilenet 112 dw s2 96": (96, 112, 112, 96, 3, 2, 1, 96),
    "mobilenet 56 dw s1 144": (144, 56, 56, 144, 3, 1, 1, 144),
    "mobilenet 14 dw s1 384": (384, 14, 14, 384, 3, 1, 1, 384),
    "mobilenet 7 dw s1 960": (960, 7, 7, 960, 3, 1, 1, 960),
    "squeezenet stem 3x3 s2": (3, 224, 224, 64, 3, 2, 0, 1),
    "squeezenet 55 1x1 64-16": (64, 55, 55, 16, 1, 1, 0, 1),
    "squeezenet 55 3x3 16-64": (16, 55, 55, 64, 3, 1, 1, 1),
    "squeezenet 27 3x3 32-128": (32, 27, 27, 128, 3, 1, 1, 1),
    "squeezenet 13 3x3 64-256": (64, 13, 13, 256, 3, 1, 1, 1),
    "squeezenet 13 1x1 512-1000": (512, 13, 13, 1000, 1, 1, 0, 1),
    "googlenet 56 3x3 64-192": (64, 56, 56, 192, 3, 1, 1, 1),
    "googlenet 14 3x3 112-224": (112, 14, 14, 224, 3, 1, 1, 1),
    "googlenet 14 1x1 512-112": (512, 14, 14, 112, 1, 1, 0, 1),
    "googlenet 14 5x5 32-64": (32, 14, 14, 64, 5, 1, 2, 1),
    "resnext 28 3x3 g32 256": (256, 28, 28, 256, 3, 1, 1, 32),
    "inception 17 1x7 192": (192, 17, 17, 192, 7, 1, 3, 1),
}


def layer_graph(layer: tuple[int, int, int, int, int, int, int, int], target: Target, precision: str) -> Graph:
    """Returns a graph of one convolution with bias; its output is blocked, and its input unless it has few channels.

    At bf16 the blocked values are bf16.
    """
    channels, height, width, outputs, size, stride, pad, groups = layer
    rng = np.random.default_rng(0)
    lanes = target.lanes(f32)
    graph = Graph()
    stored = bf16 if precision == "bf16" else f32
    x = graph.input("x", stored if channels > 4 else f32, (1, channels, height, width))
    x.layout = Blocked(lanes) if channels > 4 else None
    kernel = (1, 7) if size == 7 and channels > 3 else (size, size)
    pads = (0, pad) if kernel[0] == 1 else (pad, pad)
    w = graph.constant(rng.standard_normal((outputs, channels // groups, *kernel), dtype=np.float32))
    bias = graph.constant(rng.standard_normal(outputs, dtype=np.float32))
    out_size = [(n + 2 * p - s) // stride + 1 for n, p, s in zip((height, width), pads, kernel, strict=True)]
    attrs: dict[str, Any] = {"strides": (stride, stride), "pads": (*pads, *pads), "dilations": (1, 1), "groups": groups}
    if stored != f32:
        attrs["epilogue"] = Expr((f32,), (Step("cast", (0,), stored),), (1,))
    out = graph.value("out", stored, (1, outputs, *out_size))
    out.layout = Blocked(lanes)
    graph.add("conv", [x, w, bias], attrs, outputs=[out])
    graph.outputs = [out]
    return graph


def measure(name: str, timer: KernelTimer, precision: str, limit: float, seconds: float) -> None:
    """Prints one line for the layer `name`, in % of `limit` operations a second."""
    target = timer.target
    graph = layer_graph(LAYERS[name], target, precision)
    calls = lower_conv(graph.nodes[0], LowerContext(graph, target, math="exact"))
    assert calls is not None, name
    (call,) = calls
    assert call.spec is not None, name
    begin = time.perf_counter()
    code = jit.compile_kernel(call.spec, target)
    compile_ms = 1e3 * (time.perf_counter() - begin)
    arrays = []
    for value in (*call.writes, *call.reads):
        array = aligned(physical_shape(value.static_shape, value.layout), value.known_dtype.numpy)
        array[...] = 1 if value.data is None else value.data
        arrays.append(array)
    spent = timer.seconds(call.spec, arrays, call.packed_args, call.chunks, call.scratch, seconds)
    rate = call.flops / spent
    spec = call.spec
    tile = f"{len(spec.segments[0])}x{spec.vectors}" if isinstance(spec, DirectConvSpec) else spec.family
    print(
        f"{name:30s} {spent * 1e6:8.1f} us {rate / 1e9:7.1f} GFLOP/s {100 * rate / limit:6.1f} %  {tile:6s}"
        f" chunks {call.chunks:3d} compile {compile_ms:5.1f} ms code {len(code):6d} B",
        flush=True,
    )


def main() -> None:
    """Measures the layers whose names contain one of the patterns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--isa", default=targets.best_isa())
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    target = targets.for_isa(options.isa)
    if options.precision == "bf16" and not target.has_bf16_dot:
        parser.error(f"--precision bf16: {target.isa} on {target.cpu} has no products of bf16")
    timer = KernelTimer(target)
    factors = dtypes.BY_NAME[options.precision]
    limit = timer.fma_limit(factors)
    print(f"{target.isa} {target.cpu}: limit {limit / 1e9:.1f} GFLOP/s on one core")
    for name in LAYERS:
        if not options.patterns or any(pattern in name for pattern in options.patterns):
            limit = max(limit, timer.fma_limit(factors, 0.02))
            measure(name, timer, options.precision, limit, options.seconds)


if __name__ == "__main__":
    main()
