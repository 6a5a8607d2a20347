"""Creation of tensors: from Python numbers, from arrays without a copy, filled, random; and conversions of dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.devices import device
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.dtypes import dtype as DType  # noqa: N812
from treadle.compat.torch.functions.promotion import cast
from treadle.compat.torch.functions.shape import ints, sizes
from treadle.compat.torch.lazy_ints import Lazy
from treadle.compat.torch.overflow import checked_scalar, require_fit
from treadle.compat.torch.recording import emit
from treadle.compat.torch.state import current
from treadle.compat.torch.tensor import Tensor
from treadle.ops.op import Array

_RANDOM = np.random.default_rng()


def _stream() -> np.random.Generator:
    """Returns the random generator. A recording around the call is not replayed, as each call draws other numbers."""
    recording = current()
    if recording is not None:
        recording.not_replayable = "it draws random numbers"
    return _RANDOM


def tensor(data: Any, *, dtype: DType | None = None, device: Any = "cpu", requires_grad: bool = False) -> Tensor:
    """Returns a new tensor of numbers, nested lists, an array or a tensor; Python floats become float32."""
    _allow(device, requires_grad)
    if isinstance(data, list | tuple) and any(isinstance(each, Tensor) for each in data):
        data = [each.numpy() for each in data]
    given = isinstance(data, Tensor | np.ndarray | np.generic)
    array = np.array(data.numpy() if isinstance(data, Tensor) else data) if given else _numbers(data, dtype)
    if dtype is None and not given and array.dtype == np.float64:
        dtype = dtypes.float32
    if dtype is None:
        return Tensor(array)
    element = _element("tensor", dtype, dtypes.float32)
    if element.kind in "iu" and not given and array.dtype.kind in "iuf":
        to = dtypes.of_numpy(element)
        for extreme in (array.min(), array.max()) if array.size else ():
            require_fit(extreme.item(), to, to.name)
    return Tensor(array.astype(element))


def _numbers(data: Any, dtype: Any) -> Array:
    """Returns an array of Python's numbers, for a tensor of `dtype` (None: that of the numbers).

    Raises ValueError if an integer is outside int64, unless the tensor holds floats or bools. NumPy would store it as
    an object, as uint64, or (with other integers) as a float.
    """
    try:
        array = np.array(data)
    except ValueError as error:
        raise ValueError("expected sequences of one length at each dimension, got lists of several") from error
    if array.dtype.kind not in "Ouf" or (array.dtype.kind == "f" and not (np.abs(array) >= 2.0**63).any()):
        return array
    leaves = np.array(data, object)
    kinds = {type(each) for each in leaves.flat}
    if not kinds <= {int, float, bool}:
        return array
    if float in kinds or (dtype is not None and _element("tensor", dtype, dtypes.int64).kind not in "iu"):
        return leaves.astype(np.float64)
    raise ValueError("Overflow when unpacking long long: an integer lies outside -2^63 .. 2^63 - 1")


def _element(function: str, dtype_: Any, otherwise: DType) -> np.dtype[Any]:
    """Returns the NumPy dtype of `dtype_`, which may be a Python type. Raises TypeError for anything else."""
    if dtype_ is None:
        return otherwise.numpy
    found = _OF_PYTHON.get(dtype_, dtype_) if isinstance(dtype_, type) else dtype_
    if not isinstance(found, DType):
        raise TypeError(f"{function}(): argument 'dtype' must be torch.dtype, not {type(dtype_).__name__}")
    return found.numpy


_OF_PYTHON = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool_}


def _require_number(function: str, name: str, value: Any) -> None:
    """Raises TypeError for texts, lists and None."""
    if isinstance(value, str | bytes | list | tuple) or value is None:
        raise TypeError(f"{function}(): argument '{name}' must be Number, not {type(value).__name__}")


def _shape(function: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """Returns the shape of a new tensor.

    Raises TypeError and RuntimeError as PyTorch does, for floats and negative sizes.
    """
    listed = size[0] if len(size) == 1 and isinstance(size[0], list | tuple) else size
    for each in listed:
        if isinstance(each, float | str | bytes) or each is None:
            raise TypeError(
                f"{function}(): argument 'size' must be tuple of ints, but found element of type {type(each).__name__}"
            )
    shape = sizes(size)
    negative = next((each for each in shape if each < 0), None)
    if negative is not None:
        raise RuntimeError(f"Trying to create tensor with negative dimension {negative}: {list(shape)}")
    return shape


def _allow(where: Any, requires_grad: bool) -> None:
    device("cpu" if where is None else where)
    if requires_grad:
        raise NotImplementedError("requires_grad=True: treadle runs models and does not train them; leave it out")


def from_numpy(ndarray: Array) -> Tensor:
    """Returns a tensor that shares memory with the array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return Tensor(ndarray)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = "cpu") -> Tensor:
    """Returns `data` without a copy if it is a tensor or an array of that dtype, else a new tensor."""
    if isinstance(data, Tensor | np.ndarray):
        found = data if isinstance(data, Tensor) else Tensor(data)
        return found if dtype is None or found.dtype is dtype else to(found, dtype)
    return tensor(data, dtype=dtype, device=device)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """Returns a tensor that shares memory with any object that speaks DLPack."""
    return Tensor(np.from_dlpack(ext_tensor))


def _filled(
    name: str, make: Callable[[tuple[int, ...], Any], Array]
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def new(*size: Any, dtype: DType | None = None, device: Any = "cpu", requires_grad: bool = False) -> Tensor:
        _allow(device, requires_grad)
        if name in _CONSTANT and _is_later(size):
            return _spread(_CONSTANT[name], dtype or dtypes.float32, size)
        return Tensor(np.asarray(make(_shape(name, size), _element(name, dtype, dtypes.float32))))

    def like(input: Tensor, *, dtype: DType | None = None, device: Any = "cpu") -> Tensor:
        return (
            new(*input.shape, dtype=dtype or input.dtype, device=device)
            if input.ndim
            else new((), dtype=dtype or input.dtype)
        )

    new.__name__, like.__name__ = name, f"{name}_like"
    new.__doc__ = f"Returns a tensor of a size, filled as PyTorch's {name}; float32 unless `dtype` is given."
    like.__doc__ = f"Returns a tensor of the shape and dtype of `input`, filled as PyTorch's {name}."
    return new, like


_CONSTANT = {"zeros": 0, "ones": 1, "empty": 0}
"""The numbers that fill tensors."""


def _is_later(numbers: Any) -> bool:
    """Returns True if a call from outside tensor functions is given a number that is not known yet."""
    recording = current()
    return recording is not None and recording.needs_later(tuple(numbers))


@tensor_function
def _spread(number: Any, to: DType, size: Any) -> Tensor:
    """Returns a tensor filled with one number, of sizes that may be expressions."""
    return emit("expand", np.asarray(number, to.numpy), ints(sizes(size)))


@tensor_function
def _counted(start: Any, end: Any, step: Any, to: DType) -> Tensor:
    """Returns arange() for bounds that may be expressions. Raises RuntimeError as it does."""
    _require_order(start, end, step)
    first, last, by = (emit("reshape", ints([each]), ints([]), allowzero=False) for each in (start, end, step))
    return cast(emit("range", first, last, by), to)


zeros, zeros_like = _filled("zeros", np.zeros)
ones, ones_like = _filled("ones", np.ones)
empty, empty_like = _filled("empty", np.zeros)
rand, rand_like = _filled("rand", lambda shape, to: np.asarray(_stream().random(shape)).astype(to))
randn, randn_like = _filled("randn", lambda shape, to: np.asarray(_stream().standard_normal(shape)).astype(to))


def full(size: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = "cpu") -> Tensor:
    """Returns a tensor filled with one number."""
    return _full("full", size, fill_value, dtype, device)


def _full(function: str, size: Any, fill_value: Any, dtype: DType | None, device: Any) -> Tensor:
    _allow(device, requires_grad=False)
    if not isinstance(size, list | tuple):
        raise TypeError(f"{function}(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    if _is_later(size) and isinstance(fill_value, bool | int | float):
        to = dtype or dtypes.of_number(fill_value)
        checked_scalar(fill_value, to)
        return _spread(fill_value, to, tuple(size))
    _require_number(function, "fill_value", fill_value)
    shape, element = _shape(function, (size,)), _element(function, dtype, dtypes.of_number(fill_value))
    if isinstance(fill_value, bool | int | float):
        fill_value = checked_scalar(fill_value, dtypes.of_numpy(element), math.prod(shape))
    return Tensor(np.full(shape, fill_value, element))


def full_like(input: Tensor, fill_value: Any, *, dtype: DType | None = None) -> Tensor:
    """Returns a tensor filled with one number, of the shape and dtype of `input`."""
    return full(input.shape, fill_value, dtype=dtype or input.dtype)


def arange(*bounds: Any, dtype: DType | None = None, device: Any = "cpu", **named: Any) -> Tensor:
    """Returns start (default 0), start + step (default 1), ... below end. Each may be given by name."""
    _allow(device, requires_grad=False)
    bounds = _bounds(bounds, named)
    if _is_later(bounds) and all(isinstance(each, int | Lazy) for each in bounds):
        return _counted(*_completed(bounds), dtype or dtypes.int64)
    for place, bound in enumerate(bounds):
        _require_number("arange", ("start", "end", "step")[place] if len(bounds) > 1 else "end", bound)
    numbers = [float(b) if isinstance(b, float) else int(b) for b in bounds]
    _require_order(*_completed(numbers))
    floats = any(isinstance(number, float) for number in numbers)
    return Tensor(np.arange(*numbers).astype(_element("arange", dtype, dtypes.float32 if floats else dtypes.int64)))


def _bounds(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the arguments of arange in order: end, or start, end and perhaps step. Raises TypeError."""
    names = ("end",) if len(given) == 1 and "end" not in named else ("start", "end", "step")
    found = {**dict(zip(names, given, strict=False)), **named}
    if len(given) > len(names) or len(found) < len(given) + len(named) or {*found} - {"start", "end", "step"}:
        raise TypeError(f"arange(): wanted end, or start, end and step, got {given} and {named}")
    if "end" not in found or ("step" in found and "start" not in found):
        raise TypeError(f"arange(): missing {'end' if 'end' not in found else 'start'}, got {found}")
    return tuple(found[name] for name in ("start", "end", "step") if name in found)


def _completed(bounds: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Returns start, end and step for the bounds of arange."""
    start, end, step = (*(bounds if len(bounds) > 1 else (0, *bounds)), 1)[:3]
    return start, end, step


def _require_order(start: Any, end: Any, step: Any) -> None:
    """Raises RuntimeError unless `step` leads from `start` to `end`."""
    if not step:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def linspace(start: float, end: float, steps: int, *, dtype: DType | None = None) -> Tensor:
    """Returns `steps` evenly spaced numbers from start to end, both included."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return Tensor(np.linspace(start, end, steps).astype(_element("linspace", dtype, dtypes.float32)))


def new_zeros(input: Tensor, *size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Returns zeros of the dtype of `input`."""
    return zeros(*size, dtype=dtype or input.dtype, device=device)


def new_ones(input: Tensor, *size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Returns ones of the dtype of `input`."""
    return ones(*size, dtype=dtype or input.dtype, device=device)


def new_full(input: Tensor, size: Any, fill_value: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Returns a tensor filled with one number, of the dtype of `input`."""
    return _full("new_full", size, fill_value, dtype or input.dtype, device)


def new_tensor(input: Tensor, data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Returns a new tensor of the element type of `input`."""
    return tensor(data, dtype=dtype or input.dtype, device=device)


new_empty = new_zeros


def bernoulli(input: Tensor, p: float | None = None) -> Tensor:
    """Draws 1 with the probability that each element gives, else 0."""
    chance = input.numpy() if p is None else p
    return Tensor((_stream().random(tuple(input.shape)) < chance).astype(input.dtype.numpy))


def normal(mean: Any, std: Any = 1.0, size: Any = None) -> Tensor:
    """Draws from a normal distribution."""
    arrays = [each.numpy() if isinstance(each, Tensor) else each for each in (mean, std)]
    shape = np.broadcast_shapes(*(np.shape(each) for each in arrays)) if size is None else tuple(size)
    return Tensor(np.asarray(_stream().standard_normal(shape) * arrays[1] + arrays[0], np.float32))


def eye(n: int, m: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """Returns a matrix with 1 on the diagonal, 0 elsewhere."""
    return Tensor(np.eye(n, m, dtype=(dtype or dtypes.float32).numpy))


def randint(low: int, high: Any = None, size: Any = None, *, dtype: DType | None = None) -> Tensor:
    """Draws integers in [low, high); with one bound and a size, in [0, bound)."""
    if not isinstance(high, int):
        low, high, size = 0, low, high if size is None else size
    return Tensor(_stream().integers(low, high, tuple(size)).astype((dtype or dtypes.int64).numpy))


def randperm(n: int) -> Tensor:
    """Returns 0 .. n - 1 in random order."""
    return Tensor(_stream().permutation(n).astype(np.int64))


def manual_seed(seed: int) -> None:
    """Seeds the random generator. It is NumPy's, so the numbers are not those of PyTorch for the same seed."""
    global _RANDOM  # noqa: PLW0603 - one stream a process is what the name promises
    _stream()
    _RANDOM = np.random.default_rng(seed % (1 << 64))


@tensor_function
def to(input: Tensor, *wanted: Any, dtype: DType | None = None, device: Any = None, copy: bool = False) -> Tensor:
    """Converts to another dtype. Raises RuntimeError for a device other than the CPU."""
    for each in (*wanted, dtype, device):
        if isinstance(each, DType):
            dtype = each
        elif isinstance(each, Tensor):
            dtype = each.dtype
        elif each is not None and not isinstance(each, bool):
            _allow(each, requires_grad=False)
    if dtype is None or dtype is input.dtype:
        return Tensor(input.numpy().copy()) if copy else input
    return cast(input, dtype)


def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Converts to the dtype of another tensor."""
    return to(input, other.dtype)


def type_(input: Tensor, dtype: DType | str | None = None) -> Any:
    """Returns the legacy name of the dtype; with `dtype`, converts to it."""
    if dtype is None:
        return f"torch.{dtypes.LEGACY[input.dtype.name]}"
    found = next((name for name, old in dtypes.LEGACY.items() if f"torch.{old}" == dtype), None)
    return to(input, dtypes.NAMES[found] if found is not None else dtype)


def _conversion(name: str) -> Callable[[Tensor], Tensor]:
    def function(input: Tensor) -> Tensor:
        return cast(input, dtypes.NAMES[name])

    function.__name__ = name
    function.__doc__ = f"Converts to the dtype `{name}`."
    return tensor_function(function)


CONVERSIONS = {
    **{name: _conversion(name) for name in ("float", "double", "half", "bfloat16", "long", "int", "short", "bool")},
    "byte": _conversion("uint8"),
    "char": _conversion("int8"),
}
"""Methods such as x.float()."""
