"""Signatures of operators of ONNX Runtime, each written in a few words."""

from collections.abc import Mapping

from treadle.frontends.onnx.formal import Formal, Signature
from treadle.frontends.onnx.types import SCHEMA_NAMES

_BYTES = frozenset({"tensor(uint8)", "tensor(int8)"})

_TYPES = {
    "T": _BYTES,
    "A": _BYTES,
    "B": _BYTES,
    "E": frozenset({"tensor(float)", "tensor(float16)", "tensor(bfloat16)"}),
    "F": frozenset({"tensor(float)"}),
    "C": frozenset({"tensor(bool)"}),
    "G": _BYTES | {"tensor(int16)", "tensor(uint16)"},
    "H": frozenset({"tensor(float)", "tensor(float16)"}),
    "I": frozenset({"tensor(int32)"}),
    "L": frozenset({"tensor(int64)"}),
    "M": frozenset({"tensor(float)", "tensor(float16)"}),
    "N": frozenset({"tensor(int32)", "tensor(int64)"}),
    "P": frozenset({"tensor(int16)", "tensor(uint16)"}),
    "Q": _BYTES | {"tensor(int16)", "tensor(uint16)", "tensor(int32)"},
    "S": frozenset({"tensor(int32)"}),
    "U": frozenset({"tensor(uint8)"}),
    "V": _BYTES | {"tensor(float)"},
    "Z": frozenset({"tensor(uint8)", "tensor(float)", "tensor(float16)", "tensor(bfloat16)"}),
    "R": frozenset({"tensor(float)", "tensor(float16)", "tensor(double)", "tensor(bfloat16)"}),
    "W": frozenset(SCHEMA_NAMES.values()),
    "X": frozenset({"tensor(string)"}),
    "Y": frozenset({"tensor(float)", "tensor(float16)", "tensor(bfloat16)"}),
}
"""Type variable -> the types it stands for, the same one in all operands of a node."""


def _formal(text: str) -> Formal:
    """`name:variable`, a question mark behind what is optional, an asterisk behind what repeats, in any mixture of
    types."""
    name, variable = text.rstrip("?*").split(":")
    return Formal(name, variable, _TYPES[variable], text.endswith("?"), text.endswith("*"), not text.endswith("*"))


def signature(op: str, inputs: str, outputs: str, attributes: Mapping[str, int], *required: str) -> Signature:
    """Return the signature of `op`, whose operands and results are `name:variable` each, as in _TYPES.

    A question mark is behind what is optional, an asterisk behind what repeats. `attributes` have their types, those
    `required` must be given.
    """
    takes, gives = (tuple(map(_formal, texts.split())) for texts in (inputs, outputs))
    fewest, least = (
        max((number for number, formal in enumerate(formals, start=1) if not formal.optional), default=0)
        for formals in (takes, gives)
    )
    most = 1 << 30 if takes[-1].variadic else len(takes)
    return Signature(
        op,
        takes,
        gives,
        fewest,
        most,
        least,
        len(gives),
        dict(attributes),
        frozenset(required),
        deprecated=False,
        since=1,
    )
