"""Kernels that do one thing again and again: multiply, load, store, follow pointers, pass a cache line."""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from benches.micro.calls import Array, aligned
from benches.micro.kernel_timer import KernelTimer
from treadle.codegen import jit
from treadle.dtypes import f32
from treadle.plan.target import Target

_LOOP = """
define i64 @{name}(ptr %data, i64 %turns, i64 %vectors, i64 %side) {{
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%next, %turn.end]
{carry}
{body}
turn.end:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %turn, label %end
end:
  {result}
}}
"""
_SPIN = """
define i32 @{name}(ptr %pointers, ptr %args, i64 %chunk, ptr %scratch) {{
entry:
  %place = alloca i64
  store i64 0, ptr %place
  %turns = load i64, ptr %args
  br label %turn
turn:
  %i = load volatile i64, ptr %place
  %next = add i64 %i, 1
  store volatile i64 %next, ptr %place
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %turn, label %end
end:
  ret i32 0
}}
"""
_AT_ONCE = 16
_ATTEMPT_BYTES = 1 << 20
"""An attempt is short, so that few are interrupted by other programs."""

Code = Callable[[int, int, int, int], int]
"""What is compiled: (address, turns, vectors, side) -> turns, or the address that it has come to."""


class Kernels:
    """The kernels for vectors of one target. Each returns the least ns of several attempts."""

    def __init__(self, target: Target, budget: float) -> None:
        """`budget`: seconds for each figure."""
        self._target, self._budget = target, budget
        self._vector = f"<{target.lanes(f32)} x float>"
        self._timer = KernelTimer(target)
        self._code: list[jit.LlvmLinkedCode] = []

    def multiply_adds(self, sums: int) -> float:
        """From one multiply-add to the next with `sums` independent sums."""
        return 1e9 * self._timer.fma_seconds(f32, sums, self._budget)

    def loads(self, bytes_: int) -> float:
        """From one vector load to the next, through `bytes_` of memory again and again."""
        return self._moves("load", bytes_)

    def stores(self, bytes_: int) -> float:
        """From one vector store to the next, likewise."""
        return self._moves("store", bytes_)

    def copies(self, bytes_: int) -> float:
        """From one vector load to the next where each is stored elsewhere; both places are in `bytes_` of memory."""
        return self._moves("copy", bytes_)

    def shared_copies(self, bytes_: int, threads: int) -> float:
        """As `copies`, on `threads` threads at once, each through memory of its own."""
        half = bytes_ // 2
        part = min(half, 4 * _ATTEMPT_BYTES)
        vectors, turns = self._whole(part), max(1, 4 * _ATTEMPT_BYTES // half)
        kernel = self._kernel("copy", "", self._moving("copy"))
        memories = [self._memory(bytes_) for _ in range(threads)]
        best, end = float("inf"), time.perf_counter() + self._budget
        for attempt in itertools.count():
            start = attempt * part % half
            calls = [functools.partial(kernel, memory.ctypes.data + start, turns, vectors, half) for memory in memories]
            best = min(best, _together(calls))
            if time.perf_counter() > end:
                return best / (turns * vectors)
        raise AssertionError

    def chase(self, bytes_: int) -> float:
        """From one load to the next whose address it gives, in an order that no CPU foresees, one in each line."""
        lines = bytes_ // 64
        order = np.random.default_rng(0).permutation(lines)
        memory = self._memory(bytes_)
        places = memory.view(np.int64).reshape(lines, 8)
        places[order, 0] = memory.ctypes.data + 64 * np.roll(order, -1)
        carry = "  %p = phi ptr [%data, %entry], [%p.next, %turn.end]"
        body = ["  %p.next = load volatile ptr, ptr %p", "  br label %turn.end"]
        kernel = self._kernel("chase", carry, body, "%come.to = ptrtoint ptr %p.next to i64\n  ret i64 %come.to")
        turns, at, best = 4000, memory.ctypes.data, float("inf")
        for _ in range(lines // turns):  # once round, so that no attempt follows lines that another has just fetched
            at = kernel(at, turns, 0, 0)
        end = time.perf_counter() + self._budget
        while time.perf_counter() < end:
            start = time.perf_counter_ns()
            at = kernel(at, turns, 0, 0)
            best = min(best, time.perf_counter_ns() - start)
        return best / turns

    def draws(self) -> float:
        """From one atomic addition to the next, of a line that no other core uses."""
        body = ["  %d = atomicrmw add ptr %data, i64 1 seq_cst", "  br label %turn.end"]
        return self._least(self._kernel("draw", "", body), 10_000, 0) / 10_000

    def spin(self) -> int:
        """The address of a kernel of programs whose chunks count up to its only argument."""
        name = f"calibrate_spin_{len(self._code)}"
        code = jit.LlvmLinkedCode([(name, jit.compile_ir(_SPIN.format(name=name), self._target))])
        self._code.append(code)
        return code.addresses[name]

    def passes(self) -> float:
        """From a store to the end of a load of the same line on another core: half of a round trip."""
        body = [
            "  br label %wait",
            "wait:",
            "  %seen = load atomic i64, ptr %data acquire, align 8",
            "  %double = mul i64 %i, 2",
            "  %wanted = add i64 %double, %side",
            "  %is = icmp sge i64 %seen, %wanted",
            "  br i1 %is, label %go, label %wait",
            "go:",
            "  %after = add i64 %wanted, 1",
            "  store atomic i64 %after, ptr %data release, align 8",
            "  br label %turn.end",
        ]
        kernel = self._kernel("pass", "", body)
        line, turns = self._memory(64), 100

        def side(number: int) -> None:
            kernel(line.ctypes.data, turns, 0, number)

        best, end = float("inf"), time.perf_counter() + self._budget
        while time.perf_counter() < end:
            line[:] = 0
            best = min(best, _together([lambda: side(0), lambda: side(1)]) / (2 * turns))
        return best

    def _moves(self, what: str, bytes_: int) -> float:
        used = bytes_ // 2 if what == "copy" else bytes_
        part = min(used, _ATTEMPT_BYTES)
        vectors, turns = self._whole(part), max(1, _ATTEMPT_BYTES // used)
        kernel, memory = self._kernel(what, "", self._moving(what)), self._memory(bytes_)
        return self._least(kernel, turns, vectors, memory, part, used) / (turns * vectors)

    def _whole(self, bytes_: int) -> int:
        return max(1, bytes_ // self._target.vector_bytes // _AT_ONCE) * _AT_ONCE

    def _moving(self, what: str) -> list[str]:
        v = self._vector
        lines = ["  br label %row", "row:", "  %k = phi i64 [0, %turn], [%k.next, %row]"]
        for number in range(_AT_ONCE):
            lines.append(f"  %at{number} = add i64 %k, {number}")
            lines.append(f"  %p{number} = getelementptr {v}, ptr %data, i64 %at{number}")
            value = "zeroinitializer"
            if what != "store":
                value = f"%v{number}"
                lines.append(f"  {value} = load volatile {v}, ptr %p{number}")
            if what == "copy":
                lines.append(f"  %q{number} = getelementptr i8, ptr %p{number}, i64 %side")
            if what != "load":
                lines.append(f"  store volatile {v} {value}, ptr %{'q' if what == 'copy' else 'p'}{number}")
        more = "  %again = icmp slt i64 %k.next, %vectors"
        return [*lines, f"  %k.next = add i64 %k, {_AT_ONCE}", more, "  br i1 %again, label %row, label %turn.end"]

    def _kernel(self, what: str, carry: str, body: Sequence[str], result: str = "ret i64 %next") -> Code:
        name = f"calibrate_{what}_{len(self._code)}"
        text = _LOOP.format(name=name, carry=carry, body="\n".join(body), result=result)
        code = jit.LlvmLinkedCode([(name, jit.compile_ir(text, self._target))])
        self._code.append(code)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        return kind(code.addresses[name])

    def _memory(self, bytes_: int) -> Array:
        memory = aligned((max(bytes_, 64 * self._target.vector_bytes),), np.uint8)
        memory[:] = 0
        return memory

    def _least(
        self, kernel: Code, turns: int, vectors: int, memory: Array | None = None, part: int = 0, used: int = 1
    ) -> float:
        """Returns the least ns of a call.

        Each begins `part` bytes behind the last one, round and round in `used` bytes of `memory`. Copies go to what is
        behind these.
        """
        memory = self._memory(0) if memory is None else memory
        best, end = float("inf"), time.perf_counter() + self._budget
        kernel(memory.ctypes.data, turns, vectors, used)
        for attempt in itertools.count():
            at = memory.ctypes.data + attempt * part % used
            start = time.perf_counter_ns()
            kernel(at, turns, vectors, used)
            best = min(best, time.perf_counter_ns() - start)
            if time.perf_counter() > end:
                return best
        raise AssertionError


def _together(calls: Sequence[Callable[[], object]]) -> float:
    """Returns the ns from the common beginning of `calls`, each on a thread, to the end of the last one."""
    barrier = threading.Barrier(len(calls))
    times: list[tuple[int, int]] = []

    def run(call: Callable[[], object]) -> None:
        barrier.wait()
        start = time.perf_counter_ns()
        call()
        times.append((start, time.perf_counter_ns()))

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float(max(end for _, end in times) - min(start for start, _ in times))
