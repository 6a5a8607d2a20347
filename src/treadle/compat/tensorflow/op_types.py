"""TensorFlow's types and default names of the operations that ops of the facade add to graphs."""

from __future__ import annotations

_TYPES = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Erfc Exp Expm1 Floor Log Log1p Reciprocal Round Rsqrt "
    "Sigmoid Sign Sin Sinh Softplus Sqrt Square Tan Tanh Maximum Minimum Pow Equal Greater Less Cumsum Cast Fill "
    "Identity Pad Rank Reshape Roll Shape Size Slice Squeeze Tile Elu Relu Relu6 Selu Softmax Softsign Unique"
)

_OTHERS = {
    "is_finite": "IsFinite", "is_inf": "IsInf", "is_nan": "IsNan", "negative": "Neg", "add": "AddV2 Add",
    "add_n": "AddN",
    "divide": "RealDiv truediv", "truediv": "RealDiv truediv", "div_no_nan": "DivNoNan div_no_nan",
    "floordiv": "FloorDiv floordiv", "floormod": "FloorMod", "mod": "FloorMod", "multiply": "Mul", "subtract": "Sub",
    "squared_difference": "SquaredDifference", "truncatediv": "TruncateDiv", "truncatemod": "TruncateMod",
    "greater_equal": "GreaterEqual", "less_equal": "LessEqual", "not_equal": "NotEqual", "logical_and": "LogicalAnd",
    "logical_not": "LogicalNot", "logical_or": "LogicalOr", "logical_xor": "LogicalAnd LogicalXor",
    "argmax": "ArgMax", "argmin": "ArgMin", "reduce_all": "All", "reduce_any": "Any",
    "reduce_logsumexp": "AddV2 ReduceLogSumExp", "reduce_max": "Max", "reduce_mean": "Mean", "reduce_min": "Min",
    "reduce_prod": "Prod", "reduce_sum": "Sum", "_index": "StridedSlice strided_slice", "_identity_n": "IdentityN",
    "_select": "Select", "boolean_mask": "GatherV2 boolean_mask", "broadcast_to": "BroadcastTo",
    "clip_by_value": "Maximum clip_by_value", "concat": "ConcatV2 concat", "einsum": "Einsum einsum",
    "ensure_shape": "EnsureShape", "expand_dims": "ExpandDims", "eye": "MatrixDiagV3 eye", "gather": "GatherV2",
    "gather_nd": "GatherNd", "linalg.diag": "MatrixDiagV3 diag", "linalg.diag_part": "MatrixDiagPartV3 diag_part",
    "linalg.matvec": "Squeeze MatVec", "linalg.trace": "Sum Trace", "linspace": "LinSpace linspace", "matmul": "MatMul",
    "one_hot": "OneHot one_hot", "ones": "Fill ones", "ones_like": "OnesLike ones_like", "range": "Range range",
    "reverse": "ReverseV2", "scatter_nd": "ScatterNd", "split": "Split split", "stack": "Pack stack",
    "strided_slice": "StridedSlice", "tensor_scatter_nd_update": "TensorScatterUpdate", "tensordot": "MatMul Tensordot",
    "transpose": "Transpose transpose", "unstack": "Unpack unstack", "where": "SelectV2", "zeros": "Fill zeros",
    "zeros_like": "ZerosLike zeros_like", "nn.avg_pool": "AvgPool AvgPool2D",
    "nn.batch_normalization": "AddV2 batchnorm",
    "nn.bias_add": "BiasAdd", "nn.conv": "Conv2D", "nn.conv2d_transpose": "Conv2DBackpropInput conv2d_transpose",
    "nn.depth_to_space": "DepthToSpace", "nn.depthwise_conv2d": "DepthwiseConv2dNative depthwise",
    "nn.elu": "Elu", "nn.embedding_lookup": "Identity embedding_lookup", "nn.fused_batch_norm": "FusedBatchNormV3",
    "nn.gelu": "Mul Gelu", "nn.l2_loss": "L2Loss", "nn.l2_normalize": "Mul l2_normalize", "nn.leaky_relu": "LeakyRelu",
    "nn.local_response_normalization": "LRN", "nn.log_softmax": "LogSoftmax", "nn.max_pool": "MaxPool MaxPool2d",
    "nn.moments": "Squeeze moments", "nn.space_to_depth": "SpaceToDepth", "nn.swish": "IdentityN", "nn.top_k": "TopKV2",
    "unique_with_counts": "UniqueWithCounts", "image.non_max_suppression": "NonMaxSuppressionV3 non_max_suppression",
    "nn.sigmoid_cross_entropy_with_logits": "AddV2 logistic_loss", "_and": "LogicalAnd and", "_or": "LogicalOr or",
    "_xor": "LogicalXor xor", "_not": "LogicalNot",
}  # fmt: skip

TYPES: dict[str, tuple[str, str]] = {
    **{f"{prefix}{name.lower()}": (name, name) for name in _TYPES.split() for prefix in ("", "nn.")},
    **{rule: (text.split()[0], text.split()[-1]) for rule, text in _OTHERS.items()},
}
"""Type and default name by rule. An op that TensorFlow composes of several has the type of the last of them."""


def type_of(rule: str, kind: str) -> str:
    """Return the type of an operation that a call of `rule` added."""
    return TYPES.get(rule, (kind, kind))[0]


def name_of(rule: str, kind: str) -> str:
    """Return the default name of an operation that a call of `rule` added."""
    return TYPES.get(rule, (kind, kind))[1]
