"""What the processes of this benchmark load: an engine with a model, or work that shows a limit of the machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benches.harness.inputs import read_inputs
from benches.harness.timing import latencies
from benches.harness.worker import Answer
from benches.rivals.engines import BY_PRECISION
from benches.rivals.limits import LIMITS


def engine(
    name: str, model: str, threads: int, inputs: str, outputs: str, precision: str
) -> tuple[dict[str, Any], Answer]:
    """Loads the model, runs it once and writes its outputs to the .npz file `outputs`."""
    feed = read_inputs(inputs)
    start = time.perf_counter()
    try:
        run, version = BY_PRECISION[precision][name](model, feed, threads)
    except ImportError:
        raise
    except Exception as error:
        raise RuntimeError(f"it cannot take {Path(model).stem}: {error}") from error
    loaded = time.perf_counter() - start
    np.savez(outputs, *run())
    return {"version": version, "load_seconds": loaded}, lambda seconds: latencies(run, seconds)


def limit(name: str, threads: int) -> tuple[dict[str, Any], Answer]:
    """Prepares the work that shows one of LIMITS; reports the operations or bytes of one run."""
    run, work = LIMITS[name](threads)
    run()
    return {"work": work}, lambda seconds: latencies(run, seconds)
