"""A matrix product's depth in parts: the sums of all blocks of a chunk are kept in scratch from one part to the next.

So what a chunk reads of both factors for one part stays in L2, however deep the product is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop, values_of_either
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.types import I64
from treadle.codegen.kernels.gemm_epilogue import Epilogue

Finish = Callable[[list[ir.Value]], None]


@dataclass(frozen=True, slots=True)
class Part:
    """`length` steps of the depth from `begin`; `first` and `last` (i1) say which part it is."""

    begin: Index
    length: Index
    first: ir.Value
    last: ir.Value


@contextmanager
def parts_of(k: Kernel, depth: Index, length: Index) -> Iterator[Part]:
    """Emits its body once, for each part of `length` steps of `depth`; the last part may be shorter."""
    with loop(k, 0, k.div(k.sub(k.add(depth, length), 1), length), name="part") as turn:
        begin = k.mul(turn.index, length)
        first = k.b.icmp_signed("==", turn.index, I64(0))
        rest = k.sub(depth, begin)
        yield Part(begin, k.min(rest, length), first, k.less(rest, k.add(length, 1)))


def add_up(
    k: Kernel, epilogue: Epilogue, sums: list[ir.Value], vectors: int, part: Part, waiting: ir.Value, finish: Finish
) -> None:
    """Add the sums of a block, rows of `vectors` vectors, to those of earlier parts at `waiting`, and keep them there;
    after the last part pass them to `finish`."""

    def with_earlier() -> list[ir.Value]:
        plus = k.b.fadd if epilogue.dtype.is_float else k.b.add
        added = []
        for number, value in enumerate(sums):
            row, v = divmod(number, vectors)
            earlier = load(k, waiting, row * epilogue.width + v * epilogue.lanes, epilogue.dtype, epilogue.lanes)
            added.append(plus(earlier, value))
        return added

    added = values_of_either(k, part.first, lambda: sums, with_earlier)
    with either(k, part.last) as (ends, waits):
        with ends:
            finish(added)
        with waits:
            epilogue.spill(added, vectors, waiting)
