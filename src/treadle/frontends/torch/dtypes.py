"""Element types: PyTorch's, treadle's and TorchScript's numbers for them; arrays of tensors, without copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Unsupported
from treadle.ops.op import Array

CORE: dict[torch.dtype, DType] = {
    torch.float64: dtypes.f64,
    torch.float32: dtypes.f32,
    torch.float16: dtypes.f16,
    torch.bfloat16: dtypes.bf16,
    torch.int64: dtypes.i64,
    torch.int32: dtypes.i32,
    torch.int16: dtypes.i16,
    torch.int8: dtypes.i8,
    torch.uint64: dtypes.u64,
    torch.uint32: dtypes.u32,
    torch.uint16: dtypes.u16,
    torch.uint8: dtypes.u8,
    torch.bool: dtypes.boolean,
}

PARTS: dict[torch.dtype, DType] = {torch.complex64: dtypes.f32, torch.complex128: dtypes.f64}
"""Complex element types, and the element types of their parts."""

TORCH: dict[DType, torch.dtype] = {core: dtype for dtype, core in CORE.items()}

NUMBERED: dict[int, torch.dtype] = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32,
    7: torch.float64, 11: torch.bool, 9: torch.complex64, 10: torch.complex128, 15: torch.bfloat16, 27: torch.uint16,
    28: torch.uint32, 29: torch.uint64,
}  # fmt: skip
"""c10::ScalarType, the numbers of element types in TorchScript."""


def core(dtype: torch.dtype | int) -> DType:
    """Returns treadle's element type. Raises Unsupported if it has none (complex, quantized, float8)."""
    found = NUMBERED.get(dtype) if isinstance(dtype, int) else dtype
    if found in PARTS:
        raise Unsupported(
            f"treadle has no arrays of {found}; pass torch.view_as_real(x), and begin with torch.view_as_complex"
        )
    if found not in CORE:
        raise Unsupported(f"treadle has no element type {dtype if found is None else found}")
    return CORE[found]


def number_of(dtype: DType) -> int:
    """Returns TorchScript's number of `dtype`."""
    return next(number for number, found in NUMBERED.items() if found is TORCH[dtype])


def complex_number_of(part: DType) -> int:
    """Returns TorchScript's number of the complex type with parts of `part`."""
    return next(number for number, found in NUMBERED.items() if PARTS.get(found) is part)


def array_of(tensor: torch.Tensor) -> Array:
    """Returns the elements of a dense CPU tensor; shares its memory. Raises Unsupported for other tensors."""
    if tensor.device.type != "cpu":
        raise Unsupported(f"it has a tensor on {tensor.device}; treadle runs on CPUs: move it with .cpu()")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise Unsupported("it has a sparse or quantized tensor; treadle takes dense ones")
    dtype = core(tensor.dtype)
    plain = tensor.detach().resolve_conj().resolve_neg()
    if dtype == dtypes.bf16:
        plain = plain.view(torch.int16)
    try:
        array: Array = plain.numpy()
    except RuntimeError as error:
        raise Unsupported(f"it has a {type(tensor).__name__} whose elements are not plain memory: {error}") from None
    return array.view(dtype.numpy)


def tensor_of(array: Array) -> torch.Tensor:
    """Returns `array` as a tensor that shares its memory."""
    if array.dtype == dtypes.bf16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def example_of(dtype: DType, shape: Sequence[int]) -> Any:
    """Returns an uninitialized tensor."""
    return torch.empty(tuple(shape), dtype=TORCH[dtype])
