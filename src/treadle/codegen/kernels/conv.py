"""Direct convolution into the blocked layout: loops over channels, images and rows around register blocks.

A register block is a few neighbouring output pixels of one row times a few vectors of output channels.
Its sums stay in registers over the whole reduction; weights come packed in the order they are read.
A row is cut into segments of equal blocks; which kernel columns fall outside the input at its left and
right end is known when the code is generated, so borders cost nothing and the input is never copied.

Pointers: out, x, packed weights, bias (if `bias`), padding (if `padded`), then the epilogue's operands. Args: see ARGS.
"""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.kernels.conv_block import BlockPlace, RegisterBlock, steps_across
from treadle.codegen.kernels.conv_rows import segment_blocks, taps_inside
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import LINE

ARGS = (
    "images",
    "units",  # rows of an image; of a flat convolution: blocks of an image
    "units_per_chunk",  # counted over all images
    "unit_chunks",  # chunk number = group chunk * unit_chunks + unit chunk
    "groups",  # of vectors x lanes output channels each
    "groups_per_chunk",
    "channels",  # input channels that one output reads
    "channels_per_pass",  # a multiple of x's block
    "groups_per_set",  # groups that read the same input channels
    "x_set",  # strides of the input, in elements: from the channels of one set of groups to the next set's
    "x_image",
    "x_channel",  # from one block of channels to the next; in a plain input: from channel to channel
    "x_row",
    "x_height",
    "pad_top",
    "out_image",
    "out_block",
    "out_row",
    "outputs",  # real output channels
)
"""The int64 arguments in order; then (first pixel, number of blocks) of each segment."""

LATER = ("later_bytes", "later_lines")
"""How much of what a later call reads is asked for: bytes a channel, and cache lines a turn, of `unroll` channels."""


def emit_conv(k: Kernel, spec: KernelSpec) -> None:
    """out[n, m, h, w] = epilogue(bias[m] + sum over c, i, j of x[n, c, h*s + i*d - p, w*s + j*d - p] * weights[m, c, i, j]).

    Out is Blocked(lanes). Params: dtype, pairs (of bf16; dtype is f32: an element of x and of the weights is two
    channels, and numbers of channels and strides of x count pairs; in a plain x two columns are multiplied at
    once), quads (`unsigned` or `signed` bytes of x: an element of x and of the weights is four channels, dtype is i32;
    or empty), padded (what lies outside the input is read from a row of padding), lanes, vectors, last_lanes (those of the last vector that are computed; the others get 0), kernel,
    strides, dilations (pairs), segments (of each, for each pixel of its blocks, the half-open range of kernel
    columns inside the input), pad_left, flat (1x1: an image is one long row), plain_input (x is row-major),
    clamp_rows (kernel rows may fall outside the input), unroll (input channels a turn), prefetch (lines of the next
    group's weights to ask for in each turn), later (each turn of a flat convolution asks for some of what a later call
    reads: its pointer comes last, and so do the arguments in LATER), passes (sums over earlier channels wait in
    `out`), bias, epilogue, kinds.
    """
    arg = {name: k.arg(number) for number, name in enumerate(ARGS)}
    if spec["later"]:
        arg |= {name: k.arg(len(ARGS) + 2 * len(spec["segments"]) + number) for number, name in enumerate(LATER)}
    lanes, vectors, dtype = spec["lanes"], spec["vectors"], spec["dtype"]
    block = RegisterBlock(k, spec, arg)
    per_channel = spec["kernel"][0] * steps_across(spec) * vectors * lanes

    group_chunk = k.div(k.chunk, arg["unit_chunks"])
    unit_chunk = k.sub(k.chunk, k.mul(group_chunk, arg["unit_chunks"]))
    first_group = k.mul(group_chunk, arg["groups_per_chunk"])
    last_group = k.min(k.add(first_group, arg["groups_per_chunk"]), arg["groups"])
    first_unit = k.mul(unit_chunk, arg["units_per_chunk"])
    last_unit = k.min(k.add(first_unit, arg["units_per_chunk"]), k.mul(arg["images"], arg["units"]))

    def images(weights: ir.Value, group: Index, channels: tuple[Index, Index]) -> None:
        set_offset = k.mul(k.div(group, arg["groups_per_set"]), arg["x_set"])
        first_image = k.div(first_unit, arg["units"])
        end_image = k.div(k.add(last_unit, k.sub(arg["units"], 1)), arg["units"])
        with loop(k, first_image, end_image, name="image") as image:
            past = k.mul(image.index, arg["units"])
            x_offset = k.add(k.mul(image.index, arg["x_image"]), set_offset)
            out_offset = k.add(k.mul(image.index, arg["out_image"]), k.mul(group, k.mul(arg["out_block"], vectors)))
            place = BlockPlace(weights, x_offset, out_offset, image.index, k.mul(group, vectors * lanes), channels)
            units = k.max(k.sub(first_unit, past), 0), k.min(k.sub(last_unit, past), arg["units"])
            if spec["flat"]:
                _flat_row(k, spec, arg, block, place, units)
            else:
                _rows(k, spec, arg, block, place, units)

    with loop(k, first_group, last_group, name="group") as group:
        weights = k.at(k.pointer(2), k.mul(group.index, k.mul(arg["channels"], per_channel)), dtype)
        if not spec["passes"]:
            images(weights, group.index, (0, arg["channels"]))
        else:
            count = k.div(k.add(arg["channels"], k.sub(arg["channels_per_pass"], 1)), arg["channels_per_pass"])
            with loop(k, 0, count, name="pass") as turn:
                begin = k.mul(turn.index, arg["channels_per_pass"])
                images(weights, group.index, (begin, k.min(k.add(begin, arg["channels_per_pass"]), arg["channels"])))


def _rows(
    k: Kernel,
    spec: KernelSpec,
    arg: dict[str, ir.Value],
    block: RegisterBlock,
    place: BlockPlace,
    rows: tuple[Index, Index],
) -> None:
    """Every block of the output rows `rows`."""
    with loop(k, *rows, name="row") as row:
        top = k.sub(k.mul(row.index, spec["strides"][0]), arg["pad_top"])
        taps = taps_inside(k, spec, top, arg["x_height"])
        at = place.moved(k, k.mul(top, arg["x_row"]), k.mul(row.index, arg["out_row"]))
        at = replace(_prefetching(k, spec, arg, at, row.index), top=top)
        for number, columns in enumerate(spec["segments"]):
            with segment_blocks(k, spec, number, len(ARGS)) as pixel:
                if spec["plain_input"]:
                    block.ask_below(at, pixel, len(columns))
                block.emit(at, pixel, columns, taps)


def _flat_row(
    k: Kernel,
    spec: KernelSpec,
    arg: dict[str, ir.Value],
    block: RegisterBlock,
    place: BlockPlace,
    units: tuple[Index, Index],
) -> None:
    """The blocks numbered `units` of an image that is one long row."""
    past: Index = 0
    for number, columns in enumerate(spec["segments"]):
        start, count = (k.arg(len(ARGS) + 2 * number + i) for i in range(2))
        first, last = (k.sub(unit, past) for unit in units)
        with loop(k, k.max(first, 0), k.min(last, count), name=f"segment{number}") as turn:
            unit = k.add(past, turn.index)
            at = _fetching(k, spec, arg, _prefetching(k, spec, arg, place, unit), unit)
            block.emit(at, k.add(start, k.mul(turn.index, len(columns))), columns, (0, 1))
        past = k.add(past, count)


def _prefetching(k: Kernel, spec: KernelSpec, arg: dict[str, ir.Value], place: BlockPlace, unit: Index) -> BlockPlace:
    """`place` as seen by unit number `unit`, which prefetches its own share of the weights of the next group."""
    if not spec["prefetch"]:
        return place
    group = spec["kernel"][0] * steps_across(spec) * spec["vectors"] * spec["lanes"] * spec["dtype"].size
    return replace(place, ahead=k.add(k.mul(arg["channels"], group), k.mul(unit, spec["prefetch"] * LINE)))


def _fetching(k: Kernel, spec: KernelSpec, arg: dict[str, ir.Value], place: BlockPlace, unit: Index) -> BlockPlace:
    """`place` as seen by unit number `unit`, which asks for its own share of what a later call reads."""
    if not spec["later"]:
        return place
    group = k.div(place.channel, spec["vectors"] * spec["lanes"])
    number = k.add(k.mul(k.add(k.mul(group, arg["images"]), place.image), arg["units"]), unit)
    return replace(place, later=k.mul(number, k.mul(arg["channels"], arg["later_bytes"])))
