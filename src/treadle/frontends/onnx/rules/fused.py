"""Operators that ONNX Runtime fuses of others (com.microsoft), taken apart again: passes fuse them for their kernels.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.activation import gelu_of, hard_sigmoid_of, leaky_relu_of, swish_of
from treadle.frontends.onnx.rules.conv import conv
from treadle.frontends.onnx.rules.matmul import gemm
from treadle.graph.value import Value

_Activation = Callable[[Value, Sequence[float], Builder], Value]


def _clip(x: Value, parameters: Sequence[float], b: Builder) -> Value:
    limits = np.finfo(np.float32)
    low, high = _two(parameters, float(limits.min), float(limits.max))
    return b.add("clip", x, b.scalar(low, x.dtype), b.scalar(high, x.dtype))


def _hard_sigmoid(x: Value, parameters: Sequence[float], b: Builder) -> Value:
    alpha, beta = _two(parameters, 0.2, 0.5)
    return hard_sigmoid_of(x, alpha, beta, b)


def _two(stated: Sequence[float], first: float, second: float) -> tuple[float, float]:
    """The parameters that are stated, and defaults for the others."""
    return (stated[0] if stated else first), (stated[1] if len(stated) > 1 else second)


_ACTIVATIONS: dict[str, _Activation] = {
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": lambda x, parameters, b: leaky_relu_of(x, parameters[0] if parameters else 0.01, b),
    "Relu": lambda x, _, b: b.add("relu", x),
    "Sigmoid": lambda x, _, b: b.add("sigmoid", x),
    "Tanh": lambda x, _, b: b.add("tanh", x),
}
"""Attribute `activation` -> what it does to x, given the parameters that are stated."""


def _activated(node: OnnxNode, x: Value, parameters: Sequence[float], b: Builder) -> Value:
    """`x` after the attribute `activation`; `x` itself if it is not given."""
    name = node.text("activation", "")
    if not name:
        return x
    found = _ACTIVATIONS.get(name)
    if found is None:
        raise Unsupported(f"attribute 'activation' is {name!r}; treadle knows {', '.join(_ACTIVATIONS)}")
    if len(parameters) > 2:
        raise Fault(f"activation {name} has 2 parameters at most, got {len(parameters)}")
    return found(x, parameters, b)


def fused_conv(node: OnnxNode, b: Builder) -> Value:
    """FusedConv(x, w, bias, z) -> activation(conv(x, w, bias) + z)."""
    found = conv(node, b)
    if found is None:
        raise Unsupported("the sizes of its kernel, and of its input for SAME padding, must be known")
    return finished_conv(node, found, b)


def finished_conv(node: OnnxNode, found: Value, b: Builder) -> Value:
    """activation(found + z) for the operands and attributes of FusedConv."""
    residual = node.optional(3)
    total = found if residual is None else b.add("add", found, residual)
    stated = node.floats("activation_params")
    return _activated(node, total, [] if stated is None else stated.tolist(), b)


def fused_gemm(node: OnnxNode, b: Builder) -> Value:
    """FusedGemm(a, b, c) -> activation(gemm(a, b, c))."""
    found = gemm(node, b)
    if found is None:
        raise Unsupported("the element type of its inputs must be known")
    return _finished_product(node, found, b)


def fused_matmul(node: OnnxNode, b: Builder) -> Value:
    """FusedMatMul(a, b) -> alpha (a b), their first axis moved behind the axes of the batch, their last two swapped,
    where attributes say so."""
    sides = [_side(node, index, name, b) for index, name in enumerate("AB")]
    turned = [_is_turned(node, index, name) for index, name in enumerate("AB")]
    product = b.add("matmul", *sides, transpose_a=turned[0], transpose_b=turned[1])
    alpha = node.number("alpha", 1.0)
    return product if alpha == 1 else b.add("mul", product, b.scalar(alpha, product.dtype))


def fused_matmul_activation(node: OnnxNode, b: Builder) -> Value:
    """FusedMatMulActivation(a, b) -> activation(FusedMatMul(a, b))."""
    return _finished_product(node, fused_matmul(node, b), b)


def _finished_product(node: OnnxNode, found: Value, b: Builder) -> Value:
    stated = [node.number(f"activation_{name}", 0.0) for name in ("alpha", "beta") if node.has(f"activation_{name}")]
    return _activated(node, found, stated, b)


def _side(node: OnnxNode, index: int, name: str, b: Builder) -> Value:
    value, rank = node.input(index), node.rank(index)
    if not node.flag(f"transBatch{name}", default=False):
        return value
    if rank is None:
        raise Unsupported(f"the rank of its input {name!r} must be known for 'transBatch{name}'")
    return value if rank < 3 else b.add("transpose", value, perm=(*range(1, rank - 1), 0, rank - 1))


def _is_turned(node: OnnxNode, index: int, name: str) -> bool:
    """Whether the last two axes are swapped; a vector has one."""
    return node.flag(f"trans{name}", default=False) and node.rank(index) != 1


def gelu(node: OnnxNode, b: Builder) -> Value:
    return gelu_of(node.input(0), b, approximate=False)


def bias_gelu(node: OnnxNode, b: Builder) -> Value:
    """BiasGelu(x, bias) -> gelu(x + bias)."""
    return gelu_of(b.add("add", node.input(0), node.input(1)), b, approximate=False)


def fast_gelu(node: OnnxNode, b: Builder) -> Value:
    """FastGelu(x, bias) -> the approximation of gelu(x + bias) by tanh; the bias may be absent."""
    x, bias = node.input(0), node.optional(1)
    return gelu_of(x if bias is None else b.add("add", x, bias), b, approximate=True)


def quick_gelu(node: OnnxNode, b: Builder) -> Value:
    """QuickGelu(x) -> x sigmoid(alpha x)."""
    return swish_of(node.input(0), node.number("alpha", 1.702), b)


def bias_split_gelu(node: OnnxNode, b: Builder) -> Value:
    """BiasSplitGelu(x, bias) -> left gelu(right) of the halves of x + bias along the last axis."""
    total = b.add("add", node.input(0), node.input(1))
    left, right = b.add_many("split", [total], 2, axis=-1, parts=2)
    return b.add("mul", left, gelu_of(right, b, approximate=False))


def bias_add(node: OnnxNode, b: Builder) -> Value:
    """BiasAdd(x, bias, skip) -> x + bias + skip."""
    return b.add("add", b.add("add", node.input(0), node.input(1)), node.input(2))


def gemm_fast_gelu(node: OnnxNode, b: Builder) -> Value:
    """GemmFastGelu(x, w, bias) -> fast_gelu(x w + bias)."""
    product = b.add("matmul", node.input(0), node.input(1), transpose_a=False, transpose_b=False)
    bias = node.optional(2)
    return gelu_of(product if bias is None else b.add("add", product, bias), b, approximate=True)


def bias_dropout(node: OnnxNode, b: Builder) -> list[Value]:
    """BiasDropout(x, bias, residual) -> x + bias + residual, and a mask that keeps every element."""
    training = node.optional(4)
    known = node.array(4)
    if training is not None and (known is None or known.any()):
        raise Unsupported("its input 'training_mode' must be a constant and false: treadle does not train")
    residual, total = node.optional(2), b.add("add", node.input(0), node.input(1))
    total = total if residual is None else b.add("add", total, residual)
    kept = b.add("expand", b.constant(np.array(True)), b.add("shape", total, start=0, end=None))
    return [total, kept]
