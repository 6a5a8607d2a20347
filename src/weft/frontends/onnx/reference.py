"""Foreign functions: ONNX nodes that the `onnx` package's reference implementation runs on arrays."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, shape_inference
from onnx.reference import ReferenceEvaluator

from weft.dtypes import DType
from weft.errors import RunError, ShapeError
from weft.frontends.onnx.faults import Unsupported
from weft.frontends.onnx.types import NUMBERS
from weft.ops.op import Array, Info

MAX_OPERAND_BYTES = 1 << 20
"""Values of operands up to this size are shown to ONNX's shape inference."""

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

    def model(
        self,
        types: Iterable[onnx.ValueInfoProto],
        constants: Iterable[onnx.TensorProto] = (),
        output_types: Iterable[onnx.ValueInfoProto] | None = None,
    ) -> onnx.ModelProto:
        """The fragment as a model whose inputs have `types`."""
        outputs = (
            output_types if output_types is not None else [onnx.ValueInfoProto(name=name) for name in self.outputs]
        )
        graph = helper.make_graph(self.nodes, "fragment", list(types), list(outputs), list(constants))
        imports = [helper.make_opsetid(domain, version) for domain, version in self.versions.items()]
        return helper.make_model(graph, opset_imports=imports, functions=self.functions, ir_version=IR_VERSION)


class ForeignFunction:
    """Runs a fragment: arrays in the order of its inputs to arrays of `dtypes` in the order of its outputs.

    Raises Unsupported when it is made, if the onnx package has no implementation of a node.
    Calls raise RunError, naming the node, if the implementation fails.
    """

    def __init__(self, fragment: Fragment, dtypes: Sequence[DType], where: str) -> None:
        self._names = fragment.inputs
        self._dtypes = tuple(dtypes)
        self._where = where
        model = fragment.model([onnx.ValueInfoProto(name=name) for name in fragment.inputs])
        try:
            self._evaluator = ReferenceEvaluator(model)
        except Exception as error:  # noqa: BLE001 - whatever it raises means the same: it cannot run this
            raise Unsupported(f"the onnx package cannot run it: {first_line(error)}") from None

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The results on `arrays`."""
        feeds = dict(zip(self._names, arrays, strict=True))
        try:
            with np.errstate(all="ignore"):
                results: Any = self._evaluator.run(None, feeds)
                return [tensor_of(found, dtype) for found, dtype in zip(results, self._dtypes, strict=True)]
        except Exception as error:
            shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
            raise RunError(
                f"{self._where}: the reference implementation failed on operands ({shapes}): {first_line(error)}"
            ) from error


def tensor_of(found: Any, dtype: DType) -> Array:
    """A result of the reference implementation as an array of `dtype`: some come out wider, or as plain numbers."""
    array = np.asarray(found)
    return array.astype(object) if dtype.kind == "string" else array.astype(dtype.numpy, copy=False)


def first_line(error: Exception) -> str:
    """What `error` says, without the rest of a long explanation."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class ForeignInfer:
    """The shape rule of a fragment: ONNX's own shape inference on it, with concrete operands.

    A shape that ONNX cannot tell is None. Raises ShapeError if ONNX finds that operands do not fit.
    """

    def __init__(self, fragment: Fragment, dtypes: Sequence[DType]) -> None:
        self._fragment = fragment
        self._dtypes = tuple(dtypes)

    def __call__(self, inputs: Sequence[Info | None]) -> list[Info]:
        """What is known of each result."""
        types, constants = [], []
        for name, info in zip(self._fragment.inputs, inputs, strict=True):
            assert info is not None, "a fragment reads present operands only"
            types.append(helper.make_tensor_value_info(name, NUMBERS[info.dtype], info.shape))
            value = info.value
            if value is not None and value.dtype.kind != "O" and value.nbytes <= MAX_OPERAND_BYTES:
                constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        try:
            found = infer_types(self._fragment, types, constants)
        except ValueError as error:
            raise ShapeError(str(error)) from None
        shapes = [_static_shape(found[name]) if name in found else None for name in self._fragment.outputs]
        return [Info(dtype, shape) for dtype, shape in zip(self._dtypes, shapes, strict=True)]


def infer_types(
    fragment: Fragment, types: Iterable[onnx.ValueInfoProto], constants: Iterable[onnx.TensorProto] = ()
) -> dict[str, onnx.TypeProto]:
    """Name -> type of each result of the fragment as far as ONNX can tell.

    Raises ValueError, with ONNX's words, if the operands do not fit.
    """
    model = fragment.model(types, constants)
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # noqa: BLE001 - InferenceError, TypeError, ...: all say that the node is no good
        raise ValueError(first_line(error)) from None
    found = (*inferred.graph.value_info, *inferred.graph.output)
    return {value.name: value.type for value in found if value.type.WhichOneof("value") is not None}


def _static_shape(kind: onnx.TypeProto) -> tuple[int, ...] | None:
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in dims):
        return None
    return tuple(int(dim.dim_value) for dim in dims)
