"""SparseTensor: values and indices of a sparse tensor, in the memory of the arrays that they were made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from treadle.compat.onnxruntime.describe import type_name
from treadle.compat.onnxruntime.enums import OrtSparseFormat
from treadle.compat.onnxruntime.values import OrtDevice, require_cpu
from treadle.immutable import immutable

Array = np.ndarray[Any, Any]


@immutable
class SparseCooView:
    """The indices of a tensor in coordinate format: one number an element, or a row of numbers."""

    _indices: Array

    def indices(self) -> Array:
        """Return the indices, int64."""
        return self._indices


@immutable
class SparseCsrcView:
    """The indices of a matrix in compressed rows."""

    _inner: Array
    _outer: Array

    def inner(self) -> Array:
        """Return the column of each value, int64."""
        return self._inner

    def outer(self) -> Array:
        """Return where the values of each row begin, int64, and their number at the end."""
        return self._outer


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensor:
    """The values of a tensor that are not 0, and where they are."""

    _shape: tuple[int, ...]
    _values: Array
    _view: SparseCooView | SparseCsrcView

    @staticmethod
    def sparse_coo_from_numpy(
        dense_shape: Sequence[int], values: Array, coo_indices: Array, ort_device: OrtDevice
    ) -> SparseTensor:
        """Return a tensor in coordinate format: `coo_indices` has a number or a row of numbers for each value."""
        require_cpu("cpu", ort_device.device_id())
        shape, values = _checked(dense_shape, values)
        indices = np.ascontiguousarray(coo_indices, np.int64)
        rank = 1 if indices.ndim == 1 else indices.shape[-1]
        if len(indices) != len(values) or rank not in (1, len(shape)):
            raise RuntimeError(f"coo_indices: wanted an index or {len(shape)} for each value, got {indices.shape}")
        most = np.array([prod(shape)] if indices.ndim == 1 else shape)
        if np.any(indices < 0) or np.any(indices >= most):
            raise RuntimeError(f"coo_indices: an index lies outside of {list(shape)}")
        return SparseTensor(shape, values, SparseCooView(indices))

    @staticmethod
    def sparse_csr_from_numpy(
        dense_shape: Sequence[int], values: Array, inner_indices: Array, outer_indices: Array, ort_device: OrtDevice
    ) -> SparseTensor:
        """Return a matrix in compressed rows."""
        require_cpu("cpu", ort_device.device_id())
        shape, values = _checked(dense_shape, values)
        inner, outer = (np.ascontiguousarray(each, np.int64) for each in (inner_indices, outer_indices))
        if len(shape) != 2 or len(inner) != len(values) or len(outer) != shape[0] + 1 or outer[-1] != len(values):
            raise RuntimeError(
                f"sparse_csr_from_numpy: {len(values)} values, {len(inner)} inner and {len(outer)} outer indices are "
                f"no matrix of {list(shape)}"
            )
        return SparseTensor(shape, values, SparseCsrcView(inner, outer))

    def values(self) -> Array:
        """Return the values; they share the memory. Raises RuntimeError for strings."""
        return self._values.view()

    def dense_shape(self) -> list[int]:
        """Return the shape of the whole tensor."""
        return list(self._shape)

    def format(self) -> OrtSparseFormat:
        """Return how the places of the values are stored."""
        is_coo = isinstance(self._view, SparseCooView)
        return OrtSparseFormat.ORT_SPARSE_COO if is_coo else OrtSparseFormat.ORT_SPARSE_CSRC

    def as_coo_view(self) -> SparseCooView:
        """Return the indices. Raises RuntimeError for another format."""
        if not isinstance(self._view, SparseCooView):
            raise RuntimeError("as_coo_view: the tensor is not in coordinate format")
        return self._view

    def as_csrc_view(self) -> SparseCsrcView:
        """Return the indices. Raises RuntimeError for another format."""
        if not isinstance(self._view, SparseCsrcView):
            raise RuntimeError("as_csrc_view: the tensor is not in compressed rows")
        return self._view

    def as_blocksparse_view(self) -> Any:
        """Raise RuntimeError: no tensor has this format."""
        raise RuntimeError("as_blocksparse_view: the tensor is not in blocks")

    def data_type(self) -> str:
        """Return the type, such as "sparse_tensor(float)"."""
        return (type_name(self._values.dtype) or "").replace("tensor(", "sparse_tensor(", 1)

    def device_name(self) -> str:
        """Return "cpu"."""
        return "cpu"

    def to_cuda(self, ort_device: Any) -> SparseTensor:
        """Raise RuntimeError: there is no GPU here."""
        raise RuntimeError("Cuda is not available in this build")


def dense_of(tensor: SparseTensor) -> Array:
    """Return all elements of a sparse tensor."""
    dense = np.zeros(tensor.dense_shape(), tensor.values().dtype)
    if tensor.format() == OrtSparseFormat.ORT_SPARSE_COO:
        indices = tensor.as_coo_view().indices()
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = tensor.values()
        else:
            dense[tuple(indices.T)] = tensor.values()
        return dense
    rows = tensor.as_csrc_view()
    counts = np.diff(rows.outer())
    dense[np.repeat(np.arange(len(counts)), counts), rows.inner()] = tensor.values()
    return dense


def _checked(dense_shape: Sequence[int], values: Array) -> tuple[tuple[int, ...], Array]:
    values = np.ascontiguousarray(values)
    if values.ndim != 1 or type_name(values.dtype) is None:
        raise RuntimeError(f"values: wanted one axis of numbers, got {values.dtype}{list(values.shape)}")
    return tuple(int(size) for size in dense_shape), values
