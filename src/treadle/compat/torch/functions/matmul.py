"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import add, logical_and
from treadle.compat.torch.functions.axes import axis_of
from treadle.compat.torch.functions.promotion import common
from treadle.compat.torch.functions.rule import apply_rule, of_op
from treadle.compat.torch.functions.shape import expanded, permute, reshape
from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor


def _product(a: Tensor, b: Tensor, **attrs: Any) -> Tensor:
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")
    return emit("matmul", a, b, transpose_a=False, transpose_b=attrs.get("transpose_b", False))


@tensor_function
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Returns the product of matrices [n, m] and [m, p]."""
    _require_matrices(input, mat2)
    return _product(input, mat2)


def _require_matrices(input: Tensor, mat2: Tensor) -> None:
    for name, x in (("self", input), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    (n, m), (k, p) = input.shape, mat2.shape
    if m != k:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{m} and {k}x{p})")


@tensor_function
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Returns the products of matrices in batches [b, n, m] and [b, m, p]."""
    _require_batches(input, mat2)
    return _product(input, mat2)


def _require_batches(input: Tensor, mat2: Tensor) -> None:
    for name, x in (("batch1", input), ("batch2", mat2)):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] "
            f"but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )


@tensor_function
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Returns the product of vectors, matrices, or batches that broadcast, as numpy.matmul."""
    return _product(input, other)


@tensor_function
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Returns the product of a matrix [n, m] and a vector [m]."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {vec.ndim}")
    return _product(input, vec)


@tensor_function
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Returns the dot product of vectors [n]."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    return _product(input, tensor)


@tensor_function
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Returns beta * input + alpha * (mat1 @ mat2) for matrices."""
    _require_matrices(mat1, mat2)
    return _added("addmm", (input, mat1, mat2), beta, alpha)


@tensor_function
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Returns beta * input + alpha * (batch1 @ batch2) for batches of matrices."""
    _require_batches(batch1, batch2)
    return _added("baddbmm", (input, batch1, batch2), beta, alpha)


def _added(op: str, operands: tuple[Tensor, Tensor, Tensor], beta: float, alpha: float) -> Tensor:
    added, one, two = operands
    if not added.dtype is one.dtype is two.dtype:
        types = ", ".join(map(str, dict.fromkeys(each.dtype for each in operands)))
        raise RuntimeError(f"{op}: its operands must have one dtype, but got: {types}")
    expanded(added, (*one.shape[:-1], two.shape[-1]))
    if not one.dtype.is_floating_point:
        beta, alpha = int(beta), int(alpha)
    found: Tensor = apply_rule(op, (*operands, beta, alpha))
    return found


@tensor_function
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns input @ weight.T + bias."""
    product = _product(input, weight, transpose_b=weight.ndim > 1)
    return product if bias is None else add(product, bias)


@tensor_function
def einsum(equation: str, *operands: Any) -> Tensor:
    """Returns sums of products in Einstein notation."""
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    tensors, _ = common(*operands)
    return emit("einsum", *tensors, equation=equation)


def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Returns sums of products over the last axes of `a` and the first of `b`, or over those named."""
    if isinstance(dims, int):
        dims = [list(range(a.ndim - dims, a.ndim)), list(range(dims))]
    over = [[axis_of(x, dim) for dim in named] for x, named in ((a, dims[0]), (b, dims[1]))]
    free = [[axis for axis in range(x.ndim) if axis not in named] for x, named in zip((a, b), over, strict=True)]
    shape = [a.shape[axis] for axis in free[0]] + [b.shape[axis] for axis in free[1]]
    inner = int(np.prod([a.shape[axis] for axis in over[0]], dtype=np.int64))
    left = reshape(permute(a, free[0] + over[0]), (-1, inner))
    return reshape(matmul(left, reshape(permute(b, over[1] + free[1]), (inner, -1))), shape)


bilinear = of_op("bilinear", lambda input1, input2, weight, bias=None: (input1, input2, weight, bias))
_outer = of_op("outer", lambda input, vec2: (input, vec2))


@tensor_function
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Returns the products of all pairs of elements of two vectors; for bools, the logical and."""
    for name, each in (("self", input), ("vec2", vec2)):
        if each.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {each.ndim}-D")
    if input.dtype is vec2.dtype is dtypes.bool_:
        return logical_and(reshape(input, (-1, 1)), vec2)
    return _outer(input, vec2)
