"""Linear algebra of small matrices and batches of them: calls of NumPy's LAPACK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from treadle import dtypes
from treadle.errors import RunError
from treadle.frontends.faults import Fault
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.shape import matrix_t
from treadle.graph.shape import broadcast
from treadle.graph.value import Value
from treadle.ops.op import Array

Computed = Callable[..., Array | Sequence[Array]]


class Computation:
    """The function of a call node: `compute` on arrays, with results converted to the dtypes of the graph.

    Raises RunError, naming the op, if a matrix has no inverse or is not positive-definite.
    """

    def __init__(self, name: str, compute: Computed, results: Sequence[dtypes.DType]) -> None:
        self._name = name
        self._compute = compute
        self._results = [dtype.numpy for dtype in results]

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        try:
            with np.errstate(all="ignore"):
                found = self._compute(*arrays)
        except np.linalg.LinAlgError as error:
            raise RunError(f"{self._name}: {error}; the input holds a matrix for which there is no result") from None
        results = found if isinstance(found, list | tuple) else [found]
        return [np.asarray(r, dtype=d, order="C") for r, d in zip(results, self._results, strict=True)]


def _call_numpy(
    b: Builder, name: str, compute: Computed, inputs: Sequence[Value], shapes: Sequence[Any]
) -> list[Value]:
    results = [(inputs[0].known_dtype, tuple(shape)) for shape in shapes]
    function = Computation(name, compute, [dtype for dtype, _ in results])
    return b.add_call(inputs, results, function=function, label=name)


def _square(b: Builder, x: Value) -> tuple[int, ...]:
    """Returns the shape of x [.., n, n]. Raises Fault for other shapes and for dtypes that LAPACK does not take."""
    shape = b.shape(x)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise Fault(f"it takes batches of square matrices, got the shape {list(shape)}")
    if x.dtype not in (dtypes.f32, dtypes.f64):
        raise Fault(f"it takes float32 or float64, got {x.dtype}")
    return shape


def inverse(b: Builder, x: Value) -> Value:
    return _call_numpy(b, "inverse", np.linalg.inv, [x], [_square(b, x)])[0]


def inverse_ex(b: Builder, x: Value, check_errors: bool = False) -> list[Value]:  # noqa: ARG001 - errors are always raised
    return [inverse(b, x), b.full(0, dtypes.i32, b.shape(x)[:-2])]


def det(b: Builder, x: Value) -> Value:
    return _call_numpy(b, "det", np.linalg.det, [x], [_square(b, x)[:-2]])[0]


def slogdet(b: Builder, x: Value) -> list[Value]:
    """Returns the sign and the logarithm of the magnitude of the determinant."""
    front = _square(b, x)[:-2]
    return _call_numpy(b, "slogdet", lambda a: list(np.linalg.slogdet(a)), [x], [front, front])


def logdet(b: Builder, x: Value) -> Value:
    """Returns the logarithm of the determinant; NaN if it is negative."""
    sign, size = slogdet(b, x)
    return b.add("where", b.add("lt", sign, b.scalar(0, sign.known_dtype)), b.scalar(np.nan, x.known_dtype), size)


def solve(b: Builder, a: Value, y: Value, left: bool = True) -> Value:
    """Returns x with a x = y (or x a = y); y is [.., n, k], or [.., n] if it has one axis less than a."""
    shape, other = _square(b, a), b.shape(y)
    vectors = len(other) == 1 or (len(other) == len(shape) - 1 and other == shape[:-1])
    if vectors:
        y = b.reshape(y, [*other, 1])
    if not left:
        a, y = matrix_t(b, a), matrix_t(b, y)
    front = broadcast(shape[:-2], b.shape(y)[:-2])
    wide = (*front, *b.shape(y)[-2:])
    found = _call_numpy(b, "solve", np.linalg.solve, [a, b.expand(y, wide)], [wide])[0]
    if not left:
        found = matrix_t(b, found)
    return b.reshape(found, [*front, shape[-1]]) if vectors else found


def solve_ex(b: Builder, a: Value, y: Value, left: bool = True, check_errors: bool = False) -> list[Value]:  # noqa: ARG001
    return [solve(b, a, y, left), b.full(0, dtypes.i32, b.shape(a)[:-2])]


def solve_triangular(
    b: Builder,
    a: Value,
    y: Value,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    """Solves as `solve`, with the upper or lower triangle of a."""
    n = _square(b, a)[-1]
    half = b.constant(np.tri(n, dtype=bool).T if upper else np.tri(n, dtype=bool))
    half_of_a = b.add("where", half, a, b.scalar(0, a.known_dtype))
    if unitriangular:
        half_of_a = b.add("where", b.constant(np.eye(n, dtype=bool)), b.scalar(1, a.known_dtype), half_of_a)
    return solve(b, half_of_a, y, left)


def cholesky(b: Builder, x: Value, upper: bool = False) -> Value:
    """Returns L with L L^T = x, reading the lower triangle of x; or L^T."""
    found = _call_numpy(b, "cholesky", np.linalg.cholesky, [x], [_square(b, x)])[0]
    return matrix_t(b, found) if upper else found


def cholesky_ex(b: Builder, x: Value, upper: bool = False, check_errors: bool = False) -> list[Value]:  # noqa: ARG001
    return [cholesky(b, x, upper), b.full(0, dtypes.i32, b.shape(x)[:-2])]


def cholesky_solve(b: Builder, y: Value, factor: Value, upper: bool = False) -> Value:
    """Returns x with (L L^T) x = y, for the lower factor L (or the upper factor L^T)."""
    _square(b, factor)
    turned = matrix_t(b, factor)
    lower, other = (turned, factor) if upper else (factor, turned)
    return solve_triangular(b, other, solve_triangular(b, lower, y, upper=False), upper=True)


def eigh(b: Builder, x: Value, half: str = "L", *_: Any) -> list[Value]:
    """Returns eigenvalues, ascending, and eigenvectors of symmetric matrices; LAPACK chooses the signs of vectors."""
    shape = _square(b, x)
    side: Literal["L", "U"] = "U" if half == "U" else "L"
    return _call_numpy(b, "eigh", lambda a: list(np.linalg.eigh(a, side)), [x], [shape[:-1], shape])


def svd(b: Builder, x: Value, full: bool = False, *_: Any) -> list[Value]:
    """Returns U, S and V^T; LAPACK chooses the signs of vectors."""
    *front, n, m = b.shape(x)
    k = min(n, m)
    shapes = [[*front, n, n if full else k], [*front, k], [*front, m if full else k, m]]
    return _call_numpy(b, "svd", lambda a: list(np.linalg.svd(a, full)), [x], shapes)
