"""Checks treadle's promises on whole models.

    python -m benches.models.check [MODEL.onnx ...]

For each model: whether every step is a native kernel, the relative L2 distance of its outputs from ONNX Runtime's
(skipped where that is not installed), whether they are bitwise the same for intra_op x inter_op in {1, 2, 4} x {1, 2,
4}, and the seconds to load it with an empty and with a filled cache folder, each in a new process. Ends with 1 if a
promise is broken. Without models, those of `benches.models` are built first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

import treadle
from benches.harness.inputs import random_inputs
from benches.harness.outputs import is_right, relative_error
from benches.harness.report import print_header, print_row
from benches.models import build

COUNTS = (1, 2, 4)
LOAD = """
import sys, time, treadle
treadle.Session  # imports the compiler
start = time.perf_counter()
treadle.Session(sys.argv[1])
print(time.perf_counter() - start)
"""


def reference(model: str, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """The outputs of ONNX Runtime; None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, inputs)
    return results


def load_seconds(model: str) -> tuple[float, float]:
    """Seconds to load `model` with an empty cache folder, and again with the folder as the first load left it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TREADLE_CACHE": str(Path(folder) / "cache")}
        command = [sys.executable, "-c", LOAD, model]
        cold, warm = (float(subprocess.check_output(command, env=environment)) for _ in range(2))
    return cold, warm


def check(model: str) -> bool:
    """Prints a row for `model`; true if all promises hold."""
    inputs = random_inputs(model)
    session = treadle.Session(model)
    got = list(session.run(inputs).values())
    calls = [call for plan in session.plans() for call in plan.calls]
    native = sum(call.spec is not None for call in calls)
    results = set()
    for intra, inter in product(COUNTS, COUNTS):
        treadle.threads.set(intra_op=intra, inter_op=inter)
        results.add(tuple(array.tobytes() for array in session.run(inputs).values()))
    treadle.threads.set(intra_op=0, inter_op=0)
    wanted = reference(model, inputs)
    error = None if wanted is None else relative_error(got, wanted)
    cold, warm = load_seconds(model)
    cells = (
        Path(model).stem,
        f"{native} of {len(calls)}",
        "-" if error is None else f"{error:.0e}",
        "yes" if len(results) == 1 else "NO",
        f"{cold:.1f}",
        f"{warm:.2f}",
    )
    print_row(cells)
    return is_right(model, error, same=len(results) == 1) and native == len(calls)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    models = parser.parse_args().models or build.all_models()
    print_header("model", "native steps", "error", "bitwise same", "cold load (s)", "warm load (s)")
    kept = [check(model) for model in models]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
