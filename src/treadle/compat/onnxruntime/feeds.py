"""Inputs of runs as onnxruntime takes them: checked by name, type, rank and size, with its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from treadle.compat.onnxruntime.describe import NodeArg, type_name
from treadle.compat.onnxruntime.errors import Fail, InvalidArgument, error
from treadle.compat.onnxruntime.map_feeds import map_of
from treadle.compat.onnxruntime.sparse import dense_of
from treadle.compat.onnxruntime.values import OrtValue
from treadle.runtime.signature import Tensor, is_masked_array

Array = np.ndarray[Any, Any]

_KINDS = {"seq(": 3, "map(": 1}
"""Prefix of a type that is no tensor -> ONNX Runtime's number for this kind of value, which its messages contain."""

_FIX = " Please fix either the inputs/outputs or the model."


def form_of(given: Mapping[str, Array]) -> tuple[Any, ...]:
    """Return what of arrays need not be checked again when it is the same."""
    return tuple([(name, type(one), one.dtype, one.shape) for name, one in given.items()])


def is_plain(value: Any) -> bool:
    """Return True for an array that needs no check of its elements."""
    return type(value) is np.ndarray and not value.dtype.hasobject


def arrays_of(declared: Mapping[str, NodeArg], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of `given` for the declared inputs.

    Raises ValueError if inputs are missing, RuntimeError for a value that is no array, InvalidArgument for the rest.
    """
    check_complete(declared, given)
    arrays: dict[str, Any] = {name: None for name, each in declared.items() if each.optional}
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(f"run(): names of inputs are str, got {name!r}")
        if name not in declared:
            raise error(InvalidArgument, f"Invalid input name: {name}")
        arrays[name] = _converted(declared[name], value)
    for name, array in arrays.items():
        _check(declared[name], array)
    return arrays


def departure(inputs: Iterable[Tensor], arrays: Mapping[str, Any]) -> str | None:
    """Return what onnxruntime runs though the model declares otherwise, as it takes any array for a scalar; None if
    there is no such array."""
    for tensor in inputs:
        array = arrays.get(tensor.name)
        if isinstance(array, np.ndarray) and tensor.shape == () and array.ndim:
            return f"a run gives the input {tensor.name!r}, which is declared as a scalar, {array.ndim} axes"
    return None


def check_complete(declared: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise ValueError if inputs are missing, AttributeError if `given` is no mapping."""
    names = given.keys()
    missing = [name for name, each in declared.items() if name not in names and not each.type.startswith("optional(")]
    if missing:
        raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(names)}).")


def names_of(given: Any) -> list[str]:
    """Return the names of the outputs of a run. Raises TypeError for what is no sequence of str or bytes."""
    names = list(given) if isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes) else [None]
    if not all(isinstance(name, str | bytes) for name in names):
        raise TypeError(f"run(): output names are a sequence of str, got {given!r}")
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def check_names(names: Sequence[str], outputs: Mapping[str, NodeArg]) -> None:
    """Check the names of the outputs of a run. Raises InvalidArgument for unknown ones."""
    for name in names:
        if name not in outputs:
            raise error(InvalidArgument, f"Invalid output name:{name}")


def _converted(declared: NodeArg, value: Any) -> Any:
    if value is None and declared.optional:
        return None
    for prefix, take in _BY_TYPE.items():
        if declared.type.startswith(prefix):
            return take(declared, value)
    if declared.content.startswith("seq(") and isinstance(value, list | tuple):
        return _sequence(declared, value)
    if isinstance(value, np.ndarray):
        return _from_array(declared, value)
    if isinstance(value, OrtValue):
        return value.numpy()
    if isinstance(value, list):
        return _from_list(declared, value)
    raise _no_array(declared, value)


def _map(declared: NodeArg, value: Any) -> Any:
    if isinstance(value, dict) and value:
        return map_of(declared, value)
    if isinstance(value, np.ndarray):
        return value  # _check() says what is wrong
    raise _no_array(declared, value)


def _no_array(declared: NodeArg, value: Any) -> Exception:
    if value == {}:
        return RuntimeError("Size of dictionary is empty, unable to run the prediction.")
    if isinstance(value, dict):
        return error(InvalidArgument, f"Unexpected input data type. Actual: (map) , expected: ({declared.type})")
    if value is None:
        return error(Fail, f"Non-zero status code returned while running a node: input '{declared.name}' has no value")
    if hasattr(value, "__iter__"):
        text = f"Input must be a list of dictionaries or a single numpy array for input '{declared.name}'."
        return RuntimeError(text)
    return RuntimeError(f"Unable to handle object of type {type(value)}")


def _from_array(declared: NodeArg, value: Array) -> Array:
    if value.dtype.hasobject and declared.type == "tensor(string)":
        return _texts(value)
    if is_masked_array(value):
        return np.asarray(value.data)  # onnxruntime does not see masks
    return value


def _from_sparse(declared: NodeArg, value: Any) -> Array:
    """The dense form of a sparse tensor."""
    if isinstance(value, np.ndarray):
        text = f"input with name: '{declared.name}' expected to be of type: 4 but received a tensor"
        raise error(InvalidArgument, text)
    if not isinstance(value, OrtValue):
        raise RuntimeError(f"Unable to handle object of type {type(value)}")
    if value.data_type() != declared.type:
        text = f"Unexpected input data type. Actual: ({value.data_type()}) , expected: ({declared.type})"
        raise error(InvalidArgument, text)
    return dense_of(value.as_sparse_tensor())


_BY_TYPE: dict[str, Callable[[NodeArg, Any], Any]] = {"sparse_": _from_sparse, "map(": _map}
"""Begin of a type -> what takes a value for it."""


def _sequence(declared: NodeArg, value: Sequence[Any]) -> list[Array]:
    """The elements of a sequence."""
    if not isinstance(value, list):
        raise RuntimeError(f"Iterable of {np.ndarray} should be given as array for input '{declared.name}'.")
    wanted = declared.content.removeprefix("seq(").removesuffix(")")
    for each in value:
        if not isinstance(each, np.ndarray):
            raise RuntimeError("CreateSequenceOfTensors: Input is not a tensor")
        if type_name(each.dtype) != wanted:
            raise RuntimeError("TensorSeq: tensor to be added has a different data type.")
    return value


def _from_list(declared: NodeArg, value: list[Any]) -> Array:
    try:
        if declared.type == "tensor(string)":
            return _texts(np.array(value, object))
        if declared.dtype is not None and declared.dtype.kind == "V":
            raise RuntimeError(f"No corresponding Numpy type for Tensor Type. {declared.dtype}")
        if declared.dtype is not None:
            array: Array = np.array(value, declared.dtype)
            return array
    except (ValueError, TypeError, OverflowError):
        pass
    raise RuntimeError("Could not create tensor from given input list")


def _texts(array: Array) -> Array:
    """`array` with texts in place of other objects, as str() gives them."""
    if all(isinstance(item, str) for item in array.flat):
        return array
    texts = np.empty(array.size, object)
    texts[:] = [str(item) for item in array.flat]
    return texts.reshape(array.shape)


def _check(declared: NodeArg, array: Any) -> None:
    if not isinstance(array, np.ndarray):
        return
    actual = type_name(array.dtype)
    is_void = actual is None and array.dtype.kind == "V"
    if is_void:
        actual = "tensor(string)"  # onnxruntime's name for them in its messages
    if actual is None or (is_void and declared.content == actual):
        raise RuntimeError(f"Numpy_type {array.dtype.num} can't be converted to MLDataType.")
    if declared.type.startswith("sparse_"):
        return  # _from_sparse() has checked the type; the array is the dense form
    if number := next((number for kind, number in _KINDS.items() if declared.content.startswith(kind)), None):
        text = f"input with name: '{declared.name}' expected to be of type: {number} but received a tensor"
        raise error(InvalidArgument, text)
    if actual != declared.content:
        raise error(InvalidArgument, f"Unexpected input data type. Actual: ({actual}) , expected: ({declared.content})")
    if not array.dtype.isnative:
        raise RuntimeError(f"input '{declared.name}': its dtype {array.dtype} has not this machine's byte order")
    wanted = declared.shape
    if wanted and len(wanted) != array.ndim:  # onnxruntime checks no array for a scalar: departure() does
        got = f"Got: {array.ndim} Expected: {len(wanted)}"
        raise error(InvalidArgument, f"Invalid rank for input: {declared.name} {got}{_FIX}")
    wrong = [
        f" index: {axis} Got: {size} Expected: {want}\n"
        for axis, (size, want) in enumerate(zip(array.shape, wanted, strict=False))
        if isinstance(want, int) and want != size
    ]
    if wrong:
        text = f"Got invalid dimensions for input: {declared.name} for the following indices\n{''.join(wrong)}{_FIX}"
        raise error(InvalidArgument, text)
