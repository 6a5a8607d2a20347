"""trees: rows go down decision trees, without a branch that depends on them."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import I1, I64
from treadle.codegen.emit.vectors import constant
from treadle.dtypes import DType, i32
from treadle.plan.kernels.trees import TreesArgs, TreesSpec


def emit_trees(k: Kernel, spec: TreesSpec) -> None:
    """y[r, :] = the weights of the leaves that x[r, :] ends in, added tree by tree. A unit is a row.

    Every row takes as many steps through a tree as the deepest leaf is below the root: a leaf is its own child. So the
    steps of several rows are in flight at once.
    """
    args = k.args(TreesArgs[ir.Value], spec)
    targets = args.targets
    y, roots = k.pointer(0), k.pointer(7)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, k.mul(begin, targets), k.mul(end, targets), name="clear") as place:
        store(k, constant(spec.sum, 0), y, place.index, spec.sum)
    with loop(k, 0, args.trees, name="tree") as tree:
        root = _number(k, roots, k.mul(tree.index, 2))
        depth = _number(k, roots, k.add(k.mul(tree.index, 2), 1))
        with loop(k, begin, end, name="row") as row:
            leaf = _leaf(k, spec, k.mul(row.index, args.features), root, depth)
            _add_weights(k, spec.sum, k.mul(row.index, targets), leaf)


def _number(k: Kernel, base: ir.Value, index: Index) -> ir.Value:
    """base[index] of i32 as an i64."""
    return k.b.sext(load(k, base, index, i32), I64)


def _leaf(k: Kernel, spec: TreesSpec, row: Index, root: ir.Value, depth: ir.Value) -> ir.Value:
    """The node that the features from `row` on lead to in `depth` steps from `root`."""
    dtype = spec.dtype
    x, nodes, thresholds = (k.pointer(i) for i in range(1, 4))
    with loop(k, 0, depth, carry=[root], name="step") as step:
        at = step.carry[0]
        fields = k.mul(at, 3)
        packed = _number(k, nodes, fields)
        value = load(k, x, k.add(row, k.b.ashr(packed, I64(1))), dtype)
        first = k.b.fcmp_ordered("<=", value, load(k, thresholds, at, dtype))
        if spec.missing:
            is_nan = k.b.fcmp_unordered("uno", value, value)
            first = k.b.or_(first, k.b.and_(is_nan, k.b.trunc(packed, I1)))
        step.next(_number(k, nodes, k.add(fields, k.b.select(first, I64(1), I64(2)))))
    found: ir.Value = step.carry[0]
    return found


def _add_weights(k: Kernel, dtype: DType, row: Index, leaf: ir.Value) -> None:
    """y[row + ids[j]] += weights[j] for each j of `leaf`."""
    y, firsts, ids, weights = (k.pointer(i) for i in (0, 4, 5, 6))
    first, last = _number(k, firsts, leaf), _number(k, firsts, k.add(leaf, 1))
    with loop(k, first, last, name="weight") as weight:
        place = k.add(row, _number(k, ids, weight.index))
        store(k, k.b.fadd(load(k, y, place, dtype), load(k, weights, weight.index, dtype)), y, place, dtype)
