"""The declared inputs and outputs of a session, and the signatures of the arrays that it is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from treadle import _native, dtypes
from treadle.dtypes import DType
from treadle.errors import InputError, MemoryLimitError
from treadle.graph.graph import Graph
from treadle.graph.object_result import ObjectResult
from treadle.graph.open_dims import NOTHING, OpenDims, Place
from treadle.graph.shape import Shape, StaticShape, is_static, text
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.immutable import immutable
from treadle.records import dataclass
from treadle.runtime.text import decode_strings

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")
InputSignature = StaticShape | tuple[np.dtype[Any], StaticShape]
"""The part of an input that a plan depends on: its shape, and its dtype where none is declared."""
CallSignature = tuple[InputSignature, ...]
"""The signature of all inputs, in their order."""


@immutable
class Tensor:
    """A named input or output of a session.

    Attributes:
        name: The name, by which `run` takes and returns it.
        dtype: The element type; None if any will do (a TorchScript file does not say).
        shape: A size, or the name of an open dimension, for each axis; None if even the rank is unknown.
        type: The type of an output that is no tensor but a list, a dict or None, such as
            "seq(map(int64,tensor(float)))"; empty for a tensor.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: Shape | None
    type: str = ""

    def __str__(self) -> str:
        if self.type:
            return f"{self.name}: {self.type}"
        return f"{self.name}: {self.dtype or 'any'}{'[...]' if self.shape is None else text(self.shape)}"


@dataclass(frozen=True, slots=True)
class Interface:
    """The declared inputs and outputs of a session.

    Tensors of strings hold text. If `objects` is true they may hold any Python object, and are not checked. `dims` is
    what is declared of open dimensions. `results` is what a run returns, if that is more than the outputs: names of
    outputs, and objects that are made from outputs.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    objects: bool = False
    dims: OpenDims = NOTHING
    results: tuple[str | ObjectResult, ...] = ()

    @property
    def fixed_shapes(self) -> tuple[StaticShape, ...] | None:
        """The shapes of the inputs if no dimension is open, else None."""
        shapes = [tensor.shape for tensor in self.inputs]
        fixed = tuple(shape for shape in shapes if shape is not None and is_static(shape))
        return fixed if len(fixed) == len(shapes) else None

    @property
    def declares_inputs(self) -> bool:
        """Whether the dtypes and ranks of all inputs are declared."""
        return all(tensor.dtype is not None and tensor.shape is not None for tensor in self.inputs)

    def arrays(self, given: Mapping[str, Any]) -> list[Array]:
        """Return the arrays of `given` in the order of the inputs, contiguous and in the machine's byte order.

        Raises InputError that lists every input that is missing, unknown or does not fit.
        """
        symbols: dict[str, Place] = {}

        def take(tensor: Tensor, what: object) -> Array:
            array = fit(what, tensor) if self.objects else fit_decoded(what, tensor)
            bind_symbols(tensor, array.shape, symbols)
            return array

        return self.take(given, take, lambda: self.dims.faults(symbols))

    def take(
        self,
        given: Mapping[str, Any],
        take_one: Callable[[Tensor, Any], _T],
        faults_of_all: Callable[[], Iterable[str]] = tuple,
    ) -> list[_T]:
        """Return what `take_one` makes of each element of `given`, in the order of the inputs.

        `faults_of_all` returns what is wrong with several inputs together. Raises InputError that lists every input
        that is missing, unknown or refused by `take_one` with an InputError.
        """
        if not isinstance(given, Mapping):
            raise InputError(
                f"inputs: wanted a mapping of names to arrays, got {type(given).__name__}; "
                f"write run({{{', '.join(f'{tensor.name!r}: ...' for tensor in self.inputs)}}})"
            )
        faults: list[str] = []
        taken: list[_T] = []
        for tensor in self.inputs:
            if tensor.name not in given:
                faults.append(f"input {tensor.name!r} is missing: wanted {tensor}")
                continue
            try:
                taken.append(take_one(tensor, given[tensor.name]))
            except InputError as fault:
                faults.append(str(fault))
        faults.extend(faults_of_all())
        known = {tensor.name for tensor in self.inputs}
        unknown = [name for name in given if name not in known]
        faults.extend(f"there is no input {name!r}; the inputs are {names(self.inputs)}" for name in unknown)
        if faults:
            raise InputError("\n".join(faults))
        return taken

    def declared_arrays(self) -> _native.DeclaredArrays | None:
        """Return what recognises arrays that are just as declared; None if all need a closer look."""
        inputs = []
        for tensor in self.inputs:
            if tensor.dtype is None or tensor.dtype.hasobject or tensor.shape is None:
                return None
            inputs.append((tensor.name, tensor.dtype, tensor.shape))
        return _native.DeclaredArrays(np.ndarray, inputs) if self.dims is NOTHING else None

    @property
    def may_have_text(self) -> bool:
        """Whether elements of arrays may have to be checked one by one: each is text."""
        return not self.objects and any(tensor.dtype is None or tensor.dtype.hasobject for tensor in self.inputs)

    def signature(self, arrays: Sequence[Array]) -> CallSignature:
        """Return the shapes of `arrays` and the dtypes that are not declared: a plan depends on them."""
        return tuple(
            array.shape if tensor.dtype is not None else (array.dtype, array.shape)
            for tensor, array in zip(self.inputs, arrays, strict=True)
        )

    def select(self, wanted: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the outputs to compute, all for None. Raises InputError for unknown names."""
        if wanted is None:
            return tuple(tensor.name for tensor in self.outputs)
        if isinstance(wanted, str):
            raise InputError(f"outputs: wanted a sequence of names, got the string {wanted!r}; write [{wanted!r}]")
        if isinstance(wanted, Mapping):
            raise InputError("outputs: wanted a list of names, got a mapping; inputs come first: run(inputs, outputs)")
        if not isinstance(wanted, Collection):
            raise InputError(f"outputs: wanted a sequence of names or None, got {type(wanted).__name__}")
        known = {tensor.name for tensor in self.outputs}
        for name in wanted:
            if not isinstance(name, str) or name not in known:
                raise InputError(f"there is no output {name!r}; the outputs are {names(self.outputs)}")
        return tuple(dict.fromkeys(wanted))


def interface_of(graph: Graph | Template, *, objects: bool = False) -> Interface:
    """Return the inputs and outputs of a session of `graph`."""

    def tensor(value: Value) -> Tensor:
        if value.dtype is None and isinstance(graph, Template):
            return Tensor(value.name, None, value.shape)
        dtype = value.dtype if value.dtype is not None else dtypes.f32
        return Tensor(value.name, dtype.numpy, value.shape)

    inputs, outputs = tuple(map(tensor, graph.inputs)), tuple(map(tensor, graph.outputs))
    if isinstance(graph, Template):
        return Interface(inputs, outputs, objects, graph.dims)
    return Interface(inputs, outputs, objects, results=tuple(graph.results))


def shape_of(signature: InputSignature) -> StaticShape:
    """Return the shape of an input with this signature."""
    return signature[1] if signature and isinstance(signature[0], np.dtype) else signature


def dtype_of(signature: InputSignature, tensor: Tensor) -> DType:
    """Return the dtype of an input with this signature, which is declared as `tensor`."""
    dtype = signature[0] if signature and isinstance(signature[0], np.dtype) else tensor.dtype
    assert dtype is not None, f"input {tensor.name!r} has no dtype"
    return dtypes.from_numpy(dtype)


def signature_of(tensors: Sequence[Tensor], forms: Sequence[tuple[DType, StaticShape]]) -> CallSignature:
    """Return the signature of inputs of these dtypes and shapes, which are declared as `tensors`."""
    return tuple(
        shape if tensor.dtype is not None else (dtype.numpy, shape)
        for tensor, (dtype, shape) in zip(tensors, forms, strict=True)
    )


def names(tensors: Sequence[Tensor]) -> str:
    """Return the quoted names of `tensors`, for messages."""
    return ", ".join(repr(tensor.name) for tensor in tensors) or "none"


def fit(given: Any, tensor: Tensor) -> Array:
    """Return `given` as a C-contiguous array. Raises InputError if it does not fit `tensor`.

    An array must have the declared dtype: nothing is converted silently. Python numbers and lists have no dtype of
    their own; they take the declared one if it is of their kind and has their range.
    """
    where = f"input {tensor.name!r}"
    if tensor.dtype is None:
        return of_any_dtype(given, tensor, where)
    wanted = dtypes.from_numpy(tensor.dtype)
    if isinstance(given, np.ndarray | np.generic) or hasattr(given, "__array__"):
        array = plain(given, where)
        if wanted is dtypes.string and array.dtype.kind in "UST":
            array = array.astype(object)
        if native(array.dtype) != tensor.dtype:
            if wanted is dtypes.string:
                raise InputError(f"{where}: wanted strings, got {array.dtype}; convert it with .astype(str)")
            raise InputError(
                f"{where}: wanted dtype {tensor.dtype}, got {array.dtype}; "
                f"convert it with .astype({str(tensor.dtype)!r})"
            )
    else:
        array = from_python(given, wanted, where)
    if tensor.shape is not None:
        check_shape(array.shape, tensor.shape, where)
    return dense(array, tensor.dtype, where)


def fit_decoded(given: Any, tensor: Tensor) -> Array:
    """Return what `fit` returns; elements of a tensor of strings are str. Raises InputError if one is no text."""
    array = fit(given, tensor)
    return decode_strings(array, f"input {tensor.name!r}") if array.dtype.hasobject else array


def of_any_dtype(given: Any, tensor: Tensor, where: str) -> Array:
    """Return `given`, which must have a dtype of its own, as a C-contiguous array that fits `tensor`."""
    if not (isinstance(given, np.ndarray | np.generic) or hasattr(given, "__array__")):
        raise InputError(f"{where}: wanted an array (its dtype is not declared), got {type(given).__name__}")
    array = plain(given, where)
    dtype = native(array.dtype)
    try:
        dtypes.from_numpy(dtype)
    except TypeError as error:
        raise InputError(f"{where}: {error}") from None
    if tensor.shape is not None:
        check_shape(array.shape, tensor.shape, where)
    return dense(array, dtype, where)


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return `dtype` in the machine's byte order; strings of variable width (kind "T") have no byte order."""
    return dtype if dtype.kind == "T" else dtype.newbyteorder("=")


def dense(array: Array, dtype: np.dtype[Any], where: str) -> Array:
    """Return `array` in `dtype` and C-contiguous, a copy if need be. Raises MemoryLimitError if it finds no memory."""
    try:
        return np.ascontiguousarray(array, dtype).reshape(array.shape)
    except MemoryError as error:
        raise MemoryLimitError(
            f"{where}: its elements do not lie in order, and no memory is left to copy them: {error}"
        ) from None


def is_masked_array(given: Any) -> bool:
    """Return True for an array of numpy.ma. This does not import it, which takes as long as many models need to load:
    where there is no numpy.ma, there are no such arrays."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(given, module.MaskedArray)


def plain(given: Any, where: str) -> Array:
    """Return an array-like object as a NumPy array. Raises InputError if it is none, or has masked elements."""
    if is_masked_array(given) and np.ma.is_masked(given):
        raise InputError(
            f"{where}: wanted an array, got one with masked elements; say what they are with .filled(value)"
        )
    try:
        return np.asarray(given)
    except Exception as error:
        raise InputError(f"{where}: {type(given).__name__} gives no array: {type(error).__name__}: {error}") from error


def from_python(given: Any, wanted: DType, where: str) -> Array:
    """Return numbers or nested lists as an array of the `wanted` dtype. Raises InputError if they do not fit it."""
    if given is None or (isinstance(given, str | bytes | os.PathLike | Mapping) and wanted is not dtypes.string):
        kind = "strings" if wanted is dtypes.string else wanted.numpy
        raise InputError(f"{where}: wanted an array of {kind}, got {type(given).__name__}")
    try:
        natural = np.asarray(given, object if wanted is dtypes.string else None)
        with np.errstate(over="ignore"):
            array = np.asarray(given, dtype=wanted.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{where}: wanted an array of {wanted.numpy}, got {type(given).__name__}: {error}") from None
    kinds = {"float": "fiu", "int": "iu", "uint": "iu", "bool": "b", "string": "OUS"}[wanted.kind]
    if natural.size and natural.dtype.kind not in kinds:
        if wanted is dtypes.string:
            raise InputError(f"{where}: wanted strings, got values of {natural.dtype}")
        raise InputError(f"{where}: wanted dtype {wanted.numpy}, got values of {natural.dtype}")
    if wanted.kind == "float" and not np.array_equal(np.isinf(array), np.isinf(natural)):
        raise InputError(f"{where}: wanted dtype {wanted.numpy}, got values beyond its range")
    return array


def check_shape(got: StaticShape, wanted: Shape, where: str) -> None:
    """Raise InputError unless `got` has the rank and the known dimensions of `wanted`."""
    if len(got) != len(wanted):
        raise InputError(f"{where}: wanted rank {len(wanted)} {text(wanted)}, got rank {len(got)} {text(got)}")
    for axis, (dim, size) in enumerate(zip(wanted, got, strict=True)):
        if isinstance(dim, int) and dim != size:
            raise InputError(f"{where}: wanted shape {text(wanted)}, got {text(got)}: axis {axis} must be {dim}")


def bind_symbols(tensor: Tensor, shape: StaticShape, symbols: dict[str, Place]) -> None:
    """Enter the sizes of `tensor`'s open dimensions in `symbols`. Raises InputError if an earlier input differs."""
    for axis, (dim, size) in enumerate(zip(tensor.shape or (), shape, strict=False)):
        if isinstance(dim, str):
            first, owner, _ = symbols.setdefault(dim, Place(size, tensor.name, axis))
            if first != size:
                raise InputError(
                    f"input {tensor.name!r}: axis {axis} ({dim}) is {size}, but input {owner!r} has {dim} = {first}"
                )
