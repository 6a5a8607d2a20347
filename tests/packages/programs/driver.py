"""Runs a program of this folder and says what it took: driver.py PROGRAM [NUMBER OF CPUS].

Prints a line of JSON with the CPU time so far when it is ready and has answered once. For each line on stdin it answers
again and prints the seconds of that. At the end it prints the number of threads and the largest resident memory; on
treadle also how many of the threads are treadle's, and how often each op ran in one more answer, natively and by calls
of Python.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch


@contextmanager
def counting(calls: Counter[str]) -> Iterator[None]:
    """Count the calls of Python functions for nodes in the block by their op, and the objects that are made of outputs.

    Calls within plans count, calls for nodes between plans, and calls that make sequences and maps after a run.
    """
    from treadle.frontends.onnx.reference import ObjectFunction
    from treadle.frontends.onnx.zip_map import ZipMap
    from treadle.runtime import python_calls

    call = python_calls.call_for_node

    def counted(caller: Any, *args: Any, **kwargs: Any) -> Any:
        calls[caller.op] += 1
        return call(caller, *args, **kwargs)

    def counting_call(kind: type[Any]) -> Callable[[Any, Any], Any]:
        made = kind.__call__

        def make(self: Any, arrays: Any) -> Any:
            calls[kind.__name__] += 1
            return made(self, arrays)

        return make

    with ExitStack() as patches:
        for module in [each for name, each in sys.modules.items() if name.startswith("treadle.")]:
            if getattr(module, "call_for_node", None) is call:
                patches.enter_context(patch.object(module, "call_for_node", counted))
        for kind in (ZipMap, ObjectFunction):
            patches.enter_context(patch.object(kind, "__call__", counting_call(kind)))
        yield


def ways(answer: Callable[[], Any]) -> dict[str, dict[str, int]]:
    """Answer once more and count the steps of that by their op; calls of Python also by themselves."""
    import treadle

    in_python: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        counting(in_python),
        treadle.trace(Path(folder) / "trace.json") as recording,
    ):
        answer()
    return {"steps": Counter(event.op for event in recording.events), "steps_in_python": in_python}


def keep_to(cpus: set[int]) -> None:
    """Let all threads of the process run on these CPUs alone: onnxruntime pins its own to CPUs that are not allowed."""
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), cpus)


def main(program: str, cpus: int | None) -> None:
    """Run `program` on this many CPUs; None: all that the process has."""
    own = set(sorted(os.sched_getaffinity(0))[:cpus])
    if cpus is not None:
        keep_to(own)
    folder = Path(__file__).parent
    sys.path.insert(0, str(folder))
    sys.path.append(str(folder.parents[2]))
    answers = runpy.run_path(str(folder / f"{program}.py"))["prepare"]()
    first = answers()
    from benches.memory.worker import cpu_seconds

    print(json.dumps({"answers": first, "load_cpu_s": cpu_seconds()}), flush=True)
    if cpus is not None:
        keep_to(own)
    for _ in sys.stdin:
        start = time.perf_counter()
        answers()
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    threads = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    figures: dict[str, Any] = {"threads": len(threads), "peak_mb": peak / 1024}
    if "treadle" in sys.modules:
        figures["own_threads"] = sum(name.startswith("treadle-") for name in threads)
        figures.update(ways(answers))
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
