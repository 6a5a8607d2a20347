"""The matrices that attention multiplies, and the operands of its epilogue, seen as batches of matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.dtypes import bf16, f32
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, broadcast, strides_of
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import copy_call, dense_target
from treadle.plan.call import Call
from treadle.plan.target import Target

_LEAST_QUERIES = 1000
"""Keys and values are copied for at least this many queries. Measured: at 512 and 785, a copy makes no difference."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A value seen as a batch of matrices: strides in elements; 0 along what it is broadcast over."""

    value: Value
    batch: tuple[int, ...]
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Products:
    """q [*batch, queries, depth] times k [*batch, keys, depth] transposed, and scores times v [*batch, keys, width].

    With `bf16_dot` the depth counts pairs of bf16, and so do the strides of q and k.
    """

    q: Operand
    k: Operand
    v: Operand
    batch: StaticShape
    queries: int
    keys: int
    depth: int
    width: int
    bf16_dot: bool

    @staticmethod
    def of(node: Node) -> Products:
        """Those of an `attention` node."""
        (q, q_shape), (k, k_shape), (v, v_shape) = (_factor(node, number, name) for number, name in enumerate("qkv"))
        bf16_dot = node.operand(0).dtype == bf16
        if bf16_dot:
            (q, q_shape), (k, k_shape) = (_in_pairs(*factor) for factor in ((q, q_shape), (k, k_shape)))
        return Products(
            q,
            k,
            v,
            batch=broadcast(broadcast(q_shape[:-2], k_shape[:-2]), v_shape[:-2]),
            queries=q_shape[-2],
            keys=k_shape[-2],
            depth=q_shape[-1],
            width=v_shape[-1],
            bf16_dot=bf16_dot,
        )

    @property
    def scores(self) -> StaticShape:
        """The shape of what the first product gives."""
        return (*self.batch, self.queries, self.keys)

    def result(self, node: Node) -> Operand:
        """The output of `node`, its strides in the order of `batch`, queries and width."""
        rank = len(self.batch) + 2
        perm = node.attrs.get("out_perm") or tuple(range(rank))
        steps = strides_of(node.output.static_shape)
        out_steps = [steps[perm.index(axis)] for axis in range(rank)]
        return Operand(node.output, tuple(out_steps[:-2]), out_steps[-2], out_steps[-1])


def can_bf16_dot(node: Node, target: Target) -> bool:
    """Whether q, k and v, stored as bf16, can be multiplied by bf16 dot products: pairs are contiguous, widths
    whole."""
    (q, shape), (k, _), (v, values) = (_factor(node, number, name) for number, name in enumerate("qkv"))
    steps = (shape[-1], values[-2], *(step for each in (q, k) for step in (each.row, *each.batch)))
    contiguous = q.column == k.column == v.column == 1 and values[-1] % target.lanes(f32) == 0
    return contiguous and 0 not in shape and all(step % 2 == 0 for step in steps)


def epilogue_operands(node: Node, ctx: LowerContext, scores: StaticShape) -> tuple[list[Operand], list[Call]]:
    """The operands of the epilogue, and the calls that transpose those that vary along queries and keys."""
    operands: list[Operand] = []
    calls: list[Call] = []
    for number in range(3, len(node.inputs)):
        value = node.operand(number)
        shape = (1,) * (len(scores) - len(value.static_shape)) + value.static_shape
        steps = strides_of(shape)
        *outer, queries, keys = shape
        row, column = int(queries > 1), int(keys > 1)
        if queries > 1 and keys > 1:
            swapped = (*outer, keys, queries)
            if value.is_constant:
                value = _turned_constant(value, shape, ctx)
            else:
                turned = ctx.temporary(f"{node.output.name}.{value.name}.transposed", value.known_dtype, swapped)
                axes = dense_target(swapped, (*steps[:-2], steps[-1], steps[-2]))
                calls.append(copy_call(node, ctx, turned, value, axes))
                value = turned
            row, column = 1, queries
        operands.append(Operand(value, _outer_steps(shape, steps), row, column))
    return operands, calls


def packed_rows(node: Node, ctx: LowerContext, products: Products, name: str) -> tuple[Operand, list[Call]]:
    """Keys or values (`name` is "k" or "v") with rows one after another, and the call that copies them there.

    The rows of one head lie apart by the size of all heads and fall into few sets of the cache, which holds fewer of
    them than of packed rows. Every block of queries reads all of them.
    """
    operand, columns = (products.k, products.depth) if name == "k" else (products.v, products.width)
    dtype = operand.value.known_dtype
    apart = operand.column == 1 and operand.row > columns
    if products.bf16_dot or not apart or products.queries < _LEAST_QUERIES:
        return operand, []
    if products.keys * operand.row * dtype.size <= ctx.target.l2:
        return operand, []
    sizes = products.batch[len(products.batch) - len(operand.batch) :]
    outer = tuple(size if step else 1 for size, step in zip(sizes, operand.batch, strict=True))
    shape = (*outer, products.keys, columns)
    rows = ctx.temporary(f"{node.output.name}.{name}.rows", dtype, shape)
    axes = dense_target(shape, (*operand.batch, operand.row, operand.column))
    packed = Operand(rows, _outer_steps(shape, strides_of(shape)), columns, 1)
    return packed, [copy_call(node, ctx, rows, operand.value, axes)]


def _turned_constant(value: Value, shape: StaticShape, ctx: LowerContext) -> Value:
    """The constant `value`, taken as `shape`, with its last two axes swapped."""
    return ctx.packed(value, "transposed", "transposed", lambda data: data.reshape(shape).swapaxes(-1, -2))


def _factor(node: Node, number: int, name: str) -> tuple[Operand, StaticShape]:
    """Operand `number` and the shape in which it is multiplied."""
    value = node.operand(number)
    shape = value.static_shape
    perm = node.attrs.get(f"{name}_perm") or tuple(range(len(shape)))
    steps = strides_of(shape)
    shape, strides = tuple(shape[axis] for axis in perm), tuple(steps[axis] for axis in perm)
    return Operand(value, _outer_steps(shape, strides), strides[-2], strides[-1] if shape[-1] != 1 else 1), shape


def _in_pairs(operand: Operand, shape: StaticShape) -> tuple[Operand, StaticShape]:
    """The same, pairs along the depth taken for elements."""
    batch = tuple(step // 2 for step in operand.batch)
    return replace(operand, batch=batch, row=operand.row // 2), (*shape[:-1], shape[-1] // 2)


def _outer_steps(shape: StaticShape, steps: StaticShape) -> tuple[int, ...]:
    """All strides but the last two, 0 along axes of one element."""
    return tuple(0 if size == 1 else step for size, step in zip(shape[:-2], steps[:-2], strict=True))
