"""What a Winograd convolution costs with each tiling, and where it is faster than direct convolution.

Costs are in vector multiply-adds: direct convolution at its limit costs the number of its products. The constants
here are of single tiles; those of bytes are figures of the machine model, those of groups and chunks are in the native
core, which binding asks for open sizes (native/src/winograd.cpp). They were fitted to measured layers: see
docs/measurements/winograd.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from math import prod
from typing import Any

from treadle.dtypes import f32
from treadle.graph.dim import ceil_div, computed, hint_of
from treadle.passes.lower import searches
from treadle.passes.lower.conv.rows import RowTiling
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.tile_product import group_of
from treadle.passes.lower.conv.winograd.tiling import Method, Tiling, methods
from treadle.plan.target import LINE, Target

_INPUT_COST = (1.2, 0.45)
_OUTPUT_COST = (0.7, 0.3)
"""Cost of transforming one vector of input, and of output, channels of a tile: for each point, the first number plus
the second for each of the points along both of its axes; with stride 2 half of them are not transformed."""
_FACTOR_COST = 4.5
"""Cost of transforming one vector of a section's weights for one point."""
_LINES_IN_FLIGHT = 48
"""How many lines a core asks L3 or memory for at once while it multiplies."""
LEAST_GAIN = 1.1
"""How many times faster than direct convolution the cost must be."""


@lru_cache(maxsize=1024)
def choose_tiling(shape: ConvShape, target: Target, *, streamed: bool = True, bf16_dot: bool = False) -> Tiling | None:
    """Returns the cheapest tiling for an fp32 convolution; None if direct convolution should be faster.

    `streamed`, here and below: no cache holds the model's weights from one run to the next. `bf16_dot`: direct
    convolution would use bf16 dot products.
    """
    best = min(tilings(shape, target, streamed=streamed), key=lambda tiling: tiling.total_cost, default=None)
    if best is None:
        return None
    direct = direct_cost(shape, target, streamed=streamed, bf16_dot=bf16_dot)
    return None if best.total_cost * LEAST_GAIN >= direct else best


def direct_cost(shape: ConvShape, target: Target, *, streamed: bool = True, bf16_dot: bool = False) -> float:
    """Returns the cost of direct convolution at its limit; with `bf16_dot`, half as many products and bytes."""
    lanes = target.lanes(f32)
    vectors = -(-shape.outputs // lanes)
    weights = vectors * lanes * shape.channels * prod(shape.kernel) * f32.size
    cost = shape.multiply_adds / shape.outputs * vectors + _first_byte(target, streamed=streamed) * weights
    return cost / 2 if bf16_dot else cost


def open_direct_cost(
    shape: ConvShape, row: RowTiling, target: Target, *, streamed: bool = True, bf16_dot: bool = False
) -> float:
    """Returns the cost of direct convolution whose kernel serves rows of all lengths, divided as `row`.

    It computes some pixels twice, and narrow register blocks wait for the latency of multiply-adds.
    """
    lanes = target.lanes(f32)
    groups = ceil_div(shape.outputs, row.vectors * lanes)
    sums = 0
    for columns, (_, count) in zip(row.segments, row.spans, strict=True):
        sums = sums + count * max(len(columns) * row.vectors, target.machine.sums_in_flight)
    taps = shape.channels * prod(shape.kernel)
    weights = groups * row.vectors * lanes * taps * f32.size
    cost = shape.images * shape.out_size[0] * groups * sums * taps + _first_byte(target, streamed=streamed) * weights
    return cost / 2 if bf16_dot else cost


def tilings(shape: ConvShape, target: Target, *, streamed: bool = True) -> Iterator[Tiling]:
    """Yields the cheapest tiling of each method."""
    for method in methods(shape, target):
        yield tiling_of(method, shape, target, streamed=streamed)


def tiling_of(method: Method, shape: ConvShape, target: Target, *, streamed: bool = True) -> Tiling:
    """Returns the cheapest tiling of `method`; its numbers are expressions where the number of tiles is one."""
    args = _request(method, shape, target, streamed=streamed)
    known: Any = map(hint_of, args)
    found = searches.partition_winograd(*known)
    size, per_chunk, transform, product, total = (
        computed(f"winograd.{name}", lambda *_, number=number: number, args, least=1)
        for name, number in zip(("tiles", "groups", "input", "product", "total"), found, strict=True)
    )
    down, across = method.tiles_of(shape.out_size)
    return Tiling(
        **{field.name: getattr(method, field.name) for field in fields(Method)},
        images=shape.images,
        tiles_down=down,
        tiles_across=across,
        group=group_of(size, method.blocks),
        groups_per_chunk=per_chunk,
        input_cost=transform,
        product_cost=product,
        total_cost=total,
    )


def total_costs(method: Method, shapes: Sequence[ConvShape], target: Target, *, streamed: bool = True) -> list[int]:
    """Returns the cost of the cheapest tiling of `method` for each of `shapes`, which differ in their sizes alone."""
    _, *others = _request(method, shapes[0], target, streamed=streamed)
    known: Any = others
    tiles = (shape.images * prod(method.tiles_of(shape.out_size)) for shape in shapes)
    return [searches.partition_winograd(number, *known)[-1] for number in tiles]


def _request(method: Method, shape: ConvShape, target: Target, *, streamed: bool) -> tuple[float, ...]:
    """Returns the arguments of `partition_winograd`."""
    down, across = method.tiles_of(shape.out_size)
    machine = target.machine
    vectors = shape.channels * method.out_groups * method.blocks.vectors
    factors = prod(method.used_factors)
    weight_bytes = vectors * target.vector_bytes * (prod(shape.kernel) if method.section_blocks else factors)
    return (
        shape.images * down * across,
        method.blocks.least,
        method.blocks.most,
        method.blocks.vectors,
        method.room(target),
        shape.channels,
        method.in_blocks,
        method.out_blocks,
        prod(method.reach),
        method.sections,
        method.fused,
        _transform_cost(method, _INPUT_COST),
        _transform_cost(method, _OUTPUT_COST),
        _FACTOR_COST * factors * vectors if method.section_blocks else 0.0,
        _first_byte(target, streamed=streamed),
        weight_bytes,
        target.vector_bytes,
        target.l2,
        max(1.0 / (machine.l3_bytes_per_ns * machine.fma_ns), _streamed_byte(target)),
        _reread_byte(target, weight_bytes),
        machine.wake_ns / machine.fma_ns,
        machine.usual_chunk_ns / machine.fma_ns,
        machine.sums_in_flight,
    )


def _first_byte(target: Target, *, streamed: bool) -> float:
    """Returns the cost of first reading a byte of weights: from memory, which cores share, if `streamed`."""
    machine = target.machine
    return 1.0 / ((machine.memory_shared_bytes_per_ns if streamed else machine.l3_bytes_per_ns) * machine.fma_ns)


def _reread_byte(target: Target, weight_bytes: float) -> float:
    """Returns the cost of reading one of `weight_bytes` again: from memory where L3 does not hold them."""
    if weight_bytes <= target.last_cache:
        return _streamed_byte(target)
    return 1.0 / (target.machine.memory_bytes_per_ns * target.machine.fma_ns)


def _streamed_byte(target: Target) -> float:
    """Returns the cost of a byte of a stream from L3.

    A core has only so many lines in flight, so L3's latency bounds how fast they arrive (Little's law).
    """
    machine = target.machine
    return machine.l3_latency_ns / (_LINES_IN_FLIGHT * LINE * machine.fma_ns)


def _transform_cost(method: Method, per_point: tuple[float, float]) -> float:
    """Returns the cost of transforming one vector of a tile."""
    first, each = per_point
    transformed = sum(reach // stride for reach, stride in zip(method.reach, method.strides, strict=True))
    return prod(method.reach) * (first + each * transformed)
