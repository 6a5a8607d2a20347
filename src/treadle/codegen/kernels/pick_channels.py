"""pick_channels: blocks of channels joined from lanes of others."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.ranges import segments
from treadle.codegen.emit.vectors import lane_numbers
from treadle.plan.kernels.pick_channels import PickChannelsArgs, PickChannelsSpec


def emit_pick_channels(k: Kernel, spec: PickChannelsSpec) -> None:
    """out[n, c, s] = operand[picks[c][0]][n, picks[c][1], s], all Blocked(lanes). Spare lanes hold anything.

    A unit is a pixel of an image.
    """
    args = k.args(PickChannelsArgs[ir.Value], spec)
    dtype, lanes, picks, pixels = spec.dtype, spec.lanes, spec.picks, args.pixels
    blocks = -(-len(picks) // lanes)
    plane = k.mul(pixels, lanes)
    with segments(k, *k.chunk_range(args.units, args.units_per_chunk), pixels, "image") as (image, first, last):
        out = k.at(k.pointer(0), k.mul(image, k.mul(plane, blocks)), dtype)
        operands = {
            number: k.at(k.pointer(1 + number), k.mul(image, k.mul(plane, args.blocks[number])), dtype)
            for number in sorted({number for number, _ in picks})
        }
        for block in range(blocks):
            own = picks[block * lanes : (block + 1) * lanes]
            sources = list(dict.fromkeys((number, channel // lanes) for number, channel in own))
            bases = [k.at(operands[number], k.mul(plane, part), dtype) for number, part in sources]
            target = k.at(out, k.mul(plane, block), dtype)
            with loop(k, first, last, name="pixel") as pixel:
                at = k.mul(pixel.index, lanes)
                vectors = [load(k, base, at, dtype, lanes) for base in bases]
                lanes_of = [(sources.index((number, channel // lanes)), channel % lanes) for number, channel in own]
                store(k, _joined(k, vectors, lanes_of, lanes), target, at, dtype)


def _joined(k: Kernel, vectors: list[ir.Value], picks: list[tuple[int, int]], lanes: int) -> ir.Value:
    """Returns the vector whose lane i is lane picks[i][1] of vectors[picks[i][0]]; further lanes hold anything."""
    total = vectors[0]
    where = [lane if number == 0 else 0 for number, lane in picks] + [0] * (lanes - len(picks))
    if len(vectors) == 1:
        return k.b.shuffle_vector(total, total, lane_numbers(tuple(where)))
    for number, vector in enumerate(vectors[1:], start=1):
        for i, (source, lane) in enumerate(picks):
            if source == number:
                where[i] = lanes + lane
        total = k.b.shuffle_vector(total, vector, lane_numbers(tuple(where)))
        where = list(range(lanes))
    return total
