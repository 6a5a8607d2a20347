"""How each engine loads a model, with default settings and with those that need the least memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], Any]

THREADS = 2


def treadle() -> tuple[Callable[[str], Run], str]:
    """treadle with default settings."""
    import treadle as library

    library.threads.set(intra_op=THREADS, inter_op=THREADS)
    session = library.Session

    def load(model: str) -> Run:
        return session(model).run

    return load, library.__version__


def _onnxruntime(**settings: Any) -> tuple[Callable[[str], Run], str]:
    import onnxruntime as library

    options = library.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = settings.get("arena", True)
    for name, value in settings.get("entries", {}).items():
        options.add_session_config_entry(name, value)

    def load(model: str) -> Run:
        session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return lambda feed: session.run(None, feed)

    return load, library.__version__


def onnxruntime() -> tuple[Callable[[str], Run], str]:
    """ONNX Runtime with default settings."""
    return _onnxruntime()


def onnxruntime_lean() -> tuple[Callable[[str], Run], str]:
    """ONNX Runtime without an arena and packed copies of weights, each weight allocated alone."""
    entries = {"session.disable_prepacking": "1", "session.use_device_allocator_for_initializers": "1"}
    return _onnxruntime(arena=False, entries=entries)


def onnxruntime_no_arena() -> tuple[Callable[[str], Run], str]:
    """ONNX Runtime without an arena."""
    return _onnxruntime(arena=False)


def openvino() -> tuple[Callable[[str], Run], str]:
    """OpenVINO: one stream, fp32."""
    import openvino as library

    core = library.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }

    def load(model: str) -> Run:
        compiled = core.compile_model(model, "CPU", settings)
        request = compiled.create_infer_request()
        return lambda feed: request.infer([feed[port.get_any_name()] for port in compiled.inputs], share_inputs=True)

    return load, library.__version__.split("-")[0]


ENGINES: dict[str, Callable[[], tuple[Callable[[str], Run], str]]] = {
    "treadle": treadle,
    "onnxruntime": onnxruntime,
    "onnxruntime, no arena": onnxruntime_no_arena,
    "onnxruntime, lean": onnxruntime_lean,
    "openvino": openvino,
}
