"""The matrices that attention multiplies, and the operands of its epilogue, seen as batches of matrices."""

from __future__ import annotations

from dataclasses import replace

from treadle.dtypes import bf16, f32
from treadle.graph.dim import divides, equals, hint_of
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, broadcast, strides_of
from treadle.graph.value import Value
from treadle.ops.attention import epilogue_end
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import copy_call, dense_target
from treadle.passes.lower.gemm_operands import batch_steps, step_along
from treadle.plan.call import Call
from treadle.plan.target import Target
from treadle.records import dataclass

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
        batch, ((q, q_shape), (k, k_shape), (v, v_shape)) = _factors(node)
        bf16_dot = node.operand(0).dtype == bf16
        if bf16_dot:
            (q, q_shape), (k, k_shape) = (_in_pairs(*factor) for factor in ((q, q_shape), (k, k_shape)))
        return Products(
            q,
            k,
            v,
            batch=batch,
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
        shape = node.output.static_shape
        perm = node.attrs.get("out_perm") or tuple(range(len(shape)))
        order, steps = [perm.index(axis) for axis in range(len(shape))], strides_of(shape)
        _, out_steps = _grouped(
            node, tuple(shape[axis] for axis in order), tuple(steps[axis] for axis in order), shared=False
        )
        return Operand(node.output, tuple(out_steps[:-2]), out_steps[-2], out_steps[-1])


def can_bf16_dot(node: Node, target: Target) -> bool:
    """Whether q, k and v, stored as bf16, can be multiplied by bf16 dot products: pairs are contiguous, widths
    whole."""
    _, ((q, shape), (k, _), (v, values)) = _factors(node)
    steps = (shape[-1], values[-2], *(step for each in (q, k) for step in (each.row, *each.batch)))
    contiguous = all(equals(each.column, 1) for each in (q, k, v)) and divides(target.lanes(f32), values[-1])
    return contiguous and 0 not in shape and all(divides(2, step) for step in steps)


def epilogue_operands(node: Node, ctx: LowerContext, scores: StaticShape) -> tuple[list[Operand], list[Call]]:
    """The operands of the epilogue, and the calls that transpose those that vary along queries and keys."""
    operands: list[Operand] = []
    calls: list[Call] = []
    for number in range(3, epilogue_end(node.attrs, node.inputs)):
        value = node.operand(number)
        rank = len(scores) - ("repeats" in node.attrs)
        shape = (1,) * (rank - len(value.static_shape)) + value.static_shape
        shape, steps = _grouped(node, shape, strides_of(shape), shared=False)
        *outer, queries, keys = shape
        row, column = step_along(queries, scores[-2], 1), step_along(keys, scores[-1], 1)
        if row and column:
            swapped = (*outer, keys, queries)
            if value.is_constant:
                value = _turned_constant(value, shape, ctx)
            else:
                turned = ctx.temporary(f"{node.output.name}.{value.name}.transposed", value.known_dtype, swapped)
                axes = dense_target(swapped, (*steps[:-2], steps[-1], steps[-2]))
                calls.append(copy_call(node, ctx, turned, value, axes))
                value = turned
            row, column = 1, queries
        operands.append(Operand(value, batch_steps(outer, scores[:-2], steps), row, column))
    return operands, calls


def sink_operand(node: Node, scores: StaticShape) -> Operand | None:
    """The score of one more key for each matrix of `scores`, if there is one."""
    if not node.attrs.get("sink"):
        return None
    value = node.operand(len(node.inputs) - 1)
    rank = len(scores) - ("repeats" in node.attrs)
    shape = (1,) * (rank - len(value.static_shape)) + value.static_shape
    (*outer, _, _), steps = _grouped(node, shape, strides_of(shape), shared=False)
    return Operand(value, batch_steps(outer, scores[:-2], steps), 0, 0)


def packed_rows(node: Node, ctx: LowerContext, products: Products, name: str) -> tuple[Operand, list[Call]]:
    """Keys or values (`name` is "k" or "v") with rows one after another, and the call that copies them there.

    The rows of one head lie apart by the size of all heads and fall into few sets of the cache, which holds fewer of
    them than of packed rows. Every block of queries reads all of them.
    """
    operand, columns = (products.k, products.depth) if name == "k" else (products.v, products.width)
    dtype = operand.value.known_dtype
    apart = equals(operand.column, 1) and hint_of(operand.row) > hint_of(columns)
    if products.bf16_dot or not apart or hint_of(products.queries) < _LEAST_QUERIES:
        return operand, []
    if hint_of(products.keys * operand.row) * dtype.size <= ctx.target.l2:
        return operand, []
    sizes = products.batch[len(products.batch) - len(operand.batch) :]
    outer = tuple(1 if equals(step, 0) else size for size, step in zip(sizes, operand.batch, strict=True))
    shape = (*outer, products.keys, columns)
    rows = ctx.temporary(f"{node.output.name}.{name}.rows", dtype, shape)
    axes = dense_target(shape, (*operand.batch, operand.row, operand.column))
    packed = Operand(rows, batch_steps(outer, outer, strides_of(shape)), columns, 1)
    return packed, [copy_call(node, ctx, rows, operand.value, axes)]


def _turned_constant(value: Value, shape: StaticShape, ctx: LowerContext) -> Value:
    """The constant `value`, taken as `shape`, with its last two axes swapped."""
    return ctx.packed(value, "transposed", "transposed", lambda data: data.reshape(shape).swapaxes(-1, -2))


def _factors(node: Node) -> tuple[StaticShape, list[tuple[Operand, StaticShape]]]:
    """The batch; then q, k and v and the shape in which each is multiplied."""
    shapes, strides = [], []
    for number, name in enumerate("qkv"):
        shape = node.operand(number).static_shape
        perm = node.attrs.get(f"{name}_perm") or tuple(range(len(shape)))
        steps = strides_of(shape)
        seen = tuple(shape[axis] for axis in perm), tuple(steps[axis] for axis in perm)
        shape, steps = _grouped(node, *seen, shared=name != "q")
        shapes.append(shape)
        strides.append(steps)
    q, k, v = (shape[:-2] for shape in shapes)
    batch = broadcast(broadcast(q, k), v)
    factors = []
    for number, (shape, steps) in enumerate(zip(shapes, strides, strict=True)):
        outer = batch_steps(shape[:-2], batch[len(batch) + 2 - len(shape) :], steps)
        column = 1 if equals(shape[-1], 1) else steps[-1]
        factors.append((Operand(node.operand(number), outer, steps[-2], column), shape))
    return batch, factors


def _grouped(
    node: Node, shape: StaticShape, steps: tuple[int, ...], *, shared: bool
) -> tuple[StaticShape, tuple[int, ...]]:
    """`shape` and `steps` of an operand or result with two axes in place of the heads: groups, and heads of a group.

    A group has one head of keys and values, and as many of queries as the node `repeats` those. `shared`: of keys and
    values.
    """
    repeats = node.attrs.get("repeats")
    if repeats is None:
        return shape, steps
    heads, step = shape[-3], steps[-3]
    if shared or equals(heads, 1):
        sizes, own = (heads, 1), (step, 0)
    else:
        sizes, own = (heads // repeats, repeats), (step * repeats, step)
    return (*shape[:-3], *sizes, *shape[-2:]), (*steps[:-3], *own, *steps[-2:])


def _in_pairs(operand: Operand, shape: StaticShape) -> tuple[Operand, StaticShape]:
    """The same, pairs along the depth taken for elements."""
    batch = tuple(step // 2 for step in operand.batch)
    return replace(operand, batch=batch, row=operand.row // 2), (*shape[:-1], shape[-1] // 2)
