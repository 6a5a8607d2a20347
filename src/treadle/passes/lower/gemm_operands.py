"""Operands of a matrix product as strided views, their batch dimensions merged as far as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.graph.dim import equals
from treadle.graph.node import Node
from treadle.graph.shape import strides_of
from treadle.graph.value import Value
from treadle.records import dataclass

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Matrices:
    """A value seen as a batch of matrices: strides in elements along the batch, the rows and the columns."""

    value: Value
    batch: Strides
    row: int
    column: int

    @property
    def transposed(self) -> Matrices:
        return replace(self, row=self.column, column=self.row)

    @property
    def kind(self) -> str:
        """How the kernel indexes an operand of the epilogue: see `EpilogueSpec.kinds`."""
        return {(False, False): "scalar", (True, False): "row", (False, True): "column", (True, True): "full"}[
            not equals(self.row, 0), not equals(self.column, 0)
        ]


@dataclass(frozen=True, slots=True)
class Operands:
    """A matrix product: batch sizes, [rows, depth] @ [depth, columns], and the strides of every operand.

    The strides of a value along a dimension that it is broadcast over are 0.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    a: Matrices
    b: Matrices
    out: Matrices
    epilogue: tuple[Matrices, ...]

    @property
    def transposed(self) -> Operands:
        """The same product as its transpose: b' @ a' = out'."""
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            a=self.b.transposed,
            b=self.a.transposed,
            out=self.out.transposed,
            epilogue=tuple(operand.transposed for operand in self.epilogue),
        )

    @property
    def every(self) -> tuple[Matrices, ...]:
        return (self.a, self.b, self.out, *self.epilogue)

    @property
    def batches(self) -> int:
        count = 1
        for size in self.batch:
            count *= size
        return count


def operands_of(node: Node) -> Operands:
    """The operands of a `matmul` node. Batch dimensions are merged with each other and into the rows."""
    a_shape, a_strides = _factor(node, 0, "a")
    b_shape, b_strides = _factor(node, 1, "b")
    has_rows, has_columns = len(a_shape) > 1, len(b_shape) > 1
    depth = a_shape[-1]
    rows = a_shape[-2] if has_rows else 1
    columns = b_shape[-1] if has_columns else 1
    rank = max(len(a_shape), len(b_shape)) - 2
    rank = max(rank, 0)
    a_batch, a_steps = _padded(a_shape[:-2], a_strides[:-2], rank)
    b_batch, b_steps = _padded(b_shape[:-2], b_strides[:-2], rank)
    batch = tuple(_broadcast(m, n) for m, n in zip(a_batch, b_batch, strict=True))

    product_rank = rank + has_rows + has_columns
    perm = node.attrs.get("out_perm") or tuple(range(product_rank))
    positions = [perm.index(axis) for axis in range(product_rank)]
    out_shape = node.output.static_shape

    def of_output(value: Value) -> Matrices:
        shape, strides = _padded(value.static_shape, strides_of(value.static_shape), len(out_shape))
        steps = [step_along(shape[axis], out_shape[axis], strides[axis]) for axis in positions]
        row = steps[rank] if has_rows else 0
        column = steps[-1] if has_columns else 0
        return Matrices(value, tuple(steps[:rank]), row, column)

    product = Operands(
        batch=batch,
        rows=rows,
        columns=columns,
        depth=depth,
        a=Matrices(
            node.operand(0),
            batch_steps(a_batch, batch, a_steps),
            0 if equals(rows, 1) else a_strides[-2],
            1 if equals(depth, 1) else a_strides[-1],
        ),
        b=Matrices(
            node.operand(1),
            batch_steps(b_batch, batch, b_steps),
            columns if equals(depth, 1) else b_strides[-2] if has_columns else b_strides[-1],
            1 if equals(columns, 1) else b_strides[-1],
        ),
        out=of_output(node.output),
        epilogue=tuple(of_output(node.operand(index)) for index in range(2, len(node.inputs))),
    )
    return _merge_rows(_merge_batch(product))


def _factor(node: Node, index: int, side: str) -> tuple[tuple[int, ...], Strides]:
    """Shape and strides in which operand `index` is multiplied."""
    shape = node.operand(index).static_shape
    strides = strides_of(shape)
    perm = node.attrs.get(f"{side}_perm")
    if perm is not None:
        shape, strides = tuple(shape[axis] for axis in perm), tuple(strides[axis] for axis in perm)
    if node.attrs.get(f"transpose_{side}") and len(shape) >= 2:
        shape, strides = (*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2])
    return shape, strides


def _padded(shape: Sequence[int], strides: Strides, rank: int) -> tuple[tuple[int, ...], Strides]:
    missing = rank - len(shape)
    return (1,) * missing + tuple(shape), (0,) * missing + strides


def _broadcast(left: int, right: int) -> int:
    """The size of a batch dimension whose factors have the sizes `left` and `right`, which fit each other."""
    if equals(left, right) or equals(right, 1):
        return left
    return right if left == 1 else left


def step_along(size: int, broadcast: int, stride: int) -> int:
    """The stride along a dimension of `size` that is `broadcast` to a size: 0 if its elements are repeated.

    Only a size that differs may be 1 and repeated; what is not proved is asked where sizes are expressions.
    """
    return 0 if equals(size, 1) or (not equals(size, broadcast) and size == 1) else stride


def batch_steps(shape: Sequence[int], batch: Sequence[int], strides: Strides) -> Strides:
    """The strides along dimensions of the sizes `shape` that are broadcast to `batch`; behind them there may be more
    strides."""
    return tuple(step_along(*dimension) for dimension in zip(shape, batch, strides[: len(shape)], strict=True))


def _pick(operands: Operands, keep: Sequence[int]) -> Operands:
    """The same product with the batch dimensions `keep` only."""
    if len(keep) == len(operands.batch):
        return operands

    def of(matrices: Matrices) -> Matrices:
        return replace(matrices, batch=tuple(matrices.batch[axis] for axis in keep))

    return replace(
        operands,
        batch=tuple(operands.batch[axis] for axis in keep),
        a=of(operands.a),
        b=of(operands.b),
        out=of(operands.out),
        epilogue=tuple(of(operand) for operand in operands.epilogue),
    )


def _merge_batch(operands: Operands) -> Operands:
    """The same product without batch dimensions of size 1, and with neighbours merged where strides allow it."""
    operands = _pick(operands, [axis for axis, size in enumerate(operands.batch) if not equals(size, 1)])
    axis = 0
    while axis + 1 < len(operands.batch):
        inner = operands.batch[axis + 1]
        if all(equals(each.batch[axis], each.batch[axis + 1] * inner) for each in operands.every):
            sizes = list(operands.batch)
            sizes[axis + 1] *= sizes[axis]
            operands = replace(operands, batch=tuple(sizes))
            operands = _pick(operands, [i for i in range(len(sizes)) if i != axis])
        else:
            axis += 1
    return operands


def _merge_rows(operands: Operands) -> Operands:
    """The same product with inner batch dimensions merged into the rows, as long as b repeats and rows stay evenly
    spaced."""
    while operands.batch and equals(operands.b.batch[-1], 0):
        size, rows = operands.batch[-1], operands.rows
        spaced = (operands.a, operands.out, *operands.epilogue)
        single = equals(rows, 1)
        if not single and not all(equals(each.batch[-1], each.row * rows) for each in spaced):
            break

        def of(matrices: Matrices, single: bool = single) -> Matrices:
            return replace(matrices, row=matrices.batch[-1]) if single else matrices

        merged = replace(
            operands,
            rows=rows * size,
            a=of(operands.a),
            out=of(operands.out),
            epilogue=tuple(of(operand) for operand in operands.epilogue),
        )
        operands = _pick(merged, range(len(operands.batch) - 1))
    return operands
