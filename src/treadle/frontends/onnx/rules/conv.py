"""Conv."""

from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.dequantized import conv_of_quantized
from treadle.frontends.onnx.rules.window import conv_over, window_of
from treadle.graph.value import Value


def kernel_of(node: OnnxNode, weights: int = 1) -> tuple[int, ...] | None:
    """The kernel's spatial size from the weights (that operand), else from `kernel_shape`; None if neither tells.

    Raises Fault if they contradict each other.
    """
    stated, dims = node.integers("kernel_shape"), node.dims(weights)
    if dims is None or None in dims[2:]:
        return stated
    found = tuple(dim for dim in dims[2:] if dim is not None)
    if stated is not None and stated != found:
        raise Fault(f"attribute 'kernel_shape' is {list(stated)}, but the weights have a kernel {list(found)}")
    if not found:
        raise Fault(f"the weights must have rank 3 or more, got rank {len(dims)}")
    return found


def conv(node: OnnxNode, b: Builder) -> Value | None:
    """Conv -> conv; SAME padding becomes numbers where the sizes are known."""
    kernel = kernel_of(node)
    window = None if kernel is None else window_of(node, kernel)
    if window is None:
        return None
    found = conv_of_quantized(node, window, b)
    if found is not None:
        return found
    return conv_over(node, window, node.input(0), node.input(1), node.optional(2), b)
