"""MatMul and Gemm."""

from treadle.dtypes import DType
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.dequantized import matmul_of_quantized
from treadle.frontends.onnx.rules.low_bits import matmul_of_low_bits
from treadle.graph.value import Value


def matmul(node: OnnxNode, b: Builder) -> Value:
    a, right = node.input(0), node.input(1)
    found = _of_stored(a, right, b, transposed=False)
    return b.add("matmul", a, right, transpose_a=False, transpose_b=False) if found is None else found


def gemm(node: OnnxNode, b: Builder) -> Value | None:
    """Gemm(a, b, c) -> alpha (a b) + beta c, with a and b transposed where the attributes say so."""
    left, right, c = node.input(0), node.input(1), node.optional(2)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if left.dtype is None or (left.dtype.is_integer and not (alpha.is_integer() and beta.is_integer())):
        return None
    turned, across = (node.flag(name, default=False) for name in ("transA", "transB"))
    product = None if turned else _of_stored(left, right, b, transposed=across)
    if product is None:
        product = b.add("matmul", left, right, transpose_a=turned, transpose_b=across)
    product = _scaled(product, alpha, left.dtype, b)
    return product if c is None or beta == 0 else b.add("add", product, _scaled(c, beta, left.dtype, b))


def _of_stored(left: Value, right: Value, b: Builder, *, transposed: bool) -> Value | None:
    """The product with quantized weights as they are stored; None if they are not quantized."""
    found = matmul_of_quantized(left, right, b, transposed=transposed)
    return matmul_of_low_bits(left, right, b, transposed=transposed) if found is None else found


def _scaled(x: Value, factor: float, dtype: DType, b: Builder) -> Value:
    return x if factor == 1 else b.add("mul", x, b.scalar(factor, dtype))
