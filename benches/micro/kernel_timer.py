"""Times generated kernels on one core without Python between their calls, and the machine's FMA limit."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir

from benches.micro.calls import KERNEL, Array, aligned
from treadle.codegen import jit
from treadle.codegen.emit.bfloat import bf16_dot
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.vectors import multiply_add
from treadle.codegen.kernels.table import GENERATORS
from treadle.dtypes import DType, bf16, f32
from treadle.graph.graph import Graph
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.table import LOWERINGS
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.plan.kernels.library_gemm import LibraryGemmSpec
from treadle.plan.target import Target
from treadle.provider import Provider
from treadle.records import dataclass
from treadle.runtime import libraries

_REPEAT = """
target triple = "{triple}"
define i32 @{name}(ptr %table, ptr %counts, i64 %unused, ptr %scratch) {{
entry:
  %kernel = load ptr, ptr %table
  %p.at = getelementptr ptr, ptr %table, i64 1
  %pointers = load ptr, ptr %p.at
  %a.at = getelementptr ptr, ptr %table, i64 2
  %args = load ptr, ptr %a.at
  %turns = load i64, ptr %counts
  %c.at = getelementptr i64, ptr %counts, i64 1
  %chunks = load i64, ptr %c.at
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%i.next, %turn.end]
  br label %chunk
chunk:
  %j = phi i64 [0, %turn], [%j.next, %chunk]
  %status = call i32 %kernel(ptr %pointers, ptr %args, i64 %j, ptr %scratch)
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %chunks
  br i1 %more, label %chunk, label %turn.end
turn.end:
  %i.next = add i64 %i, 1
  %again = icmp slt i64 %i.next, %turns
  br i1 %again, label %turn, label %end
end:
  ret i32 0
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RepeatSpec(KernelSpec):
    """The kernel that calls another one again and again. There are no parameters."""

    family: ClassVar[str] = "repeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class _FmaLimitSpec(KernelSpec):
    """Parameters of a kernel that multiplies and adds on registers alone. Pointers: data."""

    family: ClassVar[str] = "fma_limit"

    dtype: DType
    bf16_dot: bool
    """bf16 dot products, summed in `dtype`."""
    sums: int
    """Registers that hold sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FmaLimitArgs(KernelArgs[T]):
    """Arguments."""

    turns: T


class KernelTimer:
    """Compiles and times calls for one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._libraries: list[jit.Library] = []
        repeat = _RepeatSpec()
        text = _REPEAT.format(triple=target.triple, name=repeat.symbol)
        self._repeat = self._link(repeat, jit.compile_ir(text, target))

    def _link(self, spec: KernelSpec, code: bytes) -> int:
        library = jit.Library([(spec, code)])
        self._libraries.append(library)
        return library.addresses[spec]

    def seconds(
        self, spec: KernelSpec, arrays: Sequence[Array], args: Sequence[int], chunks: int, scratch: int, budget: float
    ) -> float:
        """Returns the shortest time of all chunks in sequence, repeated for `budget` seconds."""
        if isinstance(spec, LibraryGemmSpec):
            kernel, library = libraries.kernel(spec.provider, spec.dtype)
            args = (library, *args)
        else:
            kernel = self._link(spec, jit.compile_kernel(spec, self.target))
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        numbers = (ctypes.c_int64 * max(1, len(args)))(*args)
        table = (ctypes.c_void_p * 3)(kernel, ctypes.addressof(pointers), ctypes.addressof(numbers))
        room = aligned((scratch + 64,), np.uint8)
        repeat = KERNEL(self._repeat)

        def run(turns: int) -> float:
            counts = (ctypes.c_int64 * 2)(turns, chunks)
            start = time.perf_counter()
            repeat(ctypes.addressof(table), ctypes.addressof(counts), 0, room.ctypes.data)
            return time.perf_counter() - start

        run(1)
        turns = max(1, int(100e-6 / max(run(1), 1e-7)))
        best, end = float("inf"), time.perf_counter() + budget
        while time.perf_counter() < end:
            best = min(best, run(turns) / turns)
        return best

    def fma_limit(self, dtype: DType, budget: float = 0.3) -> float:
        """Returns the floating-point operations a second that one core reaches with multiply-adds alone.

        Of bf16 these are dot products, summed in f32.
        """
        pairs = dtype == bf16
        each = self.fma_seconds(dtype, self.target.registers - 4, budget)
        return 2.0 * (1 + pairs) * self.target.lanes(f32 if pairs else dtype) / each

    def fma_seconds(self, dtype: DType, sums: int, budget: float = 0.3) -> float:
        """Returns the seconds from one vector multiply-add to the next, with `sums` independent sums.

        Of bf16 these are dot products, summed in f32.
        """
        turns = 20_000
        spec, data = self.fma_kernel(dtype, sums)
        return self.seconds(spec, [data], [turns], 1, 0, budget) / (turns * sums)

    def fma_call(self, dtype: DType, turns: int) -> tuple[Callable[[], object], int]:
        """Returns a function that multiplies and adds in registers, and its number of operations."""
        sums = self.target.registers - 4
        spec, data = self.fma_kernel(dtype, sums)
        kernel = KERNEL(self._link(spec, jit.compile_kernel(spec, self.target)))
        pointers, numbers = (ctypes.c_void_p * 1)(data.ctypes.data), (ctypes.c_int64 * 1)(turns)

        def call(_alive: object = (self, data)) -> object:
            return kernel(ctypes.addressof(pointers), ctypes.addressof(numbers), 0, None)

        return call, 2 * sums * self.target.lanes(dtype) * turns

    def fma_kernel(self, dtype: DType, sums: int) -> tuple[KernelSpec, Array]:
        """Returns a kernel that adds products to `sums` vectors, and its data; of bf16 as `fma_seconds` says."""
        pairs = dtype == bf16
        dtype = f32 if pairs else dtype
        GENERATORS[_FmaLimitSpec] = _emit_fma_limit
        data = aligned(((sums + 2) * self.target.lanes(dtype),), dtype.numpy)
        return _FmaLimitSpec(dtype=dtype, bf16_dot=pairs, sums=sums), data

    def graph_seconds(
        self, graph: Graph, inputs: dict[str, Array], budget: float = 0.3, provider: Provider | None = None
    ) -> tuple[float, list[Call]]:
        """Returns the sum of the shortest times of the calls of `graph`, and the calls; `provider` multiplies
        matrices."""
        ctx = LowerContext(graph, self.target, provider=provider)
        calls: list[Call] = []
        for node in graph.nodes:
            lowered = LOWERINGS[node.op](node, ctx)
            assert lowered is not None, f"no kernel for {node.op}"
            calls.extend(lowered)
        memory: dict[Any, Array] = {}
        for call in calls:
            for value in (*call.reads, *call.writes):
                if value in memory:
                    continue
                memory[value] = aligned(value.static_shape, value.known_dtype.numpy)
                given = value.data if value.data is not None else inputs.get(value.name)
                if given is not None:
                    memory[value][...] = given
        total = 0.0
        for call in calls:
            assert call.spec is not None
            arrays = [memory[value] for value in (*call.writes, *call.reads)]
            total += self.seconds(call.spec, arrays, call.packed_args, call.chunks, call.scratch, budget)
        return total, calls


def _emit_fma_limit(k: Kernel, spec: _FmaLimitSpec) -> None:
    """Each sum is stored in a place of its own: LLVM would leave out all but the last that is stored in one place."""
    dtype, sums = spec.dtype, spec.sums
    turns = k.args(_FmaLimitArgs[ir.Value], spec).turns
    add = bf16_dot if spec.bf16_dot else multiply_add
    lanes = k.target.lanes(dtype)
    data = k.pointer(0)
    start = [load(k, data, i * lanes, dtype, lanes) for i in range(sums)]
    x, y = (load(k, data, (sums + i) * lanes, dtype, lanes) for i in range(2))
    with loop(k, 0, turns, carry=start) as turn:
        turn.next(*(add(k, x, y, value) for value in turn.carry))
    for i, value in enumerate(turn.carry):
        store(k, value, data, i * lanes, dtype)
