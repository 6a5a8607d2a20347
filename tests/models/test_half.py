"""Models of f16 (float16): kernels only, f32 between the ops, and what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

Array = np.ndarray[Any, Any]
ROUNDINGS = 2e-3
"""Two roundings of f16, relative to the largest result."""


def half(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float16)


def model(nodes: list[onnx.NodeProto], x: Array, shape: list[int | str], **constants: Array) -> bytes:
    """Nodes from `x` to `y`, both f16."""
    takes = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)]
    gives = [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)]
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", takes, gives, held)
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=domains, ir_version=10).SerializeToString())


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


W, BIAS, SCALE = half(24, 16, seed=1), half(16, seed=2), half(24, seed=3)
NETS: dict[str, tuple[list[onnx.NodeProto], Array, list[int | str], dict[str, Array]]] = {
    "perceptron": (
        [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Gelu", "c")],
        half(5, 24),
        ["rows", 24],
        {"w": W, "b": BIAS},
    ),
    "norm": (
        [node("LayerNormalization", "x s s", "a"), node("Softmax", "a", axis=-1)],
        half(5, 24),
        ["rows", 24],
        {"s": SCALE},
    ),
    "convolution": (
        [
            node("Conv", "x w b", "a", pads=[1] * 4),
            node("Relu", "a", "c"),
            node("MaxPool", "c", "d", kernel_shape=[2, 2], strides=[2, 2]),
            node("GlobalAveragePool", "d"),
        ],
        half(2, 3, 8, 8),
        ["batch", 3, 8, 8],
        {"w": half(16, 3, 3, 3, seed=1), "b": BIAS},
    ),
    "moves": (
        [
            node("Transpose", "x", "a", perm=[1, 0]),
            node("Sigmoid", "a", "b"),
            node("Concat", "b b", "c", axis=0),
            node("ReduceMean", "c axes", "y", keepdims=0),
        ],
        half(5, 24),
        ["rows", 24],
        {"axes": np.array([1])},
    ),
    "recurrent": (
        [helper.make_node("GRU", ["x", "w", "r"], ["", "h"], hidden_size=4), node("Tanh", "h")],
        half(3, 2, 6),
        [3, "batch", 6],
        {"w": half(1, 12, 6, seed=1), "r": half(1, 12, 4, seed=2)},
    ),
}


def outputs(content: bytes, x: Array, threads: int, math: Literal["fast", "exact"] = "fast") -> Array:
    session = treadle.Session(content, intra_op=threads, math=math)
    (found,) = session.run({"x": x}).values()
    assert [call.op for plan in session.plans() for call in plan.calls if call.spec is None] == []
    return found


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("is_open", [False, True])
def test_networks_of_halves_run_by_kernels(name: str, is_open: bool) -> None:
    """Results have f16's digits, and are the same on every number of threads."""
    nodes, x, shape, held = NETS[name]
    content = model(nodes, x, shape if is_open else list(x.shape), **held)
    wide = [array.astype(np.float32) if array.dtype == np.float16 else array for array in held.values()]
    reference = onnx.load_from_string(model(nodes, x, list(x.shape), **dict(zip(held, wide, strict=True))))
    for value in (*reference.graph.input, *reference.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    (wanted,) = treadle.Session(reference.SerializeToString()).run({"x": x.astype(np.float32)}).values()

    found = outputs(content, x, 1)

    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(found, outputs(content, x, 2))


@pytest.mark.parametrize("name", NETS)
def test_exact_math_stays_within_the_roundings_of_each_step(name: str) -> None:
    nodes, x, shape, held = NETS[name]
    content = model(nodes, x, shape, **held)
    fast, exact = (outputs(content, x, 1, math) for math in ("fast", "exact"))
    limit = ROUNDINGS * float(np.abs(fast.astype(np.float32)).max())
    np.testing.assert_allclose(exact.astype(np.float32), fast.astype(np.float32), rtol=0, atol=2 * limit)


@pytest.mark.parametrize("name", NETS)
def test_onnxruntime_agrees(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    nodes, x, shape, held = NETS[name]
    content = model(nodes, x, shape, **held)
    (wanted,) = runtime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    limit = ROUNDINGS * float(np.abs(wanted.astype(np.float32)).max())
    found = outputs(content, x, 1)
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), rtol=0, atol=limit)


def test_arithmetic_rounds_only_at_the_end() -> None:
    """As ONNX Runtime does it: f32 from the first cast to the last."""
    x = half(2000)
    nodes = [node("Mul", "x x", "a"), node("Mul", "a a", "b"), node("Sub", "b x")]
    wide = x.astype(np.float32)

    found = outputs(model(nodes, x, ["n"]), x, 1)

    np.testing.assert_array_equal(found, ((wide * wide) * (wide * wide) - wide).astype(np.float16))
