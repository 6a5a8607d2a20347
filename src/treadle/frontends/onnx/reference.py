"""Foreign functions: ONNX nodes that the `onnx` package's reference implementation runs on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from treadle.dtypes import DType
from treadle.errors import RunError
from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.from_bytes import from_bytes
from treadle.frontends.onnx.names import graphs_of
from treadle.frontends.onnx.random_numbers import RandomNumbers
from treadle.frontends.onnx.reference_loop import reference_loop
from treadle.frontends.onnx.reference_map import reference_maps
from treadle.frontends.onnx.reference_optional import is_nothing, reference_optionals
from treadle.frontends.onnx.reference_scan import reference_scan
from treadle.frontends.onnx.reference_signal import stft
from treadle.frontends.onnx.reference_text import regex_full_match, tfidf_vectorizer
from treadle.ops.op import Array
from treadle.records import dataclass

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

IR_VERSION = 10


@dataclass(frozen=True, slots=True)
class Fragment:
    """A few nodes in order, what they read from outside (names) and what they give back (names).

    `functions` are the model's own ones that the nodes may call, each behind those it calls.
    """

    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    versions: Mapping[str, int]
    functions: tuple[onnx.FunctionProto, ...] = ()

    def model(self) -> onnx.ModelProto:
        """The fragment as a model; its inputs and outputs have no stated types."""
        inputs = [onnx.ValueInfoProto(name=name) for name in self.inputs]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "fragment", inputs, outputs)
        imports = [helper.make_opsetid(domain, version) for domain, version in self.versions.items()]
        return helper.make_model(graph, opset_imports=imports, functions=self.functions, ir_version=IR_VERSION)


class ForeignFunction:
    """Runs a fragment: arrays in the order of its inputs to arrays of `dtypes` in the order of its outputs.

    Raises Unsupported when it is made, if the onnx package has no implementation of a node.
    Calls raise RunError if the implementation fails, MemoryError if no memory is left.
    """

    storable = True
    """It depends on nothing but the model, and can be pickled: it may be part of an artifact."""
    detachable = True
    """Any thread may call it."""

    def __init__(self, fragment: Fragment, dtypes: Sequence[DType]) -> None:
        self._names = fragment.inputs
        self._dtypes = tuple(dtypes)
        self.fragment = fragment
        self._evaluator: ReferenceEvaluator | None = None
        if not _is_slow_to_make(fragment.nodes):
            try:
                self._evaluator = evaluator(fragment.model())
            except Exception as error:  # noqa: BLE001 - whatever it raises means the same: it cannot run this
                raise Unsupported(f"the onnx package cannot run it: {first_line(error)}") from None

    def __reduce__(self) -> Any:
        fragment = self.fragment
        nodes, functions = (
            [proto.SerializeToString() for proto in some] for some in (fragment.nodes, fragment.functions)
        )
        return _foreign, (
            nodes,
            fragment.inputs,
            fragment.outputs,
            dict(fragment.versions),
            functions,
            self._dtypes,
        )

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The results on `arrays`."""
        return self._checked(arrays, self._tensors)

    def found(self, arrays: Sequence[Array]) -> list[Any]:
        """The results on `arrays` as the reference implementation gives them."""
        return self._checked(arrays, list)

    def _checked(self, arrays: Sequence[Array], convert: Callable[[Any], list[Any]]) -> list[Any]:
        feeds = dict(zip(self._names, arrays, strict=True))
        try:
            with np.errstate(all="ignore"):
                if self._evaluator is None:
                    self._evaluator = evaluator(self.fragment.model())
                return convert(self._evaluator.run(None, feeds))
        except MemoryError:
            raise
        except Exception as error:
            shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
            raise RunError(
                f"the reference implementation failed on operands ({shapes}): {first_line(error)}"
            ) from error

    def _tensors(self, found: Any) -> list[Array]:
        return [tensor_of(each, dtype) for each, dtype in zip(found, self._dtypes, strict=True)]


class RandomFunction(ForeignFunction):
    """Runs a fragment of one node that draws random numbers. What is stored of it does without the `onnx` package."""

    def __init__(self, fragment: Fragment, dtypes: Sequence[DType]) -> None:
        super().__init__(fragment, dtypes)
        (node,) = fragment.nodes
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        self._numbers = RandomNumbers(node.op_type, attributes, dtypes[0].numpy)

    def __reduce__(self) -> Any:
        return copy, (self._numbers,)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The numbers."""
        return self._numbers(arrays)


class ObjectFunction:
    """Makes a Python object from arrays, in the order of a fragment's inputs: the fragment's one result, of this type.

    A sequence is a list, a map a dict, an optional without a value None. Raises as ForeignFunction.
    """

    def __init__(self, fragment: Fragment, kind: onnx.TypeProto) -> None:
        self._function = ForeignFunction(fragment, ())
        self._kind = kind

    def __reduce__(self) -> Any:
        return _object, (self._function, self._kind.SerializeToString())

    def __call__(self, arrays: Sequence[Array]) -> Any:
        """The object."""
        return python_of(self._function.found(arrays)[0], self._kind)


def python_of(found: Any, kind: onnx.TypeProto) -> Any:
    """A result of the reference implementation, of this type, as a Python object."""
    variant = kind.WhichOneof("value")
    if variant == "optional_type":
        return None if is_nothing(found) else python_of(found, kind.optional_type.elem_type)
    if variant == "sequence_type":
        return [python_of(each, kind.sequence_type.elem_type) for each in found]
    if variant == "map_type":
        return {key: np.asarray(value).item() for key, value in found.items()}
    return np.asarray(found)


def _foreign(
    nodes: Sequence[bytes],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    versions: Mapping[str, int],
    functions: Sequence[bytes],
    dtypes: Sequence[DType],
) -> ForeignFunction:
    """A ForeignFunction that was pickled."""
    made = tuple(onnx.NodeProto.FromString(each) for each in nodes)
    local = tuple(onnx.FunctionProto.FromString(each) for each in functions)
    return ForeignFunction(Fragment(made, inputs, outputs, versions, local), dtypes)


def _object(function: ForeignFunction, kind: bytes) -> ObjectFunction:
    """An ObjectFunction that was pickled."""
    return ObjectFunction(function.fragment, onnx.TypeProto.FromString(kind))


def _is_slow_to_make(nodes: Iterable[onnx.NodeProto]) -> bool:
    """Whether constructing an implementation computes from attributes: a hostile model could then block `load`."""
    return any(
        node.op_type == "TfIdfVectorizer" or any(_is_slow_to_make(graph.node) for graph in graphs_of(node))
        for node in nodes
    )


def evaluator(model: onnx.ModelProto) -> ReferenceEvaluator:
    """Returns the evaluator of `model`. Imported late: few models need it, and it takes 12 MB."""
    from onnx.reference import ReferenceEvaluator

    own = [
        reference_loop(),
        reference_scan(),
        from_bytes(),
        *reference_optionals(),
        *reference_maps(),
        regex_full_match(),
        tfidf_vectorizer(),
        stft(),
    ]
    return ReferenceEvaluator(model, new_ops=own)


def tensor_of(found: Any, dtype: DType) -> Array:
    """A result of the reference implementation as an array of `dtype`: some come out wider, or as plain numbers."""
    array = np.asarray(found)
    return array.astype(object) if dtype.kind == "string" else array.astype(dtype.numpy, copy=False)


def first_line(error: Exception) -> str:
    """Returns the first line of the message of `error`."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
