"""The process that loads one model once; there are no questions to answer."""

from __future__ import annotations

import time
from typing import Any

from benches.harness.worker import Answer
from benches.memory.worker import cpu_seconds


def session(model: str, threads: int) -> tuple[dict[str, Any], Answer]:
    """Loads `model`. Reports the time and the CPU time of importing treadle and of the load, in seconds.

    CPU time is that of this process and of the one that compiles.
    """
    start, cpu = time.perf_counter(), cpu_seconds()
    import treadle

    treadle.threads.set(intra_op=threads, inter_op=threads)
    imported, imported_cpu = time.perf_counter(), cpu_seconds()
    loaded = treadle.Session(model)
    found = {
        "import_seconds": imported - start,
        "import_cpu_seconds": imported_cpu - cpu,
        "load_seconds": time.perf_counter() - imported,
        "load_cpu_seconds": cpu_seconds() - imported_cpu,
        "compiles": loaded.compiles,
    }
    return found, lambda _: None
