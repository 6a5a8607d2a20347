"""Random numbers of ONNX models: those of the reference implementation, drawn without it once a model is on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import treadle
from treadle.convert import convert

NODES = {
    "RandomNormalLike <seed = 3.0, mean = 2.0, scale = 0.5> (x)": "float",
    "RandomNormalLike <seed = 2.0, dtype = 10> (x)": "float16",
    "RandomUniformLike <seed = 3.0, low = -2.0, high = 5.0> (x)": "float",
    "RandomNormal <seed = 3.0, shape = [2, 3]> ()": "float",
    "RandomUniform <seed = 1.0, high = 3.0, shape = [2, 3], dtype = 11> ()": "double",
}
"""A node with a seed -> the element type of its result."""

X = np.ones((2, 3), np.float32)


def model(node: str, kind: str = "float") -> onnx.ModelProto:
    text = f"""<ir_version: 9, opset_import: ["" : 18]> g (float[a, b] x) => ({kind}[c, d] y, float[a, b] z)
               {{ y = {node} z = Relu (x) }}"""
    return parser.parse_model(text)


@pytest.mark.parametrize("node", NODES)
def test_a_seed_gives_the_numbers_of_the_reference(node: str) -> None:
    given = model(node, NODES[node])
    wanted, _ = ReferenceEvaluator(given).run(None, {"x": X})
    session = treadle.Session(given)

    for _ in range(2):
        found = session.run({"x": X})["y"]
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()


def test_runs_without_a_seed_differ() -> None:
    session = treadle.Session(model("RandomNormalLike (x)"))
    first, second = (session.run({"x": np.ones((100, 100), np.float32)})["y"] for _ in range(2))
    assert (first != second).mean() > 0.99
    assert abs(first.mean()) < 0.1 < first.std() < 1.1


@pytest.mark.parametrize("sizes", ["a, b", "2, 3"])
def test_a_stored_model_draws_without_the_onnx_package(sizes: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    given = model("RandomNormalLike <seed = 3.0> (x)")
    for value, size in zip(given.graph.input[0].type.tensor_type.shape.dim, sizes.split(", "), strict=True):
        if size.isdigit():
            value.dim_value = int(size)
    onnx.save(given, path)
    wanted = treadle.Session(path).run({"x": X})["y"]
    program = (
        "import sys, numpy, treadle\n"
        f"found = treadle.Session({str(path)!r}).run({{'x': numpy.ones((2, 3), numpy.float32)}})['y']\n"
        "assert not {'onnx', 'google.protobuf'} & sys.modules.keys()\n"
        "sys.stdout.write(found.tobytes().hex())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout == wanted.tobytes().hex()


def test_random_numbers_are_converted(tmp_path: Path) -> None:
    given = model("RandomNormalLike <seed = 3.0, mean = 2.0> (x)")
    convert(given, tmp_path / "out.onnx")
    wanted, _ = ReferenceEvaluator(given).run(None, {"x": X})
    found, _ = ReferenceEvaluator(onnx.load(tmp_path / "out.onnx")).run(None, {"x": X})
    assert found.tolist() == wanted.tolist()
