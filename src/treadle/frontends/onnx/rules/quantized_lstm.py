"""DynamicQuantizeLSTM of com.microsoft: an LSTM whose weights are stored in 8 bits.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.recurrent import lstm
from treadle.graph.value import Value

_WEIGHTS, _SCALES = (1, 2), (8, 10)
"""The operand numbers of both weights, and of their scales, which their zero points follow."""


def dynamic_lstm(node: OnnxNode, b: Builder) -> Sequence[Value]:
    """DynamicQuantizeLSTM -> the LSTM of the dequantized weights. ONNX Runtime rounds inputs and states to 8 bits; this
    does not."""
    inputs = [node.optional(index) for index in range(_SCALES[0])]
    for weights, scales in zip(_WEIGHTS, _SCALES, strict=True):
        inputs[weights] = b.constant(_dequantized(node, weights, scales))
    found = lstm(node.reading(inputs), b)
    assert found is not None, "the shape of its recurrent weight is known"
    return found


def _dequantized(node: OnnxNode, at: int, scale_at: int) -> np.ndarray:
    """The weights f32[directions, 4 * hidden, inputs] of operand `at`, which are stored with the last axes swapped."""
    weights, scale, zero = (node.array(index) for index in (at, scale_at, scale_at + 1))
    if weights is None or scale is None or zero is None or weights.ndim != 3:
        raise Unsupported("its weights, scales and zero points must be constants, its weights of rank 3")
    tables = []
    for table in (zero, scale):
        if table.shape not in ((weights.shape[0],), (weights.shape[0], weights.shape[2])):
            raise Fault(f"weights {list(weights.shape)} cannot have scales or zero points {list(table.shape)}")
        tables.append(table.astype(np.float32).reshape(weights.shape[0], 1, -1))
    return np.ascontiguousarray(((weights.astype(np.float32) - tables[0]) * tables[1]).transpose(0, 2, 1))
