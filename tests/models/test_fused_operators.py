"""Operators that ONNX Runtime fuses of others (com.microsoft): kernels only, and what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import pytest

import treadle
from tests.models.contrib import Array, OneNode, close, some
from tests.models.contrib_formulas import (
    fast_gelu,
    gelu,
    layer_norm,
    rms_norm,
    sigmoid,
)

X, BIAS, SKIP = some(2, 5, 24), some(24, seed=1), some(2, 5, 24, seed=2)
GAMMA, BETA = some(24, seed=3), some(24, seed=4)
HELD = frozenset({"bias", "gamma", "beta", "w", "c", "wb", "table", "places", "segments"})
SUM = X + BIAS + SKIP

A, B = some(3, 4, 6), some(3, 6, 5, seed=1)
IMAGE, KERNEL, ADDED = some(2, 3, 6, 6), some(8, 3, 3, 3, seed=1) / 4, some(2, 8, 6, 6, seed=2)
IDS, SEGMENTS = np.array([[1, 6, 2], [3, 0, 5]], np.int32), np.array([[0, 0, 1], [1, 0, 1]], np.int32)
WORDS, PLACES, TYPES = some(7, 24, seed=5), some(9, 24, seed=6), some(2, 24, seed=7)
MASK = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
EMBEDDED = WORDS[IDS] + PLACES[:3] + TYPES[SEGMENTS]


def convolved() -> Array:
    padded = np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.asarray(np.einsum("nchwij,mcij->nmhw", seen.astype(np.float64), KERNEL))


def fused(op: str, wanted: list[Array], *outputs: str, attributes: dict[str, object] | None = None, **operands: object):  # type: ignore[no-untyped-def]
    arrays = {name: None if array is None else np.asarray(array) for name, array in operands.items()}
    held = frozenset(name for name, array in arrays.items() if name in HELD and array is not None)
    name = "_".join([op, *(attributes or {}), *outputs, *(name for name, array in arrays.items() if array is not None)])
    return pytest.param(OneNode(op, arrays, held, outputs or ("y",), attributes or {}), wanted, id=name)


RELU = {"activation": "Relu"}
CASES = [
    fused("Gelu", [gelu(X)], x=X),
    fused("BiasGelu", [gelu(X + BIAS)], x=X, bias=BIAS),
    fused("FastGelu", [fast_gelu(X)], x=X),
    fused("FastGelu", [fast_gelu(X + BIAS)], x=X, bias=BIAS),
    fused("QuickGelu", [X * sigmoid(1.702 * X)], x=X),
    fused("QuickGelu", [X * sigmoid(0.5 * X)], x=X, attributes={"alpha": 0.5}),
    fused("SkipLayerNormalization", [layer_norm(X + SKIP, GAMMA, BETA, 1e-12)], x=X, skip=SKIP, gamma=GAMMA, beta=BETA),
    fused(
        "SkipLayerNormalization",
        [layer_norm(SUM, GAMMA, BETA, 1e-3), SUM],
        "y",
        "",
        "",
        "sum",
        attributes={"epsilon": 1e-3},
        x=X,
        skip=SKIP,
        gamma=GAMMA,
        beta=BETA,
        bias=BIAS,
    ),
    fused("SkipLayerNormalization", [layer_norm(X + SKIP[:1], GAMMA, 0, 1e-12)], x=X, skip=SKIP[:1], gamma=GAMMA),
    fused("SkipSimplifiedLayerNormalization", [rms_norm(X + SKIP, GAMMA, 1e-12)], x=X, skip=SKIP, gamma=GAMMA),
    fused(
        "SkipSimplifiedLayerNormalization",
        [rms_norm(SUM, GAMMA, 1e-5), SUM],
        "y",
        "",
        "",
        "sum",
        attributes={"epsilon": 1e-5},
        x=X,
        skip=SKIP,
        gamma=GAMMA,
        bias=BIAS,
    ),
    fused(
        "EmbedLayerNormalization",
        [layer_norm(EMBEDDED, GAMMA, BETA, 1e-12), np.array([2, 3])],
        "y",
        "words",
        ids=IDS,
        segments=SEGMENTS,
        w=WORDS,
        places=PLACES,
        table=TYPES,
        gamma=GAMMA,
        beta=BETA,
        mask=MASK,
    ),
    fused(
        "EmbedLayerNormalization",
        [layer_norm(WORDS[IDS] + PLACES[SEGMENTS], GAMMA, BETA, 1e-12), np.array([0, 0])],
        "y",
        "words",
        ids=IDS,
        none=None,
        w=WORDS,
        places=PLACES,
        table=None,
        gamma=GAMMA,
        beta=BETA,
        mask=None,
        at=SEGMENTS,
    ),
    fused("FusedMatMul", [A.astype(np.float64) @ B * 0.5], a=A, b=B, attributes={"alpha": 0.5}),
    fused(
        "FusedMatMul",
        [A @ B.astype(np.float64)],
        a=A.swapaxes(1, 2),
        b=B.swapaxes(1, 2),
        attributes={"transA": 1, "transB": 1},
    ),
    fused(
        "FusedMatMul",
        [A @ B.astype(np.float64)],
        a=A.transpose(1, 0, 2),
        b=B,
        attributes={"transBatchA": 1},
    ),
    fused("TransposeMatMul", [A @ B.astype(np.float64)], a=A, b=B.swapaxes(1, 2), attributes={"transB": 1}),
    fused("FusedGemm", [np.maximum(A[0] @ B[0] + 1, 0)], a=A[0], b=B[0], c=np.ones(5, np.float32), attributes=RELU),
    fused(
        "FusedGemm",
        [np.where(A[0] @ B[0] < 0, 0.25, 1) * (A[0] @ B[0])],
        a=A[0],
        b=B[0],
        attributes={"activation": "LeakyRelu", "activation_alpha": 0.25},
    ),
    fused("FusedConv", [np.maximum(convolved(), 0)], x=IMAGE, w=KERNEL, attributes={"pads": [1] * 4, **RELU}),
    fused(
        "FusedConv",
        [np.maximum(convolved() + np.arange(8)[:, None, None] + ADDED, 0)],
        x=IMAGE,
        w=KERNEL,
        wb=np.arange(8, dtype=np.float32),
        z=ADDED,
        attributes={"pads": [1] * 4, **RELU},
    ),
    fused(
        "FusedConv",
        [np.clip(convolved(), -0.5, 1)],
        x=IMAGE,
        w=KERNEL,
        attributes={"pads": [1] * 4, "activation": "Clip", "activation_params": [-0.5, 1.0]},
    ),
    fused(
        "FusedConv",
        [np.clip(convolved() * 0.5 + 0.25, 0, 1)],
        x=IMAGE,
        w=KERNEL,
        attributes={"pads": [1] * 4, "activation": "HardSigmoid", "activation_params": [0.5, 0.25]},
    ),
]

GPU_ONLY = [
    fused("BiasAdd", [SUM], x=X, bias=BIAS, skip=SKIP),
    fused("BiasSplitGelu", [(X + BIAS)[..., :12] * gelu((X + BIAS)[..., 12:])], x=X, bias=BIAS),
]
"""Operators that ONNX Runtime has for other devices."""


@pytest.mark.parametrize(("node", "wanted"), [*CASES, *GPU_ONLY])
@pytest.mark.parametrize("is_open", [False, True])
def test_an_operator_gives_its_formula_by_kernels(node: OneNode, wanted: list[Array], is_open: bool) -> None:
    close(node.run(is_open=is_open), wanted)


@pytest.mark.parametrize(("node", "wanted"), CASES)
def test_onnxruntime_gives_the_same(node: OneNode, wanted: list[Array]) -> None:
    close(node.run_by_onnxruntime(), wanted)


def test_simplified_layer_normalization_is_in_the_standard_domain() -> None:
    node = OneNode("SimplifiedLayerNormalization", {"x": X, "gamma": GAMMA}, domain="", attributes={"epsilon": 1e-3})

    close(node.run(), [rms_norm(X, GAMMA, 1e-3)])
    close(node.run_by_onnxruntime(), [rms_norm(X, GAMMA, 1e-3)])


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "message"),
    [
        ("FusedGemm", {"a": A[0], "b": B[0]}, {"activation": "Swish"}, "'activation' is 'Swish'; treadle knows"),
        ("SkipLayerNormalization", {"x": X, "skip": SKIP, "g": GAMMA}, {}, "'mean' and 'inv_std_var' are for training"),
    ],
)
def test_what_it_cannot_compute_is_refused_with_the_reason(
    op: str, operands: dict[str, Array | None], attributes: dict[str, object], message: str
) -> None:
    outputs = ("y", "mean") if op.startswith("Skip") else ("y",)
    node = OneNode(op, operands, outputs=outputs, attributes=attributes)

    with pytest.raises(treadle.errors.TreadleError, match=message):
        treadle.Session(node.model(is_open=False))
