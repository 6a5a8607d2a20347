"""Masks of ONNX Runtime's attention operators as numbers that are added to the scores."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_FILTER = -10000.0


def of(node: OnnxNode, index: int, q: Value, k: Value, b: Builder) -> Value | None:
    """What operand `index` and the attribute `unidirectional` exclude of scores [N, heads, queries, keys].

    Args:
        node: The node.
        index: The number of the operand that is the mask: [keys] of texts, [queries, keys] of texts, or where texts
            end, or end and start.
        q: Queries [N, heads, queries, size], the last of all tokens.
        k: Keys [N, heads, keys, size].
        b: Adds the nodes.

    Returns:
        0, or a number so low that the weight is 0, for each score; None if nothing is excluded.
    """
    allowed = None if node.optional(index) is None else _allowed(node, index, q, k, b)
    mask = None
    if allowed is not None:
        low = b.scalar(node.number("mask_filter_value", _FILTER), q.dtype)
        mask = b.add("where", allowed, b.scalar(0, q.dtype), low)
    if not node.flag("unidirectional", default=False):
        return mask
    if q.dtype is None:
        raise Unsupported("the element type of its inputs must be known")
    lowest = b.scalar(float(np.finfo(q.dtype.numpy).min), q.dtype)
    return b.add("where", _earlier(q, k, b), b.scalar(0, q.dtype) if mask is None else mask, lowest)


def _allowed(node: OnnxNode, index: int, q: Value, k: Value, b: Builder) -> Value:
    """Whether a score counts, as bool that broadcasts to the scores."""
    mask, rank = node.input(index), node.rank(index)
    if rank == 1:
        return _within(mask, q, k, b)
    if rank not in (2, 3):
        raise Unsupported(
            f"its mask has {'unknown rank' if rank is None else f'rank {rank}'}; treadle knows masks of rank 1 to 3"
        )
    holds = b.add("gt", mask, b.scalar(0, mask.dtype))
    return b.add("unsqueeze", holds, b.integers([1, 2] if rank == 2 else [1]))


def _within(ends: Value, q: Value, k: Value, b: Builder) -> Value:
    """Whether a key stands before the end of its text, and not before its start where `ends` [2 N] has starts too."""
    places = b.numbers(length(k, b))
    if not b.known.is_multiple(ends, 2, q):
        return _compared("lt", places, ends, b)
    ends, starts = b.add_many("split", [ends], 2, axis=0, parts=2)
    return b.add("and", _compared("lt", places, ends, b), _compared("ge", places, starts, b))


def _compared(op: str, places: Value, bounds: Value, b: Builder) -> Value:
    apart = b.add("unsqueeze", b.add("cast", bounds, to=dtypes.i64), b.integers([1, 2, 3]))
    return b.add(op, places, apart)


def _earlier(q: Value, k: Value, b: Builder) -> Value:
    """Whether a key [keys] stands not after a query [queries, 1], the last query at the last key."""
    keys = length(k, b)
    queries = b.add("add", b.numbers(length(q, b)), b.add("sub", keys, length(q, b)))
    return b.add("le", b.numbers(keys), b.add("unsqueeze", queries, b.integers([1])))


def length(x: Value, b: Builder, axis: int = 2) -> Value:
    """The size of an axis of `x` as a scalar: of heads [N, heads, tokens, size], the number of tokens."""
    return b.size(x, axis)
