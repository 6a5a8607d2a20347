"""The machine's limits, timed like engines: multiply-adds in registers, and reading memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

SWEEP_BYTES = 1 << 27


def fma(threads: int) -> tuple[Callable[[], None], float]:
    """Returns a function that does fp32 multiply-adds in registers on `threads` threads, and its operations."""
    from benches.micro.kernel_timer import KernelTimer
    from treadle.codegen import target
    from treadle.dtypes import f32

    call, operations = KernelTimer(target.detect()).fma_call(f32, 2_000_000)
    return _on_threads([call] * threads), float(operations * threads)


def bandwidth(threads: int) -> tuple[Callable[[], None], float]:
    """Returns a function that reads uncached memory on `threads` threads, and its bytes."""
    libc = ctypes.CDLL(None)
    libc.memchr.restype = ctypes.c_void_p
    libc.memchr.argtypes = [np.ctypeslib.ndpointer(np.uint8), ctypes.c_int, ctypes.c_size_t]
    blocks = [np.ones(SWEEP_BYTES // threads, np.uint8) for _ in range(threads)]
    calls = [partial(libc.memchr, block, 0, block.nbytes) for block in blocks]
    return _on_threads(calls), sum(block.nbytes for block in blocks)


def last_level_cache() -> int:
    """Returns the size of CPU 0's largest cache in bytes; 0 if the system does not report it."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in sizes), default=0)


def _on_threads(calls: Sequence[Callable[[], object]]) -> Callable[[], None]:
    pool = ThreadPoolExecutor(len(calls))

    def run() -> None:
        for future in [pool.submit(call) for call in calls]:
            future.result()

    return run


LIMITS = {"fma": fma, "bandwidth": bandwidth}
