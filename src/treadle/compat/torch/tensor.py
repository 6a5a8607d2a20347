"""Tensors: NumPy arrays with PyTorch's methods, or values that a recording has not computed yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.devices import device
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.lazy_ints import LazyInt
from treadle.compat.torch.missing_names import missing_name_error
from treadle.compat.torch.printing import format_elements
from treadle.compat.torch.sizes import Size
from treadle.compat.torch.state import current
from treadle.ops.op import Array

if TYPE_CHECKING:
    from treadle.compat.torch.recording import Recording

METHODS: dict[str, Callable[..., Any]] = {}
"""Functions that are also methods, by name; `table` fills it."""


_INNER = {"array", "frozen", "number", "of", "pending", "recording", "materialize", "materialized"}
"""Attributes of Tensor that are internal."""


class Tensor:
    """A tensor over the memory of a NumPy array.

    Most programs create tensors with `torch.tensor`, `torch.from_numpy`, `torch.zeros` and the like. Operators and
    methods promote dtypes as PyTorch does. There are no gradients, and the CPU is the only device.

    Args:
        array: A NumPy array, whose memory is shared; a list or tuple of numbers, which become float32; or the
            first size of
            a float32 tensor of zeros.
        *sizes: Further sizes.

    Raises:
        TypeError: PyTorch has no dtype for the array.

    Attributes:
        array: The NumPy array; None while a recording has not computed it.
        frozen: True if the elements are constants of compiled code.
        recording: The recording that computes the tensor, if any.
        number: The number of the tensor's first value in that recording, or -1.
    """

    __array_priority__ = 1000
    __slots__ = ("__weakref__", "array", "frozen", "number", "recording")

    def __init__(self, array: Any = (), *sizes: int) -> None:
        if isinstance(array, int) or sizes:
            array = np.zeros((array, *sizes), np.float32)
        elif isinstance(array, list | tuple):
            array = np.asarray(array, np.float32)
        self.array: Array | None = array if isinstance(array, np.ndarray) else np.asarray(array)
        self.recording: Recording | None = None
        self.number = -1
        self.frozen = False
        dtypes.of_array(self.array)

    @classmethod
    def pending(cls, recording: Recording, number: int) -> Tensor:
        """Returns the tensor for the value `number` of a recording."""
        tensor = Tensor.__new__(Tensor)
        tensor.array, tensor.recording, tensor.number, tensor.frozen = None, recording, number, False
        return tensor

    @classmethod
    def of(cls, array: Array) -> Tensor:
        """Returns `Tensor(array)` without checking that the dtype is one of PyTorch's."""
        tensor = Tensor.__new__(Tensor)
        tensor.array, tensor.recording, tensor.number, tensor.frozen = array, None, -1, False
        return tensor

    def materialize(self, array: Array, *, keep: bool) -> None:
        """Takes the array that the recording computed."""
        self.array = array
        if not keep:
            self.recording, self.number = None, -1

    def numpy(self) -> Array:
        """Returns the elements as a NumPy array that shares the tensor's memory; a pending tensor is computed now.

        A script that reads elements this way cannot be replayed: it is recorded in each call.

        Returns:
            The array.
        """
        recording = current()
        if recording is not None:
            recording.not_replayable = "it reads elements of a tensor"
            if recording.memory.has_written(self):
                return recording.read(self)
        return self.materialized()

    def materialized(self) -> Array:
        """Returns the array as `numpy` does, for reads that do not decide what follows."""
        if self.array is None:
            assert self.recording is not None
            self.recording.flush()
        assert self.array is not None
        return self.array

    @property
    def shape(self) -> Size:
        """The lengths of the axes."""
        if self.recording is not None:
            return self.recording.shape_of(self)
        assert self.array is not None
        return Size(self.array.shape)

    @property
    def dtype(self) -> dtype:
        """The dtype of the elements."""
        if self.array is not None:
            return dtypes.of_array(self.array)
        assert self.recording is not None
        return dtypes.of_core(self.recording.infos[self.number].dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        if self.array is not None:
            return self.array.ndim
        assert self.recording is not None
        return len(self.recording.infos[self.number].shape or ())

    @property
    def device(self) -> device:
        """The CPU."""
        return device("cpu")

    @property
    def requires_grad(self) -> bool:
        """False: treadle runs models, it does not train them."""
        return False

    @property
    def grad(self) -> None:
        """None: there are no gradients."""
        return None

    @property
    def is_cuda(self) -> bool:
        """False: treadle runs on CPUs."""
        return False

    @property
    def data(self) -> Tensor:
        """The tensor itself; assigning replaces its elements."""
        return self

    @data.setter
    def data(self, new: Tensor) -> None:
        self.array, self.recording, self.number = new.numpy(), None, -1

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.numel() * self.dtype.itemsize

    @property
    def T(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """The tensor with its axes reversed."""
        return METHODS["permute"](self, *reversed(range(self.ndim)))  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """The tensor with its last two axes swapped."""
        return METHODS["transpose"](self, -2, -1)  # type: ignore[no-any-return]

    def size(self, dim: int | None = None) -> Any:
        """Returns the shape, or the length of one axis."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Returns the number of axes."""
        return self.ndim

    def numel(self) -> int:
        """Returns the number of elements."""
        return self.shape.numel()

    def stride(self, dim: int | None = None) -> Any:
        """Returns the distance of neighbours in elements, along each axis or one."""
        if self.array is None:
            steps = tuple(math.prod(self.shape[axis + 1 :]) for axis in range(self.ndim))
        else:
            steps = tuple(step // self.array.itemsize for step in self.array.strides)
        return steps if dim is None else steps[dim]

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Returns the tensor itself: there are no gradients."""
        return self

    def element_size(self) -> int:
        """Returns the size of an element in bytes."""
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Returns True if the dtype is a floating-point one."""
        return self.dtype.is_floating_point

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Returns True if the elements are in row-major order without gaps."""
        return self.array is None or bool(self.array.flags.c_contiguous)

    def data_ptr(self) -> int:
        """Returns the address of the first element."""
        return int(self.numpy().ctypes.data)

    def item(self) -> Any:
        """Returns the only element as a Python number.

        Raises:
            RuntimeError: The tensor has another number of elements.
        """
        array = self.numpy()
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        return array.reshape(()).item()

    def tolist(self) -> Any:
        """Returns the elements as nested lists of Python numbers."""
        return self.numpy().tolist()

    def cpu(self) -> Tensor:
        """Returns the tensor itself: it is on the CPU."""
        return self

    def detach(self) -> Tensor:
        """Returns the tensor itself: there are no gradients."""
        return self

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.dtype.is_floating_point:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter([self[index] for index in range(self.shape[0])])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype) if copy else np.asarray(self.numpy(), dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.numpy().__dlpack_device__()

    def __getitem__(self, index: Any) -> Tensor:
        return METHODS["_index"](self, index)  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: Any) -> None:
        METHODS["_set_index"](self, index, value)

    def __getattr__(self, name: str) -> Any:
        method = METHODS.get(name)
        if method is None or name.startswith("_"):
            raise missing_name_error("Tensor", name, dir(self))
        return partial(method, self)

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *(name for name in METHODS if not name.startswith("_"))} - _INNER)

    def __repr__(self) -> str:
        if self.array is None:
            return f"tensor(<pending>, size={tuple(self.shape)}, dtype={self.dtype})"
        plain = self.dtype in (dtypes.float32, dtypes.int64, dtypes.bool_)
        size = f", size={tuple(self.shape)}" if not self.numel() and self.ndim > 1 else ""
        return f"tensor({format_elements(self.numpy())}{size}{'' if plain else f', dtype={self.dtype}'})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.array is not None and not self.ndim else format(str(self), spec)

    __hash__ = object.__hash__


_OPERANDS = (Tensor, bool, int, float, LazyInt, np.ndarray, np.generic)


def _operator(name: str, *, swapped: bool = False) -> Callable[..., Any]:
    def operator(self: Tensor, *others: Any) -> Any:
        if any(not isinstance(other, _OPERANDS) for other in others):
            return NotImplemented
        function = METHODS[name]
        operands = [Tensor(each) if isinstance(each, np.ndarray) else each for each in others]
        return function(*operands, self) if swapped else function(self, *operands)

    return operator


def _in_place(name: str) -> Callable[..., Any]:
    """Returns the augmented assignment `x op= y`, which writes into x."""
    plain = _operator(name)

    def operator(self: Tensor, other: Any) -> Any:
        result = plain(self, other)
        return result if result is NotImplemented else METHODS["_write"](self, result)

    return operator


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "lshift": "shift_left", "rshift": "shift_right", "matmul": "matmul", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
for _name, _function in _OPERATORS.items():
    setattr(Tensor, f"__{_name}__", _operator(_function))
    setattr(Tensor, f"__r{_name}__", _operator(_function, swapped=True))
    setattr(Tensor, f"__i{_name}__", _in_place(_function))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Tensor, f"__{_name}__", _operator(_name))
for _name, _function in {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}.items():
    setattr(Tensor, f"__{_name}__", _operator(_function))
