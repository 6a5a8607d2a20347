"""The engines side by side: how each loads a model and runs it with a given number of threads.

Each class is used in a process of its own (`worker.py`). Spinning after a run is left as each engine
has it by default: the driver stops the processes of the engines that are not being timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Run = Callable[[], list[Array]]


def onnxruntime(model: str, inputs: Mapping[str, Array], threads: int) -> tuple[Run, str]:
    """ONNX Runtime: sequential mode, `threads` intra-op threads, all optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = dict(inputs)
    return lambda: session.run(None, feed), ort.__version__


def openvino(model: str, inputs: Mapping[str, Array], threads: int) -> tuple[Run, str]:
    """OpenVINO: latency hint, fp32, `threads` inference threads, one request reused."""
    import openvino as ov

    core = ov.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    compiled = core.compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    feed = [inputs[port.get_any_name()] for port in compiled.inputs]

    def run() -> list[Array]:
        request.infer(feed, share_inputs=True, share_outputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return run, ov.__version__.split("-")[0]


def weft(model: str, inputs: Mapping[str, Array], threads: int) -> tuple[Run, str]:
    """weft with `threads` for both levels."""
    import weft as library

    library.threads.set(intra_op=threads, inter_op=threads)
    session = library.Session(model)
    feed = dict(inputs)
    return lambda: list(session.run(feed).values()), library.__version__


ENGINES: dict[str, Callable[[str, Mapping[str, Array], int], tuple[Run, str]]] = {
    "weft": weft,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
