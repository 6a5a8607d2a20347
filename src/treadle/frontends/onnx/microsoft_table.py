"""Operator of com.microsoft -> rule, one line each. Others are refused: the onnx package has no reference for them."""

from treadle.frontends.onnx.rules import attention, blocks, fused, grouped_attention, quantized, rotary, skip_norm
from treadle.frontends.onnx.rules.rule import Rule

RULES: dict[str, Rule] = {
    "Attention": attention.attention,
    "BiasAdd": fused.bias_add,
    "BiasGelu": fused.bias_gelu,
    "BiasSplitGelu": fused.bias_split_gelu,
    "DynamicQuantizeMatMul": quantized.dynamic_matmul,
    "EmbedLayerNormalization": skip_norm.embed_layer_norm,
    "FastGelu": fused.fast_gelu,
    "FusedConv": fused.fused_conv,
    "FusedGemm": fused.fused_gemm,
    "FusedMatMul": fused.fused_matmul,
    "GatherBlockQuantized": blocks.gather_blocks,
    "Gelu": fused.gelu,
    "GroupQueryAttention": grouped_attention.group_query_attention,
    "MatMulIntegerToFloat": quantized.matmul_to_float,
    "MatMulNBits": blocks.matmul_n_bits,
    "MultiHeadAttention": attention.multi_head_attention,
    "QAttention": attention.quantized_attention,
    "QGemm": quantized.gemm,
    "QLinearAdd": quantized.binary("add"),
    "QLinearAveragePool": quantized.average_pool,
    "QLinearConcat": quantized.concat,
    "QLinearGlobalAveragePool": quantized.global_average_pool,
    "QLinearLeakyRelu": quantized.leaky_relu,
    "QLinearMul": quantized.binary("mul"),
    "QLinearSigmoid": quantized.sigmoid,
    "QLinearSoftmax": quantized.softmax,
    "QuickGelu": fused.quick_gelu,
    "RotaryEmbedding": rotary.rotary_embedding,
    "SimplifiedLayerNormalization": skip_norm.rms_norm,
    "SkipLayerNormalization": skip_norm.skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_norm.skip_rms_norm,
    "TransposeMatMul": fused.fused_matmul,
}
