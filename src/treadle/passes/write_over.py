"""Lets elementwise loops write their results over an operand that nothing else reads.

The kernel reads an element before it writes the one at the same place, and no other chunk reads it. So the arena is
smaller, and no cache line of the result is loaded before it is written.
"""

from __future__ import annotations

from treadle.graph.dim import equals
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.choose_kernels import Lowered
from treadle.passes.lower.base import nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.elementwise import ElementwiseArgs, ElementwiseSpec, FlatElementwiseSpec


def write_over_operands(graph: Graph, lowered: Lowered) -> None:
    """Give the result of each elementwise call of `lowered` the memory of an operand that ends with it.

    It must be as large, written by kernels alone, and no input or output of `graph`.
    """
    if not is_enabled("write_over"):
        return
    roots = {value: lowered.root(value) for call in lowered.calls for value in (*call.reads, *call.writes)}
    kept = {lowered.root(value)[0] for value in (*graph.inputs, *graph.outputs)}
    readers: dict[Value, set[int]] = {}
    written: set[Value] = set()
    for number, call in enumerate(lowered.calls):
        for value in call.reads:
            readers.setdefault(roots[value][0], set()).add(number)
        (written if call.spec is not None else kept).update(roots[value][0] for value in call.writes)
    for number, call in enumerate(lowered.calls):
        if not isinstance(call.spec, FlatElementwiseSpec) or len(call.writes) > 1 or call.offsets:
            continue
        (result,) = call.writes
        if roots[result][0] is not result or result in kept:
            continue
        for place, operand in enumerate(call.reads):
            root, offset = roots[operand]
            ends = offset == 0 and readers[root] == {number} and root in written and root not in kept
            if ends and equals(nbytes(root), nbytes(result)) and _is_read_as_written(call, place):
                lowered.aliases[result] = root, 0
                break


def _is_read_as_written(call: Call, place: int) -> bool:
    """Whether each element of the operand at `place` lies where that of the result does for which it is read."""
    spec = call.spec
    assert isinstance(spec, FlatElementwiseSpec)
    (result,) = spec.expr.results
    if spec.steady[place] or spec.expr.operands[place].size != spec.expr.dtype(result).size:
        return False
    if not isinstance(spec, ElementwiseSpec):
        return True
    assert isinstance(call.args, ElementwiseArgs)
    return all(map(equals, call.args.strides[0], call.args.strides[1 + place]))
