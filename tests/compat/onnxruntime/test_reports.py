"""What users of packages report of ONNX Runtime does not happen here.

The reports: insightface 2899 (five sessions start 646 threads), onnxruntime 29538 and RapidOCR 187 (memory grows with
every new shape), chroma 6941 (a session is made for each call).
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle.compat.onnxruntime as ort

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MIB = 1 << 20


def network(path: Path, width: int = 64) -> Path:
    """Write two convolutions of images [n, width, h, w]."""
    rng = np.random.default_rng(0)
    kernels = [(rng.standard_normal((width, width, 3, 3)) / (3 * width)).astype(np.float32) for _ in range(2)]
    nodes = [
        helper.make_node("Conv", ["x", "k0"], ["h"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "k1"], ["y"], pads=[1, 1, 1, 1]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width, "h", "w"]) for name in ("x", "y")]
    weights = [numpy_helper.from_array(kernel, f"k{number}") for number, kernel in enumerate(kernels)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def own_threads() -> int:
    """The threads of teams in this process."""
    names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    return sum(name.startswith("treadle-") for name in names)


def resident() -> int:
    """The resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_sessions_that_ask_for_many_threads_share_one_team(tmp_path: Path) -> None:
    path = network(tmp_path / "model.onnx")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 128
    sessions = [ort.InferenceSession(path, options, strict=True) for _ in range(5)]
    x = np.ones((1, 64, 40, 40), np.float32)
    before = own_threads()

    with ThreadPoolExecutor(5) as pool:
        for found in pool.map(lambda session: session.run(None, {"x": x})[0], sessions * 8):
            assert found.shape == (1, 64, 40, 40)

    assert own_threads() - before <= len(os.sched_getaffinity(0)), "one team"


def test_memory_does_not_grow_with_shapes(tmp_path: Path) -> None:
    session = ort.InferenceSession(network(tmp_path / "model.onnx"), strict=True)

    def run(height: int, width: int) -> None:
        session.run(None, {"x": np.ones((1, 64, height, width), np.float32)})

    run(128, 128)
    before = resident()
    for size in range(1, 60):
        run(128 - size, 68 + size)

    assert resident() - before < 32 * MIB, "each shape has 4 MiB of images"


def test_sessions_made_for_each_call_leave_nothing_behind(tmp_path: Path) -> None:
    path = network(tmp_path / "model.onnx", 512)
    x = np.ones((1, 512, 4, 4), np.float32)

    def call() -> None:
        ort.InferenceSession(path, strict=True).run(None, {"x": x})

    call()
    before, threads = resident(), own_threads()
    for _ in range(12):
        call()

    assert resident() - before < 64 * MIB, "each session has 18 MiB of weights"
    assert own_threads() <= threads
