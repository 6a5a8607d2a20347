"""A matrix product's depth in parts: the sums of all blocks of a chunk are kept in scratch from one part to the next.

So what a chunk reads of both factors for one part stays in L2, however deep the product is. Short parts of several
panels by turns make each panel a stream of its own: the CPU prefetches each up to the end of a page, and several keep
more of the memory busy than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop, values_of_either
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.types import I64
from treadle.codegen.kernels.gemm_block import RegisterBlock
from treadle.codegen.kernels.gemm_epilogue import Epilogue
from treadle.records import dataclass


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


def sums_before(k: Kernel, epilogue: Epilogue, block: RegisterBlock, part: Part, waiting: ir.Value) -> list[ir.Value]:
    """The sums of a block over all parts before this one, which wait at `waiting`."""

    def earlier() -> list[ir.Value]:
        places = (row * epilogue.width + v * epilogue.lanes for row in range(block.rows) for v in range(block.vectors))
        return [load(k, waiting, place, epilogue.dtype, epilogue.lanes) for place in places]

    return values_of_either(k, part.first, block.zeros, earlier)


def finish_or_wait(
    k: Kernel,
    epilogue: Epilogue,
    sums: list[ir.Value],
    vectors: int,
    part: Part,
    waiting: ir.Value,
    finish: Callable[[list[ir.Value]], None],
) -> None:
    """Pass the sums of a block, rows of `vectors` vectors, to `finish` after the last part; else keep them at
    `waiting`."""
    with either(k, part.last) as (ends, waits):
        with ends:
            finish(sums)
        with waits:
            epilogue.spill(sums, vectors, waiting)
