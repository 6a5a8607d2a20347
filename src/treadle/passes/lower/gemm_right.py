"""The right factor of a product: packed at compile time, packed by a call of its own, or read in place."""

from __future__ import annotations

import numpy as np

from treadle.dtypes import i32
from treadle.graph.dim import at_most, ceil_div, divides, equals, is_expression
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.bf16_dot import pack_bf16
from treadle.passes.lower.gemm_operands import Matrices, Operands
from treadle.passes.lower.gemm_pack import pack_panels
from treadle.passes.lower.vnni import (
    listed_remainders,
    pack_bytes,
    split_pairs,
    vnni_zero_point,
    without_saturation,
)
from treadle.plan.call import Call
from treadle.plan.kernels.gemm_pack import GemmPackArgs, GemmPackSpec
from treadle.records import dataclass

_ROWS_WORTH_COPYING = 64


@dataclass(frozen=True, slots=True)
class Right:
    """The right factor, the elements from one panel to the next, and the kernel's `source`."""

    matrices: Matrices
    panel: int
    source: str

    @property
    def copies(self) -> bool:
        """Whether every panel is copied into scratch by each chunk that reads it."""
        return self.source not in ("packed", "rows")


def right_factor(ctx: LowerContext, product: Operands, width: int) -> Right:
    """The right factor, without a call of its own. Panels have `width` columns."""
    b = product.b
    if b.value.is_constant:
        return _packed_constant(ctx, product, width)
    if equals(b.column, 1):
        bytes_ = product.depth * product.columns * b.value.known_dtype.size
        copied = not at_most(bytes_, ctx.target.l1) and not at_most(product.rows, _ROWS_WORTH_COPYING - 1)
        return Right(b, width, "copied" if copied else "rows")
    if not equals(b.row, 1):
        return Right(b, width * b.column, "strided")
    lanes = ctx.target.lanes(b.value.known_dtype)
    whole = divides(lanes, product.depth) and divides(lanes, product.columns)
    return Right(b, width * b.column, "column_tiles" if whole else "columns")


def shares_panels(product: Operands, right: Right, block_chunks: int) -> bool:
    """Whether several chunks would copy the same panel of `right`; one of a single product with open rows is."""
    if not right.copies:
        return False
    return not product.batch if is_expression(block_chunks) else block_chunks > 1


def packed_by_call(node: Node, ctx: LowerContext, product: Operands, right: Right, vectors: int) -> tuple[Right, Call]:
    """`right`, which is copied, packed into a temporary instead; and the call that does it."""
    b, depth, columns = product.b, product.depth, product.columns
    dtype = b.value.known_dtype
    width = vectors * ctx.target.lanes(dtype)
    panels = ceil_div(columns, width)
    sizes = _own_sizes(product)
    repeated = [(size, step) for size, step in zip(sizes, b.batch, strict=True) if not equals(size, 1)]
    units = panels * elements(sizes)
    temporary = ctx.temporary(f"{node.output.name}.panels", dtype, (units, depth, width))
    chunks, per_chunk = ctx.partition(units, ctx.moved_ns(2.0 * depth * width * dtype.size))
    spec = GemmPackSpec(
        dtype=dtype,
        vectors=vectors,
        source="rows" if right.source == "copied" else right.source,
        batch_rank=len(repeated),
    )
    args = GemmPackArgs(
        columns=columns,
        depth=depth,
        panels=panels,
        b_depth=b.row,
        b_column=b.column,
        units=units,
        units_per_chunk=per_chunk,
        sizes=tuple(size for size, _ in repeated),
        b_batch=tuple(step for _, step in repeated),
    )
    call = ctx.call(node, spec, (temporary,), (b.value,), args=args, chunks=chunks)
    steps = _batch_steps(sizes, panels * depth * width)
    return Right(Matrices(temporary, steps, width, 1), depth * width, "packed"), call


def _packed_constant(ctx: LowerContext, product: Operands, width: int) -> Right:
    b, depth, columns = product.b, product.depth, product.columns
    sizes = _own_sizes(product)
    how = f"panels {width} {sizes} {b.batch} {b.row} {b.column} {depth} {columns}"

    def panels(data: Array) -> Array:
        return pack_panels(matrices_of(b, data, (*sizes, depth, columns)), width)

    packed = ctx.packed_factor(b.value, how, "panels", panels)
    return _constant_panels(packed, sizes, product, width)


def packed_bf16(ctx: LowerContext, product: Operands, width: int) -> Right:
    """The constant right factor as panels for bf16 dot products; `product.depth` counts pairs of bf16."""
    b, columns = product.b, product.columns
    sizes, depth = _own_sizes(product), 2 * product.depth
    how = f"bf16 {width} {sizes} {b.batch} {b.row} {b.column} {depth} {columns}"

    def panels(data: Array) -> Array:
        return pack_panels(pack_bf16(matrices_of(b, data, (*sizes, depth, columns)), axis=1), width)

    packed = ctx.packed(b.value, how, "bf16", panels)
    return _constant_panels(packed, sizes, product, width)


def split_factor(product: Operands, width: int) -> SplitFactor | None:
    """The constant right factor of a product of bytes in two terms; None for a batch of factors and for open sizes."""
    b, sizes = product.b, _own_sizes(product)
    if b.value.data is None or any(not equals(size, 1) for size in sizes) or is_expression(product.columns):
        return None
    matrices = matrices_of(b, b.value.data, (*sizes, 4 * product.depth, product.columns))
    first, second = without_saturation(pack_panels(pack_bytes(matrices, axis=1), width)[0])
    remainders, entries = listed_remainders(second.transpose(0, 2, 1))
    return SplitFactor(first, remainders, entries)


@dataclass(frozen=True, slots=True)
class SplitFactor:
    """Panels i32 [panels, depth, width] of bytes, and the list of their remainders with its number of entries."""

    panels: Array
    remainders: Array
    entries: int


def packed_bytes(ctx: LowerContext, product: Operands, width: int, split: SplitFactor | None) -> Right:
    """The constant right factor as panels for VNNI dot products; `product.depth` counts groups of four bytes.

    Without VNNI, it is `split`, with the remainders behind the last panel if there are any; or groups have the order of
    `split_pairs`. Each panel begins with a row of the values that sums begin with: they make up for signed bytes of a,
    which are taken 128 higher.
    """
    b, columns, offset = product.b, product.columns, vnni_zero_point(product.a.value, 0)
    sizes, depth = _own_sizes(product), 4 * product.depth
    pairs = 0 if ctx.target.has_vnni or split is not None else ctx.target.lanes(i32)
    how = f"vnni {offset} {pairs} {split is not None} {width} {sizes} {b.batch} {b.row} {b.column} {depth} {columns}"

    def panels(data: Array) -> Array:
        matrices = matrices_of(b, data, (*sizes, depth, columns))
        start = (-offset * matrices.sum(axis=1, keepdims=True, dtype=np.int64)).astype(np.int32)
        if split is not None:
            whole = np.concatenate([pack_panels(start, width), split.panels[None]], axis=2)
            return np.concatenate([whole.reshape(-1), split.remainders]) if split.entries else whole
        packed = pack_panels(np.concatenate([start, pack_bytes(matrices, axis=1)], axis=1), width)
        if pairs:
            packed[..., 1:, :] = split_pairs(packed[..., 1:, :], pairs)
        return packed

    packed = ctx.packed(b.value, how, "vnni", panels)
    return _constant_panels(packed, sizes, product, width, first=1)


def matrices_of(b: Matrices, data: Array, sizes: tuple[int, ...]) -> Array:
    """`data`, the elements of `b`, which has batch, row and column `sizes`, as [batch, rows, columns]."""
    dense = np.ascontiguousarray(data)
    strides = tuple(step * dense.itemsize for step in (*b.batch, b.row, b.column))
    view = np.lib.stride_tricks.as_strided(dense, sizes, strides, writeable=False)
    return view.reshape(int(np.prod(sizes[:-2])), *sizes[-2:])


def _constant_panels(packed: Value, sizes: tuple[int, ...], product: Operands, width: int, first: int = 0) -> Right:
    """`first`: rows that panels have before those of the depth."""
    panel = (product.depth + first) * width
    columns = product.columns
    return Right(Matrices(packed, _batch_steps(sizes, panel * -(-columns // width)), width, 1), panel, "packed")


def _own_sizes(product: Operands) -> tuple[int, ...]:
    """The batch dimensions of the right factor itself: 1 where it is broadcast."""
    return tuple(1 if equals(step, 0) else size for size, step in zip(product.batch, product.b.batch, strict=True))


def _batch_steps(sizes: tuple[int, ...], matrix: int) -> tuple[int, ...]:
    """Strides along batch dimensions of contiguous matrices of `matrix` elements; 0 where there is only one."""
    steps, step = [], matrix
    for size in reversed(sizes):
        steps.append(0 if equals(size, 1) else step)
        step *= size
    return tuple(reversed(steps))
