"""One turn of another engine: the program of a process of its own."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from treadle.tune.turns import turn

Array = np.ndarray[Any, Any]
Run = Callable[[], object]


def onnxruntime(model: str, feed: Mapping[str, Array], intra_op: int, inter_op: int) -> Run:
    """A session with these numbers; more than one op at once is its parallel mode."""
    library: Any = importlib.import_module("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = intra_op, inter_op
    if inter_op > 1:
        options.execution_mode = library.ExecutionMode.ORT_PARALLEL
    options.log_severity_level = 4
    session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)


def openvino(model: str, feed: Mapping[str, Array], intra_op: int, _inter_op: int) -> Run:
    """A compiled model for low latency with `intra_op` threads; each client has a request of its own."""
    library: Any = importlib.import_module("openvino")
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": intra_op,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    compiled = library.Core().compile_model(model, "CPU", settings)
    inputs = [feed[port.get_any_name()] for port in compiled.inputs]
    own = threading.local()

    def run() -> object:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        return own.request.infer(inputs, share_inputs=True)

    return run


Loader = Callable[[str, Mapping[str, Array], int, int], Run]

ENGINES: dict[str, Loader] = {"onnxruntime": onnxruntime, "openvino": openvino}
"""Engines that `treadle sweep --engine` measures beside treadle."""

ONE_LEVEL = frozenset({"openvino"})
"""Engines that execute one op at a time."""


def main(request: str) -> None:
    """Print the latencies of a turn, in JSON: `{"latencies": [ns, ...]}`.

    Or `{"refused": reason}` if the engine is not installed or cannot run the model. `request` is JSON of an object with
    `engine`, `model`, `names` of inputs, `inputs` (a .npz file of arrays in their order), `intra_op`, `inter_op`,
    `clients` and `seconds`.
    """
    asked = json.loads(request)
    answer: dict[str, Any]
    try:
        with np.load(asked["inputs"], allow_pickle=False) as file:
            feed = {name: file[f"arr_{at}"] for at, name in enumerate(asked["names"])}
        run = ENGINES[asked["engine"]](asked["model"], feed, asked["intra_op"], asked["inter_op"])
        answer = {"latencies": turn(run, asked["clients"], asked["seconds"])}
    except Exception as error:  # noqa: BLE001 - exceptions of engines have no other common base
        answer = {"refused": " ".join(str(error).split())[:300] or type(error).__name__}
    print(json.dumps(answer))  # noqa: T201 - to the process that asked
