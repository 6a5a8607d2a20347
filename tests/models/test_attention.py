"""Attention as exporters write it runs as one kernel, and agrees with ONNX Runtime where that is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models import small

HEADS, DEPTH, WIDTH = 4, 16, 64


def heads(w: small.ModelWriter, x: str, perm: tuple[int, ...]) -> str:
    split = w.op("Reshape", x, w.constant(np.array([0, 0, HEADS, DEPTH])))
    return w.op("Transpose", split, perm=perm)


def attended(w: small.ModelWriter, q: str, k: str, v: str, masked: Any) -> str:
    q, k, v = heads(w, q, (0, 2, 1, 3)), heads(w, k, (0, 2, 3, 1)), heads(w, v, (0, 2, 1, 3))
    scores = w.op("Div", w.op("MatMul", q, k), w.constant(np.float32(4)))
    weights = w.op("Softmax", masked(scores), axis=-1)
    y = w.op("Transpose", w.op("MatMul", weights, v), perm=(0, 2, 1, 3))
    return w.op("Reshape", y, w.constant(np.array([0, 0, WIDTH])))


def encoder() -> onnx.ModelProto:
    """As BERT: three projections with biases, and padding masked by a large negative number."""
    w = small.ModelWriter()
    q, k, v = (w.op("Add", w.op("MatMul", "x", w.random(WIDTH, WIDTH)), w.random(WIDTH)) for _ in range(3))
    mask = w.op("Cast", w.op("Unsqueeze", "mask", w.constant(np.array([1, 2]))), to=small.FLOAT)
    away = w.op("Mul", w.op("Sub", w.constant(np.float32(1)), mask), w.constant(np.float32(-3e38)))
    y = attended(w, q, k, v, lambda scores: w.op("Add", scores, away))
    w.op("Add", w.op("MatMul", y, w.random(WIDTH, WIDTH)), "x")
    return finished(w, {"x": (small.FLOAT, ["b", "s", WIDTH]), "mask": (7, ["b", "s"])})


def decoder(tokens: int = 40) -> onnx.ModelProto:
    """As GPT-2: one projection that is split, and a causal mask applied by Where."""
    w = small.ModelWriter()
    joined = w.op("Add", w.op("MatMul", "x", w.random(WIDTH, 3 * WIDTH)), w.random(3 * WIDTH))
    q = w.op("Split", joined, w.constant(np.array([WIDTH] * 3)), outputs=3, axis=2)
    causal, low = w.constant(np.tril(np.ones((1, 1, tokens, tokens), bool))), w.constant(np.float32(-1e4))
    attended(w, q, f"{q}_1", f"{q}_2", lambda scores: w.op("Where", causal, scores, low))
    return finished(w, {"x": (small.FLOAT, ["b", tokens, WIDTH])})


def finished(w: small.ModelWriter, inputs: dict[str, tuple[int, list[Any]]]) -> onnx.ModelProto:
    w.nodes[-1].output[0] = "y"
    return w.model(inputs, {"y": (small.FLOAT, ["b", "s", WIDTH])})


def given(batch: int, tokens: int, *, masked: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    inputs = {"x": rng.standard_normal((batch, tokens, WIDTH)).astype(np.float32)}
    if masked:
        inputs["mask"] = (np.arange(tokens) < rng.integers(1, tokens + 1, (batch, 1))).astype(np.int64)
    return inputs


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("model", "tokens"), [(encoder, 16), (encoder, 77), (decoder, 40)])
def test_exported_attention_is_one_kernel(model: Any, batch: int, tokens: int) -> None:
    """
    The plan has no softmax and no matrix of scores, and results agree with a reference that has both.
    """
    proto = model()
    inputs = given(batch, tokens, masked=model is encoder)
    session = treadle.Session(proto)
    found = session.run(inputs)["y"]
    ops = [call.op for call in session.plans()[-1].calls]

    assert ops.count("attention") == 1
    assert "softmax" not in ops
    exact = treadle.Session(proto, math="exact").run(inputs)["y"]
    assert np.linalg.norm(found - exact) <= 1e-5 * np.linalg.norm(exact)
    runtime = pytest.importorskip("onnxruntime").InferenceSession(proto.SerializeToString())
    wanted = runtime.run(None, inputs)[0]
    assert np.linalg.norm(found - wanted) <= 1e-5 * np.linalg.norm(wanted)
