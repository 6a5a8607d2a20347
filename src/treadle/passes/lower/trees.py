"""Lowering of trees: rows through decision trees."""

from __future__ import annotations

import numpy as np

from treadle.graph.dim import equals
from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import is_movable
from treadle.plan.call import Call
from treadle.plan.kernels.trees import TOGETHER, TreesArgs, TreesSpec

STEP_NS = 1.0
"""Estimated time of one step of one row down a tree, and of adding one weight."""


def lower_trees(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel: a chunk takes some rows through all trees, one tree after another."""
    x, *tables = (node.operand(index) for index in range(7))
    nodes, roots, y = tables[0], tables[5], node.output
    if not is_movable(x, *tables, y) or nodes.data is None or roots.data is None:
        return None
    rows, features = x.static_shape
    targets, trees = y.static_shape[1], len(roots.data)
    steps = float(np.sum(roots.data[:, 1], dtype=np.int64)) + 2 * trees
    units = rows if not equals(targets, 0) else 0
    chunks, per_chunk = ctx.partition(units, STEP_NS * steps, TOGETHER)
    spec = TreesSpec(dtype=x.known_dtype, sum=y.known_dtype, missing=bool((nodes.data[:, 0] & 1).any()))
    return [
        ctx.call(
            node,
            spec,
            (y,),
            (x, *tables),
            args=TreesArgs(units=units, units_per_chunk=per_chunk, features=features, targets=targets, trees=trees),
            chunks=chunks,
            traffic=nbytes(x) + nbytes(y),
            cost=STEP_NS * steps * units + ctx.machine.call_ns,
        )
    ]
