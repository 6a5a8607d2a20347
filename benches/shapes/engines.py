"""How each engine loads a model with open dimensions.

A loader takes the model's path, a number of threads, and whether the outputs of a run are inputs of the next one. Those
of decoders take the names of the inputs of earlier tokens, in the order of the outputs that they are, and their first
shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
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


class Decoder(NamedTuple):
    """A loaded decoder: `start` begins a generation, `step` takes tokens and returns their logits."""

    start: Callable[[], None]
    step: Callable[[Array], Array]
    version: str
    compiles: Callable[[], int] = lambda: 0


DecoderLoader = Callable[[str, int, Sequence[str], Sequence[int]], Decoder]


def treadle(model: str, threads: int, chained: bool) -> Loaded:
    """treadle with `threads` for both levels; every output is a fresh array."""
    import treadle as library

    library.threads.set(intra_op=threads, inter_op=threads)
    session = library.Session(model)
    return Loaded(lambda feed: list(session.run(feed).values()), library.__version__, lambda: session.compiles)


def onnxruntime(model: str, threads: int, chained: bool) -> Loaded:
    """ONNX Runtime: sequential mode, all optimisations; every output is a fresh array."""
    import onnxruntime as library

    session = onnxruntime_session(model, threads)
    return Loaded(lambda feed: session.run(None, feed), library.__version__)


def onnxruntime_session(model: str, threads: int) -> Any:
    """A session in sequential mode with all optimisations."""
    import onnxruntime as library

    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return library.InferenceSession(model, options, providers=["CPUExecutionProvider"])


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


def passed_on(loader: Loader, model: str, threads: int, past: Sequence[str], shape: Sequence[int]) -> Decoder:
    """Passes what a run returns to the next one."""
    loaded = loader(model, threads, True)
    kept: dict[str, Array] = {}

    def start() -> None:
        kept.update({name: np.zeros(shape, np.float32) for name in past})

    def step(tokens: Array) -> Array:
        logits, *present = loaded.run({"input_ids": tokens, **kept})
        kept.update(zip(past, present, strict=True))
        return logits

    return Decoder(start, step, loaded.version, loaded.compiles)


def treadle_state(model: str, threads: int, past: Sequence[str], shape: Sequence[int]) -> Decoder:
    """treadle keeps the past in a state of the session."""
    import treadle as library

    library.threads.set(intra_op=threads, inter_op=threads)
    session = library.Session(model)
    state = session.state()
    return Decoder(
        state.reset,
        lambda tokens: state.run({"input_ids": tokens})["logits"],
        library.__version__,
        lambda: session.compiles,
    )


def onnxruntime_binding(model: str, threads: int, past: Sequence[str], shape: Sequence[int]) -> Decoder:
    """ONNX Runtime keeps the past in values of its own, bound to inputs and outputs."""
    import onnxruntime as library

    session = onnxruntime_session(model, threads)
    first, *present = (output.name for output in session.get_outputs())
    kept: list[Any] = []

    def start() -> None:
        kept[:] = [library.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)) for _ in past]

    def step(tokens: Array) -> Array:
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", tokens)
        for name, value in zip(past, kept, strict=True):
            binding.bind_ortvalue_input(name, value)
        for name in (first, *present):
            binding.bind_output(name, "cpu")
        session.run_with_iobinding(binding)
        logits, *kept[:] = binding.get_outputs()
        array: Array = logits.numpy()
        return array

    return Decoder(start, step, library.__version__)


DECODERS: dict[str, DecoderLoader] = {
    "treadle state": treadle_state,
    **{name: partial(passed_on, loader) for name, loader in ENGINES.items()},
    "onnxruntime binding": onnxruntime_binding,
}
