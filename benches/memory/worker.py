"""One engine in a process of its own: `worker.py ENGINE MODEL INPUTS.npz OUTPUTS.npz`. Prints what it measured as JSON.

Sizes are in MB (10^6 bytes): resident memory after each step, and the peak (VmHWM) after loading and three runs; `helper`
is the peak of the largest process that the engine started, 0 if it started none. Times are in seconds: `import` of the
engine's package, and `load`, after which a run finds everything in place. CPU time is that of all these processes.
The outputs of the last run are written when everything is measured.
"""

from __future__ import annotations

import json
import re
import resource
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


def helper() -> float:
    """The peak of the largest process that this one started and that has ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1.024e-3


def cpu_seconds() -> float:
    """Of this process and those it started that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def shares(session: Any, *, first: bool) -> dict[str, float]:
    """What treadle's memory consists of beside imports: constants (packed weights among them), an arena, machine code.

    After a `first` load also `intermediates`: the arena if no two values shared memory. The plan is made for that.
    """
    layout = session._plans.all()[0].executable.layout
    constants, code = layout.kept.bytes
    found = {"constants": constants * 1e-6, "arena": layout.arena_bytes * 1e-6, "code": code * 1e-6}
    if first:
        buffers = session.plans()[0].buffers
        found["intermediates"] = sum(one.size for one in buffers if one.home.value == "arena") * 1e-6
    return found


def main() -> None:
    engine, model, inputs, outputs = sys.argv[1:]
    found: dict[str, Any] = {"interpreter": megabytes("VmRSS")}
    import numpy as np

    with np.load(inputs) as stored:
        feed = dict(stored)
    found["numpy"] = megabytes("VmRSS")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benches.memory.engines import ENGINES

    start, cpu = time.perf_counter(), cpu_seconds()
    try:
        load, found["version"] = ENGINES[engine]()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    found["import_seconds"], found["import_cpu_seconds"] = time.perf_counter() - start, cpu_seconds() - cpu
    found["imports"] = megabytes("VmRSS")
    start, cpu = time.perf_counter(), cpu_seconds()
    run = load(model)
    found["load_seconds"], found["load_cpu_seconds"] = time.perf_counter() - start, cpu_seconds() - cpu
    found["helper"] = helper()
    found["loaded"], found["load_peak"] = megabytes("VmRSS"), megabytes("VmHWM")
    for _ in range(RUNS):
        result = run(feed)
    found["after"], found["peak"] = megabytes("VmRSS"), megabytes("VmHWM")
    session = getattr(run, "__self__", None)
    if session is not None:
        found["shares"] = shares(session, first=found["helper"] > 0)
    from benches.harness.outputs import arrays

    np.savez(outputs, *arrays(result))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
