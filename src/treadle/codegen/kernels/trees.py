"""trees: rows go down decision trees, without a branch that depends on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import I1, I64
from treadle.codegen.emit.vectors import constant
from treadle.dtypes import DType, i32
from treadle.plan.kernels.trees import TOGETHER, TreesArgs, TreesSpec
from treadle.records import dataclass


def emit_trees(k: Kernel, spec: TreesSpec) -> None:
    """y[r, :] = the weights of the leaves that x[r, :] ends in, added tree by tree. A unit is a row.

    Every row takes as many steps through a tree as the deepest leaf is below the root: a leaf is its own child. So
    several rows take each step together, and rows that are left over go down several trees together: a step waits for
    loads that depend on each other, and those of the others fill the time.
    """
    args = k.args(TreesArgs[ir.Value], spec)
    targets, y = args.targets, k.pointer(0)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, k.mul(begin, targets), k.mul(end, targets), name="clear") as place:
        store(k, constant(spec.sum, 0), y, place.index, spec.sum)
    whole = k.add(begin, k.mul(k.div(k.sub(end, begin), TOGETHER), TOGETHER))
    with loop(k, 0, args.trees, name="tree") as tree:
        start = _start(k, tree.index)
        with loop(k, begin, whole, TOGETHER, name="rows") as row:
            rows = [k.add(row.index, number) for number in range(TOGETHER)]
            _descend(k, spec, args, rows, [start] * TOGETHER)
    groups = k.mul(k.div(args.trees, TOGETHER), TOGETHER)
    with loop(k, whole, end, name="row") as row:
        for first, last, together in ((0, groups, TOGETHER), (groups, args.trees, 1)):
            with loop(k, first, last, together, name="trees") as tree:
                starts = [_start(k, k.add(tree.index, number)) for number in range(together)]
                _descend(k, spec, args, [row.index] * together, starts)


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a tree begins: its root, and how many steps its deepest leaf is below."""

    root: ir.Value
    depth: ir.Value


def _start(k: Kernel, tree: Index) -> _Start:
    roots, at = k.pointer(7), k.mul(tree, 2)
    return _Start(_number(k, roots, at), _number(k, roots, k.add(at, 1)))


def _descend(
    k: Kernel, spec: TreesSpec, args: TreesArgs[ir.Value], rows: Sequence[Index], starts: Sequence[_Start]
) -> None:
    """Adds to each of `rows` the weights of the leaf that it ends in from the start at the same place."""
    depth = reduce(k.max, dict.fromkeys(start.depth for start in starts))
    features = [k.mul(row, args.features) for row in rows]
    with loop(k, 0, depth, carry=[start.root for start in starts], name="step") as step:
        step.next(*(_child(k, spec, row, at) for row, at in zip(features, step.carry, strict=True)))
    for row, leaf in zip(rows, step.carry, strict=True):
        _add_weights(k, spec.sum, k.mul(row, args.targets), leaf)


def _number(k: Kernel, base: ir.Value, index: Index) -> ir.Value:
    """base[index] of i32 as an i64."""
    return k.b.sext(load(k, base, index, i32), I64)


def _child(k: Kernel, spec: TreesSpec, row: Index, at: ir.Value) -> ir.Value:
    """The child of the node `at` that the features from `row` on lead to."""
    dtype = spec.dtype
    x, nodes, thresholds = (k.pointer(i) for i in range(1, 4))
    fields = k.mul(at, 3)
    packed = _number(k, nodes, fields)
    value = load(k, x, k.add(row, k.b.ashr(packed, I64(1))), dtype)
    first = k.b.fcmp_ordered("<=", value, load(k, thresholds, at, dtype))
    if spec.missing:
        is_nan = k.b.fcmp_unordered("uno", value, value)
        first = k.b.or_(first, k.b.and_(is_nan, k.b.trunc(packed, I1)))
    return _number(k, nodes, k.add(fields, k.b.select(first, I64(1), I64(2))))


def _add_weights(k: Kernel, dtype: DType, row: Index, leaf: ir.Value) -> None:
    """y[row + ids[j]] += weights[j] for each j of `leaf`."""
    y, firsts, ids, weights = (k.pointer(i) for i in (0, 4, 5, 6))
    first, last = _number(k, firsts, leaf), _number(k, firsts, k.add(leaf, 1))
    with loop(k, first, last, name="weight") as weight:
        place = k.add(row, _number(k, ids, weight.index))
        store(k, k.b.fadd(load(k, y, place, dtype), load(k, weights, weight.index, dtype)), y, place, dtype)
