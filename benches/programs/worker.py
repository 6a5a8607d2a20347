"""What the processes of this benchmark load: an engine's module and a program of `work` or `scripts` written for it."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from benches.harness.worker import Answer
from benches.programs import scripts, work

MODULES = {
    "treadle": "treadle.compat.tensorflow",
    "treadle-process": "treadle.compat.tensorflow",
    "tensorflow": "tensorflow",
    "treadle-torch": "treadle.compat.torch",
    "torch": "torch",
}
"""The module of each engine; treadle-process runs Python functions in worker processes."""

WORK = {**work.WORK, **scripts.WORK}


def engine(name: str, program: str, intra: int, inter: int) -> tuple[dict[str, Any], Answer]:
    """Runs the program once and reports the sum of its results; each answer is the seconds that one more run takes."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    module = importlib.import_module(MODULES[name])
    if name == "treadle-process":
        import treadle

        treadle.python_ops(executor="process")
    run = WORK[program](module, intra, inter)
    total = float(sum(result.sum() for result in run()))

    def answer(_: Any) -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return {"version": getattr(module, "__version__", name), "total": total}, answer
