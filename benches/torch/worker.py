"""One way to run a module, in a process of its own: `python -m benches.torch.worker ENGINE MODEL THREADS OUTPUT.npz`.

Runs the model, writes its output, answers `{"ready": ...}`, then times it as `benches.rivals.worker` does.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
import torch

from benches.rivals.worker import answer_rounds
from benches.torch.engines import ENGINES
from benches.torch.models import MODELS
from benches.torch.small import SMALL


def main() -> None:
    engine, model, threads, output = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.set_num_interop_threads(1)
    warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript's own
    module, inputs = {**MODELS, **SMALL}[model]()
    start = time.perf_counter()
    with torch.inference_mode():
        try:
            run, version = ENGINES[engine](module, inputs, int(threads))
            y = run(*inputs)
        except Exception as error:
            if engine == "treadle":
                raise
            print(json.dumps({"missing": f"it cannot run {model}: {str(error)[:200]}"}), flush=True)
            return
        loaded = time.perf_counter() - start
        np.savez(output, *([y] if isinstance(y, torch.Tensor) else y))
        answer_rounds(lambda: run(*inputs), {"ready": version, "load_seconds": loaded})


if __name__ == "__main__":
    main()
