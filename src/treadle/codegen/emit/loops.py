"""Loops and branches as context managers. Kernels touch neither phi nodes nor basic blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.types import I64


class Loop:
    """A running loop: `index` is its counter (i64), `carry` the values carried into this turn.

    Call `next` once in the body with the values to carry on; after the loop, `carry` holds the last ones.
    """

    def __init__(self, index: ir.Value, carry: list[ir.Value]) -> None:
        self.index = index
        self.carry = carry
        self.following: list[ir.Value] | None = None

    def next(self, *values: ir.Value) -> None:
        """Carry `values` into the next turn."""
        assert len(values) == len(self.carry), "a loop carries as many values on as it began with"
        self.following = list(values)


@contextmanager
def loop(
    k: Kernel,
    start: Index,
    stop: Index,
    step: int = 1,
    *,
    carry: Sequence[ir.Value] = (),
    name: str = "i",
) -> Iterator[Loop]:
    """for (i = start; i < stop; i += step); zero turns if start >= stop. `step` > 0."""
    first, last = as_i64(start), as_i64(stop)
    before = k.b.block
    header = k.function.append_basic_block(f"{name}.loop")
    body = k.function.append_basic_block(f"{name}.body")
    after = k.function.append_basic_block(f"{name}.end")
    k.b.branch(header)
    k.b.position_at_end(header)
    index = k.b.phi(I64, name)
    index.add_incoming(first, before)
    phis = []
    for number, value in enumerate(carry):
        phi = k.b.phi(value.type, f"{name}.carry{number}")
        phi.add_incoming(value, before)
        phis.append(phi)
    k.b.cbranch(k.b.icmp_signed("<", index, last), body, after)
    k.b.position_at_end(body)
    state = Loop(index, list(phis))
    yield state
    assert state.following is not None or not phis, f"loop {name} must say what it carries on"
    end = k.b.block
    index.add_incoming(k.b.add(index, I64(step), flags=("nsw",)), end)
    for phi, value in zip(phis, state.following or (), strict=True):
        phi.add_incoming(value, end)
    k.b.branch(header)
    k.b.position_at_end(after)
    state.carry = list(phis)


@contextmanager
def when(k: Kernel, condition: ir.Value, likely: bool | None = None) -> Iterator[None]:
    """if (condition) { ... }"""
    with k.b.if_then(condition, likely=likely):
        yield


@contextmanager
def either(
    k: Kernel, condition: ir.Value
) -> Iterator[tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
    """if (condition) { ... } else { ... }: yields the two branches; the caller enters each once."""
    with k.b.if_else(condition) as branches:
        yield branches


def switch(k: Kernel, value: ir.Value, cases: Sequence[int], body: Callable[[int], None]) -> None:
    """switch (value) { case n: body(n) }, for every n of `cases`; `value` (an i64) must be one of them."""
    before = k.b.block
    after = k.function.append_basic_block("switch.end")
    blocks = []
    for case in cases:
        blocks.append(k.function.append_basic_block(f"case{case}"))
        k.b.position_at_end(blocks[-1])
        body(case)
        k.b.branch(after)
    k.b.position_at_end(before)
    jump = k.b.switch(value, blocks[-1])
    for case, block in zip(cases[:-1], blocks[:-1], strict=True):
        jump.add_case(I64(case), block)
    k.b.position_at_end(after)


def values_of_either(
    k: Kernel,
    condition: ir.Value,
    first: Callable[[], Sequence[ir.Value]],
    second: Callable[[], Sequence[ir.Value]],
) -> list[ir.Value]:
    """condition ? first() : second(), by a branch: only one of them runs. Both return as many values."""
    with k.b.if_else(condition) as (then, otherwise):
        with then:
            ours, ours_end = first(), k.b.block
        with otherwise:
            theirs, theirs_end = second(), k.b.block
    joined = []
    for our, their in zip(ours, theirs, strict=True):
        phi = k.b.phi(our.type)
        phi.add_incoming(our, ours_end)
        phi.add_incoming(their, theirs_end)
        joined.append(phi)
    return joined
