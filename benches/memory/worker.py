"""One engine in a process of its own: `worker.py ENGINE MODEL INPUTS.npz`. Prints what it measured as JSON.

Sizes are in MB (10^6 bytes): resident memory after each step, and the peak (VmHWM) after loading and three runs. Times
are in seconds: `import` of the engine's package, and `load`, after which a run finds everything in place.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")
RUNS = 3


def megabytes(field: str) -> float:
    """A field of /proc/self/status."""
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1.024e-3


def shares(session: Any) -> dict[str, float]:
    """What weft's memory consists of beside imports: constants (packed weights among them), an arena, machine code.

    Of a model that was compiled here also `intermediates`: the arena if no two values shared memory.
    """
    runnable = session._plans.all()[0]
    layout = runnable.executable.layout
    constants, code = layout.kept.bytes
    found = {"constants": constants * 1e-6, "arena": layout.arena_bytes * 1e-6, "code": code * 1e-6}
    plan = getattr(runnable, "plan", None)
    if plan is not None:
        found["intermediates"] = sum(one.size for one in plan.buffers if one.home.value == "arena") * 1e-6
    return found


def main() -> None:
    engine, model, inputs = sys.argv[1:]
    found: dict[str, Any] = {"interpreter": megabytes("VmRSS")}
    import numpy as np

    with np.load(inputs) as stored:
        feed = dict(stored)
    found["numpy"] = megabytes("VmRSS")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benches.memory.engines import ENGINES

    start, cpu = time.perf_counter(), time.process_time()
    try:
        load, found["version"] = ENGINES[engine]()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    found["import_seconds"], found["import_cpu_seconds"] = time.perf_counter() - start, time.process_time() - cpu
    found["imports"] = megabytes("VmRSS")
    start, cpu = time.perf_counter(), time.process_time()
    run = load(model)
    found["load_seconds"], found["load_cpu_seconds"] = time.perf_counter() - start, time.process_time() - cpu
    found["loaded"], found["load_peak"] = megabytes("VmRSS"), megabytes("VmHWM")
    for _ in range(RUNS):
        run(feed)
    found["after"], found["peak"] = megabytes("VmRSS"), megabytes("VmHWM")
    session = getattr(run, "__self__", None)
    if session is not None:
        found["shares"] = shares(session)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
