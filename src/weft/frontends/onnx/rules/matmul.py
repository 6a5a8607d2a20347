"""MatMul, Gemm and MatMulInteger."""

from weft import dtypes
from weft.dtypes import DType
from weft.frontends.onnx.build import Builder
from weft.frontends.onnx.node import OnnxNode
from weft.graph.value import Value


def matmul(node: OnnxNode, b: Builder) -> Value:
    return b.add("matmul", node.input(0), node.input(1), transpose_a=False, transpose_b=False)


def gemm(node: OnnxNode, b: Builder) -> Value | None:
    """Gemm(a, b, c) -> alpha (a b) + beta c, with a and b transposed if asked for."""
    left, right, c = node.input(0), node.input(1), node.optional(2)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if left.dtype is None or (left.dtype.is_integer and not (alpha.is_integer() and beta.is_integer())):
        return None
    product = b.add(
        "matmul",
        left,
        right,
        transpose_a=node.flag("transA", default=False),
        transpose_b=node.flag("transB", default=False),
    )
    product = _scaled(product, alpha, left.dtype, b)
    return product if c is None or beta == 0 else b.add("add", product, _scaled(c, beta, left.dtype, b))


def _scaled(x: Value, factor: float, dtype: DType, b: Builder) -> Value:
    return x if factor == 1 else b.add("mul", x, b.scalar(factor, dtype))


def matmul_integer(node: OnnxNode, b: Builder) -> Value | None:
    """MatMulInteger(a, b, zero points) -> (i32(a) - a_zero) (i32(b) - b_zero), for zero points of one element."""
    sides = []
    for index in (0, 1):
        wide = b.add("cast", node.input(index), to=dtypes.i32)
        zero = node.optional(index + 2)
        if zero is not None:
            dims = node.dims(index + 2)
            if dims is None or any(dim != 1 for dim in dims):
                return None
            wide = b.add("sub", wide, b.add("cast", zero, to=dtypes.i32))
        sides.append(wide)
    return b.add("matmul", *sides, transpose_a=False, transpose_b=False)
