"""What the processes of this benchmark load: a PyTorch module and one of the ways to run it."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch

from benches.harness.timing import latencies
from benches.harness.worker import Answer
from benches.torch.engines import ENGINES
from benches.torch.models import MODELS
from benches.torch.small import SMALL


def engine(name: str, model: str, threads: int, outputs: str) -> tuple[dict[str, Any], Answer]:
    """Runs the module once, as its engine does, and writes its outputs to the .npz file `outputs`."""
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript's own
    module, inputs = {**MODELS, **SMALL}[model]()
    start = time.perf_counter()
    with torch.inference_mode():
        try:
            run, version = ENGINES[name](module, inputs, threads)
            result = run(*inputs)
        except Exception as error:
            raise RuntimeError(f"it cannot run {model}: {str(error)[:200]}") from error
        loaded = time.perf_counter() - start
        np.savez(outputs, *([result] if isinstance(result, torch.Tensor) else result))

    def answer(seconds: float) -> list[int]:
        with torch.inference_mode():
            return latencies(lambda: run(*inputs), seconds)

    return {"version": version, "load_seconds": loaded}, answer
