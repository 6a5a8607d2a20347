"""Control flow that depends on lanes: rare branches, taken if any lane needs them; loops until all lanes are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.types import I1, I32, I64, lanes_of


def any_lane(k: Kernel, mask: ir.Value) -> ir.Value:
    """Whether any lane of `mask` (i1 or a vector of i1) is set, as one i1."""
    lanes = lanes_of(mask.type)
    if lanes == 1:
        return mask
    return k.b.call(k.intrinsic(f"llvm.vector.reduce.or.v{lanes}i1", I1, mask.type), [mask])


def last_lane(k: Kernel, mask: ir.Value) -> ir.Value:
    """How many lanes `mask` (i1 or a vector of i1) has up to the last one that is set, as i64; 0 if none is."""
    lanes = lanes_of(mask.type)
    if lanes == 1:
        return k.b.zext(mask, I64)
    numbers = ir.Constant(ir.VectorType(I64, lanes), list(range(1, lanes + 1)))
    counts = k.b.select(mask, numbers, ir.Constant(numbers.type, [0] * lanes))
    return k.b.call(k.intrinsic(f"llvm.vector.reduce.umax.v{lanes}i64", I64, counts.type), [counts])


def repair_lanes(
    k: Kernel,
    mask: ir.Value,
    inputs: Sequence[ir.Value],
    values: Sequence[ir.Value],
    scalar: Callable[[list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """values[i] = mask ? scalar(inputs)[i] : values[i]; `scalar` works on single lanes.

    Unless all lanes are unset, `scalar` runs for every lane: set or not, `inputs` must be fit for it.
    """
    fast = k.b.block
    with k.b.if_then(any_lane(k, mask), likely=False):
        if lanes_of(mask.type) == 1:
            repaired = scalar(list(inputs))
        else:
            with loop(k, 0, lanes_of(mask.type), carry=values, name="lane") as lane:
                number = k.b.trunc(lane.index, I32)
                here = k.b.extract_element(mask, number)
                results = scalar([k.b.extract_element(value, number) for value in inputs])
                lane.next(
                    *(
                        k.b.insert_element(old, k.b.select(here, new, k.b.extract_element(old, number)), number)
                        for old, new in zip(lane.carry, results, strict=True)
                    )
                )
            repaired = lane.carry
        slow = k.b.block
    return [_merge(k, (old, fast), (new, slow)) for old, new in zip(values, repaired, strict=True)]


def repeat_while(
    k: Kernel,
    values: Sequence[ir.Value],
    unfinished: Callable[[list[ir.Value]], ir.Value],
    turn: Callable[[list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """while (any lane of unfinished(values)) values = turn(values); `turn` must leave finished lanes as they are."""
    before = k.b.block
    header = k.function.append_basic_block("repeat.loop")
    body = k.function.append_basic_block("repeat.body")
    after = k.function.append_basic_block("repeat.end")
    k.b.branch(header)
    k.b.position_at_end(header)
    phis = []
    for value in values:
        phi = k.b.phi(value.type)
        phi.add_incoming(value, before)
        phis.append(phi)
    goes_on = any_lane(k, unfinished(list(phis)))
    k.b.cbranch(goes_on, body, after)
    k.b.position_at_end(body)
    for phi, value in zip(phis, turn(list(phis)), strict=True):
        phi.add_incoming(value, k.b.block)
    k.b.branch(header)
    k.b.position_at_end(after)
    return list(phis)


def _merge(k: Kernel, *ways: tuple[ir.Value, ir.Block]) -> ir.Value:
    phi = k.b.phi(ways[0][0].type)
    for value, block in ways:
        phi.add_incoming(value, block)
    return phi
