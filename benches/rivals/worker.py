"""One engine in a process of its own: `worker.py ENGINE MODEL THREADS INPUTS.npz OUTPUTS.npz PRECISION`.

Loads the model, runs it once, writes the outputs and answers `{"ready": ...}`. An engine of `limits` needs no model and
has no outputs; it answers with the work of one run. Then each line of standard
input is a number of seconds to run for; the answer is the list of latencies in ns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benches.rivals.engines import BY_PRECISION
from benches.rivals.limits import LIMITS

MAX_RUNS = 20_000


def main() -> None:
    engine, model, threads, inputs, outputs, precision = sys.argv[1:]
    if engine in LIMITS:
        sweep, work = LIMITS[engine](int(threads))
        sweep()
        answer_rounds(sweep, {"ready": "", "work": work})
        return
    feed = dict(np.load(inputs))
    start = time.perf_counter()
    try:
        run, version = BY_PRECISION[precision][engine](model, feed, int(threads))
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    except Exception as error:
        if engine == "treadle":
            raise
        print(json.dumps({"missing": f"it cannot take {Path(model).stem}: {error}"}), flush=True)
        return
    loaded = time.perf_counter() - start
    np.savez(outputs, *run())
    answer_rounds(run, {"ready": version, "load_seconds": loaded})


def answer_rounds(run: Callable[[], object], ready: dict[str, object]) -> None:
    """Say `ready`, then time `run` for as long as each line of standard input asks."""
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        latencies: list[int] = []
        end = time.perf_counter_ns() + int(float(line) * 1e9)
        while len(latencies) < 3 or (time.perf_counter_ns() < end and len(latencies) < MAX_RUNS):
            before = time.perf_counter_ns()
            run()
            latencies.append(time.perf_counter_ns() - before)
        print(json.dumps(latencies), flush=True)


if __name__ == "__main__":
    main()
