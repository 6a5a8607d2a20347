"""Schemas of the quantized operators of ONNX Runtime (domain com.microsoft), which the onnx package does not have."""

from collections.abc import Mapping

from onnx import AttributeProto

from treadle.frontends.onnx.formal import Formal, Signature

DOMAIN = "com.microsoft"

_TYPES = {
    "T": frozenset({"tensor(uint8)", "tensor(int8)"}),
    "A": frozenset({"tensor(uint8)", "tensor(int8)"}),
    "B": frozenset({"tensor(uint8)", "tensor(int8)"}),
    "F": frozenset({"tensor(float)"}),
    "I": frozenset({"tensor(int32)"}),
    "V": frozenset({"tensor(uint8)", "tensor(int8)", "tensor(float)"}),
}


def _formal(text: str) -> Formal:
    """`name:variable`, a question mark behind what is optional, an asterisk behind what repeats, in any mixture of
    types."""
    name, variable = text.rstrip("?*").split(":")
    return Formal(name, variable, _TYPES[variable], text.endswith("?"), text.endswith("*"), not text.endswith("*"))


def _signature(op: str, inputs: str, result: str, attributes: Mapping[str, int], *required: str) -> Signature:
    takes = tuple(_formal(text) for text in inputs.split())
    least = max(number for number, formal in enumerate(takes, start=1) if not formal.optional)
    most = 1 << 30 if takes[-1].variadic else len(takes)
    return Signature(
        op,
        takes,
        (_formal(f"Y:{result}"),),
        least,
        most,
        1,
        1,
        dict(attributes),
        frozenset(required),
        deprecated=False,
        since=1,
    )


_ONE = "X:T x_scale:F x_zero_point:T? y_scale:F y_zero_point:T?"
_TWO = "A:T A_scale:F A_zero_point:T? B:T B_scale:F B_zero_point:T? C_scale:F C_zero_point:T?"
_INT, _INTS, _FLOAT, _STRING = AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.STRING
_WINDOW = {
    "auto_pad": _STRING,
    "ceil_mode": _INT,
    "channels_last": _INT,
    "count_include_pad": _INT,
    "kernel_shape": _INTS,
    "pads": _INTS,
    "strides": _INTS,
}

SIGNATURES: dict[str, Signature] = {
    found.name: found
    for found in (
        _signature(
            "MatMulIntegerToFloat",
            "A:A B:B a_scale:F b_scale:F a_zero_point:A? b_zero_point:B? bias:F?",
            "F",
            {},
        ),
        _signature(
            "QGemm",
            "A:A a_scale:F a_zero_point:A B:B b_scale:F b_zero_point:B C:I? y_scale:F? y_zero_point:T?",
            "V",
            {"alpha": _FLOAT, "transA": _INT, "transB": _INT},
        ),
        _signature("QLinearAdd", _TWO, "T", {}),
        _signature("QLinearAveragePool", _ONE, "T", _WINDOW, "kernel_shape"),
        _signature("QLinearConcat", "Y_scale:F Y_zero_point:T inputs:V*", "T", {"axis": _INT}, "axis"),
        _signature("QLinearGlobalAveragePool", _ONE, "T", {"channels_last": _INT}),
        _signature("QLinearLeakyRelu", _ONE, "T", {"alpha": _FLOAT}),
        _signature("QLinearMul", _TWO, "T", {}),
        _signature("QLinearSigmoid", _ONE, "T", {}),
        _signature("QLinearSoftmax", _ONE, "T", {"axis": _INT, "opset": _INT}, "opset"),
    )
}
"""Operator -> its signature."""
