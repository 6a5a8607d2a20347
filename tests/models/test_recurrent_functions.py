"""LSTM, GRU and RNN with other activation functions and clipped sums: kernels only, and what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle
from tests.models.contrib import OneNode, close, some

TIME, BATCH, TAKEN, HIDDEN = 5, 3, 4, 7
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RESULTS = {"LSTM": ("y", "yh", "yc"), "GRU": ("y", "yh"), "RNN": ("y", "yh")}


def layer(op: str, directions: int = 1, lengths: bool = False, **attributes: Any) -> OneNode:
    wide = GATES[op] * HIDDEN
    operands = {
        "x": some(TIME, BATCH, TAKEN),
        "w": some(directions, wide, TAKEN, seed=1),
        "r": some(directions, wide, HIDDEN, seed=2),
        "b": some(directions, 2 * wide, seed=3),
        "lengths": np.array([5, 2, 3], np.int32) if lengths else None,
    }
    if directions == 2:
        attributes["direction"] = "bidirectional"
    constants = frozenset({"w", "r", "b"})
    return OneNode(op, operands, constants, RESULTS[op], {"hidden_size": HIDDEN} | attributes, domain="")


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("op", list(GATES))
@pytest.mark.parametrize(
    ("names", "parameters"),
    [
        (("HardSigmoid", "Relu", "Tanh"), {"activation_alpha": [0.3], "activation_beta": [0.4]}),
        (("Sigmoid", "Softsign", "ScaledTanh"), {"activation_alpha": [0.9], "activation_beta": [0.8]}),
        (("Sigmoid", "Elu", "LeakyRelu"), {"activation_alpha": [0.7, 0.2]}),
        (("Affine", "ThresholdedRelu", "Softplus"), {"activation_alpha": [0.1, 0.5], "activation_beta": [0.2]}),
    ],
)
def test_activations_are_those_of_onnxruntime(
    op: str, names: tuple[str, ...], parameters: dict[str, list[float]], directions: int
) -> None:
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    alphas = {"HardSigmoid", "ScaledTanh", "Elu", "LeakyRelu", "Affine", "ThresholdedRelu"}
    used = sum(name in alphas for name in names[:count])
    betas = sum(name in {"HardSigmoid", "ScaledTanh", "Affine"} for name in names[:count])
    kept = {"activation_alpha": used, "activation_beta": betas}
    stated = {name: values[: kept[name]] * directions for name, values in parameters.items() if kept[name]}
    node = layer(op, directions, activations=list(names[:count]) * directions, **stated)

    close(node.run(), list(node.run_by_onnxruntime().values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("op", list(GATES))
def test_sums_are_clipped_as_by_onnxruntime(op: str, lengths: bool) -> None:
    node = layer(op, lengths=lengths, clip=0.5)

    close(node.run(), list(node.run_by_onnxruntime().values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"input_forget": 1}, "attribute 'input_forget' must be 0"),
        ({"activations": ["Sigmoid", "Tanh", "Gelu"]}, "names 'gelu'; wanted one of affine"),
        ({"activations": ["Sigmoid", "Tanh"]}, "must have 3 names, got 2"),
        ({"activations": ["Affine", "Tanh", "Tanh"]}, "activation affine needs attribute 'activation_alpha'"),
        ({"clip": -1.0}, "attribute 'clip' must be above 0"),
    ],
)
def test_what_is_not_computed_is_refused_with_the_reason(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(treadle.errors.TreadleError, match=message):
        treadle.Session(layer("LSTM", **attributes).model(is_open=False))
