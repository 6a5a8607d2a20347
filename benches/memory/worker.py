"""What the processes of this benchmark measure while they load one engine; there are no questions to answer.

Sizes are in MB (10^6 bytes): resident memory after each step, and the peak (VmHWM) after loading and three runs;
`helper` is the peak of the largest process that the engine started, 0 if it started none. Times are in seconds:
`import` of the engine's package, and `load`, after which a run finds everything in place. CPU time is that of all these
processes.
"""

from __future__ import annotations

import os
import re
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benches.harness.worker import Answer  # at run time an import would be part of what is measured

STATUS = Path("/proc/self/status")
RUNS = 3


def megabytes(field: str, status: Path = STATUS) -> float:
    """Reads a field of a process's `status` in /proc, by default this one's."""
    found = re.search(rf"^{field}:\s+(\d+) kB", status.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1.024e-3


def running_children() -> list[Path]:
    """The folders in /proc of the processes that this one started and that have not ended."""
    lists = Path("/proc/self/task").glob("*/children")
    return [Path("/proc") / number for each in lists for number in each.read_text().split()]


def helper() -> float:
    """The peak of the largest process that this one started."""
    peaks = [resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1.024e-3]
    for child in running_children():
        with suppress(OSError):  # it has ended
            peaks.append(megabytes("VmHWM", child / "status"))
    return max(peaks)


def cpu_seconds() -> float:
    """CPU time of this process and of those that it started."""
    ticks = 0
    for child in running_children():
        with suppress(OSError):  # it has ended
            fields = (child / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def shares(session: Any, *, first: bool) -> dict[str, float]:
    """The parts of treadle's memory beside imports: constants (with packed weights), an arena, machine code.

    The plans of models with open dimensions do not tell theirs. After a `first` load also `intermediates`, the size of
    an arena in which no two values shared memory; this compiles.
    """
    from treadle.compile import runner_of

    compiled: Any = runner_of(session).plans.all()[0]
    layout = compiled.executable.layout
    constants, code = layout.kept.bytes
    found = {"constants": constants * 1e-6, "arena": layout.arena_bytes * 1e-6, "code": code * 1e-6}
    if first:
        buffers = session.plans()[0].buffers
        found["intermediates"] = sum(one.size for one in buffers if one.home.value == "arena") * 1e-6
    return found


def engine(name: str, model: str, inputs: str, outputs: str) -> tuple[dict[str, Any], Answer]:
    """Measures everything, then writes the outputs of the last run to the .npz file `outputs`."""
    found: dict[str, Any] = {"interpreter": megabytes("VmRSS")}
    import numpy as np

    with np.load(inputs) as stored:
        feed = dict(stored)
    found["numpy"] = megabytes("VmRSS")
    from benches.memory.engines import ENGINES

    start, cpu = time.perf_counter(), cpu_seconds()
    load, found["version"] = ENGINES[name]()
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
    if session is not None and all(isinstance(dim, int) for tensor in session.inputs for dim in tensor.shape):
        found["shares"] = shares(session, first=found["helper"] > 0)
    from benches.harness.outputs import arrays

    np.savez(outputs, *arrays(result))
    return found, lambda _: None
