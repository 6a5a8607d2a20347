"""Inputs that are no tensors of core values: sequences, optionals, maps, sparse tensors, float8, few bits."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import InputError
from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.onnx.describe import type_text
from treadle.frontends.onnx.foreign import Binding, opaque_bytes, opaque_list, opaque_map, opaque_nothing
from treadle.frontends.onnx.lists import of_items
from treadle.frontends.onnx.scope import stored
from treadle.frontends.onnx.types import DTYPES, FEW_BITS, NARROW, need_tensor_type, with_article
from treadle.graph.formed_model import InputForm, ObjectInput
from treadle.graph.shape import Shape
from treadle.graph.value import Value
from treadle.records import dataclass
from treadle.runtime.signature import Tensor, check_shape, fit, plain
from treadle.runtime.text import decode_strings

Array = np.ndarray[Any, Any]
Declare = Callable[[str, DType, Shape | None], Value]
"""Adds an input of this name, dtype and shape to the graph."""

TENSOR = "tensor"
"""The form of one tensor."""
MAP = "map"
"""The form of a map, of any number of keys."""


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor of a stated type. Names of open dimensions are left out: elements of a sequence need not share them."""

    kind: onnx.TypeProto

    @property
    def element(self) -> int:
        """The number of the element type in ONNX."""
        return int(self.kind.tensor_type.elem_type)

    @property
    def shape(self) -> Shape | None:
        """The shape, "?" for sizes that are open."""
        if not self.kind.tensor_type.HasField("shape"):
            return None
        dims = self.kind.tensor_type.shape.dim
        return tuple(int(dim.dim_value) if dim.HasField("dim_value") else "?" for dim in dims)

    def take(self, given: Any, name: str) -> tuple[InputForm, list[Array]]:
        """Return the form and the arrays of `given`. Raises InputError if it does not fit."""
        where = f"input {name!r}"
        if self.element in NARROW:
            return TENSOR, [self._bytes(given, where)]
        array = fit(given, Tensor(name, DTYPES[self.element].numpy, self.shape))
        return TENSOR, [decode_strings(array, where) if array.dtype.hasobject else array]

    def bind(self, form: InputForm, name: str, declare: Declare) -> Binding:
        """Return what the name of the input stands for in a graph; `declare` adds the inputs of the graph."""
        assert form == TENSOR, "a tensor has one form"
        if self.element in NARROW:
            return opaque_bytes(name, self.element, declare(name, NARROW[self.element], self.shape))
        return declare(name, DTYPES[self.element], self.shape)

    def _bytes(self, given: Any, where: str) -> Array:
        """One byte for each element of `given`: its bits, or its number if it is an integer."""
        wanted = np.dtype(helper.tensor_dtype_to_np_dtype(self.element))
        array = plain(given, where)
        if array.dtype != wanted:
            raise InputError(f"{where}: wanted dtype {wanted} (of ml_dtypes), got {array.dtype}")
        if self.shape is not None:
            check_shape(array.shape, self.shape, where)
        dense = np.ascontiguousarray(array).reshape(array.shape)
        stored = NARROW[self.element].numpy
        return dense.astype(stored) if self.element in FEW_BITS else dense.view(stored)


@dataclass(frozen=True, slots=True)
class SparseInput:
    """A sparse tensor, given as an object with `toarray` or as an array. The graph takes it as a dense one."""

    kind: onnx.TypeProto

    @property
    def dense(self) -> TensorInput:
        """How the dense tensor is taken."""
        stated = self.kind.sparse_tensor_type
        kind = helper.make_tensor_type_proto(stated.elem_type, None)
        if stated.HasField("shape"):
            kind.tensor_type.shape.CopyFrom(stated.shape)
        return TensorInput(kind)

    def take(self, given: Any, name: str) -> tuple[InputForm, list[Array]]:
        """Return the form and the dense array of `given`. Raises InputError if it does not fit."""
        return self.dense.take(given.toarray() if hasattr(given, "toarray") else given, name)

    def bind(self, form: InputForm, name: str, declare: Declare) -> Binding:
        """Return what the name of the input stands for in a graph."""
        return self.dense.bind(form, name, declare)


@dataclass(frozen=True, slots=True)
class SequenceInput:
    """A sequence of tensors, given as a list."""

    kind: onnx.TypeProto
    item: TensorInput

    def take(self, given: Any, name: str) -> tuple[InputForm, list[Array]]:
        """Return the length and the arrays of `given`. Raises InputError if it does not fit."""
        if not isinstance(given, list | tuple):
            raise InputError(f"input {name!r}: wanted a list of arrays, got {type(given).__name__}")
        return len(given), [self.item.take(each, f"{name}[{number}]")[1][0] for number, each in enumerate(given)]

    def bind(self, form: InputForm, name: str, declare: Declare) -> Binding:
        """Return what the name of the input stands for in a graph; `form` is the length."""
        assert isinstance(form, int)
        items = [self.item.bind(TENSOR, f"{name}[{number}]", declare) for number in range(form)]
        values = [each for each in items if isinstance(each, Value)]
        dtype = DTYPES[self.item.element]
        found = of_items(dtype, values)
        return opaque_list(name, found) if dtype is dtypes.string else found


@dataclass(frozen=True, slots=True)
class OptionalInput:
    """A tensor or sequence that may be absent, which is given as None."""

    kind: onnx.TypeProto
    content: TensorInput | SequenceInput

    def take(self, given: Any, name: str) -> tuple[InputForm, list[Array]]:
        """Return the form and the arrays of `given`; None for what is absent. Raises InputError if it does not fit."""
        return (None, []) if given is None else self.content.take(given, name)

    def bind(self, form: InputForm, name: str, declare: Declare) -> Binding:
        """Return what the name of the input stands for in a graph: its content, or an empty optional."""
        if form is None:
            return opaque_nothing(name, self.kind)
        return self.content.bind(form, name, declare)


@dataclass(frozen=True, slots=True)
class MapInput:
    """A map from integers or texts to numbers or texts, given as a dict. The graph takes its keys and its values."""

    kind: onnx.TypeProto

    @property
    def keys(self) -> DType:
        """The dtype of the keys."""
        return DTYPES[self.kind.map_type.key_type]

    @property
    def values(self) -> DType:
        """The dtype of the values."""
        return DTYPES[self.kind.map_type.value_type.tensor_type.elem_type]

    def take(self, given: Any, name: str) -> tuple[InputForm, list[Array]]:
        """Return the form, the keys and the values of `given`. Raises InputError if it does not fit."""
        if not isinstance(given, dict):
            raise InputError(f"input {name!r}: wanted a dict, got {type(given).__name__}")
        sides = (("keys", self.keys, given.keys()), ("values", self.values, given.values()))
        return MAP, [_vector(list(items), dtype, f"input {name!r}: its {side}") for side, dtype, items in sides]

    def bind(self, form: InputForm, name: str, declare: Declare) -> Binding:
        """Return what the name of the input stands for in a graph."""
        assert form == MAP, "a map has one form"
        keys, values = (
            declare(f"{name}.{side}", dtype, (f"{name}.count",))
            for side, dtype in (("keys", self.keys), ("values", self.values))
        )
        return opaque_map(name, keys, values, self.kind)


def _vector(items: list[Any], dtype: DType, what: str) -> Array:
    """`items` as an array. Raises InputError, which says `what` they are, unless all are texts, or numbers that fit."""
    wanted = str if dtype is dtypes.string else numbers.Integral if dtype.is_integer else numbers.Real
    wrong = next((each for each in items if not isinstance(each, wanted)), None)
    if wrong is not None:
        raise InputError(f"{what} must be {dtype}, got {wrong!r} of type {type(wrong).__name__}")
    try:
        return np.array(items, object if dtype is dtypes.string else dtype.numpy)
    except OverflowError as error:
        raise InputError(f"{what} must be {dtype}: {error}") from None


Kind = TensorInput | SparseInput | SequenceInput | OptionalInput | MapInput


def kind_of(kind: onnx.TypeProto) -> Kind | None:
    """Return how an input of this type is taken; None for a tensor of core values.

    Raises Unsupported for types that no input can have.
    """
    variant = kind.WhichOneof("value")
    if variant == "tensor_type" and kind.tensor_type.elem_type in NARROW:
        return TensorInput(kind)
    if variant == "sparse_tensor_type" and kind.sparse_tensor_type.elem_type in DTYPES:
        return SparseInput(kind)
    if variant == "sequence_type":
        return SequenceInput(kind, _item(kind.sequence_type.elem_type))
    if variant == "optional_type":
        content = kind.optional_type.elem_type
        is_sequence = content.HasField("sequence_type")
        item = _item(content.sequence_type.elem_type if is_sequence else content)
        return OptionalInput(kind, SequenceInput(content, item) if is_sequence else item)
    if variant == "map_type":
        return _map(kind)
    if variant != "tensor_type":
        need_tensor_type(kind)
    return None


def _map(kind: onnx.TypeProto) -> MapInput:
    """How a map is taken."""
    key, value = kind.map_type.key_type, kind.map_type.value_type.tensor_type.elem_type
    if key not in (TensorProto.INT64, TensorProto.STRING) or value not in DTYPES:
        raise Unsupported(f"it is a {type_text(kind)}; treadle takes maps from int64 or string to tensors' elements")
    return MapInput(kind)


def _item(kind: onnx.TypeProto) -> TensorInput:
    """How an element of a sequence or the content of an optional is taken."""
    variant = kind.WhichOneof("value")
    if variant != "tensor_type":
        raise Unsupported(f"it holds {with_article(variant or 'value')}; treadle takes sequences of tensors only")
    need_tensor_type(kind)
    return TensorInput(kind)


def kinds_of(proto: onnx.GraphProto, faults: Faults) -> dict[str, Kind]:
    """Return how each input that is no tensor of core values is taken, by name. Adds faults of inputs to `faults`."""
    found = {}
    initial = stored(proto)
    for entry in proto.input:
        if entry.name in initial:
            continue  # before IR version 4 every initialiser is listed as an input too
        try:
            kind = kind_of(entry.type)
        except Fault as fault:
            faults.add(f"input {entry.name!r}", fault)
        else:
            if kind is not None:
                found[entry.name] = kind
    return found


def object_input(name: str, found: Kind) -> ObjectInput:
    """Return an input of this name that `found` takes."""
    return ObjectInput(name, type_text(found.kind), _Take(found, name))


@dataclass(frozen=True, slots=True)
class _Take:
    kind: Kind
    name: str

    def __call__(self, given: Any) -> tuple[InputForm, list[Array]]:
        return self.kind.take(given, self.name)
