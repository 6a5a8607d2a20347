"""Checks operand types against an operator's signature."""

from collections.abc import Sequence

from treadle.dtypes import DType
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.formal import Signature
from treadle.frontends.onnx.types import SCHEMA_NAMES
from treadle.graph.value import Value


def check_types(wanted: Signature, inputs: Sequence[Value | None]) -> None:
    """Raise Fault if an operand has a dtype the operator does not take, or two that must agree differ.

    Operands whose dtype is not known pass. A tensor is also the content of an optional.
    """
    bound: dict[str, tuple[str, DType]] = {}
    for index, value in enumerate(inputs):
        if value is None or value.dtype is None:
            continue
        formal = wanted.input(index)
        written = SCHEMA_NAMES[value.dtype]
        if formal.types.isdisjoint((written, f"optional({written})")):
            known = ", ".join(str(dtype) for dtype, name in SCHEMA_NAMES.items() if name in formal.types)
            raise Fault(
                f"its input {formal.name!r} ({value.name!r}) is {value.dtype}; wanted {known or formal.variable}"
            )
        if not formal.homogeneous:
            continue
        name, dtype = bound.setdefault(formal.variable, (value.name, value.dtype))
        if dtype != value.dtype:
            raise Fault(f"its inputs {name!r} ({dtype}) and {value.name!r} ({value.dtype}) must have one element type")
