"""Gates and scaled activations of ONNX Runtime (com.microsoft), taken apart into ordinary operations.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.activation import swish_of
from treadle.graph.value import Value

_GATE_EPSILON = 1e-5


def scaled_silu(node: OnnxNode, b: Builder) -> Value:
    """ScaledSiLU(x, scale) -> z sigmoid(z) of z = scale x; `alpha` is the scale where there is no operand."""
    x, scale = node.input(0), node.optional(1)
    factor = b.scalar(node.number("alpha", 1.0), x.dtype) if scale is None else b.as_scalar(b.cast(scale, x.dtype))
    return swish_of(b.add("mul", x, factor), 1.0, b)


def gated_add(node: OnnxNode, b: Builder) -> Value:
    """GatedAdd(x, y, gate) -> x + y gate."""
    if node.optional(3) is not None:
        raise Unsupported("its input 'gate_weight' (number 3) is for CUDA only")
    return b.add("add", node.input(0), b.add("mul", node.input(1), node.input(2)))


def gated_swish(node: OnnxNode, b: Builder) -> Value:
    """SwiGLU(a, b) of ai.onnx -> a sigmoid(alpha a) b, of one shape."""
    return b.add("mul", swish_of(node.input(0), node.number("alpha", 1.0), b), node.input(1))


def swiglu(node: OnnxNode, b: Builder) -> Value:
    """SwiGLU(gate, up) -> g sigmoid(alpha g) (u + beta), g and u being cut off at `limit`; both may be in one operand,
    one after the other."""
    gate, up = node.input(0), node.optional(1)
    if up is None:
        gate, up = b.add_many("split", [gate], 2, axis=-1, parts=2)
    limit, beta = node.number("limit", 0.0), node.number("activation_beta", 0.0)
    if limit > 0:
        high, low = b.scalar(limit, gate.dtype), b.scalar(-limit, gate.dtype)
        gate, up = b.add("min", gate, high), b.add("max", b.add("min", up, high), low)
    linear = up if beta == 0 else b.add("add", up, b.scalar(beta, up.dtype))
    return b.add("mul", swish_of(gate, node.number("activation_alpha", 1.0), b), linear)


def gated_rms_norm(node: OnnxNode, b: Builder) -> Value:
    """GatedRMSNorm(x, scale, gate) -> rms_norm of each group of as many elements as the scale has, times
    activation(gate)."""
    x, gate = node.input(0), node.input(2)
    how = node.choice("activation", "silu", "silu", "swish", "sigmoid")
    opened = b.add("sigmoid", gate) if how == "sigmoid" else swish_of(gate, 1.0, b)
    return b.add("mul", _by_groups(x, node.input(1), node.number("epsilon", _GATE_EPSILON), b), opened)


def branchwise_rms_norm(node: OnnxNode, b: Builder) -> Value:
    """BranchwiseRMSNorm(x, scale) -> rms_norm of each branch of x [.., C, H] or [.., C H], times a scale of H, C H or
    [C, H] elements."""
    x, scale, rank = node.input(0), node.optional(1), node.rank()
    branches, dims, table = node.integer("num_branches", 0), node.dims(), None if scale is None else node.dims(1)
    width = dims[-1] if dims else None
    if rank is None or width is None or (scale is not None and (table is None or None in table)):
        raise Unsupported("the last dimension of its input and the shape of its scale must be known")
    if branches < 0 or (branches and width % branches):
        raise Fault(f"attribute 'num_branches' must divide {width}, got {branches}")
    size = width // branches if branches else width
    unit = b.add("expand", b.scalar(1, x.dtype), b.integers([size]))
    normal = _by_groups(x, unit, node.number("epsilon", _GATE_EPSILON), b)
    if scale is None:
        return normal
    factor = b.cast(scale, x.dtype)
    if not branches:
        factor = factor if table == (size,) else b.add("reshape", factor, b.integers([-1, size]), allowzero=False)
        return b.add("mul", normal, factor)
    if table == (size,):
        factor = b.add("expand", factor, b.integers([branches, size]))
    return b.add("mul", normal, b.add("reshape", factor, b.integers([-1]), allowzero=False))


def _by_groups(x: Value, scale: Value, epsilon: float, b: Builder) -> Value:
    """`x` with each group of as many elements of its last axis as `scale` has normalised."""
    factor = b.cast(scale, x.dtype)
    size = b.add("shape", scale, start=0, end=1)
    apart = b.add("reshape", x, b.add("concat", b.integers([-1]), size, axis=0), allowzero=False)
    normal = b.add("rms_norm", apart, factor, axis=-1, epsilon=epsilon)
    return b.add("reshape", normal, b.add("shape", x, start=0, end=None), allowzero=True)


def gated_position_bias(node: OnnxNode, b: Builder) -> Value:
    """GatedRelativePositionBias(x [N, tokens, width], bias, positions, weights, gate bias, eco) -> the positions
    [N, heads, tokens, tokens], scaled by two gates of each head."""
    if node.optional(6) is not None or node.rank() != 3:
        raise Unsupported("its input must have the shape [texts, tokens, width], without 'token_offset'")
    count = node.integer("num_heads", 0)
    if count < 1:
        raise Fault(f"attribute 'num_heads' must be 1 or more, got {count}")
    total = b.add("reshape", b.add("add", node.input(0), node.input(1)), b.integers([0, 0, count, -1]), allowzero=False)
    heads = b.add("transpose", total, perm=(0, 2, 1, 3))
    product = b.add("matmul", heads, node.input(3), transpose_a=False, transpose_b=False)
    gates = b.add("reshape", b.add("add", product, node.input(4)), b.integers([0, 0, 0, 2, -1]), allowzero=False)
    opened = b.add("sigmoid", b.add("reduce_sum", gates, axes=(-1,), keepdims=False))
    first, second = b.add_many("split", [opened], 2, axis=-1, parts=2)
    one = b.scalar(1, second.dtype)
    scaled = b.add("mul", first, b.add("sub", b.add("mul", second, node.input(5)), one))
    return b.add("mul", b.add("add", scaled, b.scalar(2, scaled.dtype)), node.input(2))
