"""Recurrent layers as ONNX nodes.

A core op reads the sums of inputs and biases of all gates. LSTM, GRU and RNN of ONNX multiply inputs with weights: here
with ones where the gates of a direction are, which gives these sums.
"""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.onnx.types import NUMBERS
from treadle.frontends.onnx.writing.tensors import Write
from treadle.frontends.onnx.writing.writer import Unwritable, Writer, dtype_of, known_shape, operand, optional
from treadle.graph.node import Node
from treadle.graph.value import Value

_ACTIVATIONS = {"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid"}


def _recurrent(op: str, lengths: int, *, gates: int) -> Write:
    def write(node: Node, w: Writer) -> None:
        if "functions" in node.attrs:
            raise Unwritable("its activations are not the usual ones")
        if op == "LSTM" and optional(node, 6) is not None:
            raise Unwritable("its weights are whole numbers with scales")
        x, r = operand(node, 0), operand(node, 1)
        directions, width, hidden = known_shape(r)
        assert width == gates * hidden, "its shape rule wants this"
        dtype = dtype_of(x).numpy
        weights = np.zeros((directions, width, directions * width), dtype)
        for number in range(directions):
            weights[number, :, number * width : (number + 1) * width] = np.eye(width, dtype=dtype)
        flat = w.emit("Reshape", [w.name(x), w.integers([0, 0, directions * width])])
        names = [flat, w.constant(weights, "ones"), w.name(r), *_rest(node, op, lengths, gates, w)]
        reverse = node.attrs["reverse"]
        direction = "bidirectional" if directions == 2 else "reverse" if reverse[0] else "forward"
        if directions == 2 and list(reverse) != [False, True]:
            raise Unwritable("its directions are not forward and backward")
        after = node.attrs["reset_after"] if op == "GRU" else None
        activations = [_ACTIVATIONS[node.attrs["activation"]]] * directions if op == "RNN" else None
        w.emit(
            op,
            names,
            [w.name(value) for value in node.outputs],
            hidden_size=hidden,
            direction=direction,
            linear_before_reset=after,
            activations=activations,
        )

    return write


def _rest(node: Node, op: str, lengths: int, gates: int, w: Writer) -> list[str]:
    """The names of bias, lengths, first states and peepholes."""

    def name(value: Value | None) -> str:
        return "" if value is None else w.name(value)

    bias = optional(node, 3) if op == "GRU" else None
    ends = optional(node, lengths)
    names = [
        "" if bias is None else _bias(bias, gates, w),
        "" if ends is None else w.emit("Cast", [w.name(ends)], to=NUMBERS[dtypes.i32]),
        name(optional(node, 2)),
    ]
    if op == "LSTM":
        names += [name(optional(node, 3)), name(optional(node, 5))]
    return names


def _bias(bias: Value, gates: int, w: Writer) -> str:
    """The biases of a GRU, 0 but for the one of the hidden gate's state: [directions, 2 * gates * hidden]."""
    directions, hidden = known_shape(bias)
    zeros = w.constant(np.zeros((directions, (2 * gates - 1) * hidden), dtype_of(bias).numpy), "zeros")
    return w.emit("Concat", [zeros, w.name(bias)], axis=1)


RECURRENT: dict[str, Write] = {
    "gru": _recurrent("GRU", 4, gates=3),
    "lstm": _recurrent("LSTM", 4, gates=4),
    "rnn": _recurrent("RNN", 3, gates=1),
}
"""Core op -> the function that writes a node of it."""
