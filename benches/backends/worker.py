"""What the processes of this benchmark measure while they load one backend; there are no questions to answer."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from tests.models import small

import treadle
from benches.harness.worker import Answer
from treadle import _native

CLIENTS = (1, 2, 4, 8)
FORKS = 2000
NOTHING = 'define i32 @nothing(i8** %p, i64* %a, i64 %c, i8* %s) "target-cpu"="generic" { ret i32 0 }'


def alive() -> set[str]:
    """The identifiers of this process's threads."""
    return {thread.name for thread in Path("/proc/self/task").iterdir()}


def empty_kernel() -> tuple[int, object]:
    """The address of a kernel that does nothing, and the object that owns its code."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(NOTHING), machine)
    engine.finalize_object()
    return engine.get_function_address("nothing"), engine


def fork_join_us(team: _native.Team, width: int) -> float:
    """How many us an op of `width` empty chunks takes longer on `width` workers than on one; the median of five."""
    address, engine = empty_kernel()
    nothing: list[Any] = []
    steps = [(address, nothing, nothing, width, 1e6) for _ in range(FORKS)]
    tasks = [(i, 1, float(FORKS - i), False) for i in range(FORKS)]
    program = _native.Program(steps, tasks, [[i + 1] for i in range(FORKS - 1)] + [[]], [], 0, 0)

    def seconds(intra_op: int) -> float:
        start = time.perf_counter()
        program.run(team, [], intra_op=intra_op, inter_op=1)
        return time.perf_counter() - start

    seconds(width)
    found = sorted(seconds(width) - seconds(1) for _ in range(5))[2]
    assert engine is not None
    return found / FORKS * 1e6


def throughput(session: treadle.Session, feed: dict[str, np.ndarray], clients: int, seconds: float) -> float:
    """Runs a second of so many client threads together."""
    end = time.perf_counter() + seconds
    counts = [0] * clients

    def client(number: int) -> None:
        while time.perf_counter() < end:
            session.run(feed)
            counts[number] += 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    most = len(alive())
    for thread in threads:
        while thread.is_alive():
            most = max(most, len(alive()))
            thread.join(0.05)
    seen[clients] = most - clients
    return sum(counts) / (time.perf_counter() - start)


seen: dict[int, int] = {}
"""The most threads beside the clients, by number of clients."""


def engine(backend: str, intra_op: int, seconds: float) -> tuple[dict[str, Any], Answer]:
    """Measures the cost of a fork and join, and threads and throughput by number of clients."""
    treadle.threads.set_backend(backend)
    treadle.threads.set(intra_op=intra_op, inter_op=intra_op)
    model = small.convolutional(channels=64, size=57)
    session, feed = treadle.Session(model), small.inputs_for(model)
    session.run(feed, intra_op=1, inter_op=1)  # compiles, and starts no thread
    before = len(alive())
    cost = fork_join_us(treadle.threads.default_team(), intra_op)
    runs = {clients: throughput(session, feed, clients, seconds) for clients in CLIENTS}
    threads = {clients: count - before for clients, count in seen.items()}
    return {"fork_join_us": cost, "runs": runs, "threads": threads}, lambda _: None
