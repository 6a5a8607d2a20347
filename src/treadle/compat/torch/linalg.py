"""torch.linalg: norms, and linear algebra of small matrices by NumPy's LAPACK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.arithmetic import abs_
from treadle.compat.torch.functions.reduction import amax, amin, sum_
from treadle.compat.torch.functions.reduction import norm as _norm
from treadle.compat.torch.functions.rule import of_op
from treadle.compat.torch.missing_names import missing_name_error
from treadle.compat.torch.tensor import Tensor

det = of_op("linalg_det")
slogdet = of_op("linalg_slogdet")
inv = of_op("linalg_inv")
solve = of_op("linalg_solve")
solve_triangular = of_op(
    "linalg_solve_triangular",
    lambda A, B, *, upper, left=True, unitriangular=False: (A, B, upper, left, unitriangular),  # noqa: N803 - PyTorch's names
)
cholesky = of_op("linalg_cholesky", lambda input, *, upper=False: (input, upper))


@tensor_function
def vector_norm(x: Tensor, ord: float = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Returns the norm of order `ord` of all elements, or along `dim`."""
    return _norm(x, ord, dim, keepdim)


@tensor_function
def matrix_norm(
    A: Tensor,  # noqa: N803 - PyTorch's name
    ord: float | str = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
) -> Tensor:
    """Returns norms of the matrices in the axes `dim`.

    `ord` is "fro", or the maximum (negative: minimum) over the sums of columns (1) or rows (inf). Raises
    NotImplementedError for other orders.
    """
    if ord == "fro":
        return _norm(A, 2, dim, keepdim)
    if ord not in (1, -1, float("inf"), float("-inf")):
        raise NotImplementedError(f"linalg.matrix_norm of order {ord!r}: treadle has 'fro', 1, -1, inf and -inf")
    rows, columns = (each % A.ndim for each in dim)
    added, chosen = (rows, columns) if abs(float(ord)) == 1 else (columns, rows)
    sums = sum_(abs_(A), added, True)
    found = (amax if float(ord) > 0 else amin)(sums, chosen, True)
    return found if keepdim else found.squeeze(max(rows, columns)).squeeze(min(rows, columns))


@tensor_function
def norm(
    A: Tensor,  # noqa: N803 - PyTorch's name
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
) -> Tensor:
    """Returns `vector_norm`, or `matrix_norm` where an order is given for two axes."""
    if ord is not None and (
        isinstance(ord, str) or (dim is None and A.ndim == 2) or (isinstance(dim, tuple) and len(dim) == 2)
    ):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim)


__all__ = ["cholesky", "det", "inv", "matrix_norm", "norm", "slogdet", "solve", "solve_triangular", "vector_norm"]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    raise missing_name_error("torch.linalg", name, __all__)
