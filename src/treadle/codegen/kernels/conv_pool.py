"""Direct convolution and the max pooling that reads it, in one kernel: the rows between them never leave the cache.

A chunk is a few rows of the pooled image, in all channels. The rows of the convolution that these need wait in scratch;
those that two chunks need are computed by both.
"""

from __future__ import annotations

from dataclasses import replace

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.types import I8
from treadle.codegen.kernels.conv import ARGS, emit_conv
from treadle.codegen.kernels.conv_block import input_dtype
from treadle.codegen.kernels.pool import emit_pool_blocked
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.pool import PoolArgs

OWN_ARGS = (
    "rows_per_chunk",  # of the pooled image
    "row_chunks",  # of an image
    "planes",  # blocks of output channels
    "aside",  # bytes from the start of scratch to the convolution's own
)
"""The int64 arguments in order; then those of the convolution and of the pooling, as for the whole images."""


def emit_conv_pool(k: Kernel, spec: KernelSpec) -> None:
    """out[n, m, ph, pw] = max over a window of conv[n, m, h, w].

    Pointers: out, then those of `emit_conv` from x on. Params: conv and pool (the specs of both kernels; what one writes
    the other reads), operands (how many pointers there are). An epilogue has no operands that differ from row to row or image to image.
    """
    conv, pool = spec["conv"], spec["pool"]
    own = {name: k.arg(number) for number, name in enumerate(OWN_ARGS)}
    first_pool = len(OWN_ARGS) + len(ARGS) + 2 * len(conv["segments"])
    whole = [k.arg(number) for number in range(len(OWN_ARGS), first_pool)]
    arg: dict[str, Index] = dict(zip(ARGS, whole, strict=False))
    g: PoolArgs[Index] = PoolArgs[Index].unpacked(pool, lambda number: k.arg(first_pool + number))
    image = k.div(k.chunk, own["row_chunks"])
    begin = k.mul(k.sub(k.chunk, k.mul(image, own["row_chunks"])), own["rows_per_chunk"])
    end = k.min(k.add(begin, own["rows_per_chunk"]), g.out_height)

    above = k.sub(k.mul(begin, g.stride_height), g.pad_top)
    first = k.max(above, 0)
    reach = k.add(k.mul(k.sub(g.kernel_height, 1), g.dilation_height), 1)
    below = k.add(k.sub(k.mul(k.sub(end, 1), g.stride_height), g.pad_top), reach)
    rows = k.sub(k.min(below, g.height), first)

    band = arg | {
        "images": 1,
        "units": rows,
        "units_per_chunk": rows,
        "unit_chunks": 1,
        "groups_per_chunk": arg["groups"],
        "pad_top": k.sub(arg["pad_top"], k.mul(first, conv["strides"][0])),
        "out_block": k.mul(rows, arg["out_row"]),
    }
    between, lanes = k.scratch, conv["lanes"]
    x = k.at(k.pointer(1), k.mul(image, arg["x_image"]), input_dtype(conv))
    others = [k.pointer(number) for number in range(2, spec["operands"])]
    aside = k.b.gep(k.scratch, [as_i64(own["aside"])], source_etype=I8)
    with k.part([between, x, *others], [*band.values(), *whole[len(ARGS) :]], aside):
        emit_conv(k, conv)

    height = k.sub(end, begin)
    few = replace(g, units=height, units_per_chunk=height, out_height=height, height=rows, pad_top=k.sub(first, above))
    pixels = k.mul(g.out_height, g.out_width)
    with loop(k, 0, own["planes"], name="plane") as plane:
        done = k.add(k.mul(k.add(k.mul(image, own["planes"]), plane.index), pixels), k.mul(begin, g.out_width))
        y = k.at(k.pointer(0), k.mul(done, lanes), pool.result)
        source = k.at(between, k.mul(plane.index, band["out_block"]), pool.source)
        with k.part([y, source], few.packed(pool), aside):
            emit_pool_blocked(k, pool)
