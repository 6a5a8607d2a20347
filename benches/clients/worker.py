"""One engine in a process of its own, used by several threads: `worker.py ENGINE MODEL INPUTS.npz OUTPUTS.npz`.

Writes the outputs of one run. Then each line of standard input is `CLIENTS SECONDS`; the answer is
`{"latencies_ns": [...], "seconds": s, "system_seconds": s, "threads": n, "same": b}`: CPU time that the system took, the
threads that the engine added to those that Python and NumPy have, beside the clients, and whether every client's last
outputs were those of the first run, bit for bit.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benches.clients.engines import ENGINES, Maker
from benches.harness.outputs import arrays


def thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


THREADS_BEFORE = thread_count()


def measure(maker: Maker, clients: int, seconds: float, wanted: list[bytes]) -> dict[str, Any]:
    """Let `clients` threads run for `seconds`, all beginning together; each then has its last outputs compared."""
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
    beside = thread_count() - THREADS_BEFORE - clients
    for thread in threads:
        thread.join()
    took = (time.perf_counter_ns() - start) / 1e9
    system = os.times().system - system
    every = [value for each in latencies for value in each]
    is_same = len(same) == clients and all(same)
    return {"latencies_ns": every, "seconds": took, "system_seconds": system, "threads": beside, "same": is_same}


def main() -> None:
    engine, model, inputs, outputs = sys.argv[1:]
    try:
        maker = ENGINES[engine](model, dict(np.load(inputs)))
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    first = [output.copy() for output in arrays(maker()())]
    np.savez(outputs, *first)
    wanted = [output.tobytes() for output in first]
    print(json.dumps({"ready": engine}), flush=True)
    for line in sys.stdin:
        clients, seconds = line.split()
        print(json.dumps(measure(maker, int(clients), float(seconds), wanted)), flush=True)


if __name__ == "__main__":
    main()
