"""Operator of com.microsoft -> rule, one line each. Others are refused: the onnx package has no reference for them."""

from treadle.frontends.onnx.rules import quantized
from treadle.frontends.onnx.rules.rule import Rule

RULES: dict[str, Rule] = {
    "MatMulIntegerToFloat": quantized.matmul_to_float,
    "QGemm": quantized.gemm,
    "QLinearAdd": quantized.binary("add"),
    "QLinearAveragePool": quantized.average_pool,
    "QLinearConcat": quantized.concat,
    "QLinearGlobalAveragePool": quantized.global_average_pool,
    "QLinearLeakyRelu": quantized.leaky_relu,
    "QLinearMul": quantized.binary("mul"),
    "QLinearSigmoid": quantized.sigmoid,
    "QLinearSoftmax": quantized.softmax,
}
