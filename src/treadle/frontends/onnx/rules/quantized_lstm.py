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
from treadle.ops.op import Array
from treadle.records import dataclass

_WEIGHTS, _SCALES = (1, 2), (8, 10)
"""The operand numbers of both weights, and of their scales, which their zero points follow."""


def dynamic_lstm(node: OnnxNode, b: Builder) -> Sequence[Value]:
    """DynamicQuantizeLSTM -> the LSTM of the dequantized weights. ONNX Runtime rounds inputs and states to 8 bits; this
    does not. Recurrent weights are kept as i8 numbers if their differences from the zero points are such."""
    inputs = [node.optional(index) for index in range(_SCALES[0])]
    of_inputs, recurrent = (_stored(node, *places) for places in zip(_WEIGHTS, _SCALES, strict=True))
    inputs[_WEIGHTS[0]] = b.constant(of_inputs.steps * of_inputs.scales)
    if recurrent.fits:
        inputs[_WEIGHTS[1]] = b.constant(recurrent.steps.astype(np.int8))
        scales = b.constant(np.ascontiguousarray(recurrent.scales_of_rows))
    else:
        inputs[_WEIGHTS[1]], scales = b.constant(recurrent.steps * recurrent.scales), None
    found = lstm(node.reading(inputs), b, scales)
    assert found is not None, "the shape of its recurrent weight is known"
    return found


@dataclass(frozen=True, slots=True)
class _Stored:
    """Weights [directions, 4 * hidden, inputs] as f32: whole `steps` times `scales`, which broadcast to them."""

    steps: Array
    scales: Array

    @property
    def fits(self) -> bool:
        """Whether steps are numbers of i8."""
        return self.steps.size == 0 or bool(self.steps.min() >= -128 and self.steps.max() <= 127)

    @property
    def scales_of_rows(self) -> Array:
        """[directions, 4 * hidden]"""
        return np.broadcast_to(self.scales[:, :, 0], self.steps.shape[:2])


def _stored(node: OnnxNode, at: int, scale_at: int) -> _Stored:
    """The weights of operand `at`, which are stored with the last axes swapped."""
    weights, scale, zero = (node.array(index) for index in (at, scale_at, scale_at + 1))
    if weights is None or scale is None or zero is None or weights.ndim != 3:
        raise Unsupported("its weights, scales and zero points must be constants, its weights of rank 3")
    tables = []
    for table in (zero, scale):
        if table.shape not in ((weights.shape[0],), (weights.shape[0], weights.shape[2])):
            raise Fault(f"weights {list(weights.shape)} cannot have scales or zero points {list(table.shape)}")
        tables.append(table.astype(np.float32).reshape(weights.shape[0], -1, 1))
    steps = np.ascontiguousarray(weights.transpose(0, 2, 1), np.float32)
    return _Stored(steps - tables[0], tables[1])
