"""OrtValue, OrtDevice and OrtMemoryInfo: tensors outside of runs, in the memory of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

import numpy as np

from treadle.compat.onnxruntime.describe import element_dtype, element_number, type_name
from treadle.compat.onnxruntime.enums import OrtAllocatorType, OrtDeviceMemoryType, OrtMemoryInfoDeviceType, OrtMemType
from treadle.immutable import immutable

Array = np.ndarray[Any, Any]

_NO_DEVICE = (
    "Can't allocate memory on the device using this package of OnnxRuntime. Please use the appropriate package of "
    "OnnxRuntime for your hardware to use this feature."
)

_DEVICES = {
    "cpu": (0, 0), "cuda": (1, 4318), "dml": (1, 5140), "npu": (3, 0), "gpu": (1, 0), "cann": (3, 6629),
    "webgpu": (1, 0),
}  # fmt: skip
"""Name of a device -> onnxruntime's numbers of its type and its vendor."""


def require_cpu(device_type: str, device_id: int = 0) -> None:
    """Raise RuntimeError unless the device is the CPU; its number does not matter."""
    if device_type.lower() not in _DEVICES:
        raise Exception(f"Unsupported device type: {device_type}")  # noqa: TRY002 - onnxruntime's own class
    if device_type.lower() != "cpu":
        raise RuntimeError(f"{_NO_DEVICE} ({device_type}:{device_id})")


def at_address(address: int, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Return an array in the memory at `address`, which must stay valid while the array is used."""
    if dtype.hasobject:
        raise RuntimeError("tensors of strings cannot be bound by their address")
    if not isinstance(address, int) or address <= 0:
        raise RuntimeError(f"buffer_ptr: wanted an address, got {address!r}")
    sizes = [int(size) for size in shape]
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"shape: sizes are 0 or more, got {list(shape)}")
    count = prod(sizes)
    memory: Any = (ctypes.c_byte * (count * dtype.itemsize)).from_address(address)
    array: Array = np.frombuffer(memory, dtype, count)
    return array.reshape(sizes)


class OrtValue:
    """A tensor, or a list of tensors. Numeric ones share the memory of the array that they were made of."""

    __slots__ = ("_content",)

    def __init__(self, content: Any) -> None:
        """Hold an array, a list of arrays or maps, a sparse tensor, or None. Raises ValueError for other objects."""
        if content is not None and not isinstance(content, np.ndarray | list) and not hasattr(content, "dense_shape"):
            raise ValueError(f"`Provided ortvalue` needs to be an array, a list or a SparseTensor, got {content!r}")
        self._content = content

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Return a tensor with the memory of an array; a copy of one that is not contiguous.

        Raises RuntimeError for another device, for what is no array, and for strings.
        """
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OUS":
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        if vendor_id not in (-1, 0):
            raise RuntimeError(_NO_DEVICE)
        require_cpu(device_type, device_id)
        if type_name(numpy_obj.dtype) is None:
            raise RuntimeError(f"Numpy_type {numpy_obj.dtype.num} can't be converted to MLDataType.")
        return cls(np.ascontiguousarray(numpy_obj).reshape(numpy_obj.shape))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> OrtValue:
        """Return a tensor of an ONNX element type with the bytes of an array."""
        dtype = element_dtype(onnx_element_type)
        if dtype.itemsize != data.dtype.itemsize:
            raise RuntimeError(
                f"elements of {data.dtype} have not the size of those of the ONNX type {onnx_element_type}"
            )
        return cls(np.ascontiguousarray(data).view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """Return an uninitialised tensor. `element_type` is a NumPy type or an ONNX number."""
        if memory_info is not None:
            device_id = memory_info.device_id
        if vendor_id not in (-1, 0):
            raise RuntimeError(_NO_DEVICE)
        require_cpu(device_type, device_id)
        if element_dtype(element_type).kind in "OUS":
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        sizes = tuple(index(size) for size in shape)
        if any(size < 0 for size in sizes):
            raise RuntimeError(f"Tensor shape.Size() must be >= 0, got {list(shape)}")
        return cls(np.empty(sizes, element_dtype(element_type)))

    def _array(self) -> Array:
        if isinstance(self._content, np.ndarray):
            return self._content
        raise RuntimeError("Only OrtValues that are Tensors/SparseTensors are currently supported")

    def numpy(self) -> Any:
        """Return the array, which shares the memory; of a sequence a list of arrays. Raises RuntimeError if sparse."""
        if self.is_sparse_tensor():
            raise RuntimeError("Only OrtValues that are Tensors are currently supported")
        return self._content.view() if isinstance(self._content, np.ndarray) else list(self._content)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self._array()
        return np.array(array, dtype, copy=copy) if dtype is not None or copy else array.view()

    def __dlpack__(self, **options: Any) -> Any:
        return self._array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array().__dlpack_device__()

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """Return a tensor with the memory of another library's tensor."""
        return cls(np.ascontiguousarray(np.from_dlpack(data)))

    def update_inplace(self, data: Array | OrtValue) -> None:
        """Copy an array, or that of another value, into its memory.

        Raises RuntimeError unless it has its dtype and number of elements, TypeError for what is no array.
        """
        np_arr = data.numpy() if isinstance(data, OrtValue) else data
        if not isinstance(np_arr, np.ndarray):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        array = self._array()
        if array.size != np_arr.size:
            raise RuntimeError("The input size of numpy arrays does not match the size of the OrtValue.")
        if array.dtype != np_arr.dtype:
            raise RuntimeError(f"update_inplace: wanted an array of {array.dtype}, got one of {np_arr.dtype}")
        array[...] = np_arr.reshape(array.shape)

    def data_ptr(self) -> int:
        """Return the address of the first element. Raises RuntimeError for strings."""
        if self._array().dtype.hasobject:
            raise RuntimeError("Only OrtValues that are numeric tensors have an address")
        return int(self._array().ctypes.data)

    def device_name(self) -> str:
        """Return "cpu"."""
        return "cpu"

    def shape(self) -> list[int]:
        """Return the sizes of the axes."""
        return list(self._array().shape)

    def data_type(self) -> str:
        """Return the type, such as "tensor(float)"."""
        if self.is_sparse_tensor():
            return str(self._content.data_type())
        if isinstance(self._content, np.ndarray):
            return type_name(self._content.dtype) or ""
        first = self._content[0] if self._content else np.empty(0, np.float32)
        if isinstance(first, dict):
            key = "string" if any(isinstance(each, str) for each in first) else "int64"
            return f"seq(map({key},tensor(float)))"
        return f"seq({type_name(first.dtype)})"

    def element_type(self) -> int:
        """Return ONNX's number of the type of the elements, also of those of the tensors of a sequence."""
        if self.is_tensor_sequence():
            return element_number(self._content[0].dtype if self._content else np.dtype(np.float32))
        return element_number(self._array().dtype)

    def tensor_size_in_bytes(self) -> int:
        """Return the size of all elements in bytes."""
        return int(self._array().nbytes)

    def has_value(self) -> bool:
        """Return True unless it is an optional value that is absent."""
        return self._content is not None

    def is_tensor(self) -> bool:
        """Return True if it is a dense tensor."""
        return isinstance(self._content, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Return True if it is a sparse tensor."""
        return hasattr(self._content, "dense_shape")

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> OrtValue:
        """Return a value that holds a SparseTensor."""
        if not hasattr(sparse_tensor, "dense_shape"):
            raise TypeError(f"ort_value_from_sparse_tensor: wanted a SparseTensor, got {type(sparse_tensor).__name__}")
        return cls(sparse_tensor)

    def as_sparse_tensor(self) -> Any:
        """Return the SparseTensor that it holds. Raises RuntimeError if it holds none."""
        if not self.is_sparse_tensor():
            raise RuntimeError("This OrtValue does not contain SparseTensor. Check data_type() value.")
        return self._content

    def is_tensor_sequence(self) -> bool:
        """Return True if it is a list of tensors."""
        return isinstance(self._content, list) and not any(isinstance(each, dict) for each in self._content)


@immutable
class OrtDevice:
    """A device. Only the CPU has memory."""

    name: str = "cpu"
    number: int = 0

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """Return the device of this name and number. Raises Exception for a name that onnxruntime does not know."""
        if ort_device_name not in _DEVICES:
            raise Exception(f"Unsupported device type: {ort_device_name}")  # noqa: TRY002 - onnxruntime's own class
        if vendor_id not in (-1, 0, _DEVICES[ort_device_name][1]):
            raise RuntimeError(_NO_DEVICE)
        return OrtDevice(ort_device_name, index(device_id))

    def device_id(self) -> int:
        """Return the number it was made with, which does not matter."""
        return self.number

    def device_type(self) -> int:
        """Return onnxruntime's number of this kind of device."""
        return _DEVICES[self.name][0]

    def device_vendor_id(self) -> int:
        """Return the number of the vendor; 0 if none is meant."""
        return _DEVICES[self.name][1]

    def device_mem_type(self) -> int:
        """Return onnxruntime's number of the default memory."""
        return 0

    @staticmethod
    def cpu() -> int:
        """Return onnxruntime's number of the CPU."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """Return onnxruntime's number of the default memory."""
        return 0


_ARENA = {
    "max_mem": 0, "arena_extend_strategy": -1, "initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": -1, "max_power_of_two_extend_bytes": -1,
}  # fmt: skip
"""Setting of an arena -> its default."""
_ARENA_IN_ORDER = 4


@immutable
class OrtMemoryInfo:
    """Where an allocator takes its memory."""

    name: str
    allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_ARENA_ALLOCATOR
    device_id: int = 0
    mem_type: OrtMemType = OrtMemType.DEFAULT

    @property
    def device_mem_type(self) -> OrtDeviceMemoryType:
        """The kind of memory of the device."""
        return OrtDeviceMemoryType.DEFAULT

    @property
    def device_vendor_id(self) -> int:
        """0: no vendor is meant."""
        return 0

    @staticmethod
    def create_v2(name: str, device_type: OrtMemoryInfoDeviceType, vendor_id: int, device_id: int, *kinds: Any) -> Any:
        """Return the memory of the CPU; `kinds` end with the type of allocator. Raises RuntimeError elsewhere."""
        if device_type != OrtMemoryInfoDeviceType.CPU or vendor_id:
            raise RuntimeError(_NO_DEVICE)
        return OrtMemoryInfo(name, kinds[-1], index(device_id))


class OrtArenaCfg:
    """Settings of an arena, which treadle's allocators do not have: numbers by name, or the first four in order."""

    __slots__ = tuple(_ARENA)

    def __init__(self, *settings: Any) -> None:
        """Keep the settings. Raises RuntimeError for an unknown name, TypeError for what is no number."""
        named = settings[0] if len(settings) == 1 and isinstance(settings[0], dict) else None
        if named is None and len(settings) != _ARENA_IN_ORDER:
            raise TypeError(f"OrtArenaCfg: wanted {_ARENA_IN_ORDER} numbers or a dict, got {settings!r}")
        given = dict(zip(_ARENA, settings, strict=False)) if named is None else named
        for name, value in {**_ARENA, **given}.items():
            if name not in _ARENA:
                raise RuntimeError(f"Invalid OrtArenaCfg option: {name}")
            setattr(self, name, index(value))
