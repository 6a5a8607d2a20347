"""Direct convolution and the max pooling of its result in one kernel: the rows between them never leave the cache.

A chunk is a band of rows of the pooled image, in all channels. The rows of the convolution that it reads are in
scratch; rows that two chunks read are computed by both.
"""

from __future__ import annotations

from dataclasses import replace

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.types import I8
from treadle.codegen.kernels.conv.direct.kernel import emit_conv
from treadle.codegen.kernels.pool import emit_pool_blocked
from treadle.plan.kernels.conv.pooled import PooledConvArgs, PooledConvSpec


def emit_conv_pool(k: Kernel, spec: PooledConvSpec) -> None:
    """out[n, m, ph, pw] = max over a window of conv[n, m, h, w]."""
    conv, pool = spec.conv, spec.pool
    args: PooledConvArgs[Index] = k.args(PooledConvArgs[Index], spec)
    whole, image_pool = args.conv, args.pool
    image = k.div(k.chunk, args.row_chunks)
    begin = k.mul(k.sub(k.chunk, k.mul(image, args.row_chunks)), args.rows_per_chunk)
    end = k.min(k.add(begin, args.rows_per_chunk), image_pool.out_height)

    above = k.sub(k.mul(begin, image_pool.stride_height), image_pool.pad_top)
    first = k.max(above, 0)
    reach = k.add(k.mul(k.sub(image_pool.kernel_height, 1), image_pool.dilation_height), 1)
    below = k.add(k.sub(k.mul(k.sub(end, 1), image_pool.stride_height), image_pool.pad_top), reach)
    rows = k.sub(k.min(below, image_pool.height), first)

    band = replace(
        whole,
        images=1,
        units=rows,
        units_per_chunk=rows,
        unit_chunks=1,
        groups_per_chunk=whole.groups,
        pad_top=k.sub(whole.pad_top, k.mul(first, conv.strides[0])),
        out_block=k.mul(rows, whole.out_row),
    )
    between, lanes = k.scratch, conv.lanes
    x = k.at(k.pointer(1), k.mul(image, whole.x_image), conv.input_dtype)
    others = [k.pointer(number) for number in range(2, spec.operands)]
    conv_scratch = k.b.gep(k.scratch, [as_i64(args.conv_scratch)], source_etype=I8)
    with k.part([between, x, *others], conv, band, conv_scratch):
        emit_conv(k, conv)

    height = k.sub(end, begin)
    band_pool = replace(
        image_pool,
        units=height,
        units_per_chunk=height,
        out_height=height,
        height=rows,
        pad_top=k.sub(first, above),
    )
    pixels = k.mul(image_pool.out_height, image_pool.out_width)
    with loop(k, 0, args.planes, name="plane") as plane:
        number = k.add(k.mul(image, args.planes), plane.index)
        offset = k.add(k.mul(number, pixels), k.mul(begin, image_pool.out_width))
        y = k.at(k.pointer(0), k.mul(offset, lanes), pool.result)
        source = k.at(between, k.mul(plane.index, band.out_block), pool.source)
        with k.part([y, source], pool, band_pool, conv_scratch):
            emit_pool_blocked(k, pool)
