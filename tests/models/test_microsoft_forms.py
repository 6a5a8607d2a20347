"""Operators of ONNX Runtime (com.microsoft) that are those of ai.onnx in another form: kernels only, by formulas and
beside ONNX Runtime where it runs them on CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle
from tests.models.contrib import Array, OneNode, check_case, close, some
from treadle.dtypes import i8
from treadle.errors import ModelError, RunError
from treadle.plan.kernels.recurrent import RecurrentSpec

X, Y = some(4, 6), some(5, 6, seed=1)
IMAGE, KERNEL = some(2, 6, 7, 3), some(8, 3, 3, 3, seed=1) / 4
BIAS = some(8, seed=2)
BYTES = np.random.default_rng(3).integers(0, 256, (2, 6, 7, 3)).astype(np.uint8)
IDS = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 5, 4]])


def convolved(image: Array, kernel: Array) -> Array:
    """The convolution with pads of 1 of an image whose channels come last."""
    padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return np.asarray(np.einsum("nhwcij,mcij->nhwm", seen, kernel.astype(np.float64)))


def pooled(image: Array) -> Array:
    seen = np.lib.stride_tricks.sliding_window_view(image, (2, 3), (1, 2))
    return np.asarray(seen.max(axis=(-1, -2)))


def normalized(image: Array, groups: int) -> Array:
    apart = image.astype(np.float64).reshape(2, 42, groups, -1)
    spread = apart - apart.mean(axis=(1, 3), keepdims=True)
    return (spread / np.sqrt((spread**2).mean(axis=(1, 3), keepdims=True) + 1e-5)).reshape(image.shape)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def real(x: Array, scale: float, zero: int) -> Array:
    return (x.astype(np.float64) - zero) * scale


def stored(x: Array, scale: float, zero: int) -> Array:
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)


def distance(norm: Any) -> Array:
    return np.asarray(norm(X[:, None].astype(np.float64) - Y[None]))


def form(
    op: str, wanted: Array, attributes: dict[str, Any] | None = None, runs: bool = True, held: str = "", **operands: Any
) -> Any:
    """A case: `held` names constants; `runs`, whether ONNX Runtime has a CPU kernel for it."""
    arrays = {name: None if array is None else np.asarray(array) for name, array in operands.items()}
    node = OneNode(op, arrays, frozenset(held.split()), ("y",), attributes or {})
    return pytest.param(node, wanted, runs, id="-".join([op, *map(str, (attributes or {}).values())])[:60])


def repeated(scores: Array, *blocked: tuple[int, int]) -> Array:
    found = scores.astype(np.float64)
    for place in blocked:
        found[place] = -np.inf
    return found


F32 = np.float32
SCORES = some(2, 7)
PADS = {"pads": [1, 1, 1, 1]}
CASES = [
    form("CDist", distance(lambda d: (d**2).sum(-1)), a=X, c=Y),
    form("CDist", distance(lambda d: np.sqrt((d**2).sum(-1))), {"metric": "euclidean"}, a=X, c=Y),
    form("CDist", distance(lambda d: np.abs(d).sum(-1)), {"metric": "cityblock"}, runs=False, a=X, c=Y),
    form("CDist", distance(lambda d: np.abs(d).max(-1)), {"metric": "chebyshev"}, runs=False, a=X, c=Y),
    form("DequantizeLinear", real(BYTES, 0.5, 3), x=BYTES, s=F32(0.5), z=np.uint8(3)),
    form("QuantizeLinear", stored(X, 0.05, 100), x=X, s=F32(0.05), z=np.uint8(100)),
    form("ExpandDims", X[:, None], x=X, axis=np.int32(1), held="axis"),
    form("FusedMatMulActivation", np.maximum(X @ Y.T, 0), {"activation": "Relu", "transB": 1}, runs=False, a=X, c=Y),
    form(
        "GroupNorm",
        normalized(IMAGE, 3) * some(3) + some(3, seed=1),
        {"groups": 3, "activation": 0},
        runs=False,
        x=IMAGE,
        gamma=some(3),
        beta=some(3, seed=1),
    ),
    form(
        "MulInteger",
        (BYTES.astype(np.int32) - 7) * (BYTES.astype(np.int32) - 9),
        runs=False,
        a=BYTES,
        az=np.uint8(7),
        c=BYTES,
        cz=np.uint8(9),
    ),
    form("NGramRepeatBlock", repeated(SCORES, (0, 3), (1, 4), (1, 5)), {"ngram_size": 2}, ids=IDS, scores=SCORES),
    form("NGramRepeatBlock", repeated(SCORES, (0, 3)), {"ngram_size": 3}, ids=IDS, scores=SCORES),
    form("NGramRepeatBlock", SCORES, {"ngram_size": 6}, runs=False, ids=IDS, scores=SCORES),
    form("NhwcConv", convolved(IMAGE, KERNEL) + BIAS, PADS, runs=False, held="w b", x=IMAGE, w=KERNEL, b=BIAS),
    form(
        "NhwcFusedConv",
        np.maximum(convolved(IMAGE, KERNEL) + BIAS + some(2, 6, 7, 8), 0),
        PADS | {"activation": "Relu"},
        runs=False,
        held="w b",
        x=IMAGE,
        w=KERNEL,
        b=BIAS,
        z=some(2, 6, 7, 8),
    ),
    form("NhwcMaxPool", pooled(BYTES), {"kernel_shape": [2, 3]}, x=BYTES),
    form(
        "Pad",
        np.pad(X, ((0, 1), (2, 0)), constant_values=2.5),
        held="pads",
        x=X,
        pads=np.array([0, 2, 1, 0]),
        v=np.array([2.5], F32),
    ),
    form(
        "QLinearReduceMean",
        stored(real(BYTES, 0.5, 3).mean(axis=(1, 2), keepdims=True), 0.25, 2),
        {"axes": [1, 2], "keepdims": 1},
        runs=False,
        x=BYTES,
        s=F32(0.5),
        z=np.uint8(3),
        t=F32(0.25),
        w=np.uint8(2),
    ),
    form(
        "QLinearWhere",
        np.where(BYTES > 90, stored(real(BYTES, 0.5, 3), 0.75, 9), stored(real(BYTES[::-1], 0.25, 5), 0.75, 9)),
        held="s z u v t w",
        c=BYTES > 90,
        x=BYTES,
        s=F32(0.5),
        z=np.uint8(3),
        other=BYTES[::-1],
        u=F32(0.25),
        v=np.uint8(5),
        t=F32(0.75),
        w=np.uint8(9),
    ),
    form("Range", np.arange(2, 17, dtype=F32), held="a c", a=np.array([2], F32), c=np.array([17], F32)),
    form("Trilu", np.tril(X, 1), {"upper": 0}, held="k", x=X, k=np.int64(1)),
    form("BiasSoftmax", softmax(X + Y[:1]), {"axis": 1, "is_inner_broadcast": 0}, runs=False, x=X, bias=Y[:1]),
    form(
        "BiasSoftmax",
        softmax((some(2, 3, 4) + some(3, 4)).reshape(2, 12)).reshape(2, 3, 4),
        {"axis": 1, "is_inner_broadcast": 0},
        runs=False,
        x=some(2, 3, 4),
        bias=some(3, 4),
    ),
]


@pytest.mark.parametrize(("node", "wanted", "runs"), CASES)
def test_operators_compute_what_they_say(node: OneNode, wanted: Array, runs: bool) -> None:
    check_case(node, wanted, runs=runs)


def test_what_there_is_comes_in_the_order_of_the_operand() -> None:
    """Unique, unlike that of ai.onnx, sorts nothing."""
    node = OneNode("Unique", {"x": np.float32([3, 1, 3, 2, 1, 3])}, outputs=("y", "places", "counts"))
    found = node.run()

    close(found, [np.float32([3, 1, 2]), np.array([0, 1, 0, 2, 1, 0]), np.array([3, 2, 1])])
    close(found, list(node.run_by_onnxruntime().values()))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("is_open", [False, True])
def test_matrices_are_inverted(dtype: Any, is_open: bool) -> None:
    """Inverse agrees with NumPy's and ONNX Runtime's."""
    x = (np.eye(4) * 3 + some(2, 3, 4, 4)).astype(dtype)
    node = OneNode("Inverse", {"x": x})
    tolerance = 2e-3 if dtype == np.float16 else 1e-5
    found = node.run(is_open=is_open)

    close(found, [np.linalg.inv(x.astype(np.float64))], rtol=tolerance, atol=tolerance)
    close(found, list(node.run_by_onnxruntime().values()), rtol=tolerance, atol=tolerance)


def test_matrices_without_an_inverse_are_refused() -> None:
    """A singular matrix fails the run, one that is not square the model."""
    for matrix in (np.zeros((2, 2), np.float32), np.float32([[1, 2], [2, 4]])):
        with pytest.raises(RunError, match="a matrix is singular"):
            OneNode("Inverse", {"x": matrix}).run()
    with pytest.raises(ModelError, match="x must be square matrices"):
        OneNode("Inverse", {"x": np.zeros((2, 3), np.float32)}).run()


@pytest.mark.parametrize("last", [0, 1])
def test_quantized_convolutions_take_channels_last(last: int) -> None:
    weights = np.random.default_rng(1).integers(-64, 64, (8, 3, 3, 3)).astype(np.int8)
    operands = {
        "x": BYTES if last else np.ascontiguousarray(BYTES.transpose(0, 3, 1, 2)),
        "xs": F32(0.05),
        "xz": np.uint8(120),
        "w": weights,
        "ws": F32(0.02),
        "wz": np.int8(0),
        "ys": F32(0.3),
        "yz": np.uint8(110),
    }
    held = frozenset(operands) - {"x"}
    node = OneNode("QLinearConv", operands, held, attributes=PADS | {"channels_last": last})
    wanted = stored(convolved(real(BYTES, 0.05, 120), real(weights, 0.02, 0)), 0.3, 110)
    found = node.run()["y"]

    assert np.abs(found.astype(int) - (wanted if last else wanted.transpose(0, 3, 1, 2)).astype(int)).max() <= 1
    (theirs,) = node.run_by_onnxruntime().values()
    assert np.abs(found.astype(int) - theirs.astype(int)).max() <= 1


def quantized_lstm(shape: tuple[int, ...], zeros: tuple[int, int], hidden: int = 8, taken: int = 5) -> OneNode:
    """DynamicQuantizeLSTM with scales and zero points of this shape."""
    rng = np.random.default_rng(4)
    operands = {
        "x": some(6, 2, taken),
        "w": rng.integers(-60, 60, (1, taken, 4 * hidden)).astype(np.int8),
        "r": rng.integers(-60, 60, (1, hidden, 4 * hidden)).astype(np.int8),
        "b": some(1, 8 * hidden) / 4,
        "lengths": None,
        "h": None,
        "c": None,
        "p": None,
        "ws": (rng.random(shape) * 0.004 + 0.001).astype(np.float32),
        "wz": np.full(shape, zeros[0], np.int8),
        "rs": (rng.random(shape) * 0.004 + 0.001).astype(np.float32),
        "rz": np.full(shape, zeros[1], np.int8),
    }
    held = frozenset(name for name, array in operands.items() if array is not None) - {"x"}
    return OneNode("DynamicQuantizeLSTM", operands, held, ("y", "yh", "yc"), {"hidden_size": hidden})


@pytest.mark.parametrize("shape", [(1,), (1, 32)], ids=["tensor", "columns"])
def test_lstms_of_8_bits_are_those_of_dequantized_weights(shape: tuple[int, ...]) -> None:
    node = quantized_lstm(shape, (7, -20))
    given = node.operands
    real = {
        name: np.swapaxes((given[name] - given[f"{name}z"].astype(np.float32)) * given[f"{name}s"], 1, 2)
        for name in ("w", "r")
    }
    operands = {name: real.get(name, given[name]) for name in ("x", "w", "r", "b")}
    plain = OneNode("LSTM", operands, frozenset({"w", "r", "b"}), node.outputs, node.attributes, domain="")

    close(node.run(), list(plain.run_by_onnxruntime().values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("least", "kept"), [(-60, True), (-127, False)])
def test_lstms_of_8_bits_read_bytes(least: int, kept: bool) -> None:
    """Unless weights less their zero point do not fit 8 bits."""
    node = quantized_lstm((1,), (7, 20))
    node.operands["r"][0, 0, 0] = least

    session = treadle.Session(node.model(is_open=False))

    specs = [call.spec for plan in session.plans() for call in plan.calls if isinstance(call.spec, RecurrentSpec)]
    assert [spec.weights == i8 for spec in specs] == [kept]


@pytest.mark.parametrize("shape", [(1,), (1, 32)], ids=["tensor", "columns"])
def test_lstms_of_8_bits_are_close_to_those_of_onnxruntime(shape: tuple[int, ...]) -> None:
    """It rounds inputs and states to 8 bits, so its results differ by about a hundredth."""
    node = quantized_lstm(shape, (0, 0))
    found, theirs = node.run(), node.run_by_onnxruntime()

    for name, array in theirs.items():
        np.testing.assert_allclose(found[name], array, atol=0.05)


def test_metrics_that_are_not_known_are_refused_by_name() -> None:
    node = OneNode("CDist", {"a": X, "c": Y}, attributes={"metric": "cosine"})

    with pytest.raises(treadle.errors.TreadleError, match="attribute 'metric' is 'cosine'"):
        treadle.Session(node.model(is_open=False))
