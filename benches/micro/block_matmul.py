"""MatMulNBits on one thread, and beside ONNX Runtime where it is installed: the least CPU time of many runs by turns.

    python -m benches.micro.block_matmul [ROWS,DEPTH,COLUMNS,BITS,BLOCK,LEVEL]...

Prints the packed bytes and the operations a second, and how many times as long ONNX Runtime takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import treadle

_CASES = [
    f"{rows},{size},{size},{bits},32,{level}"
    for rows, size in ((1, 4096), (8, 2048), (24, 1024), (64, 1024), (256, 1024))
    for bits in (4, 8)
    for level in (0, 4)
]
_FEWEST, _MOST = 7, 400
_OPERATIONS = 2e9
"""About what all runs of a case multiply and add."""


def _model(rows: int, depth: int, columns: int, bits: int, block: int, level: int) -> bytes:
    rng = np.random.default_rng(0)
    blocks = -(-depth // block)
    weights = rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
    scales = (rng.random((columns, blocks)) * 0.02 + 0.01).astype(np.float32)
    attributes: dict[str, Any] = {"K": depth, "N": columns, "bits": bits, "block_size": block, "accuracy_level": level}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(scales, "s")],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def _runners(content: bytes, feeds: dict[str, Any]) -> dict[str, Callable[[], object]]:
    session = treadle.Session(content, intra_op=1, inter_op=1)
    runners: dict[str, Callable[[], object]] = {"treadle": lambda: session.run(feeds)}
    if find_spec("onnxruntime") is not None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        other = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        runners["onnxruntime"] = lambda: other.run(None, feeds)
    return runners


def main() -> None:
    """Times each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=_CASES)
    titles = ("us", "GB/s", "GFLOPS", "onnxruntime us", "ratio")
    print(f"{'rows,depth,columns,bits,block,level':36}", *(f"{title:>15}" for title in titles))
    for case in parser.parse_args().cases:
        rows, depth, columns, bits, block, level = map(int, case.split(","))
        x = np.random.default_rng(1).standard_normal((rows, depth)).astype(np.float32)
        runners = _runners(_model(rows, depth, columns, bits, block, level), {"x": x})
        operations = 2.0 * rows * depth * columns
        least = dict.fromkeys(runners, float("inf"))
        for _ in range(min(_MOST, max(_FEWEST, int(_OPERATIONS / operations)))):
            for name, run in runners.items():
                begin = time.process_time()
                run()
                least[name] = min(least[name], time.process_time() - begin)
        own, other = least["treadle"], least.get("onnxruntime", float("nan"))
        packed = columns * depth * bits / 8 / own / 1e9
        figures = (own * 1e6, packed, operations / own / 1e9, other * 1e6, other / own)
        print(f"{case:36}", *(f"{figure:15.2f}" for figure in figures))


if __name__ == "__main__":
    main()
