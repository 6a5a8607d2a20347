"""Gates, rotary embeddings, codes of 4 bits and other small operators of ONNX Runtime (com.microsoft), by formulas and
beside ONNX Runtime where it runs them on CPUs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import defs, helper

import treadle
from tests.models.contrib import Array, OneNode, check_case, close, some
from tests.models.contrib_formulas import fast_gelu, layer_norm, rms_norm, rotate, sigmoid
from tests.models.test_microsoft_forms import F32, IMAGE, form, normalized
from treadle.errors import ModelError

X, GATE = some(2, 3, 12), some(2, 3, 12, seed=1)
CODES = np.random.default_rng(5).integers(0, 256, 96).astype(np.uint8)
SCALES = np.abs(some(12)) + F32(0.1)
SHORTS = np.random.default_rng(6).integers(-300, 300, (3, 4)).astype(np.int16)
HALF_TURNED = some(2, 4, 3, 8, seed=4)


def silu(x: Array) -> Array:
    return np.asarray(x * sigmoid(x))


def parts(x: Array) -> Array:
    """Real and imaginary parts as complex numbers."""
    return np.asarray(x[..., 0] + 1j * x[..., 1])


def coded(codes: Array, kind: int) -> Array:
    """The weights [12, 16] of MatMulBnb4, by the definition of its values: signs and mantissas, or quantiles."""
    numbers = np.stack([codes >> 4, codes & 15], axis=-1).reshape(-1)
    small = np.array([0, 0.0052083333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25])
    quantiles = np.array([
        -1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0,
        0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1,
    ])  # fmt: skip
    values = quantiles[numbers] if kind else np.where(numbers < 8, 1, -1) * small[numbers % 8]
    return np.asarray((values.reshape(12, 16) * SCALES[:, None]).reshape(12, 16))


def by_streams(layout: int) -> Array:
    """Heads [2, 4, 3, 8] turned by angles of which each belongs to one of three places."""
    angles, places = some(9, 4), np.random.default_rng(7).integers(0, 9, (3, 2, 3))
    owners = [0, 0, 1, 2] if layout == 0 else [0, 1, 2, 0]
    own = np.stack([angles[places[owner]][..., at] for at, owner in enumerate(owners)], axis=-1)
    return rotate(HALF_TURNED, np.cos(own), np.sin(own), interleaved=False)


def by_gates(positions: Array) -> Array:
    """The positions [1, 3, 3, 3], scaled by the gates of three heads of X."""
    split = (X + GATE[0, 0]).reshape(2, 3, 3, 4).transpose(0, 2, 1, 3)
    gates = sigmoid((split @ some(4, 6) + some(6)).reshape(2, 3, 3, 2, 3).sum(-1))
    return np.asarray((gates[..., :1] * (gates[..., 1:] * SCALES[:3, None, None] - 1) + 2) * positions)


STREAMS = {
    "x": HALF_TURNED,
    "places": np.random.default_rng(7).integers(0, 9, (3, 2, 3)),
    "cosines": np.cos(some(9, 4)),
    "sines": np.sin(some(9, 4)),
}
CASES = [
    form("BranchwiseRMSNorm", rms_norm(X, np.ones(12), 1e-5), x=X),
    form(
        "BranchwiseRMSNorm",
        (rms_norm(X.reshape(2, 3, 3, 4), np.ones(4), 1e-3).reshape(X.shape) * GATE[0, 0]),
        {"num_branches": 3, "epsilon": 1e-3},
        x=X,
        scale=GATE[0, 0],
    ),
    form("GatedAdd", X + GATE * X[..., :1], x=X, other=GATE, gate=X[..., :1]),
    form(
        "GatedRMSNorm",
        rms_norm(X.reshape(-1, 4), SCALES[:4], 1e-5).reshape(X.shape) * silu(GATE),
        x=X,
        s=SCALES[:4],
        g=GATE,
    ),
    form(
        "GatedRMSNorm",
        rms_norm(X, SCALES, 1e-5) * sigmoid(GATE),
        {"activation": "sigmoid"},
        x=X,
        scale=SCALES,
        gate=GATE,
    ),
    form("GatherND", X[[0, 1], [2, 0]], x=X, at=np.array([[0, 2], [1, 0]], np.int32)),
    form("GemmFastGelu", fast_gelu(X @ GATE[0].T + SCALES[:3]), runs=False, x=X, w=GATE[0].T.copy(), b=SCALES[:3]),
    form("IsAllFinite", np.array(True), runs=False, x=X, other=GATE[0]),
    form("IsAllFinite", np.array(False), runs=False, x=X, other=np.array([1, np.inf], F32)),
    form("IsAllFinite", np.array(True), {"isnan_only": 1}, runs=False, x=X, other=np.array([1, np.inf], F32)),
    form("MRotaryEmbedding", by_streams(0), {"mrope_section": [2, 1, 1]}, **STREAMS),
    form("MRotaryEmbedding", by_streams(1), {"mrope_section": [2, 1, 1], "mrope_layout": 1}, **STREAMS),
    *(
        form(
            "MatMulBnb4",
            some(2, 16) @ coded(CODES, kind).T,
            {"K": 16, "N": 12, "block_size": 16, "quant_type": kind},
            held="w s",
            a=some(2, 16),
            w=CODES,
            s=SCALES,
        )
        for kind in (0, 1)
    ),
    form("MatMulInteger16", SHORTS.astype(np.int32) @ SHORTS.T, a=SHORTS, c=SHORTS.T.copy()),
    form(
        "ReduceSumInteger",
        CODES.reshape(8, 12).sum(axis=1),
        {"axes": [1], "keepdims": 0},
        runs=False,
        x=CODES.reshape(8, 12),
    ),
    form("SampleOp", X, x=X),
    form("ScaledSiLU", silu(0.5 * X), {"alpha": 0.5}, x=X),
    form("ScaledSiLU", silu(2 * X), x=X, scale=F32(2)),
    form("SwiGLU", silu(X) * GATE, runs=False, x=X, up=GATE),
    form(
        "SwiGLU",
        np.minimum(X[..., :6], 0.7) * sigmoid(1.7 * np.minimum(X[..., :6], 0.7)) * (np.clip(X[..., 6:], -0.7, 0.7) + 1),
        {"activation_alpha": 1.7, "activation_beta": 1.0, "limit": 0.7},
        runs=False,
        x=X,
    ),
    form("TorchEmbedding", X[0][[2, 0]], runs=False, w=X[0], at=np.array([2, 0])),
    form("UnfoldTensor", np.lib.stride_tricks.sliding_window_view(X, 5, 2)[:, :, ::3], {"size": 5, "step": 3}, x=X),
    form("UnfoldTensor", np.lib.stride_tricks.sliding_window_view(X, 2, 1), {"size": 2, "dim": 1}, x=X),
    form(
        "GatedRelativePositionBias",
        by_gates(some(1, 3, 3, 3)),
        {"num_heads": 3},
        runs=False,
        x=X,
        bias=GATE[0, 0],
        positions=some(1, 3, 3, 3),
        w=some(4, 6),
        gate_bias=some(6),
        eco=SCALES[:3].reshape(1, 3, 1, 1),
    ),
]


@pytest.mark.parametrize(("node", "wanted", "runs"), CASES)
def test_operators_compute_what_they_say(node: OneNode, wanted: Array, runs: bool) -> None:
    check_case(node, wanted, runs=runs)


@pytest.mark.parametrize(("op", "sign"), [("ComplexMul", 1), ("ComplexMulConj", -1)])
def test_pairs_are_multiplied_as_complex_numbers(op: str, sign: int) -> None:
    x, y = some(3, 2), some(3, 2, seed=1)
    product = parts(x) * (y[..., 0] + sign * 1j * y[..., 1])

    close(OneNode(op, {"x": x, "other": y}).run(), [np.stack([product.real, product.imag], axis=-1)])


def test_skipped_images_are_normalised_by_groups() -> None:
    """SkipGroupNorm adds an image or a row for each image, then a row for all."""
    skip, bias, gamma, beta = some(2, 3), some(3, seed=2), some(3, seed=3), some(3, seed=4)
    total = IMAGE + skip[:, None, None] + bias
    operands = {"x": IMAGE, "gamma": gamma, "beta": beta, "skip": skip, "bias": bias}
    node = OneNode("SkipGroupNorm", operands, outputs=("y", "sum"), attributes={"groups": 3, "activation": 1})

    close(node.run(), [silu(normalized(total, 3) * gamma + beta), total], rtol=1e-4, atol=1e-5)


def test_queries_and_keys_are_turned_by_given_angles() -> None:
    """GemmaRotaryEmbedding computes cosines and sines in float32, the rest in float16."""
    angles = some(2, 3, 8)
    x = {
        name: some(2, 4, 3, 8, seed=at, dtype=np.float16) for at, name in enumerate(("q", "q_turned", "k", "k_turned"))
    }
    node = OneNode("GemmaRotaryEmbedding", {"angles": angles, **x}, outputs=("q_out", "k_out"))
    cosines, sines = np.cos(angles)[:, None], np.sin(angles)[:, None]

    close(node.run(), [x[n].astype(F32) * cosines + x[f"{n}_turned"] * sines for n in "qk"], rtol=1e-2, atol=1e-2)


def test_dropout_keeps_everything_unless_it_trains() -> None:
    """BiasDropout adds; a node that trains is refused."""
    operands: dict[str, Array | None] = {"x": X, "bias": GATE[0, 0], "residual": GATE, "ratio": F32(0.5)}
    node = OneNode("BiasDropout", operands, frozenset({"ratio"}), ("y", "mask"))

    close(node.run(), [X + GATE[0, 0] + GATE, np.ones(X.shape)])
    training = OneNode("BiasDropout", {**operands, "training": np.array(True)}, frozenset({"ratio", "training"}))
    with pytest.raises(ModelError, match="does not train"):
        training.run()


def test_tables_of_bytes_are_embedded() -> None:
    """QEmbedLayerNormalization is EmbedLayerNormalization of tables with scales and zero points."""
    rng = np.random.default_rng(8)
    tables = {
        name: rng.integers(0, 256, (rows, 8)).astype(np.uint8)
        for name, rows in (("word", 9), ("place", 5), ("part", 2))
    }
    rows = {name: rng.integers(0, 256, 8).astype(np.uint8) for name in ("gamma", "beta")}
    names = [*tables, *rows]
    scales = {f"{name}_scale": F32(0.01 * (at + 1)) for at, name in enumerate(names)}
    zeros = {f"{name}_zero": np.uint8(100 + at) for at, name in enumerate(names)}
    ids, segments = rng.integers(0, 9, (2, 4)).astype(np.int32), rng.integers(0, 2, (2, 4)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    held = {**tables, **rows, **scales, **zeros}
    order = ["ids", "segments", *names, "mask", *scales, *zeros]
    every = {"ids": ids, "segments": segments, "mask": mask, **held}
    operands = {name: np.asarray(every[name]) for name in order}
    node = OneNode("QEmbedLayerNormalization", operands, frozenset(held), ("y", "words"))
    real = {n: (held[n].astype(float) - held[f"{n}_zero"]) * held[f"{n}_scale"] for n in names}
    total = real["word"][ids] + real["place"][:4] + real["part"][segments]
    wanted = [layer_norm(total, real["gamma"], real["beta"], 1e-12), np.array([3, 4])]

    close(node.run(), wanted, rtol=1e-4, atol=1e-5)
    close(node.run_by_onnxruntime(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(defs.onnx_opset_version() < 28, reason="SwiGLU is of operator set 28")
@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_swiglu_of_ai_onnx(alpha: float) -> None:
    """Two operands of one shape, without Python."""
    rng = np.random.default_rng(3)
    feeds = {name: rng.standard_normal((5, 7)).astype(np.float32) for name in "ab"}
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 7]) for name in "ab"]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 7])
    graph = helper.make_graph([helper.make_node("SwiGLU", ["a", "b"], ["y"], alpha=alpha)], "graph", inputs, [output])
    session = treadle.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10))
    a, b = (array.astype(np.float64) for array in feeds.values())
    np.testing.assert_allclose(session.run(feeds)["y"], a / (1 + np.exp(-alpha * a)) * b, rtol=1e-5, atol=1e-6)
    assert all(call.function is None for plan in session.plans() for call in plan.calls)
