"""Convolutions that write the blocked layout: what they can do, their tiles, packed weights and calls."""

from __future__ import annotations

from math import ceil

import numpy as np

from weft.dtypes import DType, bf16, f32, i32
from weft.graph.layout import Blocked
from weft.graph.node import Node
from weft.graph.shape import elements
from weft.graph.value import Value
from weft.ops.operands import BYTES
from weft.passes.lower.base import LowerContext, nbytes, wanted_chunks
from weft.passes.lower.conv_pack import pack_direct, pack_plain_input, pack_within_blocks
from weft.passes.lower.conv_shape import ConvShape, Pair
from weft.passes.lower.conv_tail import tail_operands, zeros
from weft.passes.lower.conv_tiles import choose_tile, depthwise_tile, sum_registers
from weft.passes.lower.evenness import loss
from weft.passes.lower.pairs import joined_pairs
from weft.passes.lower.quads import joined_quads, kind_of, offset_of
from weft.plan.call import Call
from weft.plan.kernel_spec import KernelSpec
from weft.plan.target import LINE, Target

_CHUNK_NS = 30_000.0
_EFFICIENCY = 0.9
"""The part of the arithmetic limit that kernels are assumed to reach."""
_CACHE_BYTES_PER_NS = 16.0
_FEW_UNITS = 20
"""So many units or fewer wait noticeably for weights that come from memory."""
_PANEL_SHARE = 0.5
"""The part of L2 that the weights of one group of outputs may fill before the reduction is cut into passes."""


def sums_dtype(weights: Value) -> DType:
    """The dtype of sums of products with `weights`."""
    return i32 if weights.dtype in BYTES else weights.known_dtype


def lower_direct(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """A call of the direct kernel. None if the bias or a tail operand is of a kind it cannot read."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    assert isinstance(out.layout, Blocked), "direct convolution writes blocked"
    dtype, lanes, pairs, quads = sums_dtype(weights), out.layout.block, x.dtype == bf16, x.dtype in BYTES
    plain_input = x.layout is None
    each = 4 if quads else 2 if pairs else 1
    block = lanes // each
    halves = ctx.target.isa == "avx512" and each == 1
    tile = choose_tile(shape, lanes, sum_registers(ctx.target, quads=quads), halves=halves)
    width = tile.vectors * lanes
    groups = -(-shape.outputs // width)
    tail = tail_operands(node, ctx, groups * width)
    if tail is None or weights.data is None or (pairs and not _can_pair(node, shape, ctx.target)):
        return None
    if quads and plain_input:
        return None
    channels = shape.group_channels if plain_input else -(-shape.group_channels // each)
    per_pass = channels
    if not plain_input and out.dtype == dtype and not quads:
        per_pass = _channels_per_pass(channels, shape.kernel, width * dtype.size, block, ctx.target)
    passes = per_pass < channels
    bias = zeros(out, ctx, groups * width) if passes and tail.bias is None else tail.bias
    offset = offset_of(x, node.attrs.get("zero", 0)) if quads else 0
    padding: tuple[Value, ...] = ()
    if offset:
        bias = _less_offset(weights, offset, bias, groups * width, ctx)
        if not tile.flat and (
            shape.rows_leave_input or any(pixel != (0, shape.kernel[1]) for pixel in sum(tile.segments, ()))
        ):
            padding = (_padding(node, shape, max(map(len, tile.segments)), lanes, ctx),)
    units = tile.blocks if tile.flat else shape.out_size[0]
    unit_chunks, units_per_chunk, groups_per_chunk = _grid(node, shape, ctx, units * shape.images, groups)
    unroll = _unroll(channels, shape.kernel, block, pairs=each > 1)
    packed = _packed(weights, shape, width, block, ctx, plain=plain_input, each=each)
    far = (each > 1 or shape.kernel != (1, 1)) and groups > 1 and nbytes(packed) >= ctx.target.l2
    prefetch = _prefetched_lines(unroll * shape.kernel[1] * width * dtype.size, units) if far else 0
    spec = KernelSpec.of(
        "conv",
        dtype=dtype,
        pairs=pairs,
        quads=kind_of(x) if quads else "",
        padded=bool(padding),
        lanes=lanes,
        vectors=tile.vectors,
        last_lanes=lanes // 2 if tile.halved else lanes,
        kernel=shape.kernel,
        strides=shape.strides,
        dilations=shape.dilations,
        pad_left=shape.pads[1],
        segments=tuple(tile.segments),
        flat=tile.flat,
        plain_input=plain_input,
        clamp_rows=shape.rows_leave_input and not padding,
        unroll=unroll,
        prefetch=prefetch,
        later=False,
        passes=passes,
        bias=bias is not None,
        tail=tail.expr,
        kinds=tail.kinds,
    )
    flops = 2.0 * shape.multiply_adds
    pixel = 1 if plain_input else block
    x_plane, out_plane = elements(shape.size), elements(shape.out_size)
    set_blocks = 1 if plain_input or shape.groups == 1 else channels // block
    args = (
        shape.images,
        units,
        units_per_chunk,
        unit_chunks,
        groups,
        groups_per_chunk,
        channels,
        per_pass,
        groups // shape.groups,
        set_blocks * x_plane * block,
        x_plane * (shape.channels if plain_input else -(-shape.channels // lanes) * block),
        x_plane * pixel,
        shape.size[1] * pixel,
        shape.size[0],
        shape.pads[0],
        out_plane * -(-shape.outputs // lanes) * lanes,
        out_plane * lanes,
        shape.out_size[1] * lanes,
        shape.outputs,
        *(number for span in tile.spans for number in span),
    )
    return [
        ctx.call(
            node,
            spec,
            (out,),
            tuple(value for value in (x, packed, bias) if value is not None) + padding + tail.values,
            args=args,
            chunks=unit_chunks * -(-groups // groups_per_chunk),
            flops=flops,
            cost=ctx.flops_ns(flops / each, nbytes(x) + nbytes(out), _EFFICIENCY),
            scratch=max(map(len, tile.segments)) * tile.vectors * lanes * dtype.size if out.dtype != dtype else 0,
            steps=shape.images * units * groups * channels if tile.flat and not plain_input and not passes else 0,
        )
    ]


def _less_offset(weights: Value, offset: int, bias: Value | None, padded: int, ctx: LowerContext) -> Value:
    """`bias` less `offset` times the weights of each output: sums begin there so that `offset` counts as 0."""
    assert weights.data is not None, "weights are constant"
    start = np.zeros(padded, np.int64) if bias is None or bias.data is None else bias.data.astype(np.int64)
    sums = weights.data.reshape(weights.data.shape[0], -1).sum(axis=1, dtype=np.int64)
    start[: sums.size] -= offset * sums
    return ctx.constant(start.astype(np.int32), f"{weights.name}.start")


def _padding(node: Node, shape: ConvShape, pixels: int, lanes: int, ctx: LowerContext) -> Value:
    """What kernels of quads read outside of the input, as far as a block of `pixels` reaches: its zero point."""
    x, zero = node.operand(0), node.attrs.get("zero", 0)
    reach = (pixels - 1) * shape.strides[1] + (shape.kernel[1] - 1) * shape.dilations[1] + 1
    return ctx.constant(np.full(reach * lanes, zero, x.known_dtype.numpy), f"{x.name}.padding")


def _can_pair(node: Node, shape: ConvShape, target: Target) -> bool:
    """Whether channels of a bf16 input lie in pairs, or its columns, and the CPU multiplies them."""
    if node.operand(0).layout is None:
        return target.has_bf16_products and shape.groups == 1 and shape.dilations[1] == 1
    return target.has_bf16_products and shape.group_channels % 2 == 0


def lower_depthwise(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """A call of the kernel for groups within one block. None if it cannot read the bias or a tail operand."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    assert isinstance(out.layout, Blocked), "this kernel writes blocked"
    quads = x.dtype in BYTES
    dtype, lanes = f32 if quads else weights.known_dtype, out.layout.block
    blocks = -(-shape.outputs // lanes)
    tail = tail_operands(node, ctx, blocks * lanes)
    if tail is None or weights.data is None:
        return None
    if quads:
        tail = tail.of_exact_sums(ctx)
    tile = depthwise_tile(shape, ctx.target.registers)
    how = f"depthwise {lanes}"
    four = weights.data.astype(dtype.numpy, copy=False).reshape(shape.outputs, shape.group_channels, *shape.kernel)
    packed = ctx.packed(weights, how) or ctx.remember_packed(
        weights, how, ctx.constant(pack_within_blocks(four, lanes), f"{weights.name}.packed")
    )
    spec = KernelSpec.of(
        "conv_depthwise",
        dtype=dtype,
        source=x.known_dtype,
        zero=node.attrs.get("zero", 0),
        lanes=lanes,
        width=shape.group_channels,
        kernel=shape.kernel,
        strides=shape.strides,
        dilations=shape.dilations,
        pad_left=shape.pads[1],
        segments=tile.segments,
        clamp_rows=shape.rows_leave_input,
        bias=tail.bias is not None,
        tail=tail.expr,
        kinds=tail.kinds,
    )
    planes, rows = shape.images * blocks, shape.out_size[0]
    flops = 2.0 * shape.multiply_adds
    total = ctx.flops_ns(flops, nbytes(x) + nbytes(out), _EFFICIENCY)
    planes_per_chunk, rows_per_chunk = _plane_cut(planes, rows, wanted_chunks(total))
    row_chunks = -(-rows // rows_per_chunk)
    args = (
        planes,
        planes_per_chunk,
        blocks,
        rows,
        rows_per_chunk,
        row_chunks,
        elements(shape.size) * lanes,
        shape.size[1] * lanes,
        shape.size[0],
        shape.pads[0],
        elements(shape.out_size) * lanes,
        shape.out_size[1] * lanes,
        shape.outputs,
        *(number for span in tile.spans for number in span),
    )
    reads = tuple(value for value in (x, packed, tail.bias) if value is not None) + tail.values
    chunks = -(-planes // planes_per_chunk) * row_chunks
    scratch = max(map(len, tile.segments)) * lanes * dtype.size if out.dtype != dtype else 0
    return [ctx.call(node, spec, (out,), reads, args=args, chunks=chunks, flops=flops, scratch=scratch)]


def _plane_cut(planes: int, rows: int, wanted: float) -> Pair:
    """(planes, rows) of a chunk, one of them whole, so that about `wanted` chunks come out evenly."""
    cuts = [(each, rows) for each in range(1, planes + 1)] + [(1, each) for each in range(rows - 1, 0, -1)]
    return min(cuts, key=lambda cut: loss((planes, cut[0]), (rows, cut[1]), wanted))


def _packed(
    weights: Value, shape: ConvShape, panel: int, block: int, ctx: LowerContext, *, plain: bool, each: int
) -> Value:
    how = f"conv {shape.groups} {panel} {block} {plain} {each}"
    found = ctx.packed(weights, how)
    if found is not None:
        return found
    assert weights.data is not None
    four = weights.data.reshape(shape.outputs, shape.group_channels, *shape.kernel)
    if each == 4:
        four = joined_quads(four, axis=1)
    elif each == 2:
        four = joined_pairs(four, axis=3 if plain else 1)
    data = pack_plain_input(four, panel) if plain else pack_direct(four, shape.groups, panel, block)
    return ctx.remember_packed(weights, how, ctx.constant(np.asarray(data), f"{weights.name}.packed"))


def _unroll(channels: int, kernel: Pair, block: int, *, pairs: bool) -> int:
    """Input channels (or pairs, quads) a turn of the innermost loop: several where the kernel has one column.

    Of pairs only two: with four, LLVM keeps sums of some blocks on the stack, which takes half as long again.
    """
    if kernel[1] > 1:
        return 1
    return next(turn for turn in ((2, 1) if pairs else (4, 2, 1)) if channels % turn == 0 and block % turn == 0)


def _prefetched_lines(turn_bytes: int, units: int) -> int:
    """Cache lines of the next group's weights that each turn asks for, so that all units together ask for all.

    0 where many units share the weights: the first one's wait for memory counts little then.
    """
    return 0 if units > _FEW_UNITS else -(-turn_bytes // LINE // units)


def _channels_per_pass(channels: int, kernel: Pair, vector_bytes: int, block: int, target: Target) -> int:
    """Input channels (or pairs) between two stores of the sums: all, unless the weights of a group would overflow L2."""
    passes = -(-channels * kernel[0] * kernel[1] * vector_bytes // int(_PANEL_SHARE * target.l2))
    if passes <= 1:
        return channels
    blocks = -(-channels // block)
    return -(-blocks // passes) * block


def _grid(node: Node, shape: ConvShape, ctx: LowerContext, units: int, groups: int) -> tuple[int, int, int]:
    """(chunks along the units, units a chunk, groups a chunk): little traffic, chunks of about _CHUNK_NS."""
    x_dtype = node.operand(0).dtype
    halved = 4 if x_dtype in BYTES else 2 if x_dtype == bf16 else 1
    total = ctx.flops_ns(2.0 * shape.multiply_adds / halved, 0.0, _EFFICIENCY)
    wanted = wanted_chunks(total, _CHUNK_NS)
    weights, x = 4 * elements(node.operand(1).static_shape) // halved, nbytes(node.operand(0))
    best: tuple[float, tuple[int, int, int]] | None = None
    for group_chunks in range(1, groups + 1):
        per_chunk = -(-groups // group_chunks)
        if -(-groups // per_chunk) < group_chunks:
            continue
        for unit_chunks, units_per_chunk in _unit_cuts(units, wanted / group_chunks):
            traffic = (unit_chunks * weights + group_chunks * x) / _CACHE_BYTES_PER_NS
            score = traffic + total * loss((groups, per_chunk), (units, units_per_chunk), wanted)
            if best is None or score < best[0]:
                best = (score, (unit_chunks, units_per_chunk, per_chunk))
    assert best is not None, "there is at least one group"
    return best[1]


def _unit_cuts(units: int, wanted: float) -> list[Pair]:
    """(chunks, units a chunk) for numbers of chunks near `wanted`; if there is none, for the most that are not more."""
    least = 0.8 * wanted
    counts = range(max(1, ceil(least)), max(1, ceil(least), int(1.3 * wanted)) + 1)
    sizes = {-(-units // min(units, count)) for count in counts}
    cuts = [(-(-units // each), each) for each in sorted(sizes)]
    return [cut for cut in cuts if cut[0] >= least] or cuts[:1]
