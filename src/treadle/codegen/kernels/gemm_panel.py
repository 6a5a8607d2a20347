"""Copies of panels of the right factor: contiguous, transposed, padded with zeros."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store
from treadle.codegen.emit.tiles import Rows, move_part, move_tile, tile_size
from treadle.codegen.emit.vectors import constant
from treadle.dtypes import DType


def copy_panel(
    k: Kernel,
    source: str,
    target: ir.Value,
    b: ir.Value,
    strides: tuple[Index, Index],
    sizes: tuple[Index, Index],
    dtype: DType,
    width: Index,
) -> None:
    """target[t * width + c] = b[t * strides[0] + c * strides[1]] for t < sizes[0], c < sizes[1]; zero up to width.

    `source` says what is contiguous in b: `rows`, `columns`, or nothing (`strided`). With `column_tiles`, columns
    are contiguous, depth and columns are multiples of the lanes, and the target is not written behind them.
    """
    depth, columns = sizes
    if source == "rows":
        _copy_rows(k, target, b, strides[0], depth, columns, dtype, width)
    elif source == "columns":
        _copy_columns(k, target, b, strides[1], depth, columns, dtype, width)
    elif source == "column_tiles":
        _copy_column_tiles(k, target, b, strides[1], depth, columns, dtype, width)
    else:
        _copy_strided(k, target, b, strides, depth, columns, dtype, width)


def _copy_rows(
    k: Kernel,
    target: ir.Value,
    source: ir.Value,
    stride: Index,
    depth: Index,
    columns: Index,
    dtype: DType,
    width: Index,
) -> None:
    """target[t * width + c] = c < columns ? source[t * stride + c] : 0, for t < depth, c < width."""
    lanes = k.target.lanes(dtype)
    zero = constant(dtype, 0.0, lanes)
    if not isinstance(width, int):
        with loop(k, 0, width, lanes, name="vector") as vector:
            mask = lane_mask(k, k.max(k.sub(columns, vector.index), 0), lanes)
            with loop(k, 0, depth, name="row") as row:
                value = load_masked(k, source, k.add(k.mul(row.index, stride), vector.index), dtype, mask, zero)
                store(k, value, target, k.add(k.mul(row.index, width), vector.index), dtype)
        return
    with either(k, k.less(width - 1, columns)) as (whole, edge):
        with whole, loop(k, 0, depth, name="row") as row:
            read, write = k.mul(row.index, stride), k.mul(row.index, width)
            for at in range(0, width, lanes):
                store(k, load(k, source, k.add(read, at), dtype, lanes), target, k.add(write, at), dtype)
        with edge:
            masks = [lane_mask(k, k.max(k.sub(columns, at), 0), lanes) for at in range(0, width, lanes)]
            with loop(k, 0, depth, name="edge") as row:
                read, write = k.mul(row.index, stride), k.mul(row.index, width)
                for number, mask in enumerate(masks):
                    at = number * lanes
                    value = load_masked(k, source, k.add(read, at), dtype, mask, zero)
                    store(k, value, target, k.add(write, at), dtype)


def _copy_columns(
    k: Kernel,
    target: ir.Value,
    source: ir.Value,
    stride: Index,
    depth: Index,
    columns: Index,
    dtype: DType,
    width: Index,
) -> None:
    """target[t * width + c] = c < columns ? source[c * stride + t] : 0, for t < depth, c < width."""
    side = tile_size(k, dtype)
    with loop(k, 0, width, side, name="column") as column:
        here = k.max(k.min(k.sub(columns, column.index), side), 0)
        from_ = k.at(source, k.mul(column.index, stride), dtype)
        to = k.at(target, column.index, dtype)
        with loop(k, 0, depth, side, name="tile") as step:
            to_at = k.at(to, k.mul(step.index, width), dtype)
            sizes = here, k.min(k.sub(depth, step.index), side)
            columns_at = Rows(k.at(from_, step.index, dtype), stride)
            move_part(k, Rows(to_at, width), columns_at, dtype, side, sizes, fill=True)


def _copy_column_tiles(
    k: Kernel,
    target: ir.Value,
    source: ir.Value,
    stride: Index,
    depth: Index,
    columns: Index,
    dtype: DType,
    width: Index,
) -> None:
    """target[t * width + c] = source[c * stride + t], for t < depth, c < columns, both multiples of the lanes."""
    side = tile_size(k, dtype)
    with loop(k, 0, columns, side, name="column") as column:
        from_ = k.at(source, k.mul(column.index, stride), dtype)
        to = k.at(target, column.index, dtype)
        with loop(k, 0, depth, side, name="tile") as step:
            to_at = k.at(to, k.mul(step.index, width), dtype)
            move_tile(k, Rows(to_at, width), Rows(k.at(from_, step.index, dtype), stride), dtype, side)


def _copy_strided(
    k: Kernel,
    target: ir.Value,
    source: ir.Value,
    strides: tuple[Index, Index],
    depth: Index,
    columns: Index,
    dtype: DType,
    width: Index,
) -> None:
    """target[t * width + c] = c < columns ? source[t * strides[0] + c * strides[1]] : 0, element by element."""
    with loop(k, 0, depth, name="row") as row:
        write, read = k.mul(row.index, width), k.mul(row.index, strides[0])
        with loop(k, 0, k.min(columns, width), name="column") as column:
            value = load(k, source, k.add(read, k.mul(column.index, strides[1])), dtype)
            store(k, value, target, k.add(write, column.index), dtype)
        with loop(k, columns, width, name="padding") as column:
            store(k, constant(dtype, 0.0), target, k.add(write, column.index), dtype)
