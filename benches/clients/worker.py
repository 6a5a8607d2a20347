"""What the processes of this benchmark load: one session of an engine, which several client threads use."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benches.clients.engines import ENGINES, Maker
from benches.harness.inputs import read_inputs
from benches.harness.outputs import arrays
from benches.harness.worker import Answer


def thread_count() -> int:
    """The number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir()))


THREADS_BEFORE = thread_count()
"""The threads that Python and NumPy have."""


def measure(maker: Maker, clients: int, seconds: float, wanted: list[bytes]) -> dict[str, Any]:
    """Lets `clients` threads run for `seconds` from one start, and compares the last outputs of each with `wanted`.

    Returns latencies in ns, the elapsed time and the system's CPU time in seconds, the threads that the engine has
    beside the clients, and whether the last outputs of every client are `wanted`, bit for bit.
    """
    latencies: list[list[int]] = [[] for _ in range(clients)]
    same: list[bool] = []
    runs = [maker() for _ in range(clients)]
    gate = threading.Barrier(clients + 1)
    end = [0]

    def client(run: Callable[[], object], mine: list[int]) -> None:
        result = run()
        gate.wait()
        while (before := time.perf_counter_ns()) < end[0]:
            result = run()
            mine.append(time.perf_counter_ns() - before)
        same.append([output.tobytes() for output in arrays(result)] == wanted)

    threads = [threading.Thread(target=client, args=pair) for pair in zip(runs, latencies, strict=True)]
    for thread in threads:
        thread.start()
    end[0] = time.perf_counter_ns() + 10**12
    gate.wait()
    system, start = os.times().system, time.perf_counter_ns()
    end[0] = start + int(seconds * 1e9)
    time.sleep(seconds / 2)
    added = thread_count() - THREADS_BEFORE - clients
    for thread in threads:
        thread.join()
    elapsed = (time.perf_counter_ns() - start) / 1e9
    system = os.times().system - system
    every = [value for each in latencies for value in each]
    is_same = len(same) == clients and all(same)
    return {"latencies_ns": every, "seconds": elapsed, "system_seconds": system, "threads": added, "same": is_same}


def engine(name: str, model: str, inputs: str, outputs: str) -> tuple[dict[str, Any], Answer]:
    """Loads the model and writes one run's outputs to the .npz file `outputs`; a question is (clients, seconds)."""
    maker = ENGINES[name](model, read_inputs(inputs))
    first = [output.copy() for output in arrays(maker()())]
    np.savez(outputs, *first)
    wanted = [output.tobytes() for output in first]

    def answer(question: tuple[int, float]) -> dict[str, Any]:
        clients, seconds = question
        return measure(maker, clients, seconds, wanted)

    return {}, answer
