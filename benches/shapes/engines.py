"""How each engine loads a model with open dimensions.

A loader takes the model's path, a number of threads, and whether the outputs of a run are inputs of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], list[Array]]


class Loaded(NamedTuple):
    """A loaded model: `run` takes inputs by name and returns outputs in the model's order.

    `compiles` returns how often the engine has compiled the model; it is 0 for engines that do not say.
    """

    run: Run
    version: str
    compiles: Callable[[], int] = lambda: 0


Loader = Callable[[str, int, bool], Loaded]


def treadle(model: str, threads: int, chained: bool) -> Loaded:
    """treadle with `threads` for both levels; every output is a fresh array."""
    import treadle as library

    library.threads.set(intra_op=threads, inter_op=threads)
    session = library.Session(model)
    return Loaded(lambda feed: list(session.run(feed).values()), library.__version__, lambda: session.compiles)


def onnxruntime(model: str, threads: int, chained: bool) -> Loaded:
    """ONNX Runtime: sequential mode, all optimisations; every output is a fresh array."""
    import onnxruntime as library

    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return Loaded(lambda feed: session.run(None, feed), library.__version__)


def openvino(model: str, threads: int, chained: bool) -> Loaded:
    """OpenVINO: latency hint, fp32. Requests own their outputs: two of them take turns where runs are `chained`."""
    import openvino as library

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    compiled = library.Core().compile_model(model, "CPU", settings)
    requests = cycle([compiled.create_infer_request() for _ in range(2 if chained else 1)])
    names = [port.get_any_name() for port in compiled.inputs]
    count = len(compiled.outputs)

    def run(feed: Mapping[str, Array]) -> list[Array]:
        request = next(requests)
        request.infer([feed[name] for name in names], share_inputs=True, share_outputs=True)
        return [request.get_output_tensor(i).data for i in range(count)]

    return Loaded(run, library.__version__.split("-")[0])


ENGINES: dict[str, Loader] = {"treadle": treadle, "onnxruntime": onnxruntime, "openvino": openvino}
