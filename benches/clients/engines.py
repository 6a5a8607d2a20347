"""Sessions of engines for several client threads, with the settings that users choose from.

Each function loads a model and returns a function that is called once for each client and returns the client's `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Maker = Callable[[], Callable[[], object]]


def treadle(model: str, inputs: Mapping[str, Array]) -> Maker:
    """treadle, nothing set."""
    import treadle as library

    session = library.Session(model)
    return lambda: lambda: session.run(inputs)


def _onnxruntime(model: str, inputs: Mapping[str, Array], intra_op: int) -> Maker:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = intra_op
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: lambda: session.run(None, inputs)


def onnxruntime(model: str, inputs: Mapping[str, Array]) -> Maker:
    """ONNX Runtime, nothing set."""
    return _onnxruntime(model, inputs, 0)


def onnxruntime_intra_1(model: str, inputs: Mapping[str, Array]) -> Maker:
    """ONNX Runtime with one intra-op thread: every client computes alone."""
    return _onnxruntime(model, inputs, 1)


def _openvino(model: str, inputs: Mapping[str, Array], hint: str) -> Maker:
    import openvino as ov

    settings = {"PERFORMANCE_HINT": hint, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(model, "CPU", settings)
    feed = [inputs[port.get_any_name()] for port in compiled.inputs]

    def client() -> Callable[[], object]:
        request = compiled.create_infer_request()
        return lambda: request.infer(feed, share_inputs=True, share_outputs=True)

    return client


def openvino_latency(model: str, inputs: Mapping[str, Array]) -> Maker:
    """OpenVINO with the latency hint, its default; a request for each client."""
    return _openvino(model, inputs, "LATENCY")


def openvino_throughput(model: str, inputs: Mapping[str, Array]) -> Maker:
    """OpenVINO with the throughput hint: a stream for each core; a request for each client."""
    return _openvino(model, inputs, "THROUGHPUT")


ENGINES: dict[str, Callable[[str, Mapping[str, Array]], Maker]] = {
    "treadle": treadle,
    "onnxruntime": onnxruntime,
    "onnxruntime_intra_1": onnxruntime_intra_1,
    "openvino_latency": openvino_latency,
    "openvino_throughput": openvino_throughput,
}
