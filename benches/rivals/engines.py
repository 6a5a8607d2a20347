"""The engines: how each loads a model and runs it with a given number of threads.

Each function is called in a process of its own. Spinning after a run has the engine's default: the harness stops the
processes of engines that are not being timed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

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


def openvino(model: str, inputs: Mapping[str, Array], threads: int, precision: str = "f32") -> tuple[Run, str]:
    """OpenVINO: latency hint, fp32 or bf16, `threads` inference threads, one request reused."""
    import openvino as ov

    core = ov.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": precision,
        "NUM_STREAMS": 1,
    }
    compiled = core.compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    feed = [inputs[port.get_any_name()] for port in compiled.inputs]

    def run() -> list[Array]:
        request.infer(feed, share_inputs=True, share_outputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return run, ov.__version__.split("-")[0]


def treadle(
    model: str, inputs: Mapping[str, Array], threads: int, precision: Literal["f32", "bf16"] = "f32"
) -> tuple[Run, str]:
    """treadle with `threads` for both levels."""
    import treadle as library

    library.threads.set(intra_op=threads, inter_op=threads)
    session = library.Session(model, precision=precision)
    feed = dict(inputs)
    return lambda: list(session.run(feed).values()), library.__version__


def pytorch(model: str, inputs: Mapping[str, Array], threads: int) -> tuple[Run, str]:
    """PyTorch: the graph traced to TorchScript, frozen and optimised for inference (oneDNN kernels)."""
    import warnings

    import torch

    from benches.rivals.replay.pytorch import Replay
    from benches.rivals.replay.walk import walk

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    graph = walk(model)
    feed = [torch.from_numpy(inputs[name]) for name in graph.inputs]
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", torch.jit.TracerWarning
        )  # it warns of constants, which constants of the model are
        traced = torch.jit.trace(Replay(graph).eval(), feed, check_trace=False)
        script = torch.jit.optimize_for_inference(torch.jit.freeze(traced))

    def run() -> list[Array]:
        with torch.inference_mode():
            return [tensor.numpy() for tensor in script(*feed)]

    return run, torch.__version__.split("+")[0]


def tensorflow(model: str, inputs: Mapping[str, Array], threads: int) -> tuple[Run, str]:
    """TensorFlow: a tf.function of the graph with frozen weights (Grappler, oneDNN), not XLA, which is JAX's row."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    from benches.rivals.replay.tensorflow import OPS, nchw, nhwc
    from benches.rivals.replay.walk import walk

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    graph = walk(model)
    order, back = (nhwc, nchw) if graph.has("Conv") else (np.asarray, np.asarray)
    feed = [tf.constant(order(inputs[name])) for name in graph.inputs]
    function = tf.function(lambda *given: graph.run(OPS, list(given), lambda array: array)).get_concrete_function(*feed)
    return lambda: [back(tensor.numpy()) for tensor in function(*feed)], tf.__version__


def jax(model: str, inputs: Mapping[str, Array], threads: int) -> tuple[Run, str]:
    """JAX: the graph under jit, weights on its device; its only thread setting is the CPUs of the process."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax as library

    from benches.rivals.replay.walk import walk
    from benches.rivals.replay.xla import OPS

    graph = walk(model)
    feed = [library.device_put(inputs[name]) for name in graph.inputs]
    weights = graph.constants()
    places = {id(array): i for i, array in enumerate(weights)}

    def function(constants: list[Any], given: list[Any]) -> list[Any]:
        results: list[Any] = graph.run(OPS, given, lambda array: constants[places[id(array)]])
        return results

    held = [library.device_put(array) for array in weights]
    compiled = library.jit(function).lower(held, feed).compile()
    return lambda: [np.asarray(array) for array in compiled(held, feed)], library.__version__


def mnn(model: str, inputs: Mapping[str, Array], threads: int) -> tuple[Run, str]:
    """MNN: the model converted by its mnnconvert, precision "high" (fp32), Winograd included."""
    import MNN
    import onnx

    names = [value.name for value in onnx.load(model, load_external_data=False).graph.output]
    manager = MNN.nn.create_runtime_manager(({"backend": "CPU", "numThread": threads, "precision": "high"},))
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.mnn")
        _convert(
            Path(sys.executable).parent / "mnnconvert",
            "-f",
            "ONNX",
            "--modelFile",
            model,
            "--MNNModel",
            file,
            "--bizCode",
            "bench",
        )
        network = MNN.nn.load_module_from_file(file, list(inputs), names, runtime_manager=manager)
    tensors = MNN.expr
    feed = []
    for array in map(_with_short_integers, inputs.values()):
        dtype = tensors.float if array.dtype == np.float32 else tensors.int
        feed.append(tensors.const(array, list(array.shape), tensors.NCHW, dtype))

    def run() -> list[Array]:
        return [np.array(tensors.convert(result, tensors.NCHW).read()) for result in network.forward(feed)]

    return run, importlib.metadata.version("mnn")


def ncnn(model: str, inputs: Mapping[str, Array], threads: int) -> tuple[Run, str]:
    """ncnn: the model converted by pnnx with fp32 weights, no fp16 or bf16; images without their axis of one image."""
    import ncnn as library

    kinds = {"float32": "f32", "int32": "i32", "int64": "i64"}
    shapes = ",".join(f"[{','.join(map(str, array.shape))}]{kinds[str(array.dtype)]}" for array in inputs.values())
    network = library.Net()
    network.opt.num_threads = threads
    network.opt.use_fp16_packed = network.opt.use_fp16_storage = network.opt.use_fp16_arithmetic = False
    network.opt.use_bf16_storage = False
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(model, Path(folder) / "model.onnx")
        _convert(_in_package("pnnx", "pnnx"), str(copy), f"inputshape={shapes}", "fp16=0", folder=folder)
        for load, file in ((network.load_param, "model.ncnn.param"), (network.load_model, "model.ncnn.bin")):
            if load(str(Path(folder) / file)) != 0:
                raise RuntimeError(f"ncnn cannot load {file}")
    if len(network.input_names()) != len(inputs):
        raise RuntimeError(f"the converted model has the inputs {network.input_names()}, not {list(inputs)}")
    feed = [library.Mat(array[0]).clone() for array in map(_with_short_integers, inputs.values())]

    def run() -> list[Array]:
        extractor = network.create_extractor()
        for name, mat in zip(network.input_names(), feed, strict=True):
            extractor.input(name, mat)
        return [np.array(extractor.extract(name)[1])[None] for name in network.output_names()]

    return run, importlib.metadata.version("ncnn")


def _with_short_integers(array: Array) -> Array:
    """Returns `array`, or its int64 as int32, which these engines take."""
    return array.astype(np.int32) if array.dtype == np.int64 else array


def _in_package(package: str, file: str) -> Path:
    """Returns a file of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"{package} is not installed")
    return Path(found.submodule_search_locations[0]) / file


def _convert(tool: Path, *arguments: str, folder: str | None = None) -> None:
    """Runs a converter. Raises ImportError if it is missing, RuntimeError with what it printed if it fails."""
    if not tool.exists():
        raise ImportError(f"{tool.name} is not installed")
    done = subprocess.run([str(tool), *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{tool.name} ended with {done.returncode}: {done.stderr[-500:]}")


Engine = Callable[[str, Mapping[str, Array], int], tuple[Run, str]]

ENGINES: dict[str, Engine] = {
    "treadle": treadle,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "pytorch": pytorch,
    "tensorflow": tensorflow,
    "jax": jax,
    "mnn": mnn,
    "ncnn": ncnn,
}

BY_PRECISION: dict[str, dict[str, Engine]] = {
    "f32": ENGINES,
    "bf16": {
        "treadle": partial(treadle, precision="bf16"),
        "onnxruntime": onnxruntime,
        "openvino": partial(openvino, precision="bf16"),
    },
}
"""The engines that are compared at each precision.

ONNX Runtime has no bf16 on CPUs: at bf16 it runs fp32, from which errors are measured.
"""

BY_GROUP: dict[str, tuple[str, ...]] = {
    "quantized": ("treadle", "onnxruntime", "openvino"),
    "packages": ("treadle", "onnxruntime"),
}
"""The engines for a group whose models not all engines take."""
