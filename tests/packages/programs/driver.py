"""Runs a program of this folder and says what it took: driver.py PROGRAM [NUMBER OF CPUS].

Prints a line of JSON when it is ready and has answered once. For each line on stdin it answers again and prints the
seconds of that. At the end it prints the number of threads and the largest resident memory.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import sys
import time
from pathlib import Path


def main(program: str, cpus: int | None) -> None:
    """Run `program` on this many CPUs; None: all that the process has."""
    if cpus is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
    folder = Path(__file__).parent
    sys.path.insert(0, str(folder))
    start = time.perf_counter()
    answers = runpy.run_path(str(folder / f"{program}.py"))["prepare"]()
    ready = time.perf_counter()
    found = answers()
    first = time.perf_counter()
    print(json.dumps({"answers": found, "load_s": ready - start, "first_s": first - ready}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        answers()
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    print(json.dumps({"threads": threads, "peak_mb": peak / 1024}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
