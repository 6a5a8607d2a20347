"""The process that loads one model once; there are no questions to answer."""

from __future__ import annotations

import time
from typing import Any

from benches.harness.worker import Answer
from benches.memory.worker import cpu_seconds


def _import_all() -> None:
    """Loads a tiny model of another kind, after which LLVM and all modules that loads need are there."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper

    import treadle

    nodes = [helper.make_node("Cos", ["x"], ["y"]), helper.make_node("MatMul", ["y", "y"], ["z"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["n", "n"]) for name in "xz"]
    graph = helper.make_graph(nodes, "tiny", ports[:1], ports[1:])
    tiny = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.ones((2, 2))
    treadle.Session(onnx.ModelProto.SerializeToString(tiny)).run({"x": x})  # older versions compile only now


def session(model: str, threads: int, imports: bool = True) -> tuple[dict[str, Any], Answer]:
    """Loads `model`. Reports the time and the CPU time of importing treadle and of the load, in seconds.

    CPU time is that of this process and of the one that compiles. Without `imports`, what a load imports is imported
    before it (TREADLE_OUT_OF_PROCESS should be off).
    """
    if not imports:
        _import_all()
    start, cpu = time.perf_counter(), cpu_seconds()
    import treadle

    treadle.threads.set(intra_op=threads, inter_op=threads)
    imported, imported_cpu = time.perf_counter(), cpu_seconds()
    treadle.Session(model)
    found = {
        "import_seconds": imported - start,
        "import_cpu_seconds": imported_cpu - cpu,
        "load_seconds": time.perf_counter() - imported,
        "load_cpu_seconds": cpu_seconds() - imported_cpu,
    }
    return found, lambda _: None
