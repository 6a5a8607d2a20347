"""One engine in a process of its own: `worker.py ENGINE WHAT INTRA INTER`, with what of benches.programs.work.

ENGINE is treadle, treadle-process (Python functions in worker processes) or tensorflow; for scripts treadle-torch or torch. Prints
`ready` and the result's sum when it has run once; then for each line of standard input the seconds that one more run takes.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benches.programs import scripts, work

MODULES = {
    "treadle": "treadle.compat.tensorflow",
    "treadle-process": "treadle.compat.tensorflow",
    "tensorflow": "tensorflow",
    "treadle-torch": "treadle.compat.torch",
    "torch": "torch",
}
WORK = {**work.WORK, **scripts.WORK}


def main(engine: str, what: str, intra: int, inter: int) -> None:
    """Make the work ready, then time it as often as asked."""
    try:
        module = importlib.import_module(MODULES[engine])
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    if engine == "treadle-process":
        import treadle

        treadle.python_ops(executor="process")
    run = WORK[what](module, intra, inter)
    total = float(sum(result.sum() for result in run()))
    print(json.dumps({"ready": getattr(module, "__version__", engine), "total": total}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
