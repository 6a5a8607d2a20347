"""Lowering of reductions: any axes, as passes over rows and columns; large ones in pieces that run at once."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from math import nan

from treadle import dtypes
from treadle.dtypes import DType
from treadle.graph.dim import (
    at_most,
    ceil_div,
    equals,
    floor_int,
    hint_of,
    is_expression,
    maximum,
    minimum,
    real_maximum,
)
from treadle.graph.expr import Expr, Step
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.ops.reduce import extreme
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.elementwise import lower_expr
from treadle.passes.lower.expr import element_ns, is_native
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs
from treadle.plan.kernels.reduce import (
    FOLDED_ROWS,
    FOLDED_VECTORS,
    ReduceColumnsArgs,
    ReduceColumnsSpec,
    ReduceRowsArgs,
    ReduceRowsSpec,
    ReduceSpec,
)
from treadle.records import dataclass

_PIECE = 4096
_COLUMNS = 1024

_SHORT_ROW = 8
"""Rows up to this long are folded side by side, with a shuffle for each element and vector that holds some."""

_ROW_NS = 10.0
"""The time of beginning and ending a row or a block of columns."""

HOW = {"reduce_sum": "sum", "reduce_mean": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod"}


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: x [outer, n, width] over n. `turn`, `step` and `room` are as in `ReduceColumnsArgs`."""

    outer: int
    n: int
    width: int
    turn: int = 1
    step: int = 0
    room: int = 0


def lower_reduce(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Calls that reduce the axes innermost first; None for integer means, booleans and half precision."""
    operands = tuple(node.operand(number) for number in range(len(node.inputs)))
    x, y = max(operands, key=lambda value: elements(value.static_shape)), node.output
    dtype, head = x.known_dtype, node.attrs.get("head")
    mean = node.op == "reduce_mean"
    usable = dtype.is_integer or dtype in (dtypes.f32, dtypes.f64) or (dtype == dtypes.bf16 and x.layout is not None)
    if not usable or (mean and dtype.is_integer):
        return None
    if 0 in x.static_shape:
        return _of_nothing(node, ctx)
    axes = node.attrs["axes"]
    rank = len(x.static_shape)
    reduced = set(range(rank)) if axes is None else {axis % rank for axis in axes}
    if x.layout is not None:
        steps = _blocked_steps(x, y, reduced)
    else:
        steps = None if y.layout is not None else plain_steps(x.static_shape, reduced)
    if steps is None:
        return None
    if head is not None and not is_native(head):
        return None
    count = elements(x.static_shape[axis] for axis in reduced)
    pass_ = Passes(node, ctx, HOW[node.op], dtype, count, operands, head)
    source: Value | None = None
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        source = pass_.append(step, source, y if last else None, mean=mean and last)
    return pass_.calls


def _of_nothing(node: Node, ctx: LowerContext) -> list[Call] | None:
    """A call that writes what a reduction gives over no elements."""
    y = node.output
    dtype = y.known_dtype
    least, greatest = (extreme(dtype, least=least) for least in (True, False))
    values = {"reduce_sum": 0, "reduce_mean": nan, "reduce_max": least, "reduce_min": greatest, "reduce_prod": 1}
    value = values[node.op]
    step = Step("const", (), dtype, float(value) if dtype.is_float else int(value))
    return lower_expr(node, Expr((), (step,), (0,)), (y,), [], ctx)


def plain_steps(shape: tuple[int, ...], reduced: set[int]) -> list[Pass]:
    """The passes over a row-major tensor, innermost axes first."""
    groups: list[list[int]] = []
    for axis, size in enumerate(shape):
        kind = int(axis in reduced)
        if equals(size, 1):
            continue
        if groups and groups[-1][0] == kind:
            groups[-1][1] *= size
        else:
            groups.append([kind, size])
    steps, width = [], 1
    for position in reversed(range(len(groups))):
        kind, size = groups[position]
        if kind:
            steps.append(Pass(elements(size for _, size in groups[:position]), size, width))
        else:
            width *= size
    return steps or [Pass(1, 1, width)]


def _blocked_steps(x: Value, y: Value, reduced: set[int]) -> list[Pass] | None:
    """The one pass over a blocked image, if all of its spatial axes and no others are reduced."""
    assert x.layout is not None
    shape, block = x.static_shape, x.layout.block
    if reduced != set(range(2, len(shape))) or y.layout not in (None, x.layout):
        return None
    blocks = ceil_div(shape[1], block)
    channels = shape[1] if y.layout is None else blocks * block
    return [Pass(shape[0] * blocks, elements(shape[2:]), block, turn=blocks, step=channels, room=channels)]


@dataclass(slots=True)
class Passes:
    """The calls of one reduction; `count` is how many elements of x make one of y. A pass whose source is None reads
    what `head` makes of `operands`, or the only one of these."""

    node: Node
    ctx: LowerContext
    how: str
    dtype: DType
    count: int
    operands: tuple[Value, ...]
    head: Expr | None
    calls: list[Call] = field(default_factory=list)

    def append(self, step: Pass, source: Value | None, result: Value | None, *, mean: bool) -> Value:
        """Add the calls of `step`, which writes `result` or else a new temporary; returns what it wrote."""
        pieces, piece = self.pieces(step, self._element_ns(source, self.dtype))
        if not equals(pieces, 1):
            parts = self.temporary((step.outer, pieces, step.width))
            self._call(step, source, parts, (piece, pieces), mean=False)
            again = Pass(step.outer, pieces, step.width, step.turn, step.step, step.room)
            return self.append_whole(again, parts, result, mean=mean)
        return self.append_whole(step, source, result, mean=mean)

    def append_whole(self, step: Pass, source: Value | None, result: Value | None, *, mean: bool) -> Value:
        """`append` in one piece."""
        target = self.temporary((step.outer, step.width)) if result is None else result
        self._call(step, source, target, (step.n, 1), mean=mean)
        return target

    def temporary(self, shape: tuple[int, ...]) -> Value:
        wide = dtypes.f64 if self.dtype.is_float and self.how in ("sum", "prod") else self.dtype
        return self.ctx.temporary(f"{self.node.name}.partial", wide, shape)

    def folded(self, source: Value) -> DType:
        """Dtype in which elements of `source` are folded."""
        if self.how == "prod" and self.dtype.is_float:
            return dtypes.f64
        return dtypes.f32 if source.dtype == dtypes.bf16 else source.known_dtype

    def _element_ns(self, source: Value | None, dtype: DType) -> float:
        """Time of reading an element of the source as `dtype`, in ns."""
        if source is not None or self.head is None:
            return self.ctx.moved_ns(dtype.size)
        streams = sum(elements(value.static_shape) > 1 for value in self.operands)
        return real_maximum(self.ctx.moved_ns(streams * dtype.size), element_ns(self.head, self.ctx.target))

    def pieces(self, step: Pass, each: float) -> tuple[int, int]:
        """(pieces of n, elements of a piece): more than one piece if there are too few other units for workers to
        share, and their number may decide."""
        others = step.outer * ceil_div(step.width, _COLUMNS)
        chunk_ns = self.ctx.machine.usual_chunk_ns
        work = step.n * minimum(step.width, _COLUMNS) * each
        # The sample sizes decide: either way serves all sizes.
        if (
            self.ctx.batch_invariant
            or not equals(step.turn, 1)
            or hint_of(others) >= 16
            or hint_of(work) < 4 * chunk_ns
        ):
            return 1, step.n
        pieces = maximum(1, minimum(ceil_div(64, others), floor_int(work / chunk_ns)))
        piece = ceil_div(step.n, pieces)
        if equals(step.width, 1):
            piece = ceil_div(piece, _PIECE) * _PIECE
        return ceil_div(step.n, piece), piece

    def _call(self, step: Pass, source: Value | None, target: Value, cut_: tuple[int, int], *, mean: bool) -> None:
        piece, pieces = cut_
        reads, head = ((source,), None) if source is not None else (self.operands, self.head)
        folded = self.folded(reads[0])
        rows = equals(step.width, 1)
        lanes = self.ctx.target.vector_bytes // folded.size
        is_short = rows and head is None and not is_expression(step.n) and 1 < step.n <= min(lanes, _SHORT_ROW)
        kind = partial(ReduceRowsSpec, short=step.n if is_short else 0) if rows else ReduceColumnsSpec
        spec: ReduceSpec = kind(
            how=self.how,
            source=reads[0].known_dtype,
            folded=folded,
            result=target.known_dtype,
            long=not at_most(piece, FOLDED_VECTORS * lanes if rows else FOLDED_ROWS),
            lanes=lanes,
            mean=mean,
            head=head,
            steady=tuple(head is not None and elements(value.static_shape) == 1 for value in reads),
        )
        each = self._element_ns(source, folded)
        count = maximum(*(elements(value.static_shape) for value in reads))
        row_ns = _ROW_NS / lanes * step.n if is_short else _ROW_NS
        args: KernelArgs[int]
        if rows:
            units = step.outer * pieces
            chunks, per_chunk = self.ctx.partition(units, row_ns + piece * each)
            args = ReduceRowsArgs(
                units=units, units_per_chunk=per_chunk, n=step.n, piece=piece, pieces=pieces, count=self.count
            )
        else:
            columns = minimum(step.width, _COLUMNS)
            blocks = ceil_div(step.width, columns)
            units = step.outer * pieces * blocks
            chunks, per_chunk = self.ctx.partition(units, row_ns + piece * columns * each)
            args = ReduceColumnsArgs(
                units=units,
                units_per_chunk=per_chunk,
                n=step.n,
                piece=piece,
                pieces=pieces,
                count=self.count,
                width=step.width,
                columns=columns,
                column_blocks=blocks,
                turn=step.turn,
                step=step.step or step.width,
                room=step.room or step.width,
            )
        traffic = sum(nbytes(value) for value in (*reads, target))
        self.calls.append(
            self.ctx.call(
                self.node,
                spec,
                (target,),
                reads,
                args=args,
                chunks=chunks,
                cost=self.ctx.machine.call_ns + units * row_ns + real_maximum(self.ctx.moved_ns(traffic), count * each),
                flops=1.0 * count,
                traffic=traffic,
            )
        )
